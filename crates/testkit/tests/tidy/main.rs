//! Rules of the whole tree that a search can check. Each test names the rule it keeps.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod csv;
mod eras;
mod imports;
mod layers;
mod requirements;
mod source;
mod style;
mod tree;

/// Fails with everything that was found, one a line.
#[track_caller]
fn assert_none(found: Vec<String>) {
    assert!(found.is_empty(), "{} found:\n{}", found.len(), found.join("\n"));
}
