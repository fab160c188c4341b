//! `tsugite list`: lists the tools, resources, templates and prompts of a server.

use clap::Args;

use super::expect_no_more;
use crate::catalog::Catalog;
use crate::connection::Connection;
use crate::console::{Console, Style};
use crate::error::Result;
use crate::options::CommonOptions;
use crate::server_requests::PresetAnswers;
use crate::targets;

/// List tools, resources, templates and prompts
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite list [OPTIONS] TARGET\n       tsugite list [OPTIONS] -- COMMAND…",
    after_help = "Examples:\n  tsugite list demo\n  tsugite list https://example.com/mcp --json\n  tsugite list -- npx -y @modelcontextprotocol/server-everything"
)]
pub(crate) struct List {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl List {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = targets::resolve(self.words, &self.common, "list")?;
        expect_no_more(&rest)?;
        let connection = Connection::open(found, &self.common, PresetAnswers::default()).await?;
        let outcome = show(&connection).await;
        connection.finish(outcome).await
    }
}

pub(crate) async fn show(connection: &Connection) -> Result<()> {
    let capabilities = connection.server_details().await?.capabilities;
    let catalog = Catalog::fetch(&connection.client, &capabilities).await?;
    match connection.console.json {
        true => connection.console.print_json(&catalog),
        false => print_catalog(&catalog, &connection.console),
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
            text.push_str(&format!(
                "  {}\n",
                console.paint(Style::Green, &console.sanitized(&entry.summary))
            ));
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
