//! The bridge as a library: transcripts of a server run across it, and peers that fail on either side.

#![cfg_attr(windows, allow(dead_code, reason = "some tests need Unix"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod faults;
mod tasks;
mod transcripts;
