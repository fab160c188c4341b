//! A prompt on a server that stays connected: the verbs, one after the other, on one session.
//!
//! Lines are read in a thread of their own (`editor`), so the connection lives while the prompt waits: pings are
//! answered, changes and logs are shown above it, and Tab can ask the server (`completing`). A command that fails ends
//! nothing, and a connection that is lost is opened again by the next one.

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

use tokio::sync::mpsc;
use tsugite::client::Client;
use tsugite::protocol::completion::CompleteParams;

use crate::connection::Connection;
use crate::console::Console;
use crate::error::{CliError, ExitStatus, Result};
use crate::options::CommonOptions;
use crate::server_requests::{PresetAnswers, ServerRequestHandler};
use crate::signals::{SignalEvent, Signals};
use crate::targets::ResolvedTarget;
use command::Command;
use completion::Completer;
use editor::{CompleteFn, LineInput, LineReader};
use live_catalog::LiveCatalog;

/// Connects, and does what is typed until there is no more. `label` stands before the prompt.
pub(crate) async fn run(
    found: ResolvedTarget,
    common: CommonOptions,
    replies: PresetAnswers,
    label: &str,
) -> Result<()> {
    let cannot = |error: std::io::Error| CliError::usage("the shell cannot begin").detail(error.to_string());
    let signals = Signals::listen().map_err(cannot)?;
    let screen = Arc::new(Console::for_shell(common.json));
    let names = Arc::new(LiveCatalog::default());
    let (questions, asked) = mpsc::channel(1);
    let is_typed = screen.is_interactive();
    let lines = match is_typed {
        true => LineReader::from_terminal(format!("{label}> "), completer(Arc::clone(&names), questions)),
        false => LineReader::from_stdin(),
    };
    let lines = lines.map_err(cannot)?;
    let interview = ServerRequestHandler::new(replies, Arc::clone(&screen), Arc::new(lines.prompter()));
    let told = Arc::clone(&names);
    let session = Connection::open_with(found, &common, Arc::new(interview), screen, move |connecting| {
        connecting.on_change(move |change| told.notify_changed(&change))
    });
    let mut shell = Repl {
        lines,
        signals,
        catalog: names,
        completion_queries: asked,
        is_interactive: is_typed,
        last_failure: ExitStatus::Success,
    };
    let session = tokio::select! {
        biased;
        () = shell.signals.stop_requested() => return Err(CliError::silent(ExitStatus::Interrupted)),
        session = session => session?,
    };
    let fresh = tokio::spawn(live_catalog::refresh_loop(session.clone(), Arc::clone(&shell.catalog)));
    let ended = shell.run(&session).await;
    fresh.abort();
    // It has the session too.
    let _ = fresh.await;
    if is_typed {
        shell.lines.stop().await;
    }
    match ended {
        // Whoever wants an end now does not wait for the server's.
        Err(failure) if failure.exit == ExitStatus::Interrupted => return Err(failure),
        ended => {
            let closed = tokio::select! {
                biased;
                () = shell.signals.stop_requested() => return Err(CliError::silent(ExitStatus::Interrupted)),
                closed = session.close() => closed,
            };
            ended.and(closed)?;
        }
    }
    // A person has seen what failed.
    match (shell.is_interactive, shell.last_failure) {
        (true, _) | (_, ExitStatus::Success) => Ok(()),
        (false, failed) => Err(CliError::silent(failed)),
    }
}

struct Repl {
    lines: LineReader,
    signals: Signals,
    catalog: Arc<LiveCatalog>,
    /// What Tab wants to know of the server.
    completion_queries: mpsc::Receiver<CompletionQuery>,
    /// Whether a person types the lines.
    is_interactive: bool,
    /// How the last command ended that did not end well.
    last_failure: ExitStatus,
}

/// What could stand in an argument: whoever completes waits for it.
struct CompletionQuery {
    params: CompleteParams,
    reply: sync::Sender<Vec<String>>,
}

impl Repl {
    async fn run(&mut self, session: &Connection) -> Result<()> {
        // Names are there before anybody types one.
        let first = self.catalog.refresh(session).await;
        if self.is_interactive {
            session.console.note(&greeting(session, &self.catalog).await);
        }
        if let Err(failure) = first {
            session.console.print_error(&failure);
        }
        while let Some(line) = self.next_line(session).await? {
            match self.run_line(&line, session).await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // Nobody reads the results any more.
                Err(failure) if failure.exit == ExitStatus::Success => return Err(failure),
                Err(failure) => self.report_error(&failure, session)?,
            }
        }
        Ok(())
    }

    /// The next line; `None` when there is no more. Meanwhile the connection lives on.
    async fn next_line(&mut self, session: &Connection) -> Result<Option<String>> {
        let mut line = self.lines.next_line();
        let mut look = tokio::time::interval(CONNECTION_CHECK_INTERVAL);
        loop {
            tokio::select! {
                typed = &mut line => match typed {
                    Ok(LineInput::Line(line)) => return Ok(Some(line)),
                    Ok(LineInput::Cleared) => line = self.lines.next_line(),
                    Ok(LineInput::Invalid(seen)) => {
                        self.report_error(&CliError::usage(seen), session)?;
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
                Some(wanted) = self.completion_queries.recv() => answer_query(wanted, session.client.clone()),
                _ = look.tick() => self.catalog.check_connection(session),
            }
        }
    }

    /// Does what a line says; false if it says to leave.
    async fn run_line(&mut self, line: &str, session: &Connection) -> Result<bool> {
        let words = words::split(line).map_err(|wrong| {
            CliError::usage(wrong).hint("a quote or a blank that belongs to a word is written \\' or '…'")
        })?;
        if words.is_empty() {
            return Ok(true);
        }
        let offered = self.catalog.current();
        let tools: Vec<&str> = offered.tools.iter().map(|tool| tool.name.as_str()).collect();
        let command = match Command::parse(words, &tools) {
            Ok(Command::Quit) => return Ok(false),
            Ok(command) => command,
            // Help was asked for, and shown.
            Err(failure) if failure.exit == ExitStatus::Success => return Ok(true),
            Err(failure) => return Err(failure),
        };
        let session = match command.wants_json() {
            true => Connection { console: Arc::new(Console::for_shell(true)), ..session.clone() },
            false => session.clone(),
        };
        let is_listening = matches!(command, Command::Listen(_));
        let _quiet = is_listening.then(|| self.catalog.mute());
        session.request_handler.begin_command(command.answers());
        let outcome = self.run_until_stopped(command, &session).await;
        session.console.clear_progress();
        self.lines.cancel_prompt();
        match outcome {
            // That is how it ends.
            Err(failure)
                if is_listening && failure.exit == ExitStatus::Interrupted && self.is_interactive =>
            {
                Ok(true)
            }
            Err(failure) => Err(session.request_handler.answer_error().unwrap_or(failure)),
            Ok(()) => {
                self.catalog.mark_connected();
                session.request_handler.end_command()?;
                Ok(true)
            }
        }
    }

    /// Does a command, unless Ctrl-C stops it. The server is told to stop, too.
    async fn run_until_stopped(&mut self, command: Command, session: &Connection) -> Result<()> {
        let mut doing = std::pin::pin!(command.run_on(session));
        loop {
            tokio::select! {
                biased;
                signal = self.signals.next() => match signal {
                    SignalEvent::Interrupt => {
                        if self.is_interactive {
                            // Behind what the terminal shows of Ctrl-C.
                            eprintln!();
                        }
                        return Err(CliError::new(ExitStatus::Interrupted, "stopped"));
                    }
                    SignalEvent::Terminate => return Err(CliError::silent(ExitStatus::Interrupted)),
                    SignalEvent::Resize => self.lines.redraw(),
                },
                () = self.lines.interrupted() => return Err(CliError::new(ExitStatus::Interrupted, "stopped")),
                outcome = &mut doing => return outcome,
            }
        }
    }

    /// Tells a failure and goes on, unless it was to end all.
    fn report_error(&mut self, failure: &CliError, session: &Connection) -> Result<()> {
        let all =
            failure.exit == ExitStatus::Interrupted && (failure.message.is_empty() || !self.is_interactive);
        if all {
            return Err(CliError::silent(ExitStatus::Interrupted));
        }
        if failure.exit == ExitStatus::Interrupted {
            session.console.note(&failure.message);
            return Ok(());
        }
        self.last_failure = failure.exit;
        let mut failure = failure.clone();
        if failure.exit == ExitStatus::Connect {
            self.catalog.mark_disconnected();
            failure = failure.hint("the next command connects anew");
        }
        session.console.print_error(&failure);
        Ok(())
    }
}

/// What somebody hears who has just connected.
async fn greeting(session: &Connection, names: &LiveCatalog) -> String {
    let about = session.server_details().await.ok();
    let server =
        about.and_then(|about| about.server).map(|server| format!("{} {}", server.name, server.version));
    let offered = names.current();
    let counts = [
        (offered.tools.len(), "tool"),
        (offered.resources.len(), "resource"),
        (offered.resource_templates.len(), "template"),
        (offered.prompts.len(), "prompt"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> =
        counts.map(|(count, what)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" })).collect();
    format!(
        "{}, on {}: {}\n`help` says what can be typed, Tab completes it, Ctrl-D leaves",
        server.as_deref().unwrap_or("connected"),
        session.client.revision().as_str(),
        if counts.is_empty() { "nothing is offered".to_owned() } else { counts.join(", ") },
    )
}

/// Completes lines, in the thread of the editor. What only the server knows is asked for through `questions`.
fn completer(names: Arc<LiveCatalog>, questions: mpsc::Sender<CompletionQuery>) -> CompleteFn {
    let commands = command::command_specs();
    Box::new(move |line| {
        let ask = |params| {
            let (reply, answer) = sync::channel();
            let sent = questions.try_send(CompletionQuery { params, reply });
            sent.ok().and_then(|()| answer.recv_timeout(COMPLETION_TIMEOUT).ok()).unwrap_or_default()
        };
        let offered = names.current();
        let knowledge = Completer { commands: &commands, catalog: &offered, query: &ask };
        knowledge.candidates(line)
    })
}

/// Asks the server in passing; whoever completes does not wait for long. One that cannot complete says nothing.
fn answer_query(wanted: CompletionQuery, client: Client) {
    tokio::spawn(async move {
        let said = client.complete(wanted.params).timeout(COMPLETION_TIMEOUT).await;
        let values = said.map(|said| said.completion.values).unwrap_or_default();
        // Nobody may be waiting any more.
        let _ = wanted.reply.send(values);
    });
}

/// How long Tab waits for the server.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the connection is looked after while the prompt waits.
const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_millis(500);
