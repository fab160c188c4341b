//! `tsugite`: run, connect and debug MCP servers.
//!
//! Each verb is a file in `verbs`. `targets` resolves the server that the command line names, `connection` connects to
//! it, and `server_requests` answers its requests. `console` and `output` print results, `error` holds errors and exit
//! codes. `shell` is the interactive prompt, `demo` the built-in server, `serve_options` runs a server, and `page` is the
//! start page of a served server. `followed_task` is the task that a call has become. `trust` asks before it uses entries of the current
//! folder. `login` logs in where a server requires it. `edit` changes configuration files. `dev` runs a
//! server under development, `watch` finds changed files, and `child_watch` ends servers if this program is killed.

mod access_token;
mod arguments;
mod auth_setup;
mod catalog;
mod child_watch;
mod connection;
mod console;
mod demo;
mod dev;
mod edit;
mod environment;
mod error;
mod escapes;
mod executable;
mod file_mode;
mod followed_task;
mod headers;
mod issuer_options;
mod item_details;
mod json_text;
mod log;
mod login;
mod options;
mod output;
mod page;
mod password_input;
mod readable_path;
mod schema;
mod schema_details;
mod serve_options;
mod server_requests;
mod shell;
mod signals;
mod state;
mod state_dir;
mod suggest;
mod targets;
mod trace;
mod trust;
mod unix_socket;
mod url_hints;
mod usage_tips;
mod verbs;
mod watch;

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use console::Console;
use error::{CliError, ExitStatus, Result};
use verbs::Verb;

/// Run, connect and debug MCP servers.
// No wrapping, even if another crate in the build enables it in clap.
#[derive(Debug, Parser)]
#[command(name = "tsugite", bin_name = "tsugite", version, after_help = AFTER_HELP, disable_help_subcommand = true, term_width = 0)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

fn main() -> ExitCode {
    if let Some(exit_code) = child_watch::run_if_requested() {
        return exit_code;
    }
    let verb = match Cli::try_parse() {
        Ok(cli) => cli.verb,
        Err(error) => return report_parse_error(error),
    };
    log::init(verb.verbose(), verb.shows_server_stderr());
    let console = Console::new(verb.wants_json());
    let outcome = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let outcome = runtime.block_on(run_until_interrupted(verb));
            // A thread may still wait for an answer of the user: do not wait for it.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(CliError::usage(format!("cannot start the async runtime: {error}"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            console.print_error(&failure);
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Runs a verb until it completes or is interrupted. Dropping it stops a server that it started.
async fn run_until_interrupted(verb: Verb) -> Result<()> {
    // Some verbs shut down gracefully themselves.
    if verb.handles_signals() {
        return verb.run().await;
    }
    tokio::select! {
        biased;
        () = signals::shutdown_requested() => Err(CliError::silent(ExitStatus::Interrupted)),
        outcome = verb.run() => outcome,
    }
}

/// Prints help, the version, or a usage error.
fn report_parse_error(mut error: clap::Error) -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    usage_tips::improve(&mut error, &words, &Cli::command());
    let text = error.render().to_string();
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let wants_json = words.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    if let (true, Some(failure)) = (wants_json, parse_error(&text)) {
        Console::new(true).print_error(&failure);
        return ExitCode::from(failure.exit as u8);
    }
    // There is no other stream to report a failed write to.
    let _ = match is_help {
        true => std::io::stdout().lock().write_all(text.as_bytes()),
        false => std::io::stderr().lock().write_all(text.as_bytes()),
    };
    ExitCode::from(if is_help { ExitStatus::Success as u8 } else { ExitStatus::Usage as u8 })
}

/// Converts a usage error of clap, for `--json`; `None` if the text is help.
fn parse_error(text: &str) -> Option<CliError> {
    let mut parts = text.strip_prefix("error: ")?.split("\n\n");
    let message: Vec<&str> = parts.next()?.lines().map(str::trim).collect();
    let tips = parts.flat_map(str::lines).filter_map(|line| line.strip_prefix("  tip: "));
    let failure = CliError::usage(message.join(" "));
    Some(tips.fold(failure, CliError::hint).hint("`--help` lists the options"))
}

const AFTER_HELP: &str = "\
A TARGET is the server to talk to:
  https://host/mcp     a URL
  unix:SOCKET          a server that listens on a Unix socket
  -- COMMAND ARGS…     a program to start, at the end of the command line
  NAME                 from ~/.config/tsugite/mcp.json, ./.mcp.json or ./mcp.json
  FILE.json:NAME       from a configuration file of Claude, Cursor or VS Code
  HOST:NAME            from a host's own file: claude-desktop, claude-code, cursor, vscode
  demo                 the built-in server

Examples:
  tsugite serve                                 serve the demo server at http://127.0.0.1:8808/mcp
  tsugite list demo                             list what a server offers
  tsugite call demo add a=1 b=2                 call a tool
  tsugite call add a=1 b=2 -- my-server --fast  start a server and call its tool
  tsugite info cursor:github                    describe a server from Cursor's configuration
  tsugite dev -- cargo run                      a shell on a server that starts again when its files change

Exit codes:
  0 success   1 usage error   2 cannot connect   3 protocol error   4 tool error
  5 not authorized   6 timeout   130 interrupted";
