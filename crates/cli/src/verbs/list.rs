//! `tsugite list`: what a server offers.

use clap::Args;

use super::no_more;
use crate::asking::Replies;
use crate::fail::Result;
use crate::offered::Offered;
use crate::options::Common;
use crate::screen::{Screen, Style};
use crate::session::Session;
use crate::target;

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
    pub(super) common: Common,
}

impl List {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = target::find(self.words, &self.common, "list")?;
        no_more(&rest)?;
        let session = Session::open(found, &self.common, Replies::default()).await?;
        let outcome = show(&session).await;
        session.finish(outcome).await
    }
}

pub(crate) async fn show(session: &Session) -> Result<()> {
    let can = session.about().await?.capabilities;
    let offered = Offered::by(&session.client, &can).await?;
    match session.screen.json {
        true => session.screen.json(&offered),
        false => present(&offered, &session.screen),
    }
}

fn present(offered: &Offered, screen: &Screen) -> Result<()> {
    let mut text = String::new();
    for (title, entries) in offered.lists() {
        if entries.is_empty() {
            continue;
        }
        text.push_str(&screen.paint(Style::Bold, title));
        text.push('\n');
        for entry in entries {
            text.push_str(&format!("  {}\n", screen.paint(Style::Green, &screen.words(&entry.line))));
            let about = entry.about.map(|about| screen.words(about)).unwrap_or_default();
            if let Some(line) = about.lines().find(|line| !line.trim().is_empty()) {
                text.push_str(&format!("      {}\n", line.trim()));
            }
        }
    }
    match text.is_empty() {
        true => screen.line("the server offers nothing"),
        false => screen.text(&text),
    }
}
