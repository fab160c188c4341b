//! Every transcript of the client, over every transport, for each revision it names.
//!
//! Each of them belongs to a test, which says what it proves.

use std::collections::BTreeSet;

use tsugite_testkit::transcript::client::ClientTranscript;

const SERVER: &str = env!("CARGO_BIN_EXE_scripted-server");
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/transcripts");

/// Plays transcripts wherever they mean something.
async fn play(names: &[&str]) {
    let mut failures = Vec::new();
    let mut plays = 0;
    for name in names {
        let text = std::fs::read_to_string(format!("{FOLDER}/{name}.txt")).unwrap();
        let transcript = ClientTranscript::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (place, events) in transcript.run_configs() {
            plays += 1;
            let how = if events { " with events" } else { "" };
            if let Err(error) = transcript.run(place, events, SERVER).await {
                failures.push(format!("{name} over {}{how} on {}, {error}", place.0.name(), place.1));
            }
        }
    }
    assert!(plays >= names.len(), "a transcript is played nowhere");
    assert!(failures.is_empty(), "{} of {plays} plays:\n{}", failures.len(), failures.join("\n"));
}

#[tokio::test]
async fn the_first_question_is_which_revision_is_spoken() {
    // STDIO-021, STDIO-022, VER-003, VER-011, STDIO-023
    play(&[
        "discover_finds_the_revision",
        "a_version_that_is_listed_is_tried_again",
        "each_request_says_what_the_client_can_be_asked",
        "a_line_that_is_no_message_is_skipped",
    ])
    .await;
}

#[tokio::test]
async fn a_modern_answer_rules_a_handshake_out() {
    // VER-029, HTTP-092
    play(&[
        "a_server_that_knows_only_newer_revisions_is_not_offered_a_handshake",
        "a_missing_header_is_mended_once_and_no_handshake_is_tried",
        "a_demand_for_credentials_says_nothing_of_the_era",
        "a_broken_server_says_nothing_of_the_era",
    ])
    .await;
}

#[tokio::test]
async fn whoever_does_not_understand_the_question_is_offered_a_handshake() {
    // STDIO-024, HTTP-093
    play(&[
        "a_list_of_handshake_revisions_leads_to_the_newest_of_them",
        "a_discover_result_with_older_revisions_leads_to_a_handshake",
        "any_other_error_leads_to_a_handshake",
        "invalid_params_lead_to_a_handshake",
        "silence_leads_to_a_handshake",
        "a_result_without_versions_leads_to_a_handshake",
        "an_empty_400_leads_to_a_handshake",
        "a_child_that_ends_over_the_question_is_started_again",
    ])
    .await;
}

#[tokio::test]
async fn a_handshake_is_made_as_its_revision_wants() {
    // LIFE-006, LIFE-014, ROOT-001, HTTP-041, HTTP-042
    play(&[
        "the_handshake_says_what_the_client_can_be_asked",
        "an_answer_in_a_revision_nobody_knows_ends_the_connection",
        "a_counter_offer_is_taken",
    ])
    .await;
}

#[tokio::test]
async fn a_connection_is_ended_politely() {
    // SESS-010
    play(&["a_session_is_ended"]).await;
}

#[tokio::test]
async fn a_call_is_made_and_answered() {
    // HTTP-008, HTTP-009, HTTP-017, HTTP-095, JRPC-045
    play(&[
        "a_call_is_made",
        "a_result_is_read_from_its_structure",
        "a_failed_tool_and_a_refusal_are_told_apart",
        "a_result_without_its_type_is_complete",
        "answers_may_come_in_a_batch",
    ])
    .await;
}

#[tokio::test]
async fn progress_and_strays_are_told_apart_by_their_ids() {
    // PROG-002, PROG-003, JRPC-041, STDIO-011
    play(&[
        "progress_is_told_by_its_token",
        "what_nobody_asked_for_is_ignored",
        "a_request_of_the_server_is_not_answered_on_2026_07_28",
    ])
    .await;
}

#[tokio::test]
async fn lists_are_read_page_by_page() {
    // PAGE-003, PAGE-004, PAGE-006, PAGE-007
    play(&[
        "pages_are_read_until_there_is_no_cursor",
        "every_list_is_read",
        "a_cursor_that_comes_again_ends_in_an_error",
    ])
    .await;
}

#[tokio::test]
async fn forms_and_web_pages_are_answered() {
    // ELIC-027, ELIC-031
    play(&[
        "a_form_is_answered_with_its_defaults",
        "a_form_of_2025_06_18_is_answered",
        "a_form_can_be_declined",
        "a_form_can_be_cancelled",
        "a_mode_that_is_not_offered_is_refused",
        "a_web_page_is_visited_on_request",
        "a_call_that_needs_a_web_page_visited_is_made_again_afterwards",
        "a_web_page_that_is_declined_ends_the_call",
        "a_web_page_is_visited_in_a_round",
    ])
    .await;
}

#[tokio::test]
async fn the_server_asks_for_the_model_for_roots_and_for_a_sign_of_life() {
    // STDIO-013, ROOT-005, ROOT-006, ROOT-008
    play(&[
        "the_model_is_asked",
        "a_user_may_refuse_to_ask_the_model",
        "roots_are_told_and_their_change_too",
        "roots_are_not_announced_on_2026_07_28",
        "a_question_that_is_not_offered_is_refused",
        "both_sides_ask_whether_the_other_is_there",
    ])
    .await;
}

#[tokio::test]
async fn logs_are_asked_for_as_the_revision_wants() {
    // LOG-003, LOG-007
    play(&["logs_are_asked_for_with_each_request", "logs_are_asked_for_once"]).await;
}

#[tokio::test]
async fn a_call_is_cancelled_as_the_revision_and_the_transport_want() {
    // CANC-002, CANC-014, STDIO-015, HTTP-027, HTTP-089
    play(&["a_call_that_is_dropped_is_cancelled", "a_call_that_takes_too_long_is_cancelled"]).await;
}

#[tokio::test]
async fn resources_prompts_and_completion_are_asked_for() {
    // HTTP-051, HTTP-052, HTTP-053
    play(&["a_resource_is_read", "a_prompt_is_filled_in", "completion_is_asked_for_with_its_context"]).await;
}

#[tokio::test]
async fn changes_are_listened_to() {
    // SUBS-001, SUBS-009, STDIO-014, CANC-016
    play(&[
        "a_resource_is_watched_by_subscribing",
        "changes_are_told_to_whoever_listens",
        "a_subscription_is_begun_acknowledged_and_ended",
        "a_server_ends_a_subscription_by_cancelling_it",
    ])
    .await;
}

#[tokio::test]
async fn a_broken_subscription_is_begun_anew() {
    // SUBS-011, SUBS-012, STDIO-020
    play(&["a_subscription_that_breaks_is_begun_again"]).await;
}

#[tokio::test]
async fn a_call_that_asks_back_is_repeated_with_the_answers() {
    // MRTR-014, MRTR-016, MRTR-017, MRTR-018, MRTR-019
    play(&["a_call_that_asks_back_is_made_again_with_the_answers", "prompts_and_resources_ask_back_too"])
        .await;
}

#[tokio::test]
async fn rounds_have_an_end() {
    // MRTR-015, MRTR-025
    play(&["a_server_that_asks_without_end_is_left"]).await;
}

#[tokio::test]
async fn results_are_remembered_as_long_as_the_server_says() {
    // CACH-005, CACH-006, CACH-007, CACH-014
    play(&[
        "a_list_is_remembered_as_long_as_the_server_says",
        "nothing_is_remembered_before_2026_07_28",
        "prompts_and_resources_ask_back_too",
    ])
    .await;
}

#[tokio::test]
async fn marked_arguments_stand_in_headers() {
    // HTTP-061, HTTP-069, HTTP-070, HTTP-073, HTTP-081
    play(&["marked_arguments_are_mirrored_in_headers"]).await;
}

#[tokio::test]
async fn headers_that_do_not_fit_are_dealt_with() {
    // HTTP-045, HTTP-046, HTTP-067, HTTP-080
    play(&["a_wrong_header_makes_the_list_be_read_again", "a_tool_with_an_invalid_mark_is_left_out"]).await;
}

#[tokio::test]
async fn a_session_is_kept_and_begun_anew() {
    // SESS-005, SESS-009, HTTP-033
    play(&["a_session_that_is_forgotten_is_begun_anew"]).await;
}

#[tokio::test]
async fn a_stream_that_breaks_is_taken_up_where_that_is_possible() {
    // RESM-004, RESM-007, RESM-011, RESM-012, HTTP-031
    play(&[
        "a_stream_that_ends_early_is_taken_up_where_it_ended",
        "a_stream_that_breaks_is_not_taken_up_on_2026_07_28",
    ])
    .await;
}

#[tokio::test]
async fn a_transcript_that_is_not_true_fails_over_every_transport() {
    let call = r#"do: call add {}"#;
    let asked = r#"< {"id":"$a","method":"tools/call","params":{"name":"add","arguments":{}}}"#;
    let asked_otherwise = r#"< {"id":"$a","method":"tools/call","params":{"name":"add"}}"#;
    let progress = r#"> {"method":"notifications/progress","params":{"progressToken":"$a","progress":1}}"#;
    let told = "* progress 1";
    let answer = r#"> {"id":"$a","result":{"content":[{"type":"text","text":"3"}]}}"#;
    let (three, four, refused, nothing) = ("= 3", "= 4", "! -32602", "< (nothing)");
    for (lines, is_true) in [
        (vec![call, asked, progress, told, answer, three, nothing], true),
        (vec![call, asked_otherwise, answer, three], false),
        (vec![call, asked, progress, answer, three], false),
        (vec![call, asked, answer, four], false),
        (vec![call, asked, answer, refused], false),
        (vec![call, asked, answer], false),
        (vec![call, nothing, asked, answer, three], false),
    ] {
        let text = format!("on: 2024-11-05 2025-11-25 2026-07-28\n{}", lines.join("\n"));
        let transcript = ClientTranscript::parse(&text).unwrap();
        for (place, events) in transcript.run_configs() {
            let played = transcript.run(place, events, SERVER).await;
            assert_eq!(played.is_ok(), is_true, "{place:?} {played:?}\n{text}");
        }
    }
}

#[test]
fn every_transcript_is_played_by_a_test() {
    let source = include_str!("transcripts.rs");
    let files = std::fs::read_dir(FOLDER).unwrap().map(|file| file.unwrap().path());
    let names = files.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned());
    let unplayed: BTreeSet<_> = names.filter(|name| !source.contains(&format!("\"{name}\""))).collect();
    assert!(unplayed.is_empty(), "{unplayed:?}");
}
