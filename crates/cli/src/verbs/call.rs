//! `tsugite call`: calls a tool, answers its requests, and prints its result.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use clap::Args;
use serde_json::Value;
use tsugite::jsonrpc::RawJson;
use tsugite::protocol::ContentBlock;
use tsugite::protocol::tools::{self, CallResult, Tool};

use super::take_first;
use crate::arguments;
use crate::catalog::list_error;
use crate::connection::Connection;
use crate::console::Console;
use crate::error::{CliError, ExitStatus, Result};
use crate::followed_task::run_until_stopped;
use crate::options::CommonOptions;
use crate::output;
use crate::server_requests::PresetAnswers;
use crate::signals;
use crate::suggest::did_you_mean;
use crate::targets;

/// Call a tool
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite call [OPTIONS] TARGET TOOL [ARGUMENT]…\n       tsugite call [OPTIONS] TOOL [ARGUMENT]… -- COMMAND…",
    after_help = "An ARGUMENT is k=v (typed by the tool's schema; repeat it for an array), k:=JSON, a JSON object with several of them,\n@file.json, or @- for standard input. A later one replaces an earlier one of the same name.\n\nExamples:\n  tsugite call demo add a=1 b=2\n  tsugite call demo add '{\"a\":1,\"b\":2}'\n  tsugite call demo order --answer name=Kiku --answer planks=3\n  tsugite call demo picture -o picture.png\n  tsugite call https://example.com/mcp search query='old joints' limit=5 filters:='{\"year\":1603}'"
)]
pub(crate) struct Call {
    #[arg(hide = true)]
    words: Vec<String>,
    /// Save images, audio and other bytes: to a file, a folder (out/), or standard output (-)
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    answers: PresetAnswers,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

/// A tool call.
pub(crate) struct ToolCall {
    name: String,
    words: Vec<String>,
    output: Option<PathBuf>,
}

impl Call {
    pub(crate) async fn run(self) -> Result<()> {
        let mut stop = pin!(signals::stop_signal());
        let opened = async {
            let (found, rest) = targets::resolve(self.words, &self.common, "call").await?;
            let call = ToolCall::new(rest, self.output)?;
            Ok::<_, CliError>((call, Connection::open(found, &self.common, self.answers).await?))
        };
        let (call, connection) = tokio::select! {
            biased;
            _ = &mut stop => return Err(CliError::silent(ExitStatus::Interrupted)),
            opened = opened => opened?,
        };
        let outcome = run_until_stopped(&connection, stop, call.run_on(&connection)).await;
        tokio::select! {
            biased;
            () = signals::shutdown_requested() => Err(CliError::silent(ExitStatus::Interrupted)),
            outcome = connection.finish(outcome) => outcome,
        }
    }
}

impl ToolCall {
    /// Parses the name of the tool and its arguments. Bytes of the result are saved to `output`.
    pub(crate) fn new(mut words: Vec<String>, output: Option<PathBuf>) -> Result<Self> {
        let name = take_first(&mut words, "call", "the name of a tool", "add a=1 b=2")?;
        Ok(Self { name, words, output })
    }

    pub(crate) async fn run_on(&self, connection: &Connection) -> Result<()> {
        let Self { name, words, output } = self;
        let tool = find_tool(connection, name).await?;
        let schema = Value::Object(tool.input_schema.keywords().clone());
        let arguments =
            arguments::tool_arguments(words, &schema).map_err(|failure| failure.at_step("arguments"))?;
        let console = Arc::clone(&connection.console);
        let call = connection
            .client
            .call_raw(name, &arguments)
            .on_task(connection.task.call_observer(&connection.console))
            .on_progress(move |progress| console.show_progress(&progress));
        let result = connection.check_result(call.await, "call")?;
        print_result(connection, &result, output.as_deref(), name)
    }
}

/// Prints the result of the tool `name`, or saves its bytes to `to`. Fails if the tool reports a failure.
pub(super) fn print_result(
    connection: &Connection,
    result: &CallResult,
    to: Option<&Path>,
    name: &str,
) -> Result<()> {
    connection.console.clear_progress();
    to.map_or(Ok(()), |to| match connection.console.json {
        true => output::save(&output::parts_from_blocks(&result.content), to, name),
        false => Ok(()),
    })?;
    let failed = result.is_error == Some(true);
    match (connection.console.json, failed) {
        (true, _) => connection.console.print_json(result)?,
        (false, true) => {}
        (false, false) => show(&connection.console, result, to, name)?,
    }
    match (failed, connection.console.json) {
        (false, _) => Ok(()),
        (true, true) => Err(CliError::silent(ExitStatus::Tool)),
        (true, false) => Err(CliError::new(ExitStatus::Tool, "the tool failed")
            .at_step("call")
            .detail(result_text(result))),
    }
}

async fn find_tool(connection: &Connection, name: &str) -> Result<Tool> {
    let tools = connection.client.list_tools().await.map_err(list_error::<tools::List>)?;
    let names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    tools.into_iter().find(|tool| tool.name == name).ok_or_else(|| {
        let failure = CliError::usage(format!("the server has no tool named `{name}`")).at_step("list");
        match did_you_mean(name, names.iter().map(String::as_str)) {
            Some(advice) => failure.hint(advice),
            None => failure.hint("`list` shows what the server offers"),
        }
    })
}

fn show(console: &Console, result: &CallResult, to: Option<&Path>, name: &str) -> Result<()> {
    match &result.structured_content {
        Some(structured) if to.is_none() && adds_nothing(&result.content, structured) => {
            output::print_json(console, structured.text())
        }
        _ => output::show(console, &output::parts_from_blocks(&result.content), to, name),
    }
}

/// Whether the content is empty or, as servers do for older clients, repeats the structured content as text.
fn adds_nothing(content: &[ContentBlock], structured: &RawJson) -> bool {
    match content {
        [] => true,
        [ContentBlock::Text(text)] => {
            let repeated = serde_json::from_str::<Value>(&text.text);
            repeated.is_ok_and(|repeated| structured.read::<Value>().is_ok_and(|value| value == repeated))
        }
        _ => false,
    }
}

fn result_text(result: &CallResult) -> String {
    let words: Vec<&str> = result.content.iter().filter_map(|block| block.as_text()).collect();
    match (words.is_empty(), &result.structured_content) {
        (true, Some(structured)) => structured.text().to_owned(),
        (true, None) => "the tool gave no reason".to_owned(),
        _ => words.join("\n"),
    }
}
