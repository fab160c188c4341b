//! A small language for the broken servers of tests: which lines a server reads and sends, and when it ends.
//!
//! `helper script TEXT` runs a script on every system, `helper file PATH` one that stands in a file. Commands stand on lines
//! of their own or between `;`. A word with blanks, `;` or braces in it is quoted with `'`, and nothing is special inside the
//! quotes. The commands are:
//!
//! - `read_line` reads a line and copies it to stderr. At the end of the input the script ends with code 0.
//! - `send_line TEXT` writes a line. `print TEXT` writes bytes: `\n`, `\r`, `\\` and `\xNN` stand for one each.
//! - `welcome` sends the response to `initialize`; `handshake` is `read_line; welcome; read_line`. The first call after it
//!   has the id 2.
//! - `answer ID TEXT` sends the result of a tool call, `ask ID` sends an elicitation.
//! - `result JSON` and `error JSON` send the response to the request that was read last.
//! - `drain` reads lines until the end of the input, and ends the script. `stay` reads nothing more and does not end.
//! - `exit CODE` ends the process, `abort` crashes it.
//! - `run PROGRAM WORD…` runs a program with the stdin, stdout and stderr of the script, and ends with its code.
//! - `stderr TEXT` writes a line to stderr, `append FILE TEXT` to the end of a file.
//! - `report PORT TEXT` sends a line to [`Reports`], `wait_for PORT` waits for [`Reports::allow`].
//! - `call PROGRAM WORD…` runs a program on the pipes of the script, and goes on when it has ended.
//! - `serve` serves the fixture until the end of the input, and ends the script. The script must not have read a line.
//! - `hold PORT` connects to a test, which sees the connection end with the process. If the test closes it, the process ends
//!   at once, with code 1.
//! - `ignore_signals` keeps SIGHUP, SIGINT and SIGTERM from ending the process. Windows has no such signals.
//! - `once FILE { … }` runs its commands unless FILE exists, and makes it: only the first process runs them.
//! - `if_line TEXT { … }` runs its commands if the line that was read last contains TEXT.
//! - `set NAME TEXT` sets a variable, `if NAME TEXT { … }` runs its commands if it was set to TEXT.
//! - `if_environment NAME VALUE { … }` runs its commands if the environment variable has this value.
//! - `else { … }` after one of these runs its commands in the other case.
//! - `repeat COUNT { … }` and `repeat forever { … }`.
//!
//! Except in `print`, `$line` is the line that was read last, `$id` its `id`, `$n` the number of the current repetition,
//! from 1, and `$process` the id of the process. `$NAME` is the variable NAME, if it was set.

mod parse;
mod reports;
mod run;
mod signals;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use tsugite::client::Command;

pub use reports::Reports;
pub use run::End;

/// A script that can be run.
#[derive(Debug, PartialEq)]
pub struct Script(Vec<Step>);

/// One command of a script.
#[derive(Debug, PartialEq)]
enum Step {
    ReadLine,
    SendLine(String),
    Print(Vec<u8>),
    Drain,
    Stay,
    Exit(i32),
    Abort,
    Run { program: String, words: Vec<String> },
    Stderr(String),
    Append { file: PathBuf, text: String },
    Report { port: u16, text: String },
    WaitFor { port: u16 },
    Call { program: String, words: Vec<String> },
    Serve,
    Hold { port: u16 },
    IgnoreSignals,
    Once { file: PathBuf, steps: Vec<Step> },
    If { condition: Condition, steps: Vec<Step>, otherwise: Vec<Step> },
    Set { name: String, text: String },
    Repeat { count: Option<u64>, steps: Vec<Step> },
}

/// What a block depends on.
#[derive(Debug, PartialEq)]
enum Condition {
    LineContains(String),
    VariableIs { name: String, text: String },
    EnvironmentIs { name: String, text: String },
}

/// The command that runs a script with the program `helper`, whose path is the first argument.
///
/// # Panics
///
/// Panics if the script is invalid or too long, so that the test fails and not only its server.
#[allow(clippy::panic, reason = "a test fails by panicking")]
pub fn command(helper: &str, script: &str) -> Command {
    assert!(script.len() <= MAX_BYTES, "the script has {} bytes, of at most {MAX_BYTES}", script.len());
    if let Err(error) = Script::parse(script) {
        panic!("{error}");
    }
    Command::new(helper).args(["script", script])
}

/// The most bytes of a script. A command line of Windows has at most 32 767, with an escape before each `"`.
const MAX_BYTES: usize = 24_000;

/// A path of a file for scripts, which does not exist yet. The file is removed on drop.
///
/// It is displayed with quotes, as a word of a script.
#[derive(Debug)]
pub struct ScriptFile(PathBuf);

impl ScriptFile {
    /// A path that no other test uses.
    #[allow(clippy::new_without_default, reason = "every path is another")]
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("tsugite-script-{}-{count}", std::process::id())))
    }

    /// The contents; empty as long as the file does not exist.
    pub fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap_or_default()
    }

    /// The number of its lines.
    pub fn lines(&self) -> usize {
        self.text().lines().count()
    }
}

impl fmt::Display for ScriptFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.display())
    }
}

impl Drop for ScriptFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "no command `echo`")]
    fn unknown_command_fails_the_test() {
        command("helper", "drain; echo yes");
    }

    #[test]
    #[should_panic(expected = "of at most")]
    fn long_script_fails_the_test() {
        command("helper", &" ".repeat(MAX_BYTES + 1));
    }
}
