//! Passwords on a Unix terminal.

use std::io::{self, BufRead, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tsugite_auth::Secret;

/// Asks for a password on standard error and reads it from the terminal on standard input. Dropping the future, as an
/// interrupt does, restores the terminal.
pub(crate) async fn read(question: &str) -> io::Result<Secret> {
    // Before the question: what is typed after it is never shown.
    let hidden = HiddenInput::new()?;
    write!(io::stderr(), "{question}")?;
    let reading = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    let line = reading.await.map_err(io::Error::other)?;
    drop(hidden);
    writeln!(io::stderr())?;
    Ok(Secret::new(line?.trim_end_matches(['\r', '\n'])))
}

/// Typed text is not shown until this is dropped.
struct HiddenInput {
    saved: Termios,
}

impl HiddenInput {
    fn new() -> io::Result<Self> {
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
