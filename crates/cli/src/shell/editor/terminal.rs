//! The terminal: every key as it is pressed, and somebody who may knock meanwhile.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use crate::screen::Above;

/// Takes keys one by one while it lives; then the terminal is as it was.
pub(super) struct Raw {
    before: Termios,
}

impl Raw {
    pub(super) fn new() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        raw.input_modes -= InputModes::ICRNL | InputModes::INLCR | InputModes::IGNCR | InputModes::IXON;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        let kept = Self { before };
        // What is pasted is marked as such.
        write("\x1b[?2004h")?;
        Ok(kept)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // If it cannot be put back, nobody can do anything about it.
        let _ = write("\x1b[?2004l");
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
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
pub(super) enum Came {
    Bytes(Vec<u8>),
    Knock,
    /// Nothing, for a while.
    Nothing,
    End,
}

/// Waits for keys and for whoever knocks; with `hurry`, not for long.
pub(super) fn wait(door: &Door, hurry: bool) -> io::Result<Came> {
    let (stdin, knocks) = (io::stdin(), &door.knocks);
    let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(knocks, PollFlags::IN)];
    let moment = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    match poll(&mut fds, hurry.then_some(&moment)) {
        Ok(0) => return Ok(Came::Nothing),
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Came::Knock),
        Err(error) => return Err(error.into()),
    }
    let [keys, knock] = fds.map(|fd| !fd.revents().is_empty());
    if keys {
        let mut bytes = vec![0; 4096];
        // Not through the buffer of `Stdin`: whoever reads next must find the rest.
        return match rustix::io::read(&stdin, &mut bytes) {
            Ok(0) => Ok(Came::End),
            Ok(count) => {
                bytes.truncate(count);
                Ok(Came::Bytes(bytes))
            }
            Err(Errno::INTR | Errno::AGAIN) => Ok(Came::Knock),
            // The terminal is gone.
            Err(Errno::IO) => Ok(Came::End),
            Err(error) => Err(error.into()),
        };
    }
    if knock {
        let mut one = [0; 1];
        (&door.knocks).read_exact(&mut one)?;
    }
    Ok(Came::Knock)
}

/// Where others knock while somebody types: notes to be shown, or to say that something else has changed.
pub(super) struct Door {
    knocks: PipeReader,
    knock: PipeWriter,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    notes: VecDeque<String>,
    left_out: usize,
    /// Whether a knock is under way.
    knocked: bool,
}

impl Door {
    pub(super) fn new() -> io::Result<Self> {
        let (knocks, knock) = io::pipe()?;
        Ok(Self { knocks, knock, waiting: Mutex::default() })
    }

    /// Whoever types looks up.
    pub(super) fn knock(&self) {
        let mut waiting = self.waiting();
        if !std::mem::replace(&mut waiting.knocked, true) {
            // There is room for one byte, and if nobody reads any more nobody needs to know.
            let _ = (&self.knock).write_all(b"!");
        }
    }

    fn leave(&self, note: String) {
        let mut waiting = self.waiting();
        match waiting.notes.len() < MOST {
            true => waiting.notes.push_back(note),
            false => waiting.left_out += 1,
        }
        drop(waiting);
        self.knock();
    }

    /// The notes that were left, if there are any.
    pub(super) fn notes(&self) -> Option<String> {
        let mut waiting = self.waiting();
        waiting.knocked = false;
        let mut text = String::new();
        for note in waiting.notes.drain(..) {
            text.push_str(&note);
            text.push('\n');
        }
        if waiting.left_out > 0 {
            text.push_str(&format!("note: {} more were left out\n", waiting.left_out));
            waiting.left_out = 0;
        }
        (!text.is_empty()).then_some(text)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes go to whoever types.
pub(super) fn above(door: &std::sync::Arc<Door>) -> Above {
    let door = std::sync::Arc::clone(door);
    std::sync::Arc::new(move |note| door.leave(note))
}

/// Notes that wait to be shown.
const MOST: usize = 1_000;
