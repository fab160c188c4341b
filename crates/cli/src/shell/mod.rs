//! The interactive shell: runs commands one after the other on one connection.
//!
//! A separate thread reads the lines (`editor`), so that the connection stays active while the prompt waits: pings are
//! answered, changes and logs are printed above the prompt, and Tab can query the server (`completion`). An error does
//! not end the shell, and the next command reopens a lost connection.

mod command;
mod completion;
mod editor;
mod history;
mod live_catalog;
mod uri_template;
mod words;

use std::sync::Arc;
use std::sync::mpsc as sync;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tsugite::client::Client;
use tsugite::protocol::completion::{Complete, CompleteParams};

use crate::connection::Connection;
use crate::console::{Console, sanitize_name};
use crate::error::{CliError, ExitStatus, Result};
use crate::options::CommonOptions;
use crate::server_requests::{PresetAnswers, ServerRequestHandler};
use crate::signals::{SignalEvent, Signals};
use crate::targets::ResolvedTarget;
use command::Command;
use completion::Completer;
use editor::{CompleteFn, LineInput, LineReader};
use live_catalog::LiveCatalog;

/// Connects and runs commands until the end of input. The prompt begins with `label`. The lists of the server are fetched
/// again when `changed` is notified.
pub(crate) async fn run(
    found: ResolvedTarget,
    common: CommonOptions,
    answers: PresetAnswers,
    label: &str,
    changed: Arc<Notify>,
) -> Result<()> {
    let start_error =
        |error: std::io::Error| CliError::usage("cannot start the shell").detail(error.to_string());
    let signals = Signals::listen().map_err(start_error)?;
    let console = Arc::new(Console::for_shell(common.json));
    let catalog = Arc::new(LiveCatalog::new(changed));
    let (query_sender, completion_queries) = mpsc::channel(1);
    let is_interactive = console.is_interactive();
    let lines = match is_interactive {
        true => {
            LineReader::from_terminal(format!("{label}> "), completer(Arc::clone(&catalog), query_sender))
        }
        false => LineReader::from_stdin(),
    };
    let lines = lines.map_err(start_error)?;
    let handler = ServerRequestHandler::new(answers, Arc::clone(&console), Arc::new(lines.prompter()));
    let changed = Arc::clone(&catalog);
    let connection = Connection::open_with(found, &common, Arc::new(handler), console, move |builder| {
        builder.on_change(move |change| changed.notify_changed(&change))
    });
    let mut shell = Repl {
        lines,
        signals,
        catalog,
        completion_queries,
        is_interactive,
        last_failure: ExitStatus::Success,
    };
    let connection = tokio::select! {
        biased;
        () = shell.signals.stop_requested() => return Err(CliError::silent(ExitStatus::Interrupted)),
        connection = connection => connection?,
    };
    let refresh = tokio::spawn(live_catalog::refresh_loop(connection.clone(), Arc::clone(&shell.catalog)));
    let ended = shell.run(&connection).await;
    refresh.abort();
    // Wait until the task has dropped its clone of the connection.
    let _ = refresh.await;
    if is_interactive {
        shell.lines.stop().await;
    }
    match ended {
        // After an interrupt, do not wait for the server to shut down.
        Err(failure) if failure.exit == ExitStatus::Interrupted => return Err(failure),
        ended => {
            let closed = tokio::select! {
                biased;
                () = shell.signals.stop_requested() => return Err(CliError::silent(ExitStatus::Interrupted)),
                closed = connection.close() => closed,
            };
            ended.and(closed)?;
        }
    }
    // An interactive user has seen the errors.
    match (shell.is_interactive, shell.last_failure) {
        (true, _) | (_, ExitStatus::Success) => Ok(()),
        (false, failed) => Err(CliError::silent(failed)),
    }
}

struct Repl {
    lines: LineReader,
    signals: Signals,
    catalog: Arc<LiveCatalog>,
    /// Queries for the server from completion.
    completion_queries: mpsc::Receiver<CompletionQuery>,
    /// Whether the lines come from a terminal.
    is_interactive: bool,
    /// The exit code of the last command that failed.
    last_failure: ExitStatus,
}

/// A completion query for the server, and the channel for its values.
struct CompletionQuery {
    params: CompleteParams,
    reply: sync::Sender<Vec<String>>,
}

impl Repl {
    async fn run(&mut self, connection: &Connection) -> Result<()> {
        // Fetch the catalog before the first line, for completion.
        let first = self.catalog.refresh(connection).await;
        if self.is_interactive {
            connection.console.note(&greeting(connection, &self.catalog).await);
        }
        if let Err(failure) = first {
            connection.console.print_error(&failure);
        }
        while let Some(line) = self.next_line(connection).await? {
            match self.run_line(&line, connection).await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // The reader of standard output has gone.
                Err(failure) if failure.exit == ExitStatus::Success => return Err(failure),
                Err(failure) => self.report_error(&failure, connection)?,
            }
        }
        Ok(())
    }

    /// Reads the next line; `None` at the end of input. The connection stays active meanwhile.
    async fn next_line(&mut self, connection: &Connection) -> Result<Option<String>> {
        let mut line = self.lines.next_line();
        let mut check = tokio::time::interval(CONNECTION_CHECK_INTERVAL);
        loop {
            tokio::select! {
                typed = &mut line => match typed {
                    Ok(LineInput::Line(line)) => return Ok(Some(line)),
                    Ok(LineInput::Cleared) => line = self.lines.next_line(),
                    Ok(LineInput::Invalid(message)) => {
                        self.report_error(&CliError::usage(message), connection)?;
                        line = self.lines.next_line();
                    }
                    Ok(LineInput::Eof) | Err(_) => return Ok(None),
                },
                signal = self.signals.next() => match signal {
                    SignalEvent::Resize => self.lines.redraw(),
                    SignalEvent::Interrupt if self.is_interactive => {}
                    SignalEvent::Interrupt | SignalEvent::Terminate => {
                        return Err(CliError::silent(ExitStatus::Interrupted));
                    }
                },
                Some(query) = self.completion_queries.recv() => answer_query(query, connection.client.clone()),
                _ = check.tick() => self.catalog.check_connection(connection),
            }
        }
    }

    /// Runs a line; returns false for `quit`.
    async fn run_line(&mut self, line: &str, connection: &Connection) -> Result<bool> {
        let words = words::split(line).map_err(|wrong| {
            CliError::usage(wrong).hint("write a quote as \\', and quote a word with spaces: '…'")
        })?;
        if words.is_empty() {
            return Ok(true);
        }
        let catalog = self.catalog.current();
        let tools: Vec<&str> = catalog.tools.iter().map(|tool| tool.name.as_str()).collect();
        let command = match Command::parse(words, &tools) {
            Ok(Command::Quit) => return Ok(false),
            Ok(command) => command,
            // Help was printed.
            Err(failure) if failure.exit == ExitStatus::Success => return Ok(true),
            Err(failure) => return Err(failure),
        };
        let connection = match command.wants_json() {
            true => Connection { console: Arc::new(Console::for_shell(true)), ..connection.clone() },
            false => connection.clone(),
        };
        let is_listening = matches!(command, Command::Listen(_));
        let _mute = is_listening.then(|| self.catalog.mute());
        connection.request_handler.begin_command(command.answers());
        connection.task.begin_command();
        let outcome = self.run_until_stopped(command, &connection).await;
        connection.console.clear_progress();
        self.lines.cancel_prompt();
        match outcome {
            // Ctrl-C is the normal end of `listen`.
            Err(failure)
                if is_listening && failure.exit == ExitStatus::Interrupted && self.is_interactive =>
            {
                Ok(true)
            }
            Err(failure) => Err(connection.request_handler.answer_error().unwrap_or(failure)),
            Ok(()) => {
                self.catalog.mark_connected();
                connection.request_handler.end_command()?;
                Ok(true)
            }
        }
    }

    /// Runs a command until it completes or Ctrl-C stops it. Stopping also cancels the request at the server.
    async fn run_until_stopped(&mut self, command: Command, connection: &Connection) -> Result<()> {
        let mut running = std::pin::pin!(command.run_on(connection));
        loop {
            tokio::select! {
                biased;
                signal = self.signals.next() => match signal {
                    SignalEvent::Interrupt => {
                        if self.is_interactive {
                            // The terminal has echoed ^C.
                            eprintln!();
                        }
                        return Err(stopped(connection));
                    }
                    SignalEvent::Terminate => return Err(CliError::silent(ExitStatus::Interrupted)),
                    SignalEvent::Resize => self.lines.redraw(),
                },
                () = self.lines.interrupted() => return Err(stopped(connection)),
                outcome = &mut running => return outcome,
            }
        }
    }

    /// Prints an error. Fails if the shell is to end.
    fn report_error(&mut self, failure: &CliError, connection: &Connection) -> Result<()> {
        let ends_shell =
            failure.exit == ExitStatus::Interrupted && (failure.message.is_empty() || !self.is_interactive);
        if ends_shell {
            return Err(CliError::silent(ExitStatus::Interrupted));
        }
        if failure.exit == ExitStatus::Interrupted {
            connection.console.note(&failure.message);
            return Ok(());
        }
        self.last_failure = failure.exit;
        let mut failure = failure.clone();
        if failure.exit == ExitStatus::Connect {
            self.catalog.mark_disconnected();
            failure = failure.hint("the next command reconnects");
        }
        connection.console.print_error(&failure);
        Ok(())
    }
}

/// The error for a command that Ctrl-C has stopped. A task that it followed goes on.
fn stopped(connection: &Connection) -> CliError {
    let message = match connection.task.running_id() {
        Some(id) => {
            let id = sanitize_name(&id);
            format!(
                "stopped; the task {id} was not cancelled: `tasks wait ID` waits for it, `tasks cancel ID` cancels it"
            )
        }
        None => "stopped".to_owned(),
    };
    CliError::new(ExitStatus::Interrupted, message)
}

/// Formats the first lines of an interactive shell.
async fn greeting(connection: &Connection, catalog: &LiveCatalog) -> String {
    let about = connection.server_details().await.ok();
    let server =
        about.and_then(|about| about.server).map(|server| format!("{} {}", server.name, server.version));
    format!(
        "{}, revision {}: {}\n`help` lists the commands, Tab completes, Ctrl-D leaves",
        server.as_deref().unwrap_or("connected"),
        connection.client.revision().as_str(),
        catalog.current().counts(),
    )
}

/// Returns the completion function for the editor thread. It queries the server through `queries`.
fn completer(catalog: Arc<LiveCatalog>, queries: mpsc::Sender<CompletionQuery>) -> CompleteFn {
    let commands = command::command_specs();
    Box::new(move |line| {
        let query = |params| {
            let (reply, answer) = sync::channel();
            let sent = queries.try_send(CompletionQuery { params, reply });
            sent.ok().and_then(|()| answer.recv_timeout(COMPLETION_TIMEOUT).ok()).unwrap_or_default()
        };
        let catalog = catalog.current();
        Completer { commands: &commands, catalog: &catalog, query: &query }.candidates(line)
    })
}

/// Sends a completion query in the background. A server that cannot complete yields no values.
fn answer_query(query: CompletionQuery, client: Client) {
    tokio::spawn(async move {
        let result = client.request::<Complete>(query.params).timeout(COMPLETION_TIMEOUT).await;
        let values = result.map(|result| result.completion.values).unwrap_or_default();
        // The editor may have stopped waiting.
        let _ = query.reply.send(values);
    });
}

/// How long Tab waits for the server.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the connection is checked while the prompt waits.
const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_millis(500);
