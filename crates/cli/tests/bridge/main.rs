//! Tests of the bridge between a client and a server that do not use the library.
//!
//! Both are written by hand for each revision, so that a misreading of the specification is not repeated here. All
//! messages from the bridge are validated against the official schemas. `table` covers every revision and transport on
//! both sides.
//!
//! A server on standard input and output must be a program. This test binary is that program, as a relay to the test
//! that runs it, so it has a `main` of its own (`harness`).

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod bridge;
mod client;
mod crossing;
mod ends;
mod harness;
mod message;
mod pair;
mod server;
mod suspended;
mod table;
mod tool;

fn main() -> std::process::ExitCode {
    harness::run(&[
        ("every_cell_of_the_table_passes", table::every_cell_of_the_table_passes),
        ("unknown_methods_are_forwarded", crossing::unknown_methods_are_forwarded),
        ("unknown_members_are_kept", crossing::unknown_members_are_kept),
        ("sampling_and_roots_requests_are_forwarded", crossing::sampling_and_roots_requests_are_forwarded),
        ("logs_are_forwarded_at_the_requested_level", crossing::logs_are_forwarded_at_the_requested_level),
        ("change_is_sent_on_the_right_stream", crossing::change_is_sent_on_the_right_stream),
        ("resource_subscriptions_are_forwarded", crossing::resource_subscriptions_are_forwarded),
        ("concurrent_clients_get_their_own_questions", suspended::concurrent_clients_get_their_own_questions),
        ("foreign_request_state_is_rejected", suspended::foreign_request_state_is_rejected),
        ("abandoned_call_is_cancelled", suspended::abandoned_call_is_cancelled),
        ("suspended_calls_are_limited", suspended::suspended_calls_are_limited),
        ("server_ends_with_its_client", ends::server_ends_with_its_client),
        ("server_that_dies_in_a_call_is_restarted", ends::server_that_dies_in_a_call_is_restarted),
        ("unread_notifications_do_not_grow_memory", ends::unread_notifications_do_not_grow_memory),
    ])
}
