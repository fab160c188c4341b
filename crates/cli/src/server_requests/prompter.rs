//! Prompts the user at the terminal.

use std::io::{self, BufRead, Write};

use crate::console::sanitize;

/// A way to show text to the user and to read a line.
pub(crate) trait Prompter: Send + Sync {
    /// Shows text from a server, sanitized.
    fn show(&self, text: &str);

    /// Reads a line after `prompt`, without its newline; `None` at the end of input.
    fn read_line(&self, prompt: &str) -> Option<String>;
}

/// The terminal, without a line editor.
pub(crate) struct TerminalPrompter;

impl Prompter for TerminalPrompter {
    fn show(&self, text: &str) {
        let mut output = io::stderr().lock();
        // There is no other stream to report a failed write to.
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
