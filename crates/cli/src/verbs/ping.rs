//! `tsugite ping`: is anybody there, and how far away.

use std::time::Instant;

use clap::Args;
use serde_json::json;

use super::expect_no_more;
use crate::connection::Connection;
use crate::error::{CliError, Result};
use crate::options::CommonOptions;
use crate::server_requests::PresetAnswers;
use crate::targets;

/// Ask a server whether it is there, and measure how long that takes
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite ping [OPTIONS] TARGET\n       tsugite ping [OPTIONS] -- COMMAND…",
    after_help = "From 2026-07-28 on there is no ping; `server/discover` is asked instead.\n\nExamples:\n  tsugite ping demo\n  tsugite ping https://example.com/mcp --timeout 2"
)]
pub(crate) struct Ping {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl Ping {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = targets::resolve(self.words, &self.common, "ping")?;
        expect_no_more(&rest)?;
        let session = Connection::open(found, &self.common, PresetAnswers::default()).await?;
        let outcome = show(&session).await;
        session.finish(outcome).await
    }
}

pub(crate) async fn show(session: &Connection) -> Result<()> {
    let client = &session.client;
    let begun = Instant::now();
    let (asked, answer) = match client.revision().is_stateless() {
        true => ("server/discover", client.discover().await.map(drop)),
        false => ("ping", client.ping().await.map(drop)),
    };
    let ms = milliseconds(begun.elapsed());
    answer.map_err(|error| CliError::from_client_error(error, "ping"))?;
    let revision = client.revision().as_str();
    match session.console.json {
        true => session.console.print_json(&json!({"method": asked, "revision": revision, "ms": ms})),
        false => session.console.print_line(&format!("{asked} answered in {ms} ms, on {revision}")),
    }
}

/// To a thousandth.
pub(super) fn milliseconds(time: std::time::Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
