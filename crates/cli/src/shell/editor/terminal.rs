//! Raw mode of the terminal, its input, and a waker for other threads.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use crate::console::NoteSink;

/// Raw mode. Dropping it restores the terminal.
pub(super) struct RawMode {
    saved: Termios,
}

impl RawMode {
    pub(super) fn new() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        raw.input_modes -= InputModes::ICRNL | InputModes::INLCR | InputModes::IGNCR | InputModes::IXON;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        let raw_mode = Self { saved: before };
        // Enable bracketed paste.
        write("\x1b[?2004h")?;
        Ok(raw_mode)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A destructor cannot report an error.
        let _ = write("\x1b[?2004l");
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.saved);
    }
}

/// Writes to the terminal, on standard error.
pub(super) fn write(text: &str) -> io::Result<()> {
    let mut terminal = io::stderr().lock();
    terminal.write_all(text.as_bytes())?;
    terminal.flush()
}

pub(super) fn columns() -> usize {
    let size = tcgetwinsize(io::stderr()).ok().map(|size| usize::from(size.ws_col));
    size.filter(|columns| *columns > 1).unwrap_or(80)
}

/// An input event.
#[derive(Debug)]
pub(super) enum TerminalInput {
    Bytes(Vec<u8>),
    Wake,
    /// No input within the timeout.
    Timeout,
    Eof,
}

/// Waits for bytes or a wake-up. With `brief`, only for 50 ms.
pub(super) fn wait_for_input(waker: &InputWaker, brief: bool) -> io::Result<TerminalInput> {
    let (stdin, wake_reader) = (io::stdin(), &waker.wake_reader);
    let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(wake_reader, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    match poll(&mut fds, brief.then_some(&timeout)) {
        Ok(0) => return Ok(TerminalInput::Timeout),
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(TerminalInput::Wake),
        Err(error) => return Err(error.into()),
    }
    let [has_keys, is_woken] = fds.map(|fd| !fd.revents().is_empty());
    if has_keys {
        let mut bytes = vec![0; 4096];
        // Not through the buffer of `Stdin`: the next reader must find the rest.
        return match rustix::io::read(&stdin, &mut bytes) {
            Ok(0) => Ok(TerminalInput::Eof),
            Ok(count) => {
                bytes.truncate(count);
                Ok(TerminalInput::Bytes(bytes))
            }
            Err(Errno::INTR | Errno::AGAIN) => Ok(TerminalInput::Wake),
            // The terminal is gone.
            Err(Errno::IO) => Ok(TerminalInput::Eof),
            Err(error) => Err(error.into()),
        };
    }
    if is_woken {
        let mut one = [0; 1];
        (&waker.wake_reader).read_exact(&mut one)?;
    }
    Ok(TerminalInput::Wake)
}

/// Wakes the reading thread while it waits for input, with notes to print or to redraw.
pub(super) struct InputWaker {
    wake_reader: PipeReader,
    wake_writer: PipeWriter,
    pending: Mutex<PendingNotes>,
}

#[derive(Default)]
struct PendingNotes {
    notes: VecDeque<String>,
    dropped: usize,
    /// Whether a wake-up is pending.
    woken: bool,
}

impl InputWaker {
    pub(super) fn new() -> io::Result<Self> {
        let (wake_reader, wake_writer) = io::pipe()?;
        Ok(Self { wake_reader, wake_writer, pending: Mutex::default() })
    }

    /// Wakes the reading thread.
    pub(super) fn wake(&self) {
        let mut pending = self.pending();
        if !std::mem::replace(&mut pending.woken, true) {
            // The pipe has room for one byte. If the reader is gone, there is nothing to wake.
            let _ = (&self.wake_writer).write_all(b"!");
        }
    }

    fn push_note(&self, note: String) {
        let mut pending = self.pending();
        match pending.notes.len() < MAX_NOTES {
            true => pending.notes.push_back(note),
            false => pending.dropped += 1,
        }
        drop(pending);
        self.wake();
    }

    /// Takes the pending notes.
    pub(super) fn take_notes(&self) -> Option<String> {
        let mut pending = self.pending();
        pending.woken = false;
        let mut text = String::new();
        for note in pending.notes.drain(..) {
            text.push_str(&note);
            text.push('\n');
        }
        if pending.dropped > 0 {
            text.push_str(&format!("note: {} more notes were dropped\n", pending.dropped));
            pending.dropped = 0;
        }
        (!text.is_empty()).then_some(text)
    }

    fn pending(&self) -> MutexGuard<'_, PendingNotes> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a sink that prints notes above the line being edited.
pub(super) fn note_sink(waker: &std::sync::Arc<InputWaker>) -> NoteSink {
    let waker = std::sync::Arc::clone(waker);
    std::sync::Arc::new(move |note| waker.push_note(note))
}

/// The limit of pending notes.
const MAX_NOTES: usize = 1_000;
