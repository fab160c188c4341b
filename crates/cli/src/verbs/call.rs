//! `tsugite call`: a tool is called, what it asks is answered, what it gives is shown.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::Value;
use tsugite::core::protocol::tools::{self, CallResult, Tool};

use super::first;
use crate::arguments;
use crate::asking::Replies;
use crate::fail::{Exit, Failure, Result};
use crate::near::did_you_mean;
use crate::offered::not_listed;
use crate::options::Common;
use crate::output;
use crate::screen::Screen;
use crate::session::Session;
use crate::target;

/// Call a tool
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite call [OPTIONS] TARGET TOOL [ARGUMENT]…\n       tsugite call [OPTIONS] TOOL [ARGUMENT]… -- COMMAND…",
    after_help = "An ARGUMENT is k=v (typed by the tool's schema; twice for a list), k:=JSON, @file.json or @- for standard input.\n\nExamples:\n  tsugite call demo add a=1 b=2\n  tsugite call demo order --answer name=Kiku --answer planks=3\n  tsugite call demo picture -o picture.png\n  tsugite call https://example.com/mcp search query='old joints' limit=5 filters:='{\"year\":1603}'"
)]
pub(crate) struct Call {
    #[arg(hide = true)]
    words: Vec<String>,
    /// Save pictures, sounds and bytes: into a file, a folder (out/), or to standard output (-)
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    replies: Replies,
    #[command(flatten)]
    pub(super) common: Common,
}

/// A tool to call.
pub(crate) struct Job {
    name: String,
    words: Vec<String>,
    output: Option<PathBuf>,
}

impl Call {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = target::find(self.words, &self.common, "call")?;
        let job = Job::new(rest, self.output)?;
        let session = Session::open(found, &self.common, self.replies).await?;
        let outcome = job.on(&session).await;
        session.finish(outcome).await
    }
}

impl Job {
    /// `words` are the name of the tool and its arguments, `output` is where bytes go.
    pub(crate) fn new(mut words: Vec<String>, output: Option<PathBuf>) -> Result<Self> {
        let name = first(&mut words, "call", "the name of a tool", "add a=1 b=2")?;
        Ok(Self { name, words, output })
    }

    pub(crate) async fn on(&self, session: &Session) -> Result<()> {
        let Self { name, words, output } = self;
        let tool = find(session, name).await?;
        let schema = Value::Object(tool.input_schema.keywords().clone());
        let arguments = arguments::for_tool(words, &schema).map_err(|failure| failure.at("arguments"))?;
        let bar = Arc::clone(&session.screen);
        let call =
            session.client.call_raw(name, &arguments).on_progress(move |progress| bar.progress(&progress));
        let result = session.gave(call.await, "call")?;
        session.screen.hide_bar();
        output.as_deref().map_or(Ok(()), |to| match session.screen.json {
            true => output::save(&output::of_blocks(&result.content), to, name),
            false => Ok(()),
        })?;
        let failed = result.is_error == Some(true);
        match (session.screen.json, failed) {
            (true, _) => session.screen.json(&result)?,
            (false, true) => {}
            (false, false) => show(&session.screen, &result, output.as_deref(), name)?,
        }
        match (failed, session.screen.json) {
            (false, _) => Ok(()),
            (true, true) => Err(Failure::silent(Exit::Tool)),
            (true, false) => {
                Err(Failure::new(Exit::Tool, "the tool failed").at("call").seen(words_of(&result)))
            }
        }
    }
}

async fn find(session: &Session, name: &str) -> Result<Tool> {
    let tools = session.client.list_tools().await.map_err(not_listed::<tools::List>)?;
    let names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    tools.into_iter().find(|tool| tool.name == name).ok_or_else(|| {
        let failure = Failure::usage(format!("the server has no tool `{name}`")).at("list");
        match did_you_mean(name, names.iter().map(String::as_str)) {
            Some(advice) => failure.hint(advice),
            None => failure.hint("`list` shows what there is"),
        }
    })
}

fn show(screen: &Screen, result: &CallResult, to: Option<&std::path::Path>, name: &str) -> Result<()> {
    let pieces = output::of_blocks(&result.content);
    match (&result.structured_content, pieces.is_empty()) {
        // What is structured is told in words too, unless there are none.
        (Some(structured), true) => screen.line(&screen.words(&output::pretty(structured.text()))),
        _ => output::show(screen, &pieces, to, name),
    }
}

fn words_of(result: &CallResult) -> String {
    let words: Vec<&str> = result.content.iter().filter_map(|block| block.as_text()).collect();
    match (words.is_empty(), &result.structured_content) {
        (true, Some(structured)) => structured.text().to_owned(),
        (true, None) => "it does not say why".to_owned(),
        _ => words.join("\n"),
    }
}
