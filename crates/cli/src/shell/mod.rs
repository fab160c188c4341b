//! A prompt on a server that stays connected: the verbs, one after the other, on one session.
//!
//! Lines are read in a thread of their own (`editor`), so the connection lives while the prompt waits: pings are
//! answered, changes and logs are shown above it, and Tab can ask the server (`completing`). A command that fails ends
//! nothing, and a connection that is lost is opened again by the next one.

mod command;
mod completing;
mod editor;
mod history;
mod names;
mod uris;
mod words;

use std::sync::Arc;
use std::sync::mpsc as sync;
use std::time::Duration;

use tokio::sync::mpsc;
use tsugite::client::Client;
use tsugite::core::protocol::completion::CompleteParams;

use crate::asking::{Interview, Replies};
use crate::fail::{Exit, Failure, Result};
use crate::options::Common;
use crate::screen::Screen;
use crate::session::Session;
use crate::signals::{Asked, Signals};
use crate::target::Found;
use command::Command;
use completing::Knowledge;
use editor::{Complete, Lines, Typed};
use names::Names;

/// Connects, and does what is typed until there is no more. `label` stands before the prompt.
pub(crate) async fn run(found: Found, common: Common, replies: Replies, label: &str) -> Result<()> {
    let cannot = |error: std::io::Error| Failure::usage("the shell cannot begin").seen(error.to_string());
    let signals = Signals::listen().map_err(cannot)?;
    let screen = Arc::new(Screen::of_many(common.json));
    let names = Arc::new(Names::default());
    let (questions, asked) = mpsc::channel(1);
    let is_typed = screen.can_ask();
    let lines = match is_typed {
        true => Lines::typed(format!("{label}> "), completer(Arc::clone(&names), questions)),
        false => Lines::plain(),
    };
    let lines = lines.map_err(cannot)?;
    let interview = Interview::new(replies, Arc::clone(&screen), Arc::new(lines.person()));
    let told = Arc::clone(&names);
    let session = Session::attended(found, &common, Arc::new(interview), screen, move |connecting| {
        connecting.on_change(move |change| told.has_changed(&change))
    });
    let mut shell = Shell { lines, signals, names, asked, is_typed, failed: Exit::Fine };
    let session = tokio::select! {
        biased;
        () = shell.signals.stop_asked() => return Err(Failure::silent(Exit::Interrupted)),
        session = session => session?,
    };
    let fresh = tokio::spawn(names::keep_fresh(session.clone(), Arc::clone(&shell.names)));
    let ended = shell.serve(&session).await;
    fresh.abort();
    // It has the session too.
    let _ = fresh.await;
    if is_typed {
        shell.lines.stop().await;
    }
    match ended {
        // Whoever wants an end now does not wait for the server's.
        Err(failure) if failure.exit == Exit::Interrupted => return Err(failure),
        ended => {
            let closed = tokio::select! {
                biased;
                () = shell.signals.stop_asked() => return Err(Failure::silent(Exit::Interrupted)),
                closed = session.close() => closed,
            };
            ended.and(closed)?;
        }
    }
    // A person has seen what failed.
    match (shell.is_typed, shell.failed) {
        (true, _) | (_, Exit::Fine) => Ok(()),
        (false, failed) => Err(Failure::silent(failed)),
    }
}

struct Shell {
    lines: Lines,
    signals: Signals,
    names: Arc<Names>,
    /// What Tab wants to know of the server.
    asked: mpsc::Receiver<Wanted>,
    /// Whether a person types the lines.
    is_typed: bool,
    /// How the last command ended that did not end well.
    failed: Exit,
}

/// What could stand in an argument: whoever completes waits for it.
struct Wanted {
    params: CompleteParams,
    reply: sync::Sender<Vec<String>>,
}

impl Shell {
    async fn serve(&mut self, session: &Session) -> Result<()> {
        // Names are there before anybody types one.
        let first = self.names.refresh(session).await;
        if self.is_typed {
            session.screen.note(&greeting(session, &self.names).await);
        }
        if let Err(failure) = first {
            session.screen.failure(&failure);
        }
        while let Some(line) = self.line(session).await? {
            match self.obey(&line, session).await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // Nobody reads the results any more.
                Err(failure) if failure.exit == Exit::Fine => return Err(failure),
                Err(failure) => self.tell(&failure, session)?,
            }
        }
        Ok(())
    }

    /// The next line; `None` when there is no more. Meanwhile the connection lives on.
    async fn line(&mut self, session: &Session) -> Result<Option<String>> {
        let mut line = self.lines.next();
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                typed = &mut line => match typed {
                    Ok(Typed::Line(line)) => return Ok(Some(line)),
                    Ok(Typed::Cleared) => line = self.lines.next(),
                    Ok(Typed::Broken(seen)) => {
                        self.tell(&Failure::usage(seen), session)?;
                        line = self.lines.next();
                    }
                    Ok(Typed::End) | Err(_) => return Ok(None),
                },
                signal = self.signals.next() => match signal {
                    Asked::Redraw => self.lines.redraw(),
                    Asked::LeaveOff if self.is_typed => {}
                    Asked::LeaveOff | Asked::End => {
                        return Err(Failure::silent(Exit::Interrupted));
                    }
                },
                Some(wanted) = self.asked.recv() => answer(wanted, session.client.clone()),
                _ = look.tick() => self.names.look_after(session),
            }
        }
    }

    /// Does what a line says; false if it says to leave.
    async fn obey(&mut self, line: &str, session: &Session) -> Result<bool> {
        let words = words::split(line).map_err(|wrong| {
            Failure::usage(wrong).hint("a quote or a blank that belongs to a word is written \\' or '…'")
        })?;
        if words.is_empty() {
            return Ok(true);
        }
        let offered = self.names.now();
        let tools: Vec<&str> = offered.tools.iter().map(|tool| tool.name.as_str()).collect();
        let command = match Command::read(words, &tools) {
            Ok(Command::Quit) => return Ok(false),
            Ok(command) => command,
            // Help was asked for, and shown.
            Err(failure) if failure.exit == Exit::Fine => return Ok(true),
            Err(failure) => return Err(failure),
        };
        let session = match command.wants_json() {
            true => Session { screen: Arc::new(Screen::of_many(true)), ..session.clone() },
            false => session.clone(),
        };
        let is_listening = matches!(command, Command::Listen(_));
        let _quiet = is_listening.then(|| self.names.quiet());
        session.interview.begin(command.answers());
        let outcome = self.until_stopped(command, &session).await;
        session.screen.hide_bar();
        self.lines.withdraw();
        match outcome {
            // That is how it ends.
            Err(failure) if is_listening && failure.exit == Exit::Interrupted && self.is_typed => Ok(true),
            Err(failure) => Err(session.interview.mistake().unwrap_or(failure)),
            Ok(()) => {
                self.names.is_there();
                session.interview.end()?;
                Ok(true)
            }
        }
    }

    /// Does a command, unless Ctrl-C stops it. The server is told to stop, too.
    async fn until_stopped(&mut self, command: Command, session: &Session) -> Result<()> {
        let mut doing = std::pin::pin!(command.on(session));
        loop {
            tokio::select! {
                biased;
                signal = self.signals.next() => match signal {
                    Asked::LeaveOff => {
                        if self.is_typed {
                            // Behind what the terminal shows of Ctrl-C.
                            eprintln!();
                        }
                        return Err(Failure::new(Exit::Interrupted, "stopped"));
                    }
                    Asked::End => return Err(Failure::silent(Exit::Interrupted)),
                    Asked::Redraw => self.lines.redraw(),
                },
                () = self.lines.interrupted() => return Err(Failure::new(Exit::Interrupted, "stopped")),
                outcome = &mut doing => return outcome,
            }
        }
    }

    /// Tells a failure and goes on, unless it was to end all.
    fn tell(&mut self, failure: &Failure, session: &Session) -> Result<()> {
        let all = failure.exit == Exit::Interrupted && (failure.what.is_empty() || !self.is_typed);
        if all {
            return Err(Failure::silent(Exit::Interrupted));
        }
        if failure.exit == Exit::Interrupted {
            session.screen.note(&failure.what);
            return Ok(());
        }
        self.failed = failure.exit;
        let mut failure = failure.clone();
        if failure.exit == Exit::Connect {
            self.names.is_away();
            failure = failure.hint("the next command connects anew");
        }
        session.screen.failure(&failure);
        Ok(())
    }
}

/// What somebody hears who has just connected.
async fn greeting(session: &Session, names: &Names) -> String {
    let about = session.about().await.ok();
    let server =
        about.and_then(|about| about.server).map(|server| format!("{} {}", server.name, server.version));
    let offered = names.now();
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
fn completer(names: Arc<Names>, questions: mpsc::Sender<Wanted>) -> Complete {
    let commands = command::known();
    Box::new(move |line| {
        let ask = |params| {
            let (reply, answer) = sync::channel();
            let sent = questions.try_send(Wanted { params, reply });
            sent.ok().and_then(|()| answer.recv_timeout(PATIENCE).ok()).unwrap_or_default()
        };
        let offered = names.now();
        let knowledge = Knowledge { commands: &commands, offered: &offered, ask: &ask };
        knowledge.candidates(line)
    })
}

/// Asks the server in passing; whoever completes does not wait for long. One that cannot complete says nothing.
fn answer(wanted: Wanted, client: Client) {
    tokio::spawn(async move {
        let said = client.complete(wanted.params).timeout(PATIENCE).await;
        let values = said.map(|said| said.completion.values).unwrap_or_default();
        // Nobody may be waiting any more.
        let _ = wanted.reply.send(values);
    });
}

/// How long Tab waits for the server.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the connection is looked after while the prompt waits.
const LOOK: Duration = Duration::from_millis(500);
