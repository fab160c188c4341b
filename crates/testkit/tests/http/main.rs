//! A server over HTTP, on real sockets: statuses, headers, sessions, streams, limits, replicas and shutdown.

#![cfg_attr(windows, allow(unused_imports, reason = "some tests need Unix"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod attacks;
mod decision_table;
mod faults;
mod protected;
mod regressions;
mod replicas;
mod requirements;
mod responses;
mod shared_limits;
mod side_services;
mod surviving_questions;
#[cfg(unix)]
mod unix_sockets;
