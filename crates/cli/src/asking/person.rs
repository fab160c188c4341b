//! Who is asked: whoever sits at the terminal.

use std::io::{self, BufRead, Write};

use crate::screen::clean;

/// Somebody who can be told something and asked for a line.
pub(crate) trait Person: Send + Sync {
    /// Shows words of a server, made harmless.
    fn tell(&self, text: &str);

    /// A line that is typed behind `prompt`, without its end; `None` if they went away.
    fn line(&self, prompt: &str) -> Option<String>;
}

/// At the terminal, with nobody between.
pub(crate) struct AtTerminal;

impl Person for AtTerminal {
    fn tell(&self, text: &str) {
        let mut output = io::stderr().lock();
        // Nobody hears of it if it cannot be written.
        let _ = output.write_all(clean(text).as_bytes()).and_then(|()| output.flush());
    }

    fn line(&self, prompt: &str) -> Option<String> {
        self.tell(prompt);
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(1..) => Some(line.trim_end_matches(['\n', '\r']).to_owned()),
            _ => {
                self.tell("\n");
                None
            }
        }
    }
}
