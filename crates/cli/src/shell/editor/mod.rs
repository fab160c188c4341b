//! Where lines come from: a person at a terminal, with a line editor, or standard input as it is.
//!
//! Either reads in a thread of its own and only when it is told to, so that nobody else's input is taken and the
//! connection lives on meanwhile. Questions of a server are asked in the same thread: only one may read.

mod keys;
mod line_buffer;
mod line_editor;
mod terminal;

use std::io::{self, BufRead};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::completion::Candidate;
use super::history::{self, History};
use crate::console::{sanitize, set_note_sink, write_note};
use crate::server_requests::Prompter;
use keys::KeyDecoder;
use line_editor::{LineConfig, ReadOutcome};
use terminal::InputWaker;

/// What came of reading a line.
#[derive(Debug)]
pub(super) enum LineInput {
    Line(String),
    /// Ctrl-C: what was typed is forgotten.
    Cleared,
    /// There is something, and it is no line.
    Invalid(String),
    Eof,
}

/// Completes a line: where what could follow begins, and what that is.
pub(super) type CompleteFn = Box<dyn Fn(&str) -> (usize, Vec<Candidate>) + Send>;

/// The thread that reads.
pub(super) struct LineReader {
    requests: Sender<ReadRequest>,
    shared: Arc<ReaderState>,
}

/// What the thread and others share.
struct ReaderState {
    waker: Arc<InputWaker>,
    /// The number of the last question, and up to which they are no longer asked.
    last_prompt: AtomicU64,
    cancelled_up_to: AtomicU64,
    stopped: AtomicBool,
    /// Ctrl-C instead of an answer.
    interrupted: Notify,
}

enum ReadRequest {
    Command(oneshot::Sender<LineInput>),
    Prompt { number: u64, prompt: String, reply: Sender<Option<String>> },
}

impl LineReader {
    /// From a person. `prompt` stands before each line.
    pub(super) fn from_terminal(prompt: String, complete: CompleteFn) -> io::Result<Self> {
        Self::spawn(move |asks, shared| TerminalReader::new(shared).run(&prompt, &complete, asks))
    }

    /// From standard input, whoever writes it.
    pub(super) fn from_stdin() -> io::Result<Self> {
        Self::spawn(|asks, _| {
            for ask in asks {
                match ask {
                    ReadRequest::Command(reply) => drop(reply.send(read_stdin_line())),
                    ReadRequest::Prompt { reply, .. } => drop(reply.send(None)),
                }
            }
        })
    }

    fn spawn(read: impl FnOnce(Receiver<ReadRequest>, &ReaderState) + Send + 'static) -> io::Result<Self> {
        let (asks, asked) = mpsc::channel();
        let shared = Arc::new(ReaderState {
            waker: Arc::new(InputWaker::new()?),
            last_prompt: AtomicU64::new(0),
            cancelled_up_to: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            interrupted: Notify::new(),
        });
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("lines".to_owned()).spawn(move || read(asked, &theirs))?;
        Ok(Self { requests: asks, shared })
    }

    /// Asks for a command.
    pub(super) fn next_line(&self) -> oneshot::Receiver<LineInput> {
        let (reply, line) = oneshot::channel();
        // If nobody reads any more, nobody answers either.
        let _ = self.requests.send(ReadRequest::Command(reply));
        line
    }

    /// Done when Ctrl-C was pressed instead of an answer.
    pub(super) async fn interrupted(&self) {
        self.shared.interrupted.notified().await;
    }

    /// What was asked is not asked any more.
    pub(super) fn cancel_prompt(&self) {
        let last = self.shared.last_prompt.load(Ordering::Acquire);
        self.shared.cancelled_up_to.store(last, Ordering::Release);
        self.shared.waker.wake();
    }

    /// The terminal may have another size.
    pub(super) fn redraw(&self) {
        self.shared.waker.wake();
    }

    /// Ends what is being typed, and waits until the terminal is as it was.
    pub(super) async fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.shared.waker.wake();
        // A terminal that lets nobody stop it has nothing to be put back.
        let _ = tokio::time::timeout(STOP_TIMEOUT, self.next_line()).await;
    }

    /// Whoever sits there.
    pub(super) fn prompter(&self) -> impl Prompter + use<> {
        EditorPrompter { requests: Mutex::new(self.requests.clone()), shared: Arc::clone(&self.shared) }
    }
}

fn read_stdin_line() -> LineInput {
    let mut bytes = Vec::new();
    match io::stdin().lock().read_until(b'\n', &mut bytes) {
        Ok(0) => LineInput::Eof,
        Ok(_) => match String::from_utf8(bytes) {
            Ok(line) => LineInput::Line(line.trim_end_matches(['\n', '\r']).to_owned()),
            Err(_) => LineInput::Invalid("a line is not UTF-8".to_owned()),
        },
        Err(error) => {
            write_note(&format!("note: standard input cannot be read: {error}"));
            LineInput::Eof
        }
    }
}

/// A person at the prompt.
struct EditorPrompter {
    requests: Mutex<Sender<ReadRequest>>,
    shared: Arc<ReaderState>,
}

impl Prompter for EditorPrompter {
    fn show(&self, text: &str) {
        write_note(text.trim_end_matches('\n'));
    }

    fn read_line(&self, prompt: &str) -> Option<String> {
        let (reply, answer) = mpsc::channel();
        let number = self.shared.last_prompt.fetch_add(1, Ordering::AcqRel) + 1;
        let asks = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        asks.send(ReadRequest::Prompt { number, prompt: sanitize(prompt), reply }).ok()?;
        drop(asks);
        answer.recv().ok().flatten()
    }
}

/// Reads what a person types.
struct TerminalReader<'a> {
    shared: &'a ReaderState,
    keys: KeyDecoder,
    history: Vec<String>,
    history_file: Option<History>,
    /// Whether the terminal can do no more than show text.
    is_dumb: bool,
}

impl<'a> TerminalReader<'a> {
    fn new(shared: &'a ReaderState) -> Self {
        let (history_file, history) =
            match history::default_path().map(|path| (History::open(path.clone()), path)) {
                Some((Ok((file, lines)), _)) => (Some(file), lines),
                Some((Err(error), path)) => {
                    write_note(&format!("note: what is typed is not kept: {}: {error}", path.display()));
                    (None, Vec::new())
                }
                None => (None, Vec::new()),
            };
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        Self { shared, keys: KeyDecoder::default(), history, history_file, is_dumb }
    }

    fn run(mut self, prompt: &str, complete: &CompleteFn, asks: Receiver<ReadRequest>) {
        let shared = self.shared;
        let stopped = || shared.stopped.load(Ordering::Acquire);
        for ask in asks {
            match ask {
                ReadRequest::Command(reply) => {
                    let earlier = std::mem::take(&mut self.history);
                    let ways = LineConfig {
                        prompt,
                        history: &earlier,
                        complete: &|typed| complete(typed),
                        is_cancelled: &stopped,
                    };
                    let ended = self.read_line(&ways);
                    self.history = earlier;
                    let typed = match ended {
                        ReadOutcome::Line(line) => {
                            self.add_to_history(&line);
                            LineInput::Line(line)
                        }
                        ReadOutcome::Interrupted => LineInput::Cleared,
                        ReadOutcome::Eof | ReadOutcome::Cancelled => LineInput::Eof,
                    };
                    let _ = reply.send(typed);
                }
                ReadRequest::Prompt { number, prompt, reply } => {
                    let withdrawn = || stopped() || shared.cancelled_up_to.load(Ordering::Acquire) >= number;
                    let nothing = |typed: &str| (typed.len(), Vec::new());
                    let ways = LineConfig {
                        prompt: &prompt,
                        history: &[],
                        complete: &nothing,
                        is_cancelled: &withdrawn,
                    };
                    let answer = match self.read_line(&ways) {
                        ReadOutcome::Line(line) => Some(line),
                        ReadOutcome::Interrupted => {
                            // Whoever does not wait for it now is not meant.
                            shared.interrupted.notify_waiters();
                            None
                        }
                        ReadOutcome::Eof | ReadOutcome::Cancelled => None,
                    };
                    let _ = reply.send(answer);
                }
            }
        }
    }

    fn read_line(&mut self, ways: &LineConfig<'_>) -> ReadOutcome {
        if self.is_dumb {
            return read_cooked_line(ways.prompt);
        }
        let door = &self.shared.waker;
        set_note_sink(Some(terminal::note_sink(door)));
        let ended = line_editor::read_line(&mut self.keys, door, ways);
        set_note_sink(None);
        // What came too late to be shown above is shown now.
        if let Some(notes) = door.take_notes() {
            write_note(notes.trim_end_matches('\n'));
        }
        ended.unwrap_or_else(|error| {
            write_note(&format!("note: the terminal cannot be used: {error}"));
            ReadOutcome::Eof
        })
    }

    fn add_to_history(&mut self, line: &str) {
        if !history::should_keep(line, self.history.last().map(String::as_str)) {
            return;
        }
        if let Some(Err(error)) = self.history_file.as_ref().map(|file| file.append(line)) {
            write_note(&format!("note: what was typed is not kept: {error}"));
            self.history_file = None;
        }
        self.history.push(line.to_owned());
        if self.history.len() > history::MAX_LINES {
            self.history.remove(0);
        }
    }
}

/// A line that the terminal itself lets edit.
fn read_cooked_line(prompt: &str) -> ReadOutcome {
    let _ = terminal::write(prompt);
    match read_stdin_line() {
        LineInput::Line(line) => ReadOutcome::Line(line),
        LineInput::Cleared | LineInput::Invalid(_) | LineInput::Eof => ReadOutcome::Eof,
    }
}

/// How long a line may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
