//! The terminal on Windows: a console that sends keys as the escape sequences of other terminals.
//!
//! A read of the console cannot be interrupted. A thread reads when keys are waited for, and keeps what it has read until
//! they are waited for again.

use std::env;
use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use winapi_util::HandleRef;
use winapi_util::console::{mode, screen_buffer_info, set_mode};

use super::{InputWaker, TerminalInput, write};
use crate::escapes::enable_escapes;

/// Raw mode: keys are read one by one until this is dropped, which restores the console.
pub(in crate::shell::editor) struct RawMode {
    saved: u32,
}

impl RawMode {
    pub(in crate::shell::editor) fn new() -> io::Result<Self> {
        let before = mode(HandleRef::stdin())?;
        let raw = before & !(ENABLE_PROCESSED_INPUT | ENABLE_LINE_INPUT | ENABLE_ECHO_INPUT);
        set_mode(HandleRef::stdin(), raw | ENABLE_VIRTUAL_TERMINAL_INPUT)?;
        let kept = Self { saved: before };
        // Bracketed paste: pasted text is marked as such.
        write("\x1b[?2004h")?;
        Ok(kept)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // There is nothing left to do if the console cannot be restored.
        let _ = write("\x1b[?2004l");
        let _ = set_mode(HandleRef::stdin(), self.saved);
    }
}

/// Whether the console understands escape sequences. Only shells of Unix set `TERM`.
pub(in crate::shell::editor) fn has_escapes() -> bool {
    let (_, stderr) = enable_escapes();
    stderr && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The width of a row, where the console breaks lines: that of its buffer, of which the window may show a part. 80 if it is
/// unknown.
pub(in crate::shell::editor) fn columns() -> usize {
    let width =
        screen_buffer_info(HandleRef::stderr()).ok().and_then(|info| usize::try_from(info.size().0).ok());
    width.filter(|columns| *columns > 1).unwrap_or(80)
}

/// Waits for keys or a call of [`InputWaker::wake`]; for at most 50 ms if `hurry` is set.
pub(in crate::shell::editor) fn wait_for_input(waker: &InputWaker, hurry: bool) -> io::Result<TerminalInput> {
    waker.signal.wait(hurry)
}

/// Ends the wait for input, which also ends with keys that the thread has read.
pub(super) struct WakeSignal(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    woken: bool,
    /// Whether the thread reads.
    reading: bool,
    read: Option<io::Result<Vec<u8>>>,
}

impl WakeSignal {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Arc::default()))
    }

    /// Ends the wait for input.
    pub(super) fn send(&self) {
        self.0.lock().woken = true;
        self.0.changed.notify_all();
    }

    fn wait(&self, hurry: bool) -> io::Result<TerminalInput> {
        let mut state = self.0.lock();
        if !state.reading && state.read.is_none() {
            state.reading = true;
            let shared = Arc::clone(&self.0);
            thread::Builder::new().name("tsugite-keys".into()).spawn(move || shared.read())?;
        }
        let is_idle = |state: &mut State| state.read.is_none() && !state.woken;
        let mut state = match hurry {
            true => {
                let waited = self.0.changed.wait_timeout_while(state, MOMENT, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            false => self.0.changed.wait_while(state, is_idle).unwrap_or_else(PoisonError::into_inner),
        };
        match state.read.take() {
            Some(Ok(bytes)) if bytes.is_empty() => Ok(TerminalInput::Eof),
            Some(read) => Ok(TerminalInput::Bytes(read?)),
            None if std::mem::take(&mut state.woken) => Ok(TerminalInput::Wake),
            None => Ok(TerminalInput::Timeout),
        }
    }
}

impl Shared {
    /// Reads the keys that are there, or waits for one.
    fn read(&self) {
        let mut bytes = vec![0; 4096];
        // As large as the buffer of `Stdin`, which therefore keeps nothing back.
        let read = io::stdin().lock().read(&mut bytes).map(|length| {
            bytes.truncate(length);
            bytes
        });
        let mut state = self.lock();
        state.reading = false;
        state.read = Some(read);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const MOMENT: Duration = Duration::from_millis(50);
const ENABLE_PROCESSED_INPUT: u32 = 0x0001;
const ENABLE_LINE_INPUT: u32 = 0x0002;
const ENABLE_ECHO_INPUT: u32 = 0x0004;
const ENABLE_VIRTUAL_TERMINAL_INPUT: u32 = 0x0200;
