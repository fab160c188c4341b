//! Connects to many servers at once, each within its time. One that is dead harms none of the others.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tsugite::client::servers::ConnectionConfig;

use crate::connection::Connection;
use crate::error::{CliError, ExitStatus, Result};
use crate::options::CommonOptions;
use crate::server_requests::PresetAnswers;
use crate::targets::{ResolvedTarget, Target};
use crate::verbs::ping::milliseconds;

/// What came of it.
pub(super) struct ConnectReport {
    pub(super) revision: &'static str,
    pub(super) ms: f64,
}

/// Connects to each of the servers; what came of it, in their order. Programs that were started are ended.
pub(super) async fn connect_all(
    servers: Vec<(String, ConnectionConfig)>,
    limit: Duration,
) -> Vec<Result<ConnectReport>> {
    let places = Arc::new(Semaphore::new(MAX_CONCURRENT_CONNECTS));
    let mut tasks = JoinSet::new();
    for (number, (name, way)) in servers.iter().cloned().enumerate() {
        let places = Arc::clone(&places);
        tasks.spawn(async move {
            // It is never closed.
            let _place = places.acquire().await;
            (number, connect_one(name, way, limit).await)
        });
    }
    let lost = || CliError::new(ExitStatus::Connect, "it cannot be told what happened").at_step("connect");
    let mut all: Vec<Result<ConnectReport>> = servers.iter().map(|_| Err(lost())).collect();
    while let Some(ended) = tasks.join_next().await {
        if let Ok((number, outcome)) = ended
            && let Some(place) = all.get_mut(number)
        {
            *place = outcome;
        }
    }
    all
}

async fn connect_one(name: String, way: ConnectionConfig, limit: Duration) -> Result<ConnectReport> {
    let mut common = CommonOptions::defaults();
    common.timeout = Some(limit);
    let found = ResolvedTarget { target: Target::Configured(way), display_name: format!("`{name}`") };
    let connecting = async {
        let session = Connection::open(found, &common, PresetAnswers::default()).await?;
        let connected = ConnectReport {
            revision: session.client.revision().as_str(),
            ms: milliseconds(session.connect_elapsed),
        };
        session.close().await?;
        Ok(connected)
    };
    // What is dropped here ends its child.
    let outcome: Result<ConnectReport> = tokio::time::timeout(limit, connecting).await.unwrap_or_else(|_| {
        let seen = format!("no answer within {} s", limit.as_secs_f64());
        let failure =
            CliError::new(ExitStatus::Timeout, format!("cannot connect to `{name}`")).at_step("connect");
        Err(failure.detail(seen).hint("--timeout SECONDS waits longer"))
    });
    outcome.map_err(with_entry_hints)
}

/// The same failure with advice for an entry of a file, where no option helps.
fn with_entry_hints(failure: CliError) -> CliError {
    let hints: &[&str] = match (failure.exit, failure.step) {
        (ExitStatus::Unauthorized, _) => &["`headers` in its entry can send a token"],
        (ExitStatus::Connect, Some("handshake")) => &[
            "does it speak MCP on standard output, and nothing else? `tsugite info -v` shows its standard error",
            "it sees few variables of your environment: `env` in its entry sets more",
        ],
        _ => return failure,
    };
    CliError { hints: hints.iter().map(|hint| (*hint).to_owned()).collect(), ..failure }
}

pub(super) fn report_json(outcome: &Result<ConnectReport>) -> Value {
    match outcome {
        Ok(ConnectReport { revision, ms }) => json!({"connected": true, "revision": revision, "ms": ms}),
        Err(failure) => json!({
            "connected": false,
            "exit": failure.exit as u8,
            "step": failure.step,
            "message": failure.message,
            "seen": failure.detail,
            "try": failure.hints,
        }),
    }
}

/// Servers that are connected to at the same time.
const MAX_CONCURRENT_CONNECTS: usize = 8;
