//! The terminal: keys as they are pressed, and a way to interrupt the wait for them.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::console::NoteSink;

#[cfg(unix)]
use unix::WakeSignal;
#[cfg(unix)]
pub(super) use unix::{RawMode, columns, has_escapes, wait_for_input};
#[cfg(windows)]
use windows::WakeSignal;
#[cfg(windows)]
pub(super) use windows::{RawMode, columns, has_escapes, wait_for_input};

/// Writes to the terminal, where prompts are shown.
pub(super) fn write(text: &str) -> io::Result<()> {
    let mut terminal = io::stderr().lock();
    terminal.write_all(text.as_bytes())?;
    terminal.flush()
}

/// The result of waiting for input.
#[derive(Debug)]
pub(super) enum TerminalInput {
    Bytes(Vec<u8>),
    /// Nothing typed, but [`InputWaker::wake`] was called.
    Wake,
    /// Nothing in time.
    Timeout,
    Eof,
}

/// Interrupts the wait for input: with notes to be shown, or because something else has changed.
pub(super) struct InputWaker {
    signal: WakeSignal,
    pending: Mutex<PendingNotes>,
}

#[derive(Default)]
struct PendingNotes {
    notes: VecDeque<String>,
    dropped: usize,
    /// Whether a wake-up was sent and not yet received.
    woken: bool,
}

impl InputWaker {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { signal: WakeSignal::new()?, pending: Mutex::default() })
    }

    /// Interrupts the wait for input.
    pub(super) fn wake(&self) {
        let mut waiting = self.pending();
        if !std::mem::replace(&mut waiting.woken, true) {
            self.signal.send();
        }
    }

    fn push_note(&self, note: String) {
        let mut waiting = self.pending();
        match waiting.notes.len() < MAX_NOTES {
            true => waiting.notes.push_back(note),
            false => waiting.dropped += 1,
        }
        drop(waiting);
        self.wake();
    }

    /// Takes the notes that wait, if there are any.
    pub(super) fn take_notes(&self) -> Option<String> {
        let mut waiting = self.pending();
        waiting.woken = false;
        let mut text = String::new();
        for note in waiting.notes.drain(..) {
            text.push_str(&note);
            text.push('\n');
        }
        if waiting.dropped > 0 {
            text.push_str(&format!("note: {} more were left out\n", waiting.dropped));
            waiting.dropped = 0;
        }
        (!text.is_empty()).then_some(text)
    }

    fn pending(&self) -> MutexGuard<'_, PendingNotes> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sink that shows notes while a line is edited.
pub(super) fn note_sink(waker: &Arc<InputWaker>) -> NoteSink {
    let waker = Arc::clone(waker);
    Arc::new(move |note| waker.push_note(note))
}

/// Notes that wait to be shown.
const MAX_NOTES: usize = 1_000;
