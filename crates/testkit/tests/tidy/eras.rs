//! The two eras of the protocol: behaviour that differs between them is decided in the era modules, and the members of
//! multi-round-trip requests are named in the core.

use crate::source::Source;
use crate::{assert_none, tree};

/// The limit of `is_stateless()` calls outside the era modules, exclusive.
const MAX_ERA_CHECKS: usize = 15;

/// The members of multi-round-trip requests and of their results.
const MEMBERS: [&str; 4] = ["inputRequests", "inputResponses", "requestState", "resultType"];

/// Shipped code outside the core.
fn outside_core() -> impl Iterator<Item = Source> {
    tree::live_sources().into_iter().filter(|source| !source.path.starts_with("crates/core/"))
}

#[test]
fn eras_are_compared_only_in_their_modules() {
    let mut found = Vec::new();
    for source in outside_core().filter(|source| !source.path.contains("/era")) {
        found.extend(source.words("is_stateless()").into_iter().map(|at| source.place(at)));
    }
    assert!(found.len() < MAX_ERA_CHECKS, "{} found:\n{}", found.len(), found.join("\n"));
}

#[test]
fn round_trip_members_are_named_only_in_core() {
    let mut found = Vec::new();
    for source in outside_core() {
        for string in &source.strings {
            let text = &source.text[string.clone()];
            let named = MEMBERS.iter().filter(|member| text.contains(*member));
            found.extend(named.map(|member| format!("{}: {member}", source.place(string.start))));
        }
    }
    assert_none(found);
}
