//! `tsugite tasks`: lists, shows, waits for and cancels the tasks of a server.

use std::future::IntoFuture;
use std::path::PathBuf;
use std::pin::pin;

use clap::{Args, Subcommand};
use serde_json::json;
use tsugite::protocol::tasks::{EXTENSION, Task};
use tsugite::protocol::{ServerCapabilities, TaskStatus};

use super::{call, expect_no_more, take_first};
use crate::connection::Connection;
use crate::console::{Console, Style};
use crate::error::{CliError, ExitStatus, Result};
use crate::followed_task::{left_open, run_until_stopped};
use crate::options::CommonOptions;
use crate::server_requests::PresetAnswers;
use crate::signals;
use crate::targets;

/// List, show, wait for and cancel the tasks of a server
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "A task is a call whose result is fetched later: `call` prints its ID.\n\nExamples:\n  tsugite tasks list https://example.com/mcp --rev 2025-11-25\n  tsugite tasks wait https://example.com/mcp 4f2a"
)]
pub(crate) struct Tasks {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List your tasks, where the server can (2025-11-25)
    #[command(
        override_usage = "tsugite tasks list [OPTIONS] TARGET\n       tsugite tasks list [OPTIONS] -- COMMAND…",
        after_help = "The extension for tasks of 2026-07-28 has no list.\n\nExamples:\n  tsugite tasks list https://example.com/mcp --rev 2025-11-25"
    )]
    List(Words),
    /// Show the status of a task
    #[command(
        override_usage = "tsugite tasks get [OPTIONS] TARGET ID\n       tsugite tasks get [OPTIONS] ID -- COMMAND…",
        after_help = "Examples:\n  tsugite tasks get https://example.com/mcp 4f2a"
    )]
    Get(Words),
    /// Wait for the end of a task, answer its questions, and print its result
    #[command(
        override_usage = "tsugite tasks wait [OPTIONS] TARGET ID\n       tsugite tasks wait [OPTIONS] ID -- COMMAND…",
        after_help = "Examples:\n  tsugite tasks wait https://example.com/mcp 4f2a\n  tsugite tasks wait https://example.com/mcp 4f2a --answer publish=yes"
    )]
    Wait(Wait),
    /// Cancel a task
    #[command(
        override_usage = "tsugite tasks cancel [OPTIONS] TARGET ID\n       tsugite tasks cancel [OPTIONS] ID -- COMMAND…",
        after_help = "Examples:\n  tsugite tasks cancel https://example.com/mcp 4f2a"
    )]
    Cancel(Words),
}

// No doc comments: they would replace the help of the commands.
#[derive(Debug, Args)]
struct Words {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    common: CommonOptions,
}

#[derive(Debug, Args)]
struct Wait {
    /// Save images, audio and other bytes: to a file, a folder (out/), or standard output (-)
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    answers: PresetAnswers,
    #[command(flatten)]
    words: Words,
}

/// One request about the tasks of a server.
pub(crate) enum TaskRequest {
    List,
    Get(String),
    Wait(String, Option<PathBuf>),
    Cancel(String),
}

impl Tasks {
    pub(crate) async fn run(self) -> Result<()> {
        let mut stop = pin!(signals::stop_signal());
        let opened = async {
            let (verb, Words { words, common }, output, answers) = self.action.into_parts();
            let (found, rest) = targets::resolve(words, &common, &format!("tasks {verb}")).await?;
            let request = TaskRequest::new(verb, rest, output)?;
            Ok::<_, CliError>((request, Connection::open(found, &common, answers).await?))
        };
        let (request, connection) = tokio::select! {
            biased;
            _ = &mut stop => return Err(CliError::silent(ExitStatus::Interrupted)),
            opened = opened => opened?,
        };
        let outcome = run_until_stopped(&connection, stop, request.run_on(&connection)).await;
        tokio::select! {
            biased;
            () = signals::shutdown_requested() => Err(CliError::silent(ExitStatus::Interrupted)),
            outcome = connection.finish(outcome) => outcome,
        }
    }

    pub(crate) fn common_options(&self) -> &CommonOptions {
        match &self.action {
            Action::List(words) | Action::Get(words) | Action::Cancel(words) => &words.common,
            Action::Wait(wait) => &wait.words.common,
        }
    }
}

impl Action {
    fn into_parts(self) -> (&'static str, Words, Option<PathBuf>, PresetAnswers) {
        match self {
            Action::List(words) => ("list", words, None, PresetAnswers::default()),
            Action::Get(words) => ("get", words, None, PresetAnswers::default()),
            Action::Wait(Wait { output, answers, words }) => ("wait", words, output, answers),
            Action::Cancel(words) => ("cancel", words, None, PresetAnswers::default()),
        }
    }
}

impl TaskRequest {
    /// Parses the words after `verb`.
    pub(crate) fn new(verb: &str, mut words: Vec<String>, output: Option<PathBuf>) -> Result<Self> {
        let mut id = || take_first(&mut words, &format!("tasks {verb}"), "the ID of a task", "4f2a");
        let request = match verb {
            "list" => TaskRequest::List,
            "get" => TaskRequest::Get(id()?),
            "wait" => TaskRequest::Wait(id()?, output),
            "cancel" => TaskRequest::Cancel(id()?),
            _ => {
                return Err(CliError::usage(format!("unknown command `tasks {verb}`"))
                    .hint("the commands are list, get, wait and cancel"));
            }
        };
        expect_no_more(&words)?;
        Ok(request)
    }

    pub(crate) async fn run_on(&self, connection: &Connection) -> Result<()> {
        let capabilities = connection.server_details().await?.capabilities;
        check_support(connection, &capabilities, matches!(self, TaskRequest::List))?;
        let (client, console) = (&connection.client, &connection.console);
        match self {
            TaskRequest::List => {
                let tasks = connection.check_result(client.list_tasks().await, "tasks")?;
                match console.json {
                    true => console.print_json(&json!({ "tasks": tasks })),
                    false => print_list(&tasks, console),
                }
            }
            TaskRequest::Get(id) => {
                let details = connection.check_result(client.task(id).await, "tasks")?;
                match console.json {
                    true => console.print_json(&details),
                    false => print_task(&details.task, console),
                }
            }
            TaskRequest::Wait(id, output) => {
                let questions = connection.request_handler.open_questions.leave_open();
                let task = client.follow_task(id).on_task(connection.task.observer(console));
                let outcome = tokio::select! {
                    biased;
                    outcome = task.into_future() => outcome,
                    question = questions.first() => {
                        let invalid = connection.request_handler.answer_error();
                        return Err(invalid.unwrap_or_else(|| left_open(connection, id, &question)));
                    }
                };
                let result = connection.check_result(outcome, "tasks")?;
                call::print_result(connection, &result, output.as_deref(), "task")
            }
            TaskRequest::Cancel(id) => {
                let result = connection.check_result(client.cancel_task(id).await, "tasks")?;
                let is_cancelled =
                    result.task.as_ref().is_some_and(|task| task.status == TaskStatus::Cancelled);
                match (console.json, is_cancelled) {
                    (true, _) => console.print_json(&result),
                    (false, true) => console.print_line("cancelled"),
                    // The server decides whether and when.
                    (false, false) => console.print_line("asked the server to cancel it"),
                }
            }
        }
    }
}

/// Fails if the server has no tasks, or no list of them where one is wanted.
fn check_support(connection: &Connection, capabilities: &ServerCapabilities, lists: bool) -> Result<()> {
    let revision = connection.client.revision();
    let failure = |message: String| CliError::new(ExitStatus::Protocol, message).at_step("tasks");
    let (offers_tasks, offers_list) = match &capabilities.tasks {
        Some(tasks) if revision.has_core_tasks() => (true, tasks.list.is_some()),
        _ => {
            let extensions = capabilities.extensions.as_ref();
            let is_declared = extensions.is_some_and(|extensions| extensions.contains_key(EXTENSION));
            (revision.has_task_extension() && is_declared, false)
        }
    };
    if !revision.has_core_tasks() && !revision.has_task_extension() {
        return Err(failure(format!("revision {revision} has no tasks")).hint(REVISION_HINT));
    }
    if !offers_tasks {
        return Err(failure("the server has no tasks".to_owned()).hint("`info` shows what the server can do"));
    }
    match (lists, offers_list, revision.has_task_extension()) {
        (false, ..) | (_, true, _) => Ok(()),
        (true, false, true) => Err(failure(format!("revision {revision} has no list of tasks"))
            .detail("its extension for tasks has no such request; `call` prints the ID of a task")
            .hint("--rev 2025-11-25 lists them, if the server supports that revision")),
        (true, false, false) => Err(failure("the server does not list tasks".to_owned())
            .detail("servers do so only if they can tell their users apart")),
    }
}

fn print_list(tasks: &[Task], console: &Console) -> Result<()> {
    if tasks.is_empty() {
        return console.print_line("the server has no tasks of yours");
    }
    for task in tasks {
        let id = console.paint(Style::Green, &console.sanitized_name(&task.task_id));
        let message = task.status_message.as_deref().unwrap_or_default();
        let line = format!("{id}  {}  {}", task.status.as_str(), console.sanitized_name(message));
        console.print_line(line.trim_end())?;
    }
    Ok(())
}

fn print_task(task: &Task, console: &Console) -> Result<()> {
    let id = console.sanitized_name(&task.task_id);
    console.print_line(&format!("task {}", console.paint(Style::Green, &id)))?;
    let row = |name: &str, value: &str| {
        console.print_line(&format!("  {name:<8}{}", console.sanitized_name(value)))
    };
    row("status", task.status.as_str())?;
    task.status_message.as_deref().map_or(Ok(()), |message| row("message", message))?;
    row("created", &task.created_at)?;
    row("changed", &task.last_updated_at)?;
    match task.ttl_ms {
        Some(ttl) => row("kept", &format!("{} s after its creation", ttl / 1000)),
        None => row("kept", "without a limit"),
    }
}

const REVISION_HINT: &str = "tasks are part of 2025-11-25 and 2026-07-28; --rev REVISION selects one";
