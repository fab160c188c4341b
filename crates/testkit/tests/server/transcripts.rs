//! Runs every file of `transcripts/` over every transport, in each revision it names.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use tsugite_testkit::transcript::{ServerChannel, Transcript};

/// How many runs go on at once.
const CONCURRENT_RUNS: usize = 16;

const FIXTURE: &str = env!("CARGO_BIN_EXE_fixture");

#[tokio::test(flavor = "current_thread")]
async fn every_transcript_holds_over_every_transport() {
    // STDIO-028, STDIO-029: memory is a custom transport, and the messages are the same there as over stdio.
    // HTTP-097: one server is reached over all of them.
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/transcripts");
    let mut runs = Vec::new();
    let mut counts = BTreeMap::<&str, usize>::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let transcript = match Transcript::parse(&std::fs::read_to_string(&path).unwrap()) {
            Ok(transcript) => Arc::new(transcript),
            Err(error) => panic!("{name}: {error}"),
        };
        for config in transcript.run_configs() {
            *counts.entry(config.0.name()).or_default() += 1;
            runs.push((name.clone(), transcript.clone(), config));
        }
    }
    let outcomes = stream::iter(runs).map(|(name, transcript, config)| async move {
        let channel = ServerChannel::to_fixture(config.0, transcript.server(), FIXTURE).await.unwrap();
        let outcome = transcript.run(channel, config).await;
        outcome.err().map(|error| format!("{name} over {} on {}, {error}", config.0.name(), config.1))
    });
    let failures: Vec<_> =
        outcomes.buffer_unordered(CONCURRENT_RUNS).filter_map(|failure| async { failure }).collect().await;
    assert!(failures.is_empty(), "{} of {counts:?} runs:\n{}", failures.len(), failures.join("\n"));
    for (transport, least) in [("memory", 400), ("stdio", 400), ("http", 400), ("sse", 60)] {
        assert!(counts[transport] >= least, "only {counts:?} runs");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn wrong_transcripts_fail_over_every_transport() {
    let call = r#"> {"id":1,"method":"tools/call","params":{"name":"steps","_meta":{"progressToken":"p"}}}"#;
    // The first revision has no messages with progress.
    let half = r#"
        <[2024-11-05] {"method":"notifications/progress","params":{"progressToken":"p","progress":1,"total":2}}
        <[2025-11-25 2026-07-28] {"method":"notifications/progress","params":{"progressToken":"p","progress":1,"total":2,"message":"half"}}
    "#;
    let log =
        r#"<[handshake] {"method":"notifications/message","params":{"level":"warning","data":"careful"}}"#;
    let all =
        r#"< {"method":"notifications/progress","params":{"progressToken":"p","progress":2,"total":2}}"#;
    let done = r#"< {"id":1,"result":{"content":[{"type":"text","text":"done"}]}}"#;
    let gone = r#"< {"id":1,"result":{"content":[{"type":"text","text":"gone"}]}}"#;
    let fails = r#"> {"id":2,"method":"tools/call","params":{"name":"fails"}}"#;
    let failed = r#"< {"id":2,"result":{"content":[{"type":"text","text":"no luck"}],"isError":true}}"#;
    for (lines, holds) in [
        (vec![call, half, log, all, done, fails, failed], true),
        (vec![call, half, log, all, gone, fails, failed], false),
        (vec![call, half, log, done, fails, failed], false),
        (vec![call, all, log, half, done, fails, failed], false),
        (vec![call, half, log, done, all, fails, failed], false),
        (vec![call, half, log, all, done, fails, done, failed], false),
    ] {
        let text = format!("on: 2024-11-05 2025-11-25 2026-07-28\n{}", lines.join("\n"));
        let transcript = Transcript::parse(&text).unwrap();
        for config in transcript.run_configs() {
            let channel = ServerChannel::to_fixture(config.0, transcript.server(), FIXTURE).await.unwrap();
            let outcome = transcript.run(channel, config).await;
            assert_eq!(outcome.is_ok(), holds, "{config:?} {outcome:?}\n{text}");
        }
    }
}
