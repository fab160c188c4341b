//! `tsugite listen`: what changes at a server, as it does.

use clap::Args;
use serde_json::json;
use tsugite::client::{Change, ChangeFilter};

use crate::connection::Connection;
use crate::error::{CliError, ExitStatus, Result};
use crate::options::CommonOptions;
use crate::server_requests::PresetAnswers;
use crate::targets;

/// Tell what changes at a server, until it is interrupted
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite listen [OPTIONS] TARGET [URI]…\n       tsugite listen [OPTIONS] [URI]… -- COMMAND…",
    after_help = "The lists of tools, resources and prompts are watched, and the resources that are named.\n\nExamples:\n  tsugite listen http://127.0.0.1:8808/mcp\n  tsugite listen http://127.0.0.1:8808/mcp demo://counter -n 1 --json"
)]
pub(crate) struct Listen {
    #[arg(hide = true)]
    words: Vec<String>,
    /// Stop after so many changes
    #[arg(short = 'n', long, value_name = "COUNT")]
    count: Option<u64>,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl Listen {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, uris) = targets::resolve(self.words, &self.common, "listen")?;
        let session = Connection::open(found, &self.common, PresetAnswers::default()).await?;
        let outcome = show(&session, uris, self.count).await;
        session.finish(outcome).await
    }
}

/// Tells what changes: the lists, and these resources.
pub(crate) async fn show(session: &Connection, uris: Vec<String>, count: Option<u64>) -> Result<()> {
    let can = session.server_details().await?.capabilities;
    let mut watch = ChangeFilter::new();
    watch.tools = can.tools.is_some_and(|list| list.list_changed == Some(true));
    watch.prompts = can.prompts.is_some_and(|list| list.list_changed == Some(true));
    watch.resources = can.resources.as_ref().is_some_and(|list| list.list_changed == Some(true));
    if !uris.is_empty() && can.resources.is_none_or(|list| list.subscribe != Some(true)) {
        return Err(CliError::new(ExitStatus::Protocol, "the server does not let its resources be watched")
            .at_step("listen"));
    }
    let watch = uris.into_iter().fold(watch, ChangeFilter::resource);
    if watch == ChangeFilter::new() {
        return Err(CliError::new(ExitStatus::Protocol, "nothing at this server says when it changes")
            .at_step("listen"));
    }
    let changes = session.client.listen(watch).await;
    let mut changes = changes.map_err(|error| CliError::from_client_error(error, "listen"))?;
    let screen = &session.console;
    screen.note("listening; Ctrl-C ends it");
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0
        && let Some(change) = changes.next().await
    {
        let change = change.map_err(|error| CliError::from_client_error(error, "listen"))?;
        let (what, uri) = match &change {
            Change::Tools => ("tools", None),
            Change::Prompts => ("prompts", None),
            Change::Resources => ("resources", None),
            Change::Resource { uri } => ("resource", Some(uri)),
            _ => ("everything", None),
        };
        match (screen.json, uri) {
            (true, None) => screen.print_json(&json!({"change": what}))?,
            (true, Some(uri)) => screen.print_json(&json!({"change": what, "uri": uri}))?,
            (false, None) => screen.print_line(what)?,
            (false, Some(uri)) => screen.print_line(&format!("{what} {}", screen.sanitized(uri)))?,
        }
        left -= 1;
    }
    Ok(())
}
