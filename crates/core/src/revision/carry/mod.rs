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

mod envelope;
mod error;
mod merge;
mod rules;
mod stays;

pub use error::carry_error;

use super::methods::{self, Kind, Row, Sender};
use super::{Revision, Unsayable};
use crate::jsonrpc::parts::{self, Draft, Member};
use crate::jsonrpc::{Raw, RawJson};
use crate::protocol::{Implementation, ResultType};
use rules::{Change, Params, Part};

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
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn carry_params(
    method: &str,
    params: Raw<'_>,
    from: Revision,
    to: Revision,
) -> Result<RawJson, Unsayable> {
    if from == to {
        return Ok(params.to_owned());
    }
    known(Kind::Request, method, to)?;
    said(params, rules::request(method).map(|rules| &rules.params), from, to)
}

/// The params of a notification as `to` writes them. Fails as [`carry_params`] does.
pub fn carry_notice(
    method: &str,
    params: Raw<'_>,
    from: Revision,
    to: Revision,
) -> Result<RawJson, Unsayable> {
    if from == to {
        return Ok(params.to_owned());
    }
    known(Kind::Notification, method, to)?;
    said(params, rules::notice(method).map(|rules| &rules.params), from, to)
}

/// Params, with what `rules` say of them.
fn said(
    params: Raw<'_>,
    rules: Option<&Part<Params>>,
    from: Revision,
    to: Revision,
) -> Result<RawJson, Unsayable> {
    let rules = rules.filter(|rules| !rules.is_alike(from, to));
    if rules.is_none() && !leaves(from, to) {
        return Ok(params.to_owned());
    }
    let members = params.members();
    let change = match rules.filter(|rules| !rules.stays(members.as_deref(), from, to)) {
        Some(rules) => (rules.change)(params, from, to)?,
        None => None,
    };
    write(params, members, change, leaves(from, to), envelope::strip_meta)
}

/// The result of `method` as `to` writes it.
///
/// On 2026-07-28 it says of which kind it is, how long it may be kept and, if it does not say so yet, that `server` made
/// it; what a client answers is not stamped. Older revisions have none of that, so that only a result that is complete
/// can lose it.
///
/// Fails when `to` has no such method, though some revision has, or no way to say what is answered.
pub fn carry_result(
    method: &str,
    result: Raw<'_>,
    from: Revision,
    to: Revision,
    server: Option<&Implementation>,
) -> Result<RawJson, Unsayable> {
    if from == to {
        return Ok(result.to_owned());
    }
    let row = known(Kind::Request, method, to)?;
    let rules = rules::request(method);
    let members = result.members();
    let named = match &members {
        Some(members) if from.is_stateless() => envelope::kind(members),
        _ => Ok(None),
    };
    let (kind, change) = match (rules, named) {
        (Some(rules), Ok(named)) => {
            let named = from.is_stateless().then(|| named.unwrap_or(ResultType::Complete));
            let stays = rules.output.stays(members.as_deref(), from, to);
            (rules.output.change)(result, named, stays, from, to)?
        }
        // Without its kind it would pass for complete.
        (Some(_), Err(unknown)) => return Err(unknown.into()),
        // Nobody but its two ends knows what this is.
        (None, Ok(named)) => match named {
            Some(ResultType::InputRequired) => return Err(Unsayable::InputRequired),
            Some(ResultType::Task) => return Err(Unsayable::Tasks),
            _ => (ResultType::Complete, None),
        },
        (None, Err(_)) => return Ok(result.to_owned()),
    };
    let hints = rules.is_some_and(|rules| rules.cacheable);
    let server = server.filter(|_| row.is_none_or(|row| row.sender != Sender::Server));
    write(result, members, change, from.era() != to.era(), |members| match to.is_stateless() {
        false => envelope::strip_result(members, hints) | envelope::strip_meta(members),
        true => {
            envelope::name_kind(members, kind, rules.is_none())
                | (hints && envelope::add_hints(members))
                | server.is_some_and(|server| envelope::stamp(members, server))
        }
    })
}

/// The answer to something a server asks inside a result, which on 2026-07-28 is a bare object: no kind, no stamp. On
/// older revisions it is the result of a request.
///
/// Whoever has asked knows what for: where `to` has no such method, the answer is passed on as it is. Fails when `to` has
/// no way to say what is answered.
pub fn carry_answer(
    method: &str,
    answer: Raw<'_>,
    from: Revision,
    to: Revision,
) -> Result<RawJson, Unsayable> {
    if from == to {
        return Ok(answer.to_owned());
    }
    let bare = from.is_stateless().then_some(ResultType::Complete);
    let members = answer.members();
    let change = match (rules::request(method), known(Kind::Request, method, to)) {
        (Some(rules), Ok(_)) => {
            let stays = rules.output.stays(members.as_deref(), from, to);
            (rules.output.change)(answer, bare, stays, from, to)?.1
        }
        _ => None,
    };
    write(answer, members, change, leaves(from, to), |members| {
        envelope::strip_result(members, false) | envelope::strip_meta(members)
    })
}

/// The row of a method, if any revision has it; fails when one has it and `to` does not.
///
/// Who sends it does not matter here: what a server asks travels inside results on 2026-07-28.
fn known(kind: Kind, method: &str, to: Revision) -> Result<Option<&'static Row>, Unsayable> {
    match methods::row(method).filter(|row| row.kind == kind) {
        Some(row) if to < row.first || to > row.last => Err(Unsayable::Method(row.name)),
        row => Ok(row),
    }
}

/// Whether what only 2026-07-28 has must be left behind.
fn leaves(from: Revision, to: Revision) -> bool {
    from.is_stateless() && !to.is_stateless()
}

/// The text, of which these are the members, with what the rules changed, and then, where it `crosses` from one era into
/// the other, with what `fit` does to its members, which tells whether it did anything. The text itself if nothing was
/// done.
fn write(
    original: Raw<'_>,
    members: Option<Vec<Member<'_>>>,
    change: Option<Change>,
    crosses: bool,
    fit: impl FnOnce(&mut Draft<'_>) -> bool,
) -> Result<RawJson, Unsayable> {
    if change.is_none() && !crosses {
        return Ok(original.to_owned());
    }
    let merged = change.as_ref().and_then(|change| {
        merge::members(original, Raw::checked(&change.untouched), Raw::checked(&change.translated))
    });
    let changed = merged.is_some();
    // What is no object has no members to fit.
    let Some(mut members) = merged.or_else(|| members.as_deref().map(parts::draft)) else {
        return Ok(original.to_owned());
    };
    match (crosses && fit(&mut members)) | changed {
        true => Ok(RawJson::checked(parts::object(&members))),
        false => Ok(original.to_owned()),
    }
}
