//! What happens at a terminal: the prompt of the shell, and questions while a verb works.

mod prompt;
mod questions;
mod tmux;

use tmux::Terminal;

/// A target: the demo server as a process, which says in a file who it is.
const STARTED: &str = "-e TSUGITE -- sh -c 'echo $$ > server.pid; exec \"$TSUGITE\" serve --stdio'";
