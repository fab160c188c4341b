//! Reads a password from a terminal, which does not show it.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io::{self, BufRead, Write};

use tsugite_auth::Secret;

#[cfg(unix)]
use unix::HiddenInput;
#[cfg(windows)]
use windows::HiddenInput;

/// Asks for a password on standard error and reads it from the terminal on standard input. Dropping the future, as an
/// interrupt does, restores the terminal.
pub(crate) async fn read(question: &str) -> io::Result<Secret> {
    // Before the question: what is typed after it is never shown.
    let hidden = HiddenInput::new().map_err(|error| {
        let reason =
            format!("this terminal would show what is typed ({error}); pass the password through a pipe");
        io::Error::new(error.kind(), reason)
    })?;
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
