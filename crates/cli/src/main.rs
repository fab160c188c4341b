//! `tsugite`: run, connect and debug MCP servers.
//!
//! A verb is a file in `verbs`. `target` finds the server that is meant, `session` connects to it, `asking` answers
//! what it asks; `screen` and `output` show what came, `fail` says what went wrong. `shell` is the prompt, `demo` the
//! built-in server, `door` where servers are served, `page` the page that is served beside them.

mod arguments;
mod catalog;
mod connection;
mod console;
mod demo;
mod edit;
mod error;
mod file_mode;
mod log;
mod options;
mod output;
mod page;
mod schema;
mod serve_options;
mod server_requests;
mod shell;
mod signals;
mod suggest;
mod target;
mod trace;
mod verbs;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use console::Console;
use error::{CliError, ExitStatus, Result};
use verbs::Verb;

/// Run, connect and debug MCP servers.
// Lines are as long as they are, whether or not somebody else in the build has clap fold them.
#[derive(Debug, Parser)]
#[command(name = "tsugite", version, after_help = AFTER_HELP, disable_help_subcommand = true, term_width = 0)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

fn main() -> ExitCode {
    let verb = match Cli::try_parse() {
        Ok(cli) => cli.verb,
        Err(error) => return report_parse_error(error),
    };
    log::init(verb.verbose());
    let screen = Console::new(verb.wants_json());
    let outcome = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let outcome = runtime.block_on(run_until_interrupted(verb));
            // Somebody may still be asked something; the answer is not waited for.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(CliError::usage(format!("cannot begin: {error}"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            screen.print_error(&failure);
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Runs a verb until it is done, or until somebody has enough. A server that was started ends with it.
async fn run_until_interrupted(verb: Verb) -> Result<()> {
    // Some end by themselves, and in good order.
    if verb.handles_signals() {
        return verb.run().await;
    }
    tokio::select! {
        biased;
        () = signals::shutdown_requested() => Err(CliError::silent(ExitStatus::Interrupted)),
        outcome = verb.run() => outcome,
    }
}

/// Help was asked for, or the words make no sense.
fn report_parse_error(mut error: clap::Error) -> ExitCode {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        // What stands after `--` is a command to start.
        tips.retain(|tip| !tip.to_string().contains("as a value, use"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    let text = error.render().to_string();
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
    if let (true, Some(failure)) = (words.any(|word| word == "--json"), parse_error(&text)) {
        Console::new(true).print_error(&failure);
        return ExitCode::from(failure.exit as u8);
    }
    // Nobody hears of it if it cannot be written.
    let _ = match asked {
        true => std::io::stdout().lock().write_all(text.as_bytes()),
        false => std::io::stderr().lock().write_all(text.as_bytes()),
    };
    ExitCode::from(if asked { ExitStatus::Success as u8 } else { ExitStatus::Usage as u8 })
}

/// What the parser of words says, for whoever reads JSON; `None` if that is help.
fn parse_error(text: &str) -> Option<CliError> {
    let mut parts = text.strip_prefix("error: ")?.split("\n\n");
    let what: Vec<&str> = parts.next()?.lines().map(str::trim).collect();
    let tips = parts.flat_map(str::lines).filter_map(|line| line.strip_prefix("  tip: "));
    let failure = CliError::usage(what.join(" "));
    Some(tips.fold(failure, CliError::hint).hint("`--help` shows what can be said"))
}

const AFTER_HELP: &str = "\
A TARGET is the server to talk to:
  https://host/mcp     a URL
  -- COMMAND ARGS…     a program to start; it stands at the end
  NAME                 from ./.mcp.json, ./mcp.json or ~/.config/tsugite/mcp.json
  FILE.json:NAME       from a file of Claude, Cursor or VS Code
  HOST:NAME            from that host's own file: claude-desktop, claude-code, cursor, vscode
  demo                 the built-in server

Examples:
  tsugite serve                                 the demo server, at http://127.0.0.1:8808/mcp
  tsugite list demo                             what a server offers
  tsugite call demo add a=1 b=2                 call a tool
  tsugite call add a=1 b=2 -- my-server --fast  start a server and call its tool
  tsugite info cursor:github                    ask a server of Cursor's what it is

Exit codes:
  0 fine   1 usage   2 cannot connect   3 protocol error   4 tool error
  5 refused for lack of authorization   6 timeout   130 interrupted";
