//! Runs the transcripts of the server through a bridge in front of it, from every revision to every other.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use tsugite_core::revision::Revision;
use tsugite_testkit::transcript::{ServerChannel, Transcript, Transport};

/// How many runs go on at once.
const CONCURRENT_RUNS: usize = 16;

#[tokio::test(flavor = "current_thread")]
async fn every_transcript_holds_across_a_bridge() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/transcripts");
    let mut runs = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let transcript = Transcript::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let transcript = Arc::new(transcript);
        for config in transcript.run_configs().into_iter().filter(|config| config.0 != Transport::Stdio) {
            // The transport and the upstream revision are independent, so one server is enough to show every pair.
            let every_pair = config.0 == Transport::Memory || transcript.server() == "basic";
            let upstreams = Revision::ALL.into_iter().filter(|upstream| {
                (every_pair || config.1 == *upstream) && transcript.holds_across_bridge(config, *upstream)
            });
            runs.extend(upstreams.map(|upstream| (name.clone(), transcript.clone(), config, upstream)));
        }
    }
    let count = runs.len();
    let outcomes = stream::iter(runs).map(|(name, transcript, config, upstream)| async move {
        let channel = ServerChannel::through_bridge(config.0, transcript.server(), upstream).await.unwrap();
        let run = format!("{name} over {} on {}, to {upstream}", config.0.name(), config.1);
        match (transcript.run(channel, config).await, loses(&name, config.1, upstream)) {
            (Err(error), false) => Some(format!("{run}, {error}")),
            (Ok(()), true) => Some(format!("{run}: nothing is lost")),
            _ => None,
        }
    });
    let failures: Vec<_> =
        outcomes.buffer_unordered(CONCURRENT_RUNS).filter_map(|failure| async { failure }).collect().await;
    assert!(failures.is_empty(), "{} of {count} runs:\n{}", failures.len(), failures.join("\n"));
    assert!(count > 2000, "only {count} runs");
}

/// Whether a transcript contains something that the upstream revision cannot express.
fn loses(name: &str, near: Revision, far: Revision) -> bool {
    match name {
        // A structured result that is no object came with 2026-07-28.
        "call_returns_structured_content_where_known" => near.is_stateless() && !far.is_stateless(),
        // Messages with progress came with 2025-03-26.
        "progress_and_logs_come_before_the_result" | "log_level_comes_with_each_request" => {
            far == Revision::V2024_11_05 && near != Revision::V2024_11_05
        }
        // The responses to a batch come in any order, and here in another.
        "batch_responses_come_in_one_array" => true,
        _ => false,
    }
}
