//! `tsugite list`: what a server offers.

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
        let session = Connection::open(found, &self.common, PresetAnswers::default()).await?;
        let outcome = show(&session).await;
        session.finish(outcome).await
    }
}

pub(crate) async fn show(session: &Connection) -> Result<()> {
    let can = session.server_details().await?.capabilities;
    let offered = Catalog::fetch(&session.client, &can).await?;
    match session.console.json {
        true => session.console.print_json(&offered),
        false => print_catalog(&offered, &session.console),
    }
}

fn print_catalog(offered: &Catalog, screen: &Console) -> Result<()> {
    let mut text = String::new();
    for (title, entries) in offered.lists() {
        if entries.is_empty() {
            continue;
        }
        text.push_str(&screen.paint(Style::Bold, title));
        text.push('\n');
        for entry in entries {
            text.push_str(&format!("  {}\n", screen.paint(Style::Green, &screen.sanitized(&entry.summary))));
            let about = entry.description.map(|about| screen.sanitized(about)).unwrap_or_default();
            if let Some(line) = about.lines().find(|line| !line.trim().is_empty()) {
                text.push_str(&format!("      {}\n", line.trim()));
            }
        }
    }
    match text.is_empty() {
        true => screen.print_line("the server offers nothing"),
        false => screen.print(&text),
    }
}
