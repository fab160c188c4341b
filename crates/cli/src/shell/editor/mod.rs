//! Where lines come from: a person at a terminal, with a line editor, or standard input as it is.
//!
//! Either reads in a thread of its own and only when it is told to, so that nobody else's input is taken and the
//! connection lives on meanwhile. Questions of a server are asked in the same thread: only one may read.

mod desk;
mod keys;
mod line;
mod terminal;

use std::io::{self, BufRead};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::completing::Candidate;
use super::history::{self, History};
use crate::asking::Person;
use crate::screen::{aside, clean, divert};
use desk::{Ended, Ways};
use keys::Keys;
use terminal::Door;

/// What came of reading a line.
#[derive(Debug)]
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C: what was typed is forgotten.
    Cleared,
    /// There is something, and it is no line.
    Broken(String),
    End,
}

/// Completes a line: where what could follow begins, and what that is.
pub(super) type Complete = Box<dyn Fn(&str) -> (usize, Vec<Candidate>) + Send>;

/// The thread that reads.
pub(super) struct Lines {
    asks: Sender<Ask>,
    shared: Arc<Shared>,
}

/// What the thread and others share.
struct Shared {
    door: Arc<Door>,
    /// The number of the last question, and up to which they are no longer asked.
    asked: AtomicU64,
    withdrawn: AtomicU64,
    stopped: AtomicBool,
    /// Ctrl-C instead of an answer.
    interrupted: Notify,
}

enum Ask {
    Command(oneshot::Sender<Typed>),
    Question { number: u64, prompt: String, reply: Sender<Option<String>> },
}

impl Lines {
    /// From a person. `prompt` stands before each line.
    pub(super) fn typed(prompt: String, complete: Complete) -> io::Result<Self> {
        Self::thread(move |asks, shared| Typist::new(shared).serve(&prompt, &complete, asks))
    }

    /// From standard input, whoever writes it.
    pub(super) fn plain() -> io::Result<Self> {
        Self::thread(|asks, _| {
            for ask in asks {
                match ask {
                    Ask::Command(reply) => drop(reply.send(plain_line())),
                    Ask::Question { reply, .. } => drop(reply.send(None)),
                }
            }
        })
    }

    fn thread(read: impl FnOnce(Receiver<Ask>, &Shared) + Send + 'static) -> io::Result<Self> {
        let (asks, asked) = mpsc::channel();
        let shared = Arc::new(Shared {
            door: Arc::new(Door::new()?),
            asked: AtomicU64::new(0),
            withdrawn: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            interrupted: Notify::new(),
        });
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("lines".to_owned()).spawn(move || read(asked, &theirs))?;
        Ok(Self { asks, shared })
    }

    /// Asks for a command.
    pub(super) fn next(&self) -> oneshot::Receiver<Typed> {
        let (reply, line) = oneshot::channel();
        // If nobody reads any more, nobody answers either.
        let _ = self.asks.send(Ask::Command(reply));
        line
    }

    /// Done when Ctrl-C was pressed instead of an answer.
    pub(super) async fn interrupted(&self) {
        self.shared.interrupted.notified().await;
    }

    /// What was asked is not asked any more.
    pub(super) fn withdraw(&self) {
        let last = self.shared.asked.load(Ordering::Acquire);
        self.shared.withdrawn.store(last, Ordering::Release);
        self.shared.door.knock();
    }

    /// The terminal may have another size.
    pub(super) fn redraw(&self) {
        self.shared.door.knock();
    }

    /// Ends what is being typed, and waits until the terminal is as it was.
    pub(super) async fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.shared.door.knock();
        // A terminal that lets nobody stop it has nothing to be put back.
        let _ = tokio::time::timeout(PATIENCE, self.next()).await;
    }

    /// Whoever sits there.
    pub(super) fn person(&self) -> impl Person + use<> {
        AtPrompt { asks: Mutex::new(self.asks.clone()), shared: Arc::clone(&self.shared) }
    }
}

fn plain_line() -> Typed {
    let mut bytes = Vec::new();
    match io::stdin().lock().read_until(b'\n', &mut bytes) {
        Ok(0) => Typed::End,
        Ok(_) => match String::from_utf8(bytes) {
            Ok(line) => Typed::Line(line.trim_end_matches(['\n', '\r']).to_owned()),
            Err(_) => Typed::Broken("a line is not UTF-8".to_owned()),
        },
        Err(error) => {
            aside(&format!("note: standard input cannot be read: {error}"));
            Typed::End
        }
    }
}

/// A person at the prompt.
struct AtPrompt {
    asks: Mutex<Sender<Ask>>,
    shared: Arc<Shared>,
}

impl Person for AtPrompt {
    fn tell(&self, text: &str) {
        aside(text.trim_end_matches('\n'));
    }

    fn line(&self, prompt: &str) -> Option<String> {
        let (reply, answer) = mpsc::channel();
        let number = self.shared.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
        asks.send(Ask::Question { number, prompt: clean(prompt), reply }).ok()?;
        drop(asks);
        answer.recv().ok().flatten()
    }
}

/// Reads what a person types.
struct Typist<'a> {
    shared: &'a Shared,
    keys: Keys,
    earlier: Vec<String>,
    file: Option<History>,
    /// Whether the terminal can do no more than show text.
    is_dumb: bool,
}

impl<'a> Typist<'a> {
    fn new(shared: &'a Shared) -> Self {
        let (file, earlier) = match history::usual_place().map(|path| (History::open(path.clone()), path)) {
            Some((Ok((file, lines)), _)) => (Some(file), lines),
            Some((Err(error), path)) => {
                aside(&format!("note: what is typed is not kept: {}: {error}", path.display()));
                (None, Vec::new())
            }
            None => (None, Vec::new()),
        };
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        Self { shared, keys: Keys::default(), earlier, file, is_dumb }
    }

    fn serve(mut self, prompt: &str, complete: &Complete, asks: Receiver<Ask>) {
        let shared = self.shared;
        let stopped = || shared.stopped.load(Ordering::Acquire);
        for ask in asks {
            match ask {
                Ask::Command(reply) => {
                    let earlier = std::mem::take(&mut self.earlier);
                    let ways = Ways {
                        prompt,
                        earlier: &earlier,
                        complete: &|typed| complete(typed),
                        withdrawn: &stopped,
                    };
                    let ended = self.line(&ways);
                    self.earlier = earlier;
                    let typed = match ended {
                        Ended::Line(line) => {
                            self.keep(&line);
                            Typed::Line(line)
                        }
                        Ended::Interrupted => Typed::Cleared,
                        Ended::End | Ended::Withdrawn => Typed::End,
                    };
                    let _ = reply.send(typed);
                }
                Ask::Question { number, prompt, reply } => {
                    let withdrawn = || stopped() || shared.withdrawn.load(Ordering::Acquire) >= number;
                    let nothing = |typed: &str| (typed.len(), Vec::new());
                    let ways =
                        Ways { prompt: &prompt, earlier: &[], complete: &nothing, withdrawn: &withdrawn };
                    let answer = match self.line(&ways) {
                        Ended::Line(line) => Some(line),
                        Ended::Interrupted => {
                            // Whoever does not wait for it now is not meant.
                            shared.interrupted.notify_waiters();
                            None
                        }
                        Ended::End | Ended::Withdrawn => None,
                    };
                    let _ = reply.send(answer);
                }
            }
        }
    }

    fn line(&mut self, ways: &Ways<'_>) -> Ended {
        if self.is_dumb {
            return cooked(ways.prompt);
        }
        let door = &self.shared.door;
        divert(Some(terminal::above(door)));
        let ended = desk::read(&mut self.keys, door, ways);
        divert(None);
        // What came too late to be shown above is shown now.
        if let Some(notes) = door.notes() {
            aside(notes.trim_end_matches('\n'));
        }
        ended.unwrap_or_else(|error| {
            aside(&format!("note: the terminal cannot be used: {error}"));
            Ended::End
        })
    }

    fn keep(&mut self, line: &str) {
        if !history::is_kept(line, self.earlier.last().map(String::as_str)) {
            return;
        }
        if let Some(Err(error)) = self.file.as_ref().map(|file| file.add(line)) {
            aside(&format!("note: what was typed is not kept: {error}"));
            self.file = None;
        }
        self.earlier.push(line.to_owned());
        if self.earlier.len() > history::MOST {
            self.earlier.remove(0);
        }
    }
}

/// A line that the terminal itself lets edit.
fn cooked(prompt: &str) -> Ended {
    let _ = terminal::write(prompt);
    match plain_line() {
        Typed::Line(line) => Ended::Line(line),
        Typed::Cleared | Typed::Broken(_) | Typed::End => Ended::End,
    }
}

/// How long a line may take to end.
const PATIENCE: Duration = Duration::from_secs(1);
