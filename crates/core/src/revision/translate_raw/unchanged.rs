//! What need not be read to be carried: calls, which are most of what crosses a bridge.
//!
//! The members of a text tell whether the rules of `shape` have anything to change in it. Saying no is never wrong, only
//! slower.

use super::super::Revision::{self, *};
use crate::jsonrpc::Raw;
use crate::jsonrpc::raw_members::RawMember;

/// Whether the rules leave the params of a call alone that have these members.
pub(super) fn call_params_unchanged(members: &[RawMember<'_>], _from: Revision, _to: Revision) -> bool {
    let changing = ["task", "inputResponses", "requestState"];
    !members.iter().any(|member| changing.iter().any(|name| member.has_name(name)))
}

/// Whether the rules leave the complete result of a call alone that has these members. Between the newest two, only
/// structured content differs.
pub(super) fn call_result_unchanged(members: &[RawMember<'_>], from: Revision, to: Revision) -> bool {
    let odd = |member: &RawMember<'_>| {
        member.has_name("structuredContent") && !Raw::from_validated(member.value).is_object()
    };
    from >= V2025_11_25 && to >= V2025_11_25 && (to.is_stateless() || !members.iter().any(odd))
}
