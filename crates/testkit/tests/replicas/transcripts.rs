//! Runs the transcripts of a server unchanged against three replicas: each request reaches the next one.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use tsugite_testkit::http::{Connection, HttpTarget, Request};
use tsugite_testkit::replicas::Replicas;
use tsugite_testkit::transcript::{ServerChannel, Transcript, Transport};

/// How many runs go on at once.
const CONCURRENT_RUNS: usize = 16;

#[tokio::test(flavor = "current_thread")]
async fn every_transcript_holds_behind_a_load_balancer() {
    let mut replicas = Replicas::start(3, |redis| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_replica"));
        command.args(["--redis", redis]).stderr(Stdio::null());
        command
    })
    .unwrap();
    let (address, each) = (replicas.address(), replicas.replica_addresses());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/transcripts");
    let mut runs = Vec::new();
    let mut counts = BTreeMap::<&str, usize>::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let transcript = Transcript::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let transcript = Arc::new(transcript);
        for config in transcript.run_configs() {
            if transcript.holds_with_replicas() && matches!(config.0, Transport::Http | Transport::Sse) {
                *counts.entry(config.0.name()).or_default() += 1;
                runs.push((name.clone(), transcript.clone(), config));
            }
        }
    }
    let outcomes = stream::iter(runs).enumerate().map(|(number, (name, transcript, config))| {
        let each = &each;
        async move {
            let folder = format!("/{number}/{}", transcript.server());
            let outcome = match ServerChannel::over_http(config.0, HttpTarget::at(address, &folder)).await {
                Ok(channel) => transcript.run(channel, config).await,
                Err(error) => Err(error),
            };
            for replica in each {
                let drop_server = Request::new("DELETE").path(&folder);
                Connection::connect(*replica).await.send_and_read(drop_server).await;
            }
            outcome.err().map(|error| format!("{name} over {} on {}, {error}", config.0.name(), config.1))
        }
    });
    let failures: Vec<_> =
        outcomes.buffer_unordered(CONCURRENT_RUNS).filter_map(|failure| async { failure }).collect().await;
    assert!(failures.is_empty(), "{} of {counts:?} runs:\n{}", failures.len(), failures.join("\n"));
    assert!(counts["http"] >= 400 && counts["sse"] >= 60, "only {counts:?} runs");
    assert!(replicas.are_running());
}
