//! Rules of the whole tree that a text search can check. Each test names the rule it enforces.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod csv;
mod dependencies;
mod eras;
mod imports;
mod layers;
mod links;
mod packages;
mod proof;
mod requirements;
mod security;
mod source;
mod style;
mod tree;
mod words;

/// Fails with a list of everything that was found.
#[track_caller]
fn assert_none(found: Vec<String>) {
    assert!(found.is_empty(), "{} found:\n{}", found.len(), found.join("\n"));
}
