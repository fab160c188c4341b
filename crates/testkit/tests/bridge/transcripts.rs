//! What is said to a server is said to a bridge to it, and so is what is heard.

use tsugite_core::revision::Revision;
use tsugite_testkit::transcript::{ServerChannel, Transcript, Transport};

#[tokio::test(flavor = "current_thread")]
async fn every_transcript_is_heard_across_a_bridge_from_every_revision_to_every_other() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/transcripts");
    let (mut runs, mut failures) = (0, Vec::new());
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let transcript = Transcript::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for place in transcript.run_configs().into_iter().filter(|place| place.0 != Transport::Stdio) {
            for far in Revision::ALL {
                runs += 1;
                let wire = ServerChannel::through_bridge(place.0, transcript.server(), far).await.unwrap();
                let run = format!("{name} over {} on {}, to {far}", place.0.name(), place.1);
                match (transcript.run(wire, place).await, loses(&name, place.1, far)) {
                    (Err(error), false) => failures.push(format!("{run}, {error}")),
                    (Ok(()), true) => failures.push(format!("{run}: nothing is lost")),
                    _ => {}
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {runs} runs:\n{}", failures.len(), failures.join("\n"));
    assert!(runs > 500, "only {runs} runs");
}

/// What a transcript tells that the server's revision cannot say.
fn loses(name: &str, near: Revision, far: Revision) -> bool {
    match name {
        // A structured result that is no object came with 2026-07-28.
        "call_returns_structured_content_where_known" => near.is_stateless() && !far.is_stateless(),
        // Words with progress came with 2025-03-26.
        "progress_and_logs_come_before_the_result" | "log_level_comes_with_each_request" => {
            far == Revision::V2024_11_05 && near != Revision::V2024_11_05
        }
        // The answers to a batch come in any order, and here in another.
        "batch_responses_come_in_one_array" => true,
        _ => false,
    }
}
