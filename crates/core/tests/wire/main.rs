//! Checks what the crate reads and writes against the official schemas.
//!
//! Values are generated from the schemas themselves, so nothing here depends on our own reading of the protocol.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod errors;
mod examples;
mod generate;
mod losses;
mod messages;
mod methods;
mod official;
mod rules;
mod shapes;
mod translated;
