//! The terminal on Unix.

use std::env;
use std::io::{self, PipeReader, PipeWriter, Read, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use super::{InputWaker, TerminalInput, write};

/// Raw mode: keys are read one by one until this is dropped, which restores the terminal.
pub(in crate::shell::editor) struct RawMode {
    saved: Termios,
}

impl RawMode {
    pub(in crate::shell::editor) fn new() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        raw.input_modes -= InputModes::ICRNL | InputModes::INLCR | InputModes::IGNCR | InputModes::IXON;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        let kept = Self { saved: before };
        // Bracketed paste: pasted text is marked as such.
        write("\x1b[?2004h")?;
        Ok(kept)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // There is nothing left to do if the terminal cannot be restored.
        let _ = write("\x1b[?2004l");
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.saved);
    }
}

/// Whether the terminal understands escape sequences.
pub(in crate::shell::editor) fn has_escapes() -> bool {
    env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// The width of the terminal; 80 if it is unknown.
pub(in crate::shell::editor) fn columns() -> usize {
    let size = tcgetwinsize(io::stderr()).ok().map(|size| usize::from(size.ws_col));
    size.filter(|columns| *columns > 1).unwrap_or(80)
}

/// Waits for keys or a call of [`InputWaker::wake`]; for at most 50 ms if `hurry` is set.
pub(in crate::shell::editor) fn wait_for_input(waker: &InputWaker, hurry: bool) -> io::Result<TerminalInput> {
    let (stdin, wake_reader) = (io::stdin(), &waker.signal.reader);
    let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(wake_reader, PollFlags::IN)];
    let moment = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    match poll(&mut fds, hurry.then_some(&moment)) {
        Ok(0) => return Ok(TerminalInput::Timeout),
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(TerminalInput::Wake),
        Err(error) => return Err(error.into()),
    }
    let [keys, woken] = fds.map(|fd| !fd.revents().is_empty());
    if keys {
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
    if woken {
        let mut one = [0; 1];
        (&waker.signal.reader).read_exact(&mut one)?;
    }
    Ok(TerminalInput::Wake)
}

/// A pipe that ends the wait for input.
pub(super) struct WakeSignal {
    reader: PipeReader,
    writer: PipeWriter,
}

impl WakeSignal {
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { reader, writer })
    }

    /// Ends the wait for input.
    pub(super) fn send(&self) {
        // One byte always fits. An error means that nothing reads any more.
        let _ = (&self.writer).write_all(b"!");
    }
}
