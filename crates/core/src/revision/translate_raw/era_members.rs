//! The members that depend on the era and not on the method: `resultType`, cache hints, the server's info, and the
//! `_meta` keys of 2026-07-28.
//!
//! Each function returns whether it changed anything.

use std::borrow::Cow;

use super::super::translate::STATELESS_META_KEYS;
use crate::jsonrpc::raw_members::{self, EditableMembers, RawMember};
use crate::jsonrpc::{JsonError, Raw};
use crate::protocol::{Implementation, ResultType, meta};

/// The `resultType` of a result, if there is one. Fails if it is unknown.
pub(super) fn result_type(members: &[RawMember<'_>]) -> Result<Option<ResultType>, JsonError> {
    let Some(named) = members.iter().find(|member| member.has_name(RESULT_TYPE)) else { return Ok(None) };
    let known = [ResultType::Complete, ResultType::InputRequired, ResultType::Task];
    let name = Raw::from_validated(named.value).string();
    match known.into_iter().find(|kind| name.as_deref() == Some(kind.as_str())) {
        Some(kind) => Ok(Some(kind)),
        None => Err(JsonError::new("unknown `resultType`")),
    }
}

/// Sets the `resultType`. A member of that name from an older revision has no meaning and is replaced, unless the
/// method is `foreign`, that is unknown to the protocol.
pub(super) fn set_result_type(members: &mut EditableMembers<'_>, kind: ResultType, foreign: bool) -> bool {
    let wanted = match kind {
        ResultType::Complete => "\"complete\"",
        ResultType::InputRequired => "\"input_required\"",
        ResultType::Task => "\"task\"",
    };
    let there = members.iter().find(|member| member.has_name(RESULT_TYPE));
    if there.is_some_and(|there| foreign || there.value == wanted) {
        return false;
    }
    members.retain(|member| !member.has_name(RESULT_TYPE));
    members.insert(0, RawMember { quoted_name: "\"resultType\"", value: Cow::Borrowed(wanted) });
    true
}

/// Adds cache hints that forbid caching, unless there are hints.
pub(super) fn add_cache_hints(members: &mut EditableMembers<'_>) -> bool {
    let mut changed = false;
    for (quoted, name, value) in [("\"ttlMs\"", TTL_MS, "0"), ("\"cacheScope\"", CACHE_SCOPE, "\"private\"")]
    {
        match members.iter_mut().find(|member| member.has_name(name)) {
            Some(there) if there.value != "null" => continue,
            Some(there) => there.value = Cow::Borrowed(value),
            None => members.push(RawMember { quoted_name: quoted, value: Cow::Borrowed(value) }),
        }
        changed = true;
    }
    changed
}

/// Adds the server's info, unless there is one.
pub(super) fn add_server_info(members: &mut EditableMembers<'_>, server: &Implementation) -> bool {
    let Ok(server) = serde_json::to_string(server) else { return false };
    let stamp = RawMember { quoted_name: SERVER_INFO_QUOTED, value: server.as_str() };
    match members.iter_mut().find(|member| member.has_name(META)) {
        Some(there) => {
            // A `_meta` that is not an object is forwarded unchanged.
            let Some(mut meta) = Raw::from_validated(&there.value).members() else { return false };
            if meta.iter().any(|member| member.has_name(meta::SERVER_INFO)) {
                return false;
            }
            meta.push(stamp);
            let text = raw_members::build_object(&meta);
            there.value = Cow::Owned(text);
        }
        None => {
            let value = Cow::Owned(raw_members::build_object(&[stamp]));
            members.push(RawMember { quoted_name: "\"_meta\"", value });
        }
    }
    true
}

/// Removes the members that only results of 2026-07-28 have.
pub(super) fn strip_result(members: &mut EditableMembers<'_>, hints: bool) -> bool {
    let before = members.len();
    members.retain(|member| {
        !(member.has_name(RESULT_TYPE) || hints && (member.has_name(TTL_MS) || member.has_name(CACHE_SCOPE)))
    });
    members.len() != before
}

/// Removes the keys of `_meta` that only 2026-07-28 defines, and `_meta` itself if it is empty then.
pub(super) fn strip_meta(members: &mut EditableMembers<'_>) -> bool {
    let mut changed = false;
    members.retain_mut(|member| {
        if !member.has_name(META) {
            return true;
        }
        let Some(mut meta) = Raw::from_validated(&member.value).members() else { return true };
        let before = meta.len();
        meta.retain(|member| !STATELESS_META_KEYS.iter().any(|key| member.has_name(key)));
        let (stripped, empty) = (meta.len() != before, meta.is_empty());
        let text = stripped.then(|| raw_members::build_object(&meta));
        changed |= stripped;
        if let Some(text) = text {
            member.value = Cow::Owned(text);
        }
        !(stripped && empty)
    });
    changed
}

const RESULT_TYPE: &str = "resultType";
const TTL_MS: &str = "ttlMs";
const CACHE_SCOPE: &str = "cacheScope";
const META: &str = "_meta";
const SERVER_INFO_QUOTED: &str = "\"io.modelcontextprotocol/serverInfo\"";
