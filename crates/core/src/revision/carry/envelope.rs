//! What belongs to an era and not to a method: the kind of a result, cache hints, who made it, and the keys of `_meta` of
//! 2026-07-28.
//!
//! Each function tells whether it changed anything.

use std::borrow::Cow;

use super::super::translate::NEWEST_ONLY;
use crate::jsonrpc::parts::{self, Draft, Member};
use crate::jsonrpc::{BadShape, Raw};
use crate::protocol::{Implementation, ResultType, meta};

/// The kind a result names, if it names one. Fails when the name is none we know.
pub(super) fn kind(members: &[Member<'_>]) -> Result<Option<ResultType>, BadShape> {
    let Some(named) = members.iter().find(|member| member.is(KIND)) else { return Ok(None) };
    let known = [ResultType::Complete, ResultType::InputRequired, ResultType::Task];
    let name = Raw::checked(named.value).string();
    match known.into_iter().find(|kind| name.as_deref() == Some(kind.as_str())) {
        Some(kind) => Ok(Some(kind)),
        None => Err(BadShape::new("unknown `resultType`")),
    }
}

/// Says of which kind a result is. What a peer of an older revision wrote in that place meant nothing there, unless the
/// method is `foreign` and nobody but its two ends knows.
pub(super) fn name_kind(members: &mut Draft<'_>, kind: ResultType, foreign: bool) -> bool {
    let wanted = match kind {
        ResultType::Complete => "\"complete\"",
        ResultType::InputRequired => "\"input_required\"",
        ResultType::Task => "\"task\"",
    };
    let there = members.iter().find(|member| member.is(KIND));
    if there.is_some_and(|there| foreign || there.value == wanted) {
        return false;
    }
    members.retain(|member| !member.is(KIND));
    members.insert(0, Member { quoted: "\"resultType\"", value: Cow::Borrowed(wanted) });
    true
}

/// Says that a result is not to be kept, unless it says for how long it may be.
pub(super) fn add_hints(members: &mut Draft<'_>) -> bool {
    let mut changed = false;
    for (quoted, name, value) in [("\"ttlMs\"", TTL, "0"), ("\"cacheScope\"", SCOPE, "\"private\"")] {
        match members.iter_mut().find(|member| member.is(name)) {
            Some(there) if there.value != "null" => continue,
            Some(there) => there.value = Cow::Borrowed(value),
            None => members.push(Member { quoted, value: Cow::Borrowed(value) }),
        }
        changed = true;
    }
    changed
}

/// Says that `server` made a result, unless it says who did.
pub(super) fn stamp(members: &mut Draft<'_>, server: &Implementation) -> bool {
    let Ok(server) = serde_json::to_string(server) else { return false };
    let stamp = Member { quoted: SERVER_INFO_QUOTED, value: server.as_str() };
    match members.iter_mut().find(|member| member.is(META)) {
        Some(there) => {
            // What is no object is not ours to mend.
            let Some(mut meta) = Raw::checked(&there.value).members() else { return false };
            if meta.iter().any(|member| member.is(meta::SERVER_INFO)) {
                return false;
            }
            meta.push(stamp);
            let text = parts::object(&meta);
            there.value = Cow::Owned(text);
        }
        None => {
            let value = Cow::Owned(parts::object(&[stamp]));
            members.push(Member { quoted: "\"_meta\"", value });
        }
    }
    true
}

/// Takes away what only results of 2026-07-28 say.
pub(super) fn strip_result(members: &mut Draft<'_>, hints: bool) -> bool {
    let before = members.len();
    members.retain(|member| !(member.is(KIND) || hints && (member.is(TTL) || member.is(SCOPE))));
    members.len() != before
}

/// Takes the keys out of `_meta` that only 2026-07-28 gives a meaning, and `_meta` itself if nothing else stood there.
pub(super) fn strip_meta(members: &mut Draft<'_>) -> bool {
    let mut changed = false;
    members.retain_mut(|member| {
        if !member.is(META) {
            return true;
        }
        let Some(mut meta) = Raw::checked(&member.value).members() else { return true };
        let before = meta.len();
        meta.retain(|member| !NEWEST_ONLY.iter().any(|key| member.is(key)));
        let (stripped, empty) = (meta.len() != before, meta.is_empty());
        let text = stripped.then(|| parts::object(&meta));
        changed |= stripped;
        if let Some(text) = text {
            member.value = Cow::Owned(text);
        }
        !(stripped && empty)
    });
    changed
}

const KIND: &str = "resultType";
const TTL: &str = "ttlMs";
const SCOPE: &str = "cacheScope";
const META: &str = "_meta";
const SERVER_INFO_QUOTED: &str = "\"io.modelcontextprotocol/serverInfo\"";
