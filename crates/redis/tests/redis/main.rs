//! The store against real Redis servers, which the tests start and stop.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod access;
mod contract;
mod faults;
mod logs;
mod messages;
mod proxy;
mod server;
