//! Reads the lines of the shell: from a terminal with a line editor, or from standard input.
//!
//! A separate thread reads, and only on request, so that it never takes the input of another program and the connection
//! stays active. The same thread prompts for the answers to a server's questions, because only one thread may read.

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
use terminal::{InputWaker, RawMode};

/// The result of a request for a line.
#[derive(Debug)]
pub(super) enum LineInput {
    Line(String),
    /// Ctrl-C: the line was discarded.
    Cleared,
    /// The input is not a valid line.
    Invalid(String),
    Eof,
}

/// Completes a line: returns the candidates, and the offset that they replace from.
pub(super) type CompleteFn = Box<dyn Fn(&str) -> (usize, Vec<Candidate>) + Send>;

/// A handle to the thread that reads lines.
pub(super) struct LineReader {
    requests: Sender<ReadRequest>,
    shared: Arc<ReaderState>,
}

/// The state shared with the reading thread.
struct ReaderState {
    waker: Arc<InputWaker>,
    /// The number of the last prompt.
    last_prompt: AtomicU64,
    /// Prompts up to this number are cancelled.
    cancelled_up_to: AtomicU64,
    stopped: AtomicBool,
    /// Notified by Ctrl-C at a prompt.
    interrupted: Notify,
}

enum ReadRequest {
    Command(oneshot::Sender<LineInput>),
    Prompt { number: u64, prompt: String, reply: Sender<Option<String>> },
}

impl LineReader {
    /// Reads from the terminal, with `prompt` before each line.
    pub(super) fn from_terminal(prompt: String, complete: CompleteFn) -> io::Result<Self> {
        Self::spawn(move |requests, shared| TerminalReader::new(shared).run(&prompt, &complete, requests))
    }

    /// Reads from standard input, without a prompt.
    pub(super) fn from_stdin() -> io::Result<Self> {
        Self::spawn(|requests, _| {
            for request in requests {
                match request {
                    ReadRequest::Command(reply) => drop(reply.send(read_stdin_line())),
                    ReadRequest::Prompt { reply, .. } => drop(reply.send(None)),
                }
            }
        })
    }

    fn spawn(read: impl FnOnce(Receiver<ReadRequest>, &ReaderState) + Send + 'static) -> io::Result<Self> {
        let (requests, receiver) = mpsc::channel();
        let shared = Arc::new(ReaderState {
            waker: Arc::new(InputWaker::new()?),
            last_prompt: AtomicU64::new(0),
            cancelled_up_to: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            interrupted: Notify::new(),
        });
        let reader_state = Arc::clone(&shared);
        thread::Builder::new().name("lines".to_owned()).spawn(move || read(receiver, &reader_state))?;
        Ok(Self { requests, shared })
    }

    /// Requests a command line.
    pub(super) fn next_line(&self) -> oneshot::Receiver<LineInput> {
        let (reply, line) = oneshot::channel();
        // If the thread has ended, the receiver fails.
        let _ = self.requests.send(ReadRequest::Command(reply));
        line
    }

    /// Completes when Ctrl-C is pressed at a prompt.
    pub(super) async fn interrupted(&self) {
        self.shared.interrupted.notified().await;
    }

    /// Cancels all prompts so far.
    pub(super) fn cancel_prompt(&self) {
        let last = self.shared.last_prompt.load(Ordering::Acquire);
        self.shared.cancelled_up_to.store(last, Ordering::Release);
        self.shared.waker.wake();
    }

    /// Redraws the line after a resize of the terminal.
    pub(super) fn redraw(&self) {
        self.shared.waker.wake();
    }

    /// Stops reading, and waits until the terminal mode is restored.
    pub(super) async fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.shared.waker.wake();
        // Do not wait forever for a terminal that does not respond.
        let _ = tokio::time::timeout(STOP_TIMEOUT, self.next_line()).await;
    }

    /// Returns a prompter that uses the reading thread.
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
            Err(_) => LineInput::Invalid("invalid UTF-8 in a line of standard input".to_owned()),
        },
        Err(error) => {
            write_note(&format!("note: cannot read standard input: {error}"));
            LineInput::Eof
        }
    }
}

/// A prompter that reads through the line editor.
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
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.send(ReadRequest::Prompt { number, prompt: sanitize(prompt), reply }).ok()?;
        drop(requests);
        answer.recv().ok().flatten()
    }
}

/// Reads lines from the terminal.
struct TerminalReader<'a> {
    shared: &'a ReaderState,
    keys: KeyDecoder,
    history: Vec<String>,
    history_file: Option<History>,
    /// Whether lines can be edited: the terminal understands escape sequences, and keys can be read one by one.
    has_editor: bool,
}

impl<'a> TerminalReader<'a> {
    fn new(shared: &'a ReaderState) -> Self {
        let (history_file, history) = match history::default_path()
            .map(|path| (History::open(path.clone()), path))
        {
            Some((Ok((file, lines)), _)) => (Some(file), lines),
            Some((Err(error), path)) => {
                write_note(&format!("note: history is not saved: cannot open {}: {error}", path.display()));
                (None, Vec::new())
            }
            None => (None, Vec::new()),
        };
        Self {
            shared,
            keys: KeyDecoder::default(),
            history,
            history_file,
            has_editor: terminal::has_escapes(),
        }
    }

    fn run(mut self, prompt: &str, complete: &CompleteFn, requests: Receiver<ReadRequest>) {
        let shared = self.shared;
        let stopped = || shared.stopped.load(Ordering::Acquire);
        for request in requests {
            match request {
                ReadRequest::Command(reply) => {
                    let history = std::mem::take(&mut self.history);
                    let config = LineConfig {
                        prompt,
                        history: &history,
                        complete: &|typed| complete(typed),
                        is_cancelled: &stopped,
                    };
                    let ended = self.read_line(&config);
                    self.history = history;
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
                    let is_cancelled =
                        || stopped() || shared.cancelled_up_to.load(Ordering::Acquire) >= number;
                    let no_completion = |typed: &str| (typed.len(), Vec::new());
                    let config = LineConfig {
                        prompt: &prompt,
                        history: &[],
                        complete: &no_completion,
                        is_cancelled: &is_cancelled,
                    };
                    let answer = match self.read_line(&config) {
                        ReadOutcome::Line(line) => Some(line),
                        ReadOutcome::Interrupted => {
                            // Only a task that waits right now is notified.
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

    fn read_line(&mut self, config: &LineConfig<'_>) -> ReadOutcome {
        if (config.is_cancelled)() {
            return ReadOutcome::Cancelled;
        }
        let Some(raw) = self.raw_mode() else { return read_cooked_line(config.prompt) };
        let waker = &self.shared.waker;
        set_note_sink(Some(terminal::note_sink(waker)));
        let ended = line_editor::read_line(raw, &mut self.keys, waker, config);
        set_note_sink(None);
        // Print notes that arrived too late to be drawn above the line.
        if let Some(notes) = waker.take_notes() {
            write_note(notes.trim_end_matches('\n'));
        }
        ended.unwrap_or_else(|error| {
            write_note(&format!("note: cannot use the terminal: {error}"));
            ReadOutcome::Eof
        })
    }

    /// Enters raw mode, unless lines cannot be edited. That of Git Bash is no console of Windows, for example.
    fn raw_mode(&mut self) -> Option<RawMode> {
        if !self.has_editor {
            return None;
        }
        match RawMode::new() {
            Ok(raw) => Some(raw),
            Err(error) => {
                write_note(&format!("note: lines cannot be edited in this terminal: {error}"));
                self.has_editor = false;
                None
            }
        }
    }

    fn add_to_history(&mut self, line: &str) {
        if !history::should_keep(line, self.history.last().map(String::as_str)) {
            return;
        }
        if let Some(Err(error)) = self.history_file.as_ref().map(|file| file.append(line)) {
            write_note(&format!("note: history is no longer saved: {error}"));
            self.history_file = None;
        }
        self.history.push(line.to_owned());
        if self.history.len() > history::MAX_LINES {
            self.history.remove(0);
        }
    }
}

/// Reads a line in the terminal's own line mode.
fn read_cooked_line(prompt: &str) -> ReadOutcome {
    let _ = terminal::write(prompt);
    match read_stdin_line() {
        LineInput::Line(line) => ReadOutcome::Line(line),
        LineInput::Cleared | LineInput::Invalid(_) | LineInput::Eof => ReadOutcome::Eof,
    }
}

/// How long stopping may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
