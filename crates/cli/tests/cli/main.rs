//! Tests of the binary: its output and exit codes.

#![cfg_attr(windows, allow(dead_code, unused_imports, reason = "some tests need Unix"))]
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
mod held;
mod help;
mod installing;
mod issuers;
#[cfg(any(target_os = "linux", windows))]
mod killed;
mod listening;
mod logins;
mod many;
mod noise;
mod paths;
mod platforms;
mod questions;
mod secrets;
mod serving;
mod shell;
mod snapshots;
mod state;
mod support;
mod targets;
mod tasks;
#[cfg(unix)]
mod terminal;
mod trust;
mod users;
mod verbs;
