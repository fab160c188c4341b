//! Runs every transcript of the client, over every transport, for each revision it names.
//!
//! Each transcript belongs to a test whose name says what it proves.

use std::collections::BTreeSet;

use tsugite_testkit::transcript::client::ClientTranscript;

const SERVER: &str = env!("CARGO_BIN_EXE_scripted-server");
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/transcripts");

/// Runs transcripts over every transport and revision they apply to.
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
    assert!(plays >= names.len(), "a transcript has no runs");
    assert!(failures.is_empty(), "{} of {plays} runs:\n{}", failures.len(), failures.join("\n"));
}

#[tokio::test]
async fn client_probes_with_discover() {
    // STDIO-021, STDIO-022, VER-003, VER-011, STDIO-023
    play(&[
        "discover_finds_the_revision",
        "listed_version_is_tried_again",
        "each_request_declares_the_client_capabilities",
        "invalid_line_is_skipped",
    ])
    .await;
}

#[tokio::test]
async fn stateless_response_rules_out_a_handshake() {
    // VER-029, HTTP-092
    play(&[
        "newer_only_server_gets_no_handshake",
        "header_mismatch_is_retried_once_without_a_handshake",
        "unauthorized_response_does_not_decide_the_era",
        "server_error_does_not_decide_the_era",
    ])
    .await;
}

#[tokio::test]
async fn failed_probe_falls_back_to_a_handshake() {
    // STDIO-024, HTTP-093
    play(&[
        "newest_listed_handshake_revision_is_used",
        "discover_with_older_revisions_leads_to_a_handshake",
        "other_errors_lead_to_a_handshake",
        "invalid_params_lead_to_a_handshake",
        "unanswered_probe_leads_to_a_handshake",
        "discover_without_versions_leads_to_a_handshake",
        "empty_400_leads_to_a_handshake",
        "child_that_exits_on_the_probe_is_restarted",
    ])
    .await;
}

#[tokio::test]
async fn handshake_follows_its_revision() {
    // LIFE-006, LIFE-014, ROOT-001, HTTP-041, HTTP-042
    play(&[
        "undeclared_features_are_not_used",
        "handshake_declares_the_client_capabilities",
        "unknown_revision_in_the_handshake_ends_the_connection",
        "offered_revision_is_accepted",
    ])
    .await;
}

#[tokio::test]
async fn closing_deletes_the_session() {
    // SESS-010
    play(&["session_is_deleted_on_close"]).await;
}

#[tokio::test]
async fn calls_return_their_results() {
    // HTTP-008, HTTP-009, HTTP-017, HTTP-095, JRPC-045
    play(&[
        "call_returns_its_result",
        "structured_result_is_read",
        "tool_errors_and_protocol_errors_are_distinguished",
        "result_without_a_type_is_complete",
        "responses_may_come_in_a_batch",
    ])
    .await;
}

#[tokio::test]
async fn progress_and_stray_messages_are_matched_by_id() {
    // PROG-002, PROG-003, PROG-010, JRPC-041, STDIO-011
    play(&[
        "progress_is_matched_by_its_token",
        "unmatched_messages_are_ignored",
        "server_requests_are_ignored_on_2026_07_28",
    ])
    .await;
}

#[tokio::test]
async fn lists_are_read_page_by_page() {
    // PAGE-003, PAGE-004, PAGE-006, PAGE-007
    play(&["pages_are_read_until_there_is_no_cursor", "every_list_is_read", "repeated_cursor_is_an_error"])
        .await;
}

#[tokio::test]
async fn cursors_end_with_their_session() {
    // PAGE-005
    play(&["cursors_end_with_their_session", "cursors_end_with_their_child"]).await;
}

#[tokio::test]
async fn elicitation_requests_are_answered() {
    // ELIC-027, ELIC-031
    play(&[
        "form_defaults_are_filled_in",
        "form_of_2025_06_18_is_answered",
        "form_can_be_declined",
        "form_can_be_cancelled",
        "undeclared_elicitation_mode_is_refused",
        "web_page_is_opened_on_request",
        "call_is_repeated_after_a_required_web_page",
        "elicitation_id_is_opaque",
        "declined_web_page_ends_the_call",
        "web_page_is_opened_in_a_round",
    ])
    .await;
}

#[tokio::test]
async fn sampling_roots_and_ping_requests_are_answered() {
    // STDIO-013, ROOT-005, ROOT-006, ROOT-008
    play(&[
        "sampling_request_is_answered",
        "sampling_can_be_refused",
        "roots_and_their_changes_are_sent",
        "roots_are_not_announced_on_2026_07_28",
        "undeclared_request_is_refused",
        "both_sides_answer_pings",
    ])
    .await;
}

#[tokio::test]
async fn log_level_is_set_as_the_revision_requires() {
    // LOG-003, LOG-007
    play(&["log_level_is_sent_with_each_request", "log_level_is_set_once"]).await;
}

#[tokio::test]
async fn cancellation_depends_on_revision_and_transport() {
    // CANC-002, CANC-014, STDIO-015, HTTP-027, HTTP-089
    play(&["dropped_call_is_cancelled", "timed_out_call_is_cancelled"]).await;
}

#[tokio::test]
async fn resources_prompts_and_completion_are_requested() {
    // HTTP-051, HTTP-052, HTTP-053
    play(&["resource_is_read", "prompt_is_fetched", "completion_is_requested_with_its_context"]).await;
}

#[tokio::test]
async fn subscriptions_report_changes() {
    // SUBS-001, SUBS-009, STDIO-014, CANC-016
    play(&[
        "resource_is_subscribed_to",
        "changes_reach_their_subscribers",
        "subscription_is_opened_acknowledged_and_closed",
        "server_cancels_a_subscription",
    ])
    .await;
}

#[tokio::test]
async fn broken_subscription_is_renewed() {
    // SUBS-011, SUBS-012, STDIO-020
    play(&["broken_subscription_is_reopened"]).await;
}

#[tokio::test]
async fn input_required_call_is_repeated_with_responses() {
    // MRTR-014, MRTR-016, MRTR-017, MRTR-018, MRTR-019
    play(&["input_required_call_is_repeated_with_its_responses", "prompts_and_resources_may_require_input"])
        .await;
}

#[tokio::test]
async fn rounds_are_limited() {
    // MRTR-015, MRTR-025
    play(&["endless_rounds_end_in_an_error"]).await;
}

#[tokio::test]
async fn results_are_cached_for_their_ttl() {
    // CACH-005, CACH-006, CACH-007, CACH-014
    play(&[
        "list_is_cached_for_its_ttl",
        "refused_cursor_starts_the_list_again",
        "nothing_is_cached_before_2026_07_28",
        "prompts_and_resources_may_require_input",
    ])
    .await;
}

#[tokio::test]
async fn marked_arguments_are_sent_in_headers() {
    // HTTP-061, HTTP-069, HTTP-070, HTTP-073, HTTP-081
    play(&["marked_arguments_are_mirrored_in_headers"]).await;
}

#[tokio::test]
async fn header_mismatches_are_handled() {
    // HTTP-045, HTTP-046, HTTP-067, HTTP-080
    play(&["wrong_header_refreshes_the_tool_list", "tool_with_an_invalid_header_mark_is_omitted"]).await;
}

#[tokio::test]
async fn session_is_kept_and_renewed() {
    // SESS-005, SESS-009, HTTP-033
    play(&["lost_session_is_renewed"]).await;
}

#[tokio::test]
async fn broken_stream_is_resumed_where_possible() {
    // RESM-004, RESM-007, RESM-011, RESM-012, HTTP-031
    play(&["stream_that_ends_early_is_resumed", "broken_stream_is_not_resumed_on_2026_07_28"]).await;
}

#[tokio::test]
async fn tool_is_a_task_where_both_sides_allow_it() {
    // TASK-003, TASK-004, TASK-007
    play(&[
        "required_tool_is_called_as_a_task",
        "tool_without_task_support_is_called_plainly",
        "server_without_task_calls_is_asked_for_none",
    ])
    .await;
}

#[tokio::test]
async fn task_is_cancelled_by_its_id_alone() {
    // CANC-006, TASK-059, TASK-065
    play(&[
        "request_for_a_task_is_cancelled_by_its_task",
        "task_is_cancelled_by_its_own_method",
        "answers_to_a_task_name_it_in_a_header",
    ])
    .await;
}

#[tokio::test]
async fn call_may_become_a_task() {
    // TASK-006, TASK-012, TASK-042, TASK-070
    play(&[
        "optional_tool_is_called_either_way",
        "call_may_become_a_task_or_not",
        "provisional_result_of_a_task_is_passed_on",
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn task_is_polled_at_the_interval_of_its_server() {
    // TASK-015, TASK-026, TASK-052
    play(&["core_task_is_polled_at_its_interval", "task_is_polled_at_its_interval"]).await;
}

#[tokio::test]
async fn questions_of_a_task_are_answered() {
    // TASK-022, TASK-038, TASK-055
    play(&[
        "questions_of_a_core_task_are_fetched_with_its_result",
        "question_of_a_core_task_may_come_on_any_stream",
        "questions_of_a_task_reach_the_same_handlers",
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn question_of_a_task_is_answered_once() {
    // TASK-054
    play(&["question_of_a_task_is_answered_once"]).await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_task_is_followed_only_on_demand() {
    // TASK-060, TASK-061
    play(&["cancelled_task_is_forgotten", "task_may_go_on_after_its_cancellation"]).await;
}

#[tokio::test]
async fn only_a_poll_tells_how_a_task_ended() {
    // TASK-026
    play(&["wrong_notification_about_a_core_task_is_checked"]).await;
}

#[tokio::test]
async fn task_is_an_invalid_result_of_other_requests() {
    // TASK-043
    play(&["only_a_call_of_a_tool_may_become_a_task"]).await;
}

#[tokio::test]
async fn notification_about_a_task_shortens_the_wait() {
    play(&[
        "notification_shortens_the_wait_for_a_core_task",
        "notification_shortens_the_wait_for_a_task",
        "refused_subscription_leaves_polling",
    ])
    .await;
}

#[tokio::test]
async fn wrong_transcript_fails_over_every_transport() {
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
