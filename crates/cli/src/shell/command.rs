//! The commands of the shell: the verbs without a target, and `help` and `quit`.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

use super::completion::CommandSpec;
use crate::connection::Connection;
use crate::console::write_note;
use crate::error::{CliError, ExitStatus, Result};
use crate::options::parse_pair;
use crate::suggest::did_you_mean;
use crate::usage_tips;
use crate::verbs::{call, complete, info, list, listen, ping, prompt, raw, read, take_first, tasks};

/// A parsed line of the shell.
#[derive(Debug, Parser)]
#[command(multicall = true, disable_help_subcommand = true, term_width = 0, help_template = "{subcommands}{after-help}", after_help = AFTER_HELP)]
struct ShellLine {
    #[command(subcommand)]
    command: Command,
}

/// A command of the shell.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List tools, resources, templates and prompts, or describe one of them
    #[command(override_usage = "list [--json] [NAME]", after_help = "Examples:\n  list\n  list add")]
    List(WordArgs),
    /// Call a tool; `TOOL k=v` is a short form
    #[command(
        override_usage = "call [OPTIONS] TOOL [ARGUMENT]…",
        after_help = "An ARGUMENT is k=v (typed by the tool's schema; repeat it for an array), k:=JSON, a JSON object, or @file.json.\n\nExamples:\n  call add a=1 b=2\n  add a=1 b=2\n  call picture -o picture.png"
    )]
    Call(OutputArgs),
    /// Read a resource
    #[command(
        override_usage = "read [OPTIONS] URI",
        after_help = "Examples:\n  read demo://motto\n  read demo://logo -o logo.png"
    )]
    Read(OutputArgs),
    /// Get a prompt with its arguments filled in
    #[command(
        override_usage = "prompt [OPTIONS] NAME [k=v]…",
        after_help = "Examples:\n  prompt review code='let x = 1;' language=rust"
    )]
    Prompt(AnswerArgs),
    /// Complete an argument of a prompt or a template
    #[command(
        override_usage = "complete PROMPT|TEMPLATE ARGUMENT [PREFIX] [k=v]…",
        after_help = "Examples:\n  complete review language r\n  complete demo://cities/{country}/{city} city '' country=Japan"
    )]
    Complete(WordArgs),
    /// Print changes until Ctrl-C
    #[command(
        override_usage = "listen [-n COUNT] [URI]…",
        after_help = "Examples:\n  listen\n  listen demo://counter -n 1"
    )]
    Listen(ListenArgs),
    /// Ping the server and measure the round-trip time
    #[command(override_usage = "ping [--json]", after_help = "Examples:\n  ping")]
    Ping(FormatArgs),
    /// Describe the server: revision, capabilities, extensions, timings
    #[command(override_usage = "info [--json]", after_help = "Examples:\n  info")]
    Info(FormatArgs),
    /// Send any request and print its result unchanged
    #[command(
        override_usage = "raw [OPTIONS] REQUEST",
        after_help = "A REQUEST is JSON with `method` and `params`, or @file.json.\n\nExamples:\n  raw '{\"method\":\"tools/list\"}'"
    )]
    Raw(AnswerArgs),
    /// List, show, wait for and cancel tasks
    #[command(
        override_usage = "tasks list\n       tasks get|cancel ID\n       tasks wait [OPTIONS] ID",
        after_help = "Examples:\n  tasks list\n  tasks wait 4f2a"
    )]
    Tasks(OutputArgs),
    /// List the commands, or explain one
    #[command(override_usage = "help [COMMAND]", after_help = "Examples:\n  help\n  help call")]
    Help {
        #[arg(hide = true)]
        command: Option<String>,
    },
    /// Leave the shell; so does Ctrl-D
    #[command(alias = "exit", override_usage = "quit", after_help = "Examples:\n  quit")]
    Quit,
}

#[derive(Debug, Args)]
pub(super) struct FormatArgs {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct WordArgs {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Args)]
pub(super) struct AnswerArgs {
    #[command(flatten)]
    words: WordArgs,
    /// Answer a field of the server's form
    #[arg(long = "answer", value_name = "k=v", value_parser = parse_pair)]
    answers: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    #[command(flatten)]
    answer_args: AnswerArgs,
    /// Save images, audio and other bytes: to a file, or a folder (out/)
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ListenArgs {
    #[command(flatten)]
    words: WordArgs,
    /// Stop after COUNT changes
    #[arg(short = 'n', long, value_name = "COUNT")]
    count: Option<u64>,
}

impl Command {
    /// Parses the words of a line. `tools` are the names of the server's tools.
    pub(super) fn parse(mut words: Vec<String>, tools: &[&str]) -> Result<Self> {
        let Some(first) = words.first() else { return Err(CliError::silent(ExitStatus::Success)) };
        let line = ShellLine::command();
        let is_command = line
            .get_subcommands()
            .any(|known| known.get_name_and_visible_aliases().contains(&first.as_str()))
            || first == "exit";
        if !is_command && !tools.contains(&first.as_str()) {
            let names = line.get_subcommands().map(clap::Command::get_name).chain(tools.iter().copied());
            let failure = CliError::usage(format!("unknown command or tool `{first}`"));
            return Err(match did_you_mean(first, names) {
                Some(advice) => failure.hint(advice),
                None => failure.hint("`help` lists the commands, `list` what the server offers"),
            });
        }
        if !is_command {
            words.insert(0, "call".to_owned());
        }
        if words.iter().any(|word| word == "@-") {
            return Err(CliError::usage("@- is not available: the shell reads standard input")
                .hint("@file.json reads a file"));
        }
        ShellLine::try_parse_from(&words).map(|line| line.command).map_err(|error| parse_error(error, &words))
    }

    /// Returns the answers for the server's questions during this command.
    pub(super) fn answers(&self) -> Vec<(String, String)> {
        match self {
            Command::Call(args) | Command::Read(args) | Command::Tasks(args) => {
                args.answer_args.answers.clone()
            }
            Command::Prompt(args) | Command::Raw(args) => args.answers.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn wants_json(&self) -> bool {
        match self {
            Command::Ping(args) | Command::Info(args) => args.json,
            Command::Call(args) | Command::Read(args) | Command::Tasks(args) => {
                args.answer_args.words.format.json
            }
            Command::Prompt(args) | Command::Raw(args) => args.words.format.json,
            Command::List(words) | Command::Complete(words) => words.format.json,
            Command::Listen(args) => args.words.format.json,
            Command::Help { .. } | Command::Quit => false,
        }
    }

    /// Runs the command.
    pub(super) async fn run_on(self, connection: &Connection) -> Result<()> {
        match self {
            Command::List(words) => list::ListRequest::new(words.words)?.run_on(connection).await,
            Command::Ping(_) => ping::show(connection).await,
            Command::Info(_) => info::show(connection).await,
            Command::Call(OutputArgs { answer_args: args, output }) => {
                call::ToolCall::new(args.words.words, output)?.run_on(connection).await
            }
            Command::Read(OutputArgs { answer_args: args, output }) => {
                read::ResourceRead::new(args.words.words, output)?.run_on(connection).await
            }
            Command::Tasks(OutputArgs { answer_args: args, output }) => {
                let mut words = args.words.words;
                let action = take_first(&mut words, "tasks", "list, get, wait or cancel", "tasks list")?;
                tasks::TaskRequest::new(&action, words, output)?.run_on(connection).await
            }
            Command::Prompt(args) => prompt::PromptRequest::new(args.words.words)?.run_on(connection).await,
            Command::Raw(args) => raw::RawRequest::new(args.words.words)?.run_on(connection).await,
            Command::Complete(words) => {
                complete::CompletionRequest::new(words.words)?.run_on(connection).await
            }
            Command::Listen(ListenArgs { words, count }) => {
                listen::show(connection, words.words, count).await
            }
            Command::Help { command } => connection.console.print(&help(command.as_deref())?),
            Command::Quit => Ok(()),
        }
    }
}

/// Returns the commands and their options, for completion.
pub(super) fn command_specs() -> Vec<CommandSpec> {
    let mut line = ShellLine::command();
    line.build();
    let commands = line.get_subcommands().map(|command| CommandSpec {
        name: command.get_name().to_owned(),
        options: command
            .get_arguments()
            .filter_map(|option| Some(format!("--{}", option.get_long()?)))
            .collect(),
    });
    commands.collect()
}

fn help(command: Option<&str>) -> Result<String> {
    let mut line = ShellLine::command();
    line.build();
    let Some(name) = command else { return Ok(line.render_help().to_string()) };
    let names: Vec<String> = line.get_subcommands().map(|known| known.get_name().to_owned()).collect();
    match line.find_subcommand_mut(name) {
        Some(command) => Ok(command.render_help().to_string()),
        None => {
            let failure = CliError::usage(format!("unknown command `{name}`"));
            Err(match did_you_mean(name, names.iter().map(String::as_str)) {
                Some(advice) => failure.hint(advice),
                None => failure.hint("`help` lists all commands"),
            })
        }
    }
}

/// Prints the help or the usage error of clap.
fn parse_error(mut error: clap::Error, words: &[String]) -> CliError {
    usage_tips::improve(&mut error, words, &ShellLine::command());
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp => {
            let shown = crate::console::Console::new(false).print(&text);
            shown.err().unwrap_or_else(|| CliError::silent(ExitStatus::Success))
        }
        _ => {
            write_note(text.trim_end());
            CliError::silent(ExitStatus::Usage)
        }
    }
}

const AFTER_HELP: &str = "\
A tool of the server is a command, too: add a=1 b=2
Words are separated by spaces; use 'quotes', \"quotes\" or \\ for a space in a word. # begins a comment.
Tab completes, Up recalls earlier lines, Ctrl-C stops a call or clears the line. `help COMMAND` shows details.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_valid_example() {
        for command in ShellLine::command().get_subcommands() {
            let name = command.get_name();
            let more = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let (_, examples) =
                more.split_once("Examples:\n").unwrap_or_else(|| panic!("{name} has no example"));
            for example in examples.lines() {
                let words = super::super::words::split(example).unwrap();
                assert!(Command::parse(words, &["add"]).is_ok(), "{example}");
            }
        }
    }
}
