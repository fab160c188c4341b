//! The terminal: every key as it is pressed, and somebody who may knock meanwhile.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use crate::console::NoteSink;

/// Takes keys one by one while it lives; then the terminal is as it was.
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
        let kept = Self { saved: before };
        // What is pasted is marked as such.
        write("\x1b[?2004h")?;
        Ok(kept)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // If it cannot be put back, nobody can do anything about it.
        let _ = write("\x1b[?2004l");
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.saved);
    }
}

/// Shows something where prompts stand.
pub(super) fn write(text: &str) -> io::Result<()> {
    let mut terminal = io::stderr().lock();
    terminal.write_all(text.as_bytes())?;
    terminal.flush()
}

pub(super) fn columns() -> usize {
    let size = tcgetwinsize(io::stderr()).ok().map(|size| usize::from(size.ws_col));
    size.filter(|columns| *columns > 1).unwrap_or(80)
}

/// What came.
#[derive(Debug)]
pub(super) enum TerminalInput {
    Bytes(Vec<u8>),
    Wake,
    /// Nothing, for a while.
    Timeout,
    Eof,
}

/// Waits for keys and for whoever knocks; with `hurry`, not for long.
pub(super) fn wait_for_input(door: &InputWaker, hurry: bool) -> io::Result<TerminalInput> {
    let (stdin, knocks) = (io::stdin(), &door.wake_reader);
    let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(knocks, PollFlags::IN)];
    let moment = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    match poll(&mut fds, hurry.then_some(&moment)) {
        Ok(0) => return Ok(TerminalInput::Timeout),
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(TerminalInput::Wake),
        Err(error) => return Err(error.into()),
    }
    let [keys, knock] = fds.map(|fd| !fd.revents().is_empty());
    if keys {
        let mut bytes = vec![0; 4096];
        // Not through the buffer of `Stdin`: whoever reads next must find the rest.
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
    if knock {
        let mut one = [0; 1];
        (&door.wake_reader).read_exact(&mut one)?;
    }
    Ok(TerminalInput::Wake)
}

/// Where others knock while somebody types: notes to be shown, or to say that something else has changed.
pub(super) struct InputWaker {
    wake_reader: PipeReader,
    wake_writer: PipeWriter,
    pending: Mutex<PendingNotes>,
}

#[derive(Default)]
struct PendingNotes {
    notes: VecDeque<String>,
    dropped: usize,
    /// Whether a knock is under way.
    woken: bool,
}

impl InputWaker {
    pub(super) fn new() -> io::Result<Self> {
        let (knocks, knock) = io::pipe()?;
        Ok(Self { wake_reader: knocks, wake_writer: knock, pending: Mutex::default() })
    }

    /// Whoever types looks up.
    pub(super) fn wake(&self) {
        let mut waiting = self.pending();
        if !std::mem::replace(&mut waiting.woken, true) {
            // There is room for one byte, and if nobody reads any more nobody needs to know.
            let _ = (&self.wake_writer).write_all(b"!");
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

    /// The notes that were left, if there are any.
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

/// Notes go to whoever types.
pub(super) fn note_sink(door: &std::sync::Arc<InputWaker>) -> NoteSink {
    let door = std::sync::Arc::clone(door);
    std::sync::Arc::new(move |note| door.push_note(note))
}

/// Notes that wait to be shown.
const MAX_NOTES: usize = 1_000;
