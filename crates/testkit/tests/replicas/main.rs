//! Servers as three replicas behind nginx, with plain round robin and Redis.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod memory;
mod round_trips;
mod task_kills;
mod tasks;
mod transcripts;
