//! The messages of a server: its responses, notifications, requests and errors, over any transport.
//!
//! `transcripts` runs the conversations of `transcripts/*.txt` over every transport. The other modules use a `RawClient`,
//! which is connected in memory, for what a transcript cannot say: a paused clock, callers, concurrency, special handlers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod attacks;
mod elicitation;
mod features;
mod idempotency;
mod lifecycle;
mod logging;
mod notification_limit;
mod notifications;
mod regressions;
mod tasks;
mod transcripts;
