//! From one revision into another without losing anything: what a bridge between two peers passes on.
//!
//! The rules are those of `shape`, and what they do not change stays as it was written: members nobody knows, the order
//! of members, the spelling of numbers. What cannot be read into its type is passed on too; its receiver is the one to
//! judge it. Only what belongs to an era is always fitted: the kind of a result, its cache hints, and the keys of `_meta`
//! that 2026-07-28 alone gives a meaning.
//!
//! How: the text is read into its type and written twice, as it was read and as the rules leave it. What differs between
//! the two was changed by a rule; all else is taken from the text itself (`merge`).
//!
//! Nothing here recurses as deep as a peer pleases. Cutting a text into parts counts its brackets; reading it into a type
//! stops at the 128 levels of the JSON reader, and what nests deeper is passed on unread.

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

/// The params of a request as `to` writes them, whoever sends it.
///
/// What a server asks inside a result is carried by this as well: its params are those of the request it stands for. On
/// 2026-07-28 a request must say who sends it; whoever passes it on adds that.
///
/// Fails when `to` has no such method, though some revision has, or no way to say what is asked. What no revision knows
/// passes.
///
/// ```
/// use tsugite_core::jsonrpc::{Raw, RawJson};
/// use tsugite_core::revision::{Revision, carry_params};
///
/// let params = RawJson::parse(r#"{"name":"add","task":{"ttl":1},"shelf":1.0}"#)?;
/// let carried = carry_params("tools/call", Raw::from(&params), Revision::V2025_11_25, Revision::V2025_06_18)?;
/// assert_eq!(carried.text(), r#"{"name":"add","shelf":1.0}"#);
/// # Ok::<(), Box<dyn std::error_code::Error>>(())
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

/// The params of a notification as `to` writes them. Fails as [`translate_raw_params`] does.
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

/// Params, with what `rules` say of them.
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

/// The result of `method` as `to` writes it.
///
/// On 2026-07-28 it says of which kind it is, how long it may be kept and, if it does not say so yet, that `server` made
/// it; what a client answers is not stamped. Older revisions have none of that, so that only a result that is complete
/// can lose it.
///
/// Fails when `to` has no such method, though some revision has, or no way to say what is answered.
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
        // Without its kind it would pass for complete.
        (Some(_), Err(unknown)) => return Err(unknown.into()),
        // Nobody but its two ends knows what this is.
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

/// The answer to something a server asks inside a result, which on 2026-07-28 is a bare object: no kind, no stamp. On
/// older revisions it is the result of a request.
///
/// Whoever has asked knows what for: where `to` has no such method, the answer is passed on as it is. Fails when `to` has
/// no way to say what is answered.
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

/// The row of a method, if any revision has it; fails when one has it and `to` does not.
///
/// Who sends it does not matter here: what a server asks travels inside results on 2026-07-28.
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

/// Whether what only 2026-07-28 has must be left behind.
fn leaves_stateless(from: Revision, to: Revision) -> bool {
    from.is_stateless() && !to.is_stateless()
}

/// The text, of which these are the members, with what the rules changed, and then, where it `crosses` from one era into
/// the other, with what `fit` does to its members, which tells whether it did anything. The text itself if nothing was
/// done.
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
    // What is no object has no members to fit.
    let Some(mut members) = merged.or_else(|| members.as_deref().map(raw_members::to_editable)) else {
        return Ok(original.to_owned());
    };
    match (crosses && fit(&mut members)) | changed {
        true => Ok(RawJson::from_validated(raw_members::build_object(&members))),
        false => Ok(original.to_owned()),
    }
}
