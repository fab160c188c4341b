//! `tsugite listen`: prints the changes that a server reports.

use clap::Args;
use serde_json::json;
use tsugite::client::{Change, ChangeFilter};
use tsugite::protocol::{Method, ServerCapabilities, prompts, resources, tools};

use crate::connection::Connection;
use crate::error::{CliError, ExitStatus, Result};
use crate::options::CommonOptions;
use crate::server_requests::PresetAnswers;
use crate::targets;

/// Print changes at a server until interrupted
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite listen [OPTIONS] TARGET [URI]…\n       tsugite listen [OPTIONS] [URI]… -- COMMAND…",
    after_help = "Watches the lists of tools, resources and prompts, or only the resources whose URI is given.\n\nExamples:\n  tsugite listen http://127.0.0.1:8808/mcp\n  tsugite listen http://127.0.0.1:8808/mcp demo://counter -n 1 --json"
)]
pub(crate) struct Listen {
    #[arg(hide = true)]
    words: Vec<String>,
    /// Stop after COUNT changes
    #[arg(short = 'n', long, value_name = "COUNT")]
    count: Option<u64>,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl Listen {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, uris) = targets::resolve(self.words, &self.common, "listen").await?;
        let connection = Connection::open(found, &self.common, PresetAnswers::default()).await?;
        let outcome = show(&connection, uris, self.count).await;
        connection.finish(outcome).await
    }
}

/// Prints the changes of the given resources, or of all lists if none is given.
pub(crate) async fn show(connection: &Connection, uris: Vec<String>, count: Option<u64>) -> Result<()> {
    let capabilities = connection.server_details().await?.capabilities;
    let watch = change_filter(&capabilities, uris)?;
    if watch == ChangeFilter::new() {
        return Err(
            CliError::new(ExitStatus::Protocol, "the server does not report any changes").at_step("listen")
        );
    }
    let list = watched_list(&watch);
    let changes = connection.client.listen(watch).await;
    let mut changes = changes.map_err(|error| CliError::from_client_error(error, "listen"))?;
    if let Some(method) = list {
        // A bridge connects a session to its servers with the first request, and has no changes to report before.
        let page = connection.client.request_raw(method, None).await;
        page.map_err(|error| CliError::from_client_error(error, "listen"))?;
    }
    let console = &connection.console;
    console.note("listening; press Ctrl-C to stop");
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0
        && let Some(change) = changes.next().await
    {
        let change = change.map_err(|error| CliError::from_client_error(error, "listen"))?;
        let (kind, uri) = match &change {
            Change::Tools => ("tools", None),
            Change::Prompts => ("prompts", None),
            Change::Resources => ("resources", None),
            Change::Resource { uri } => ("resource", Some(uri)),
            _ => ("everything", None),
        };
        match (console.json, uri) {
            (true, None) => console.print_json_line(&json!({"change": kind}))?,
            (true, Some(uri)) => console.print_json_line(&json!({"change": kind, "uri": uri}))?,
            (false, None) => console.print_line(kind)?,
            (false, Some(uri)) => console.print_line(&format!("{kind} {}", console.sanitized_name(uri)))?,
        }
        left -= 1;
    }
    Ok(())
}

/// The method of one of the lists that are watched.
fn watched_list(watch: &ChangeFilter) -> Option<&'static str> {
    let lists = [
        (watch.tools, tools::List::NAME),
        (watch.prompts, prompts::List::NAME),
        (watch.resources, resources::List::NAME),
    ];
    lists.into_iter().find_map(|(is_watched, method)| is_watched.then_some(method))
}

/// Selects what to watch, among what the server reports.
fn change_filter(capabilities: &ServerCapabilities, uris: Vec<String>) -> Result<ChangeFilter> {
    let resources = capabilities.resources.as_ref();
    if !uris.is_empty() {
        return match resources.is_some_and(|list| list.subscribe == Some(true)) {
            true => Ok(uris.into_iter().fold(ChangeFilter::new(), ChangeFilter::resource)),
            false => {
                let message = "the server does not support resource subscriptions";
                Err(CliError::new(ExitStatus::Protocol, message).at_step("listen"))
            }
        };
    }
    let mut watch = ChangeFilter::new();
    watch.tools = capabilities.tools.as_ref().is_some_and(|list| list.list_changed == Some(true));
    watch.prompts = capabilities.prompts.as_ref().is_some_and(|list| list.list_changed == Some(true));
    watch.resources = resources.is_some_and(|list| list.list_changed == Some(true));
    Ok(watch)
}
