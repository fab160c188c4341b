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
mod crossing;
mod ends;
mod harness;
mod message;
mod pair;
mod parked;
mod server;
mod table;
mod tool;

fn main() -> std::process::ExitCode {
    harness::run(&[
        ("every_cell_of_the_table_is_green", table::every_cell_of_the_table_is_green),
        ("what_nobody_knows_crosses_both_ways", crossing::what_nobody_knows_crosses_both_ways),
        (
            "members_that_nobody_knows_stay_on_everything",
            crossing::members_that_nobody_knows_stay_on_everything,
        ),
        (
            "the_model_and_the_folders_are_asked_for_across",
            crossing::the_model_and_the_folders_are_asked_for_across,
        ),
        ("logs_cross_at_the_level_that_is_wanted", crossing::logs_cross_at_the_level_that_is_wanted),
        ("a_change_is_told_where_it_belongs", crossing::a_change_is_told_where_it_belongs),
        ("resources_are_watched_across", crossing::resources_are_watched_across),
        ("two_clients_at_once_get_their_own_questions", parked::two_clients_at_once_get_their_own_questions),
        ("a_state_that_is_not_its_own_is_refused", parked::a_state_that_is_not_its_own_is_refused),
        ("a_call_nobody_comes_back_for_is_ended", parked::a_call_nobody_comes_back_for_is_ended),
        ("no_more_calls_wait_than_may", parked::no_more_calls_wait_than_may),
        ("a_server_goes_with_its_client", ends::a_server_goes_with_its_client),
        (
            "a_server_that_dies_in_a_call_is_started_again",
            ends::a_server_that_dies_in_a_call_is_started_again,
        ),
        ("a_flood_that_nobody_reads_takes_no_memory", ends::a_flood_that_nobody_reads_takes_no_memory),
    ])
}
