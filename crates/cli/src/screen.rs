//! What a person sees: results on standard output, everything else on standard error, colour and bars only on a
//! terminal.
//!
//! A server's words never reach a terminal as they are: escape sequences in them could do things there.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use tsugite::core::protocol::progress::ProgressParams;

use crate::fail::{Exit, Failure, Result};

/// Both streams.
pub(crate) struct Screen {
    /// Whether results are JSON.
    pub(crate) json: bool,
    /// Whether standard output is a terminal.
    pub(crate) shown: bool,
    /// Whether every result ends with its line: more may follow.
    ends_lines: bool,
    colour: bool,
    error_shown: bool,
    error_colour: bool,
}

/// Whether a bar stands on the last line of the terminal, of which there is only one.
static BAR: Mutex<bool> = Mutex::new(false);

/// Who puts notes above the last line while somebody types on it.
static ABOVE: Mutex<Option<Above>> = Mutex::new(None);

/// Puts a note above the line that is being typed.
pub(crate) type Above = Arc<dyn Fn(String) + Send + Sync>;

/// From now on notes go there, or to standard error again.
pub(crate) fn divert(above: Option<Above>) {
    *ABOVE.lock().unwrap_or_else(PoisonError::into_inner) = above;
}

/// Shows something beside the result, made harmless.
pub(crate) fn aside(text: &str) {
    let above = ABOVE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match above {
        Some(above) => above(clean(text)),
        // Nobody hears of it if it cannot be written.
        None => {
            let _ = writeln!(io::stderr().lock(), "{}", clean(text));
        }
    }
}

/// How something is shown.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Bold,
    Dim,
    Green,
    Red,
}

impl Screen {
    pub(crate) fn new(json: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let (shown, error_shown) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let (colour, error_colour) = (wanted && shown, wanted && error_shown);
        Self { json, shown, ends_lines: shown, colour, error_shown, error_colour }
    }

    /// One on which several results follow each other.
    pub(crate) fn of_many(json: bool) -> Self {
        Self { ends_lines: true, ..Self::new(json) }
    }

    /// Whether somebody can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        self.error_shown && io::stdin().is_terminal()
    }

    /// A line of the result.
    pub(crate) fn line(&self, text: &str) -> Result<()> {
        self.text(&format!("{text}\n"))
    }

    /// A part of the result. On a terminal, and where more may follow, it ends with its line.
    pub(crate) fn text(&self, text: &str) -> Result<()> {
        self.hide_bar();
        let mut out = io::stdout().lock();
        match self.ends_lines {
            true => {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                out.write_all(text.as_bytes())?;
                out.write_all(end.as_bytes())?;
            }
            false => out.write_all(text.as_bytes())?,
        }
        Ok(out.flush()?)
    }

    /// Bytes, as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }

    /// A value as one line of JSON.
    pub(crate) fn json<T: serde::Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        let text = serde_json::to_string(value).map_err(|error| Failure::usage(error.to_string()))?;
        self.json_text(&text)
    }

    /// JSON as it came. On a terminal what it would obey is escaped, which means the same in JSON.
    pub(crate) fn json_text(&self, text: &str) -> Result<()> {
        match self.shown {
            true => self.line(&clean_json(text)),
            false => self.line(text),
        }
    }

    /// Something beside the result.
    pub(crate) fn note(&self, text: &str) {
        self.hide_bar();
        aside(text);
    }

    /// How a failure is told.
    pub(crate) fn failure(&self, failure: &Failure) {
        self.hide_bar();
        if failure.exit == Exit::Interrupted && self.error_shown {
            // What was typed last stands on the line of a question.
            let _ = writeln!(io::stderr().lock());
        }
        if failure.what.is_empty() {
            return;
        }
        if self.json {
            let _ = writeln!(io::stderr().lock(), "{}", failure.json());
            return;
        }
        let mut text = format!("{} {}\n", self.error_paint(Style::Red, "error:"), clean(&failure.what));
        let mut row = |name: &str, value: &str| {
            let value = clean(value).trim_end().replace('\n', "\n        ");
            let _ = writeln!(text, "  {} {value}", self.error_paint(Style::Dim, &format!("{name:<5}")));
        };
        if let Some(step) = failure.step {
            row("step", step);
        }
        if let Some(seen) = &failure.seen {
            row("seen", seen);
        }
        for hint in &failure.hints {
            row("try", hint);
        }
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// A call has come further.
    pub(crate) fn progress(&self, progress: &ProgressParams) {
        let typing = ABOVE.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !self.error_shown || self.json || typing {
            return;
        }
        let message = progress.message.as_deref().map(clean).unwrap_or_default();
        let message: String = message.lines().next().unwrap_or_default().chars().take(MESSAGE).collect();
        let drawn = match progress.total {
            Some(total) if total > 0.0 => {
                let part = (progress.progress / total).clamp(0.0, 1.0);
                // A part of a bar is between none and all of it.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
                let filled = (part * WIDTH as f64).round() as usize;
                let bar = "█".repeat(filled) + &"░".repeat(WIDTH.saturating_sub(filled));
                format!("{bar} {:>3.0} % {message}", part * 100.0)
            }
            _ => format!("{} {message}", progress.progress),
        };
        let mut stands = BAR.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = write!(io::stderr().lock(), "\r\x1b[K{drawn}");
        let _ = io::stderr().flush();
        *stands = true;
    }

    /// Takes the bar away.
    pub(crate) fn hide_bar(&self) {
        let mut stands = BAR.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *stands) {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }

    /// In colour, if standard output is a terminal.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        paint(self.colour, style, text)
    }

    fn error_paint(&self, style: Style, text: &str) -> String {
        paint(self.error_colour, style, text)
    }

    /// A server's words: as they are for a program, harmless for a terminal.
    pub(crate) fn words(&self, text: &str) -> String {
        if self.shown { clean(text) } else { text.to_owned() }
    }
}

fn paint(colour: bool, style: Style, text: &str) -> String {
    let code = match style {
        Style::Bold => 1,
        Style::Dim => 2,
        Style::Green => 32,
        Style::Red => 31,
    };
    if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Without what a terminal would obey: control characters, and marks that turn the direction of writing.
pub(crate) fn clean(text: &str) -> String {
    escaped(text, |letter| letter.escape_unicode().to_string())
}

fn clean_json(text: &str) -> String {
    // All of them have four digits.
    escaped(text, |letter| format!("\\u{:04x}", u32::from(letter)))
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> String {
    let harmless = |letter: char| {
        let turns =
            matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
        matches!(letter, '\n' | '\t') || !(letter.is_control() || turns)
    };
    let mut out = String::with_capacity(text.len());
    for letter in text.replace("\r\n", "\n").chars() {
        match harmless(letter) {
            true => out.push(letter),
            false => out.push_str(&escape(letter)),
        }
    }
    out
}

/// Width of a bar.
const WIDTH: usize = 24;
/// Letters of a message beside it.
const MESSAGE: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_a_server_says() {
        assert_eq!(clean("a\x1b[2Jb\r\nc\td"), "a\\u{1b}[2Jb\nc\td");
        assert_eq!(clean("\u{202e}gnp.exe\u{9b}"), "\\u{202e}gnp.exe\\u{9b}");
        assert_eq!(clean("継手 🪵"), "継手 🪵");
        assert_eq!(clean_json("{\"a\":\"\u{9b}\u{202e}\"}"), r#"{"a":"\u009b\u202e"}"#);
    }
}
