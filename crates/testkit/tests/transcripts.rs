//! Every transcript, over every transport, for each revision it names.

use tsugite_core::revision::Revision;
use tsugite_testkit::transcript::{Transcript, Wire};

const FIXTURE: &str = env!("CARGO_BIN_EXE_fixture");

#[tokio::test(flavor = "current_thread")]
async fn every_transcript_is_heard_over_memory_and_stdio_in_every_revision_it_names() {
    // STDIO-028, STDIO-029: memory is a transport of our own, and everything is said and heard there as over stdio.
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts");
    let mut runs = 0;
    let mut failures = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let transcript = match Transcript::parse(&std::fs::read_to_string(&path).unwrap()) {
            Ok(transcript) => transcript,
            Err(error) => panic!("{name}: {error}"),
        };
        for revision in transcript.revisions().newest_first() {
            for transport in ["memory", "stdio"] {
                runs += 1;
                if let Err(error) = heard(&transcript, transport, revision).await {
                    failures.push(format!("{name} over {transport}, {error}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {runs} runs:\n{}", failures.len(), failures.join("\n"));
    assert!(runs > 50, "only {runs} runs");
}

async fn heard(transcript: &Transcript, transport: &str, revision: Revision) -> Result<(), String> {
    let mut wire = match transport {
        "memory" => Wire::memory()?,
        _ => Wire::spawn(FIXTURE)?,
    };
    // A server that stays silent must fail the test, not hang it.
    let limit = std::time::Duration::from_secs(20);
    match tokio::time::timeout(limit, transcript.run(&mut wire, revision)).await {
        Ok(result) => result,
        Err(_) => Err(format!("silence on {revision}")),
    }
}
