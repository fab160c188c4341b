//! Our client as seen on the wire: the messages it sends, and how it handles those of a server.
//!
//! `transcripts` runs the conversations in `transcripts/*.txt` with a scripted server, `calls` uses our own server,
//! `outputs` reads the results of its tools, `failure_sources` its failures, and the servers of `faults` are broken or
//! hostile. `children` starts programs on every system.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod calls;
mod children;
mod failure_sources;
mod faults;
mod outputs;
mod streams;
mod task_failures;
mod task_polls;
mod task_questions;
mod tasks;
mod transcripts;
