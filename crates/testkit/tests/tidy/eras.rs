//! The two eras of the protocol: behaviour that differs between them is decided in the era modules, and the members of
//! multi-round-trip requests are named in the core.

use std::collections::BTreeSet;

use crate::source::Source;
use crate::{assert_none, tree};

/// The limit of era checks outside the era modules, exclusive: calls of `is_stateless()`, and places that name a variant
/// of `Era`. A `match` is one place.
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
    let is_era = |path: &str| path.contains("/era") || path.contains("/pairing/");
    for source in outside_core().filter(|source| !is_era(&source.path)) {
        let calls = source.words("is_stateless()");
        let variants = ["Era::Handshake", "Era::Stateless"].iter().flat_map(|variant| source.words(variant));
        let blocks: BTreeSet<_> = variants.map(|at| source.opening(at)).collect();
        found.extend(calls.into_iter().chain(blocks).map(|at| source.place(at)));
    }
    println!("era checks outside the era modules: {}", found.len());
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
