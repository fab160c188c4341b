//! Translates messages from one revision to another without losing anything: used by a bridge between two peers.
//!
//! The rules are those of `shape`. Everything they do not change stays as it was written: unknown members, the order of
//! members, the spelling of numbers. A value that cannot be deserialized is forwarded too; its receiver rejects it.
//! Only the members that depend on the era are always adapted: `resultType`, cache hints, and the `_meta` keys of
//! 2026-07-28.
//!
//! How it works: the text is deserialized and serialized twice, before and after the rules. The differences between the
//! two are the changes; everything else is taken from the text itself (`merge`).
//!
//! The recursion is bounded. Splitting a text into parts counts its brackets; deserializing stops at the 128 levels of
//! the JSON parser, and a text that nests deeper is forwarded as it is.

mod era_members;
mod error_code;
mod merge;
mod rules;
mod unchanged;

pub use error_code::translate_raw_error;

use super::methods::{self, MessageSender, MethodInfo, MethodKind};
use super::{Revision, UnsupportedByRevisionError};
use crate::jsonrpc::raw_members::{self, EditableMembers, RawMember};
use crate::jsonrpc::{Raw, RawJson};
use crate::protocol::{Implementation, ResultType};
use rules::{Rule, TranslateParams, Translation};

/// Translates the params of a request, from either side.
///
/// Also translates the input requests of a server inside a result: their params are those of the corresponding request.
/// On 2026-07-28 a request must describe its client; the caller adds that.
///
/// Fails if `to` does not have the method, although another revision has, or cannot express the params. Methods unknown
/// to every revision pass.
///
/// ```
/// use tsugite_core::jsonrpc::{Raw, RawJson};
/// use tsugite_core::revision::{Revision, translate_raw_params};
///
/// let params = RawJson::parse(r#"{"name":"add","task":{"ttl":1},"shelf":1.0}"#)?;
/// let translated = translate_raw_params("tools/call", Raw::from(&params), Revision::V2025_11_25, Revision::V2025_06_18)?;
/// assert_eq!(translated.text(), r#"{"name":"add","shelf":1.0}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn translate_raw_params(
    method: &str,
    params: Raw<'_>,
    from: Revision,
    to: Revision,
) -> Result<RawJson, UnsupportedByRevisionError> {
    if from == to {
        return Ok(params.to_owned());
    }
    check_method(MethodKind::Request, method, to)?;
    translate_params(params, rules::request_rules(method).map(|rules| &rules.params), from, to)
}

/// Translates the params of a notification. Fails as [`translate_raw_params`] does.
pub fn translate_raw_notification(
    method: &str,
    params: Raw<'_>,
    from: Revision,
    to: Revision,
) -> Result<RawJson, UnsupportedByRevisionError> {
    if from == to {
        return Ok(params.to_owned());
    }
    check_method(MethodKind::Notification, method, to)?;
    translate_params(params, rules::notification_rules(method).map(|rules| &rules.params), from, to)
}

/// Translates params with the given rules.
fn translate_params(
    params: Raw<'_>,
    rules: Option<&Rule<TranslateParams>>,
    from: Revision,
    to: Revision,
) -> Result<RawJson, UnsupportedByRevisionError> {
    let rules = rules.filter(|rules| !rules.is_same_in(from, to));
    if rules.is_none() && !leaves_stateless(from, to) {
        return Ok(params.to_owned());
    }
    let members = params.members();
    let change = match rules.filter(|rules| !rules.needs_no_change(members.as_deref(), from, to)) {
        Some(rules) => (rules.translate)(params, from, to)?,
        None => None,
    };
    apply_change(params, members, change, leaves_stateless(from, to), era_members::strip_meta)
}

/// Translates the result of `method`.
///
/// On 2026-07-28 it gains `resultType`, cache hints and, if it has none, the info of `server`; the result of a client
/// gains no info. Older revisions have none of these, so only a complete result can be translated to them.
///
/// Fails if `to` does not have the method, although another revision has, or cannot express the result.
pub fn translate_raw_result(
    method: &str,
    result: Raw<'_>,
    from: Revision,
    to: Revision,
    server: Option<&Implementation>,
) -> Result<RawJson, UnsupportedByRevisionError> {
    if from == to {
        return Ok(result.to_owned());
    }
    let row = check_method(MethodKind::Request, method, to)?;
    let rules = rules::request_rules(method);
    let members = result.members();
    let named = match &members {
        Some(members) if from.is_stateless() => era_members::result_type(members),
        _ => Ok(None),
    };
    let (kind, change) = match (rules, named) {
        (Some(rules), Ok(named)) => {
            let named = from.is_stateless().then(|| named.unwrap_or(ResultType::Complete));
            let stays = rules.output.needs_no_change(members.as_deref(), from, to);
            (rules.output.translate)(result, named, stays, from, to)?
        }
        // Without its type it would be taken for complete.
        (Some(_), Err(unknown)) => return Err(unknown.into()),
        // An unknown method: its result is between client and server.
        (None, Ok(named)) => match named {
            Some(ResultType::InputRequired) => return Err(UnsupportedByRevisionError::InputRequired),
            Some(ResultType::Task) => return Err(UnsupportedByRevisionError::Tasks),
            _ => (ResultType::Complete, None),
        },
        (None, Err(_)) => return Ok(result.to_owned()),
    };
    let hints = rules.is_some_and(|rules| rules.cacheable);
    let server = server.filter(|_| row.is_none_or(|row| row.sender != MessageSender::Server));
    apply_change(result, members, change, from.era() != to.era(), |members| match to.is_stateless() {
        false => era_members::strip_result(members, hints) | era_members::strip_meta(members),
        true => {
            era_members::set_result_type(members, kind, rules.is_none())
                | (hints && era_members::add_cache_hints(members))
                | server.is_some_and(|server| era_members::add_server_info(members, server))
        }
    })
}

/// Translates the response to an input request of a server, which on 2026-07-28 is a bare object: no type, no server
/// info. On older revisions it is the result of a request.
///
/// If `to` does not have the method, the response is forwarded as it is. Fails if `to` cannot express the response.
pub fn translate_raw_input_response(
    method: &str,
    answer: Raw<'_>,
    from: Revision,
    to: Revision,
) -> Result<RawJson, UnsupportedByRevisionError> {
    if from == to {
        return Ok(answer.to_owned());
    }
    let bare = from.is_stateless().then_some(ResultType::Complete);
    let members = answer.members();
    let change = match (rules::request_rules(method), check_method(MethodKind::Request, method, to)) {
        (Some(rules), Ok(_)) => {
            let stays = rules.output.needs_no_change(members.as_deref(), from, to);
            (rules.output.translate)(answer, bare, stays, from, to)?.1
        }
        _ => None,
    };
    apply_change(answer, members, change, leaves_stateless(from, to), |members| {
        era_members::strip_result(members, false) | era_members::strip_meta(members)
    })
}

/// The entry of a method, if any revision has it; fails if one has it and `to` does not.
///
/// The sender does not matter here: on 2026-07-28 the requests of a server are inside results.
fn check_method(
    kind: MethodKind,
    method: &str,
    to: Revision,
) -> Result<Option<&'static MethodInfo>, UnsupportedByRevisionError> {
    match methods::method_info(method).filter(|row| row.kind == kind) {
        Some(row) if to < row.since || to > row.until => Err(UnsupportedByRevisionError::Method(row.name)),
        row => Ok(row),
    }
}

/// Whether the members that only 2026-07-28 has must be removed.
fn leaves_stateless(from: Revision, to: Revision) -> bool {
    from.is_stateless() && !to.is_stateless()
}

/// Applies a change to the text with these members and then, if the translation `crosses` from one era to the other,
/// calls `fit` on the members, which returns whether it changed anything. Returns the text itself if nothing changed.
fn apply_change(
    original: Raw<'_>,
    members: Option<Vec<RawMember<'_>>>,
    change: Option<Translation>,
    crosses: bool,
    fit: impl FnOnce(&mut EditableMembers<'_>) -> bool,
) -> Result<RawJson, UnsupportedByRevisionError> {
    if change.is_none() && !crosses {
        return Ok(original.to_owned());
    }
    let merged = change.as_ref().and_then(|change| {
        merge::merge_objects(
            original,
            Raw::from_validated(&change.before),
            Raw::from_validated(&change.after),
        )
    });
    let changed = merged.is_some();
    // A text that is not an object has no members to adapt.
    let Some(mut members) = merged.or_else(|| members.as_deref().map(raw_members::to_editable)) else {
        return Ok(original.to_owned());
    };
    match (crosses && fit(&mut members)) | changed {
        true => Ok(RawJson::from_validated(raw_members::build_object(&members))),
        false => Ok(original.to_owned()),
    }
}
