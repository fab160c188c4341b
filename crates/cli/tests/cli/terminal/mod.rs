//! Tests at a terminal: the prompt of the shell, questions during a verb, passwords, and results.

mod passwords;
mod prompt;
mod questions;
mod results;
mod tasks;
mod tmux;

pub(crate) use tmux::Terminal;

/// A target: the demo server as a process that writes its process id to a file.
const STARTED: &str = "-e TSUGITE -- sh -c 'echo $$ > server.pid; exec \"$TSUGITE\" serve --stdio'";
