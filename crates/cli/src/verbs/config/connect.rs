//! Connects to many servers at once, each within its time. One that is dead harms none of the others.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tsugite::client::servers::ConnectionConfig;

use crate::asking::Replies;
use crate::fail::{Exit, Failure, Result};
use crate::options::Common;
use crate::session::Session;
use crate::target::{Found, Target};
use crate::verbs::ping::milliseconds;

/// What came of it.
pub(super) struct Connected {
    pub(super) revision: &'static str,
    pub(super) ms: f64,
}

/// Connects to each of the servers; what came of it, in their order. Programs that were started are ended.
pub(super) async fn all(servers: Vec<(String, ConnectionConfig)>, limit: Duration) -> Vec<Result<Connected>> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for (number, (name, way)) in servers.iter().cloned().enumerate() {
        let places = Arc::clone(&places);
        tasks.spawn(async move {
            // It is never closed.
            let _place = places.acquire().await;
            (number, one(name, way, limit).await)
        });
    }
    let lost = || Failure::new(Exit::Connect, "it cannot be told what happened").at("connect");
    let mut all: Vec<Result<Connected>> = servers.iter().map(|_| Err(lost())).collect();
    while let Some(ended) = tasks.join_next().await {
        if let Ok((number, outcome)) = ended
            && let Some(place) = all.get_mut(number)
        {
            *place = outcome;
        }
    }
    all
}

async fn one(name: String, way: ConnectionConfig, limit: Duration) -> Result<Connected> {
    let mut common = Common::plain();
    common.timeout = Some(limit);
    let found = Found { target: Target::Listed(way), place: format!("`{name}`") };
    let connecting = async {
        let session = Session::open(found, &common, Replies::default()).await?;
        let connected =
            Connected { revision: session.client.revision().as_str(), ms: milliseconds(session.took) };
        session.close().await?;
        Ok(connected)
    };
    // What is dropped here ends its child.
    let outcome: Result<Connected> = tokio::time::timeout(limit, connecting).await.unwrap_or_else(|_| {
        let seen = format!("no answer within {} s", limit.as_secs_f64());
        let failure = Failure::new(Exit::Timeout, format!("cannot connect to `{name}`")).at("connect");
        Err(failure.seen(seen).hint("--timeout SECONDS waits longer"))
    });
    outcome.map_err(in_a_file)
}

/// The same failure with advice for an entry of a file, where no option helps.
fn in_a_file(failure: Failure) -> Failure {
    let hints: &[&str] = match (failure.exit, failure.step) {
        (Exit::Unauthorized, _) => &["`headers` in its entry can send a token"],
        (Exit::Connect, Some("handshake")) => &[
            "does it speak MCP on standard output, and nothing else? `tsugite info -v` shows its standard error",
            "it sees few variables of your environment: `env` in its entry sets more",
        ],
        _ => return failure,
    };
    Failure { hints: hints.iter().map(|hint| (*hint).to_owned()).collect(), ..failure }
}

pub(super) fn json_of(outcome: &Result<Connected>) -> Value {
    match outcome {
        Ok(Connected { revision, ms }) => json!({"connected": true, "revision": revision, "ms": ms}),
        Err(failure) => json!({
            "connected": false,
            "exit": failure.exit as u8,
            "step": failure.step,
            "message": failure.what,
            "seen": failure.seen,
            "try": failure.hints,
        }),
    }
}

/// Servers that are connected to at the same time.
const AT_ONCE: usize = 8;
