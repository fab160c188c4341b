//! Connects to many servers concurrently, each with its own timeout.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::console::Console;
use crate::error::{CliError, ExitStatus, Result};
use crate::options::{CommonOptions, LoginMode};
use crate::server_requests::PresetAnswers;
use crate::targets::lookup::{self, FoundServer};
use crate::targets::{ResolvedTarget, Target};
use crate::trust::{self, ConsentPolicy};
use crate::verbs::ping::milliseconds;

/// The result of a successful connection.
pub(super) struct ConnectReport {
    pub(super) revision: &'static str,
    pub(super) ms: f64,
}

/// Connects to each trusted server and closes the connection. Returns the results in the order of the servers.
pub(super) async fn connect_all(
    servers: Vec<FoundServer>,
    policy: ConsentPolicy,
    limit: Duration,
) -> Vec<Result<ConnectReport>> {
    let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_CONNECTS));
    let mut tasks = JoinSet::new();
    for (number, found) in servers.iter().cloned().enumerate() {
        let permits = Arc::clone(&permits);
        tasks.spawn(async move {
            // The semaphore is never closed.
            let _permit = permits.acquire().await;
            (number, connect_one(found, policy, limit, LoginMode::StoredOnly).await)
        });
    }
    let lost = || CliError::new(ExitStatus::Connect, "the connection attempt was aborted").at_step("connect");
    let mut all: Vec<Result<ConnectReport>> = servers.iter().map(|_| Err(lost())).collect();
    while let Some(ended) = tasks.join_next().await {
        if let Ok((number, outcome)) = ended
            && let Some(slot) = all.get_mut(number)
        {
            *slot = outcome;
        }
    }
    // One after the other: each may open the browser.
    if Console::new(false).is_interactive() {
        for (found, outcome) in servers.into_iter().zip(&mut all) {
            let needs_login = |failure: &CliError| {
                (failure.exit, failure.step) == (ExitStatus::Unauthorized, Some("authorization"))
            };
            if outcome.as_ref().is_err_and(needs_login) {
                *outcome = connect_one(found, policy, limit, LoginMode::Ask).await;
            }
        }
    }
    all
}

/// Connects to a server. With [`LoginMode::Ask`] a person may log in, which takes its own time.
async fn connect_one(
    found: FoundServer,
    policy: ConsentPolicy,
    limit: Duration,
    mode: LoginMode,
) -> Result<ConnectReport> {
    let permit = trust::obtain(&found, policy).await?;
    let config = lookup::connection(&found, &permit, &CommonOptions::defaults())?;
    let (name, word) = (found.name.clone(), found.word());
    let mut common = CommonOptions::defaults();
    common.timeout = Some(limit);
    common.login.mode = mode;
    let target = Target::Configured(config);
    let found = ResolvedTarget { target, display_name: format!("`{name}`"), word };
    let connecting = async {
        let connection = Connection::open(found, &common, PresetAnswers::default()).await?;
        let report = ConnectReport {
            revision: connection.client.revision().as_str(),
            ms: milliseconds(connection.connect_elapsed),
        };
        connection.close().await?;
        Ok(report)
    };
    let limit = if mode == LoginMode::Ask { limit + LOGIN_TIMEOUT } else { limit };
    // Dropping the future on timeout stops the child process.
    let outcome: Result<ConnectReport> = tokio::time::timeout(limit, connecting).await.unwrap_or_else(|_| {
        let detail = format!("no response within {} s", limit.as_secs_f64());
        let failure =
            CliError::new(ExitStatus::Timeout, format!("cannot connect to `{name}`")).at_step("connect");
        Err(failure.detail(detail).hint("--timeout SECONDS waits longer"))
    });
    outcome.map_err(with_entry_hints)
}

/// Replaces the hints by ones for an entry of a file, to which options do not apply.
fn with_entry_hints(failure: CliError) -> CliError {
    let hints: &[&str] = match (failure.exit, failure.step) {
        (ExitStatus::Unauthorized, _) => {
            let mut failure = failure;
            failure.hints.retain(|hint| hint.starts_with("`tsugite login"));
            return failure.hint("or add a token to `headers` in its entry");
        }
        (ExitStatus::Connect, Some("handshake")) => &[
            "check that it writes only MCP messages to standard output; `tsugite info -v` shows its standard error",
            "few environment variables are passed to it: set more in `env` of its entry",
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

/// How long a person may take to log in, as long as the login itself allows.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(300);
/// The limit of concurrent connection attempts.
const MAX_CONCURRENT_CONNECTS: usize = 8;
