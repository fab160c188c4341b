//! Every transcript of the client, over every transport, for each revision it names.
//!
//! Each of them belongs to a test, which says what it proves.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking, and so do its own helpers")]

use std::collections::BTreeSet;

use tsugite_testkit::transcript::client::ClientTranscript;

const SERVER: &str = env!("CARGO_BIN_EXE_scripted-server");
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client_transcripts");

/// Plays transcripts wherever they mean something.
async fn play(names: &[&str]) {
    let mut failures = Vec::new();
    let mut plays = 0;
    for name in names {
        let text = std::fs::read_to_string(format!("{FOLDER}/{name}.txt")).unwrap();
        let transcript = ClientTranscript::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (place, events) in transcript.places() {
            plays += 1;
            let how = if events { " with events" } else { "" };
            if let Err(error) = transcript.play(place, events, SERVER).await {
                failures.push(format!("{name} over {}{how} on {}, {error}", place.0.name(), place.1));
            }
        }
    }
    assert!(plays >= names.len(), "a transcript is played nowhere");
    assert!(failures.is_empty(), "{} of {plays} plays:\n{}", failures.len(), failures.join("\n"));
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
        let text =
            format!("on: 2024-11-05 2025-11-25 2026-07-28\nclient: patience 2000\n{}", lines.join("\n"));
        let transcript = ClientTranscript::parse(&text).unwrap();
        for (place, events) in transcript.places() {
            let played = transcript.play(place, events, SERVER).await;
            assert_eq!(played.is_ok(), is_true, "{place:?} {played:?}\n{text}");
        }
    }
}

#[test]
fn every_transcript_is_played_by_a_test() {
    let source = include_str!("client_transcripts.rs");
    let files = std::fs::read_dir(FOLDER).unwrap().map(|file| file.unwrap().path());
    let names = files.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned());
    let unplayed: BTreeSet<_> = names.filter(|name| !source.contains(&format!("\"{name}\""))).collect();
    assert!(unplayed.is_empty(), "{unplayed:?}");
}
