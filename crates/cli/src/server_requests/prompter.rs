//! Prompts the user at the terminal.

use std::io::{self, BufRead, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::console::sanitize;

/// A way to show text to the user and to read a line.
pub(crate) trait Prompter: Send + Sync {
    /// Shows text from a server, sanitized.
    fn show(&self, text: &str);

    /// Reads a line after `prompt`, without its newline; `None` at the end of input. Does not return if another prompt takes
    /// the place of this one.
    fn read_line(&self, prompt: &str) -> Option<String>;
}

/// The terminal, without a line editor.
pub(crate) struct TerminalPrompter;

impl Prompter for TerminalPrompter {
    fn show(&self, text: &str) {
        let mut output = io::stderr().lock();
        // There is no other stream to report a failed write to.
        let _ = output.write_all(sanitize(text).as_bytes()).and_then(|()| output.flush());
    }

    fn read_line(&self, prompt: &str) -> Option<String> {
        let line = next_line();
        self.show(prompt);
        let line = line.recv().unwrap_or_else(|_| wait_forever());
        if line.is_none() {
            self.show("\n");
        }
        line
    }
}

/// Holds a prompt whose place another has taken. The user has not answered it, so the server must not get an answer.
fn wait_forever() -> ! {
    loop {
        std::thread::park();
    }
}

/// The prompt that gets the next line of standard input.
struct LineReader {
    waiting: Option<Sender<Option<String>>>,
    is_reading: bool,
}

static LINE_READER: Mutex<LineReader> = Mutex::new(LineReader { waiting: None, is_reading: false });

/// Requests the next line of standard input. A prompt that still waits gets none: a read cannot be stopped, so its line goes to
/// the prompt that the user sees.
fn next_line() -> Receiver<Option<String>> {
    let (sender, receiver) = mpsc::channel();
    let mut reader = lock();
    reader.waiting = Some(sender);
    if !std::mem::replace(&mut reader.is_reading, true) {
        std::thread::spawn(|| {
            let mut line = String::new();
            let read = io::stdin().lock().read_line(&mut line);
            let line = matches!(read, Ok(1..)).then(|| line.trim_end_matches(['\n', '\r']).to_owned());
            let mut reader = lock();
            reader.is_reading = false;
            if let Some(waiting) = reader.waiting.take() {
                let _ = waiting.send(line);
            }
        });
    }
    receiver
}

fn lock() -> MutexGuard<'static, LineReader> {
    LINE_READER.lock().unwrap_or_else(PoisonError::into_inner)
}
