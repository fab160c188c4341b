//! Who is asked: whoever sits at the terminal.

use std::io::{self, BufRead, Write};

use crate::console::sanitize;

/// Somebody who can be told something and asked for a line.
pub(crate) trait Prompter: Send + Sync {
    /// Shows words of a server, made harmless.
    fn show(&self, text: &str);

    /// A line that is typed behind `prompt`, without its end; `None` if they went away.
    fn read_line(&self, prompt: &str) -> Option<String>;
}

/// At the terminal, with nobody between.
pub(crate) struct TerminalPrompter;

impl Prompter for TerminalPrompter {
    fn show(&self, text: &str) {
        let mut output = io::stderr().lock();
        // Nobody hears of it if it cannot be written.
        let _ = output.write_all(sanitize(text).as_bytes()).and_then(|()| output.flush());
    }

    fn read_line(&self, prompt: &str) -> Option<String> {
        self.show(prompt);
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(1..) => Some(line.trim_end_matches(['\n', '\r']).to_owned()),
            _ => {
                self.show("\n");
                None
            }
        }
    }
}
