//! The bridge, as people run it, between a client and a server that know nothing of the library.
//!
//! Both are written by hand on the wire of each revision, so that a misreading of ours is not repeated here. What the
//! bridge sends them is judged by the official schemas. `table` has every revision and transport on either side of it.
//!
//! A server on standard input and output must be a program: this one is, as a puppet of the test that runs it. So it has
//! a `main` of its own (`harness`).

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod bridge;
mod client;
mod harness;
mod message;
mod server;
mod table;
mod tool;

fn main() -> std::process::ExitCode {
    harness::run(&[("every_cell_of_the_table_is_green", table::every_cell_of_the_table_is_green)])
}
