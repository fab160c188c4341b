//! Our client, from the wire: what it sends, and what it makes of what a server sends.
//!
//! `transcripts` plays the conversations of `transcripts/*.txt` against a scripted server, `calls` uses our own server,
//! and the servers of `faults` are broken or hostile.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod calls;
mod faults;
mod transcripts;
