//! `tsugite ping`: measures the round-trip time to a server.

use std::time::Instant;

use clap::Args;
use serde_json::json;

use super::expect_no_more;
use crate::connection::Connection;
use crate::error::{CliError, Result};
use crate::options::CommonOptions;
use crate::server_requests::PresetAnswers;
use crate::targets;

/// Ping a server and measure the round-trip time
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite ping [OPTIONS] TARGET\n       tsugite ping [OPTIONS] -- COMMAND…",
    after_help = "Revision 2026-07-28 has no ping; `server/discover` is sent instead.\n\nExamples:\n  tsugite ping demo\n  tsugite ping https://example.com/mcp --timeout 2"
)]
pub(crate) struct Ping {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl Ping {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = targets::resolve(self.words, &self.common, "ping").await?;
        expect_no_more(&rest)?;
        let connection = Connection::open(found, &self.common, PresetAnswers::default()).await?;
        let outcome = show(&connection).await;
        connection.finish(outcome).await
    }
}

pub(crate) async fn show(connection: &Connection) -> Result<()> {
    let client = &connection.client;
    let started = Instant::now();
    let (method, outcome) = match client.revision().is_stateless() {
        true => ("server/discover", client.discover().await.map(drop)),
        false => ("ping", client.ping().await.map(drop)),
    };
    let ms = milliseconds(started.elapsed());
    outcome.map_err(|error| CliError::from_client_error(error, "ping"))?;
    let revision = client.revision().as_str();
    match connection.console.json {
        true => connection.console.print_json(&json!({"method": method, "revision": revision, "ms": ms})),
        false => connection.console.print_line(&format!("{method} answered in {ms} ms, revision {revision}")),
    }
}

/// Returns the duration in milliseconds, rounded to microseconds.
pub(super) fn milliseconds(time: std::time::Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
