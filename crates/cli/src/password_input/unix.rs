//! Passwords on a Unix terminal.

use std::io;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Typed text is not shown until this is dropped.
pub(super) struct HiddenInput {
    saved: Termios,
}

impl HiddenInput {
    pub(super) fn new() -> io::Result<Self> {
        let saved = tcgetattr(io::stdin())?;
        let mut hidden = saved.clone();
        hidden.local_modes -= LocalModes::ECHO;
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self { saved })
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        // There is nothing left to do if the terminal cannot be restored.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.saved);
    }
}
