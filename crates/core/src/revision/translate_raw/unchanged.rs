//! Recognizes tool calls that need no translation, without deserializing them: they are most of a bridge's traffic.
//!
//! The names of the members show whether the rules of `shape` could change anything. `false` is always correct, only
//! slower.

use super::super::Revision::{self, *};
use crate::jsonrpc::Raw;
use crate::jsonrpc::raw_members::RawMember;

/// Whether the rules leave the params of a call with these members unchanged.
pub(super) fn call_params_unchanged(members: &[RawMember<'_>], _from: Revision, _to: Revision) -> bool {
    let changing = ["task", "inputResponses", "requestState"];
    !members.iter().any(|member| changing.iter().any(|name| member.has_name(name)))
}

/// Whether the rules leave the complete result of a call with these members unchanged. Between the newest two
/// revisions, only structured content differs.
pub(super) fn call_result_unchanged(members: &[RawMember<'_>], from: Revision, to: Revision) -> bool {
    let odd = |member: &RawMember<'_>| {
        member.has_name("structuredContent") && !Raw::from_validated(member.value).is_object()
    };
    from >= V2025_11_25 && to >= V2025_11_25 && (to.is_stateless() || !members.iter().any(odd))
}
