//! Tests of the binary: its output and exit codes.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod access;
mod bridging;
mod config;
mod dev;
mod help;
mod installing;
mod issuers;
mod killed;
mod listening;
mod logins;
mod many;
mod questions;
mod secrets;
mod serving;
mod shell;
mod snapshots;
mod state;
mod support;
mod targets;
mod terminal;
mod trust;
mod users;
mod verbs;
