//! `tsugite list`: lists the tools, resources, templates and prompts of a server, or describes one of them.

use clap::Args;

use super::expect_no_more;
use crate::catalog::Catalog;
use crate::connection::Connection;
use crate::console::{Console, Style};
use crate::error::Result;
use crate::item_details::find_items;
use crate::options::CommonOptions;
use crate::server_requests::PresetAnswers;
use crate::targets;

/// List tools, resources, templates and prompts, or describe one of them
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite list [OPTIONS] TARGET [NAME]\n       tsugite list [OPTIONS] [NAME] -- COMMAND…",
    after_help = "With the NAME or URI of an item, all that the server says about it is shown; --json prints its definition.\n\nExamples:\n  tsugite list demo\n  tsugite list demo add\n  tsugite list https://example.com/mcp --json\n  tsugite list -- npx -y @modelcontextprotocol/server-everything"
)]
pub(crate) struct List {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl List {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = targets::resolve(self.words, &self.common, "list").await?;
        let request = ListRequest::new(rest)?;
        let connection = Connection::open(found, &self.common, PresetAnswers::default()).await?;
        let outcome = request.run_on(&connection).await;
        connection.finish(outcome).await
    }
}

/// A request for all lists, or for one item.
pub(crate) struct ListRequest {
    name: Option<String>,
}

impl ListRequest {
    /// Parses the name of the item, if there is one.
    pub(crate) fn new(words: Vec<String>) -> Result<Self> {
        let mut words = words.into_iter();
        let name = words.next();
        expect_no_more(words.as_slice())?;
        Ok(Self { name })
    }

    pub(crate) async fn run_on(&self, connection: &Connection) -> Result<()> {
        let capabilities = connection.server_details().await?.capabilities;
        let catalog = Catalog::fetch(&connection.client, &capabilities).await?;
        let console = &connection.console;
        match &self.name {
            Some(name) => find_items(&catalog, name)?.iter().try_for_each(|item| item.print(console)),
            None if console.json => console.print_json(&catalog),
            None => print_catalog(&catalog, console),
        }
    }
}

fn print_catalog(catalog: &Catalog, console: &Console) -> Result<()> {
    let mut text = String::new();
    for (title, entries) in catalog.lists() {
        if entries.is_empty() {
            continue;
        }
        text.push_str(&console.paint(Style::Bold, title));
        text.push('\n');
        for entry in entries {
            let summary = console.paint(Style::Green, &console.sanitized_name(&entry.summary));
            let title = entry.title.map(|title| format!(" · {}", console.sanitized_name(title)));
            text.push_str(&format!("  {summary}{}\n", title.unwrap_or_default()));
            let about = entry.description.map(|about| console.sanitized(about)).unwrap_or_default();
            if let Some(line) = about.lines().find(|line| !line.trim().is_empty()) {
                text.push_str(&format!("      {}\n", line.trim()));
            }
        }
    }
    match text.is_empty() {
        true => console.print_line("the server offers nothing"),
        false => console.print(&text),
    }
}
