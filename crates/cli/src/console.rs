//! Output for people: results on standard output, everything else on standard error.
//!
//! Colour and progress bars appear only on a terminal.
//!
//! Text from a server is sanitized before it reaches a terminal: escape sequences in it could control the terminal.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use tsugite::protocol::progress::ProgressParams;

use crate::error::{CliError, ExitStatus, Result};
use crate::escapes::enable_escapes;
use crate::json_text;

/// Standard output and standard error.
pub(crate) struct Console {
    /// Whether results are JSON.
    pub(crate) json: bool,
    /// Whether standard output is a terminal.
    pub(crate) is_terminal: bool,
    /// Whether every result ends with a newline, because another may follow.
    ends_with_newline: bool,
    color: bool,
    stderr_is_terminal: bool,
    stderr_color: bool,
}

/// Whether a progress bar or the status of a task is on the last line of the terminal. The process has only one terminal.
static PROGRESS_BAR: Mutex<bool> = Mutex::new(false);

/// The receiver of notes while the line editor owns the last line of the terminal.
static NOTE_SINK: Mutex<Option<NoteSink>> = Mutex::new(None);

/// A function that prints a note above the line that is being edited.
pub(crate) type NoteSink = Arc<dyn Fn(String) + Send + Sync>;

/// Sends notes to `sink` from now on; `None` restores standard error.
pub(crate) fn set_note_sink(sink: Option<NoteSink>) {
    *NOTE_SINK.lock().unwrap_or_else(PoisonError::into_inner) = sink;
}

/// Prints a sanitized note on standard error.
pub(crate) fn write_note(text: &str) {
    let sink = NOTE_SINK.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match sink {
        Some(sink) => sink(sanitize(text)),
        // There is no other stream to report a failed write to.
        None => {
            let _ = writeln!(io::stderr().lock(), "{}", sanitize(text));
        }
    }
}

/// A text style.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Bold,
    Dim,
    Green,
    Red,
}

impl Console {
    pub(crate) fn new(json: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let (is_terminal, stderr_is_terminal) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let escapes = if wanted { enable_escapes() } else { (false, false) };
        let (color, stderr_color) = (escapes.0 && is_terminal, escapes.1 && stderr_is_terminal);
        Self { json, is_terminal, ends_with_newline: is_terminal, color, stderr_is_terminal, stderr_color }
    }

    /// Returns a console for several results in a row.
    pub(crate) fn for_shell(json: bool) -> Self {
        Self { ends_with_newline: true, ..Self::new(json) }
    }

    /// Whether the user can be prompted.
    pub(crate) fn is_interactive(&self) -> bool {
        self.stderr_is_terminal && io::stdin().is_terminal()
    }

    /// Whether notes go to a terminal.
    pub(crate) fn is_stderr_terminal(&self) -> bool {
        self.stderr_is_terminal
    }

    /// Prints a line of the result.
    pub(crate) fn print_line(&self, text: &str) -> Result<()> {
        self.print(&format!("{text}\n"))
    }

    /// Prints a part of the result. Adds a final newline on a terminal and in the shell.
    pub(crate) fn print(&self, text: &str) -> Result<()> {
        self.clear_progress();
        let mut out = io::stdout().lock();
        match self.ends_with_newline {
            true => {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                out.write_all(text.as_bytes())?;
                out.write_all(end.as_bytes())?;
            }
            false => out.write_all(text.as_bytes())?,
        }
        Ok(out.flush()?)
    }

    /// Prints bytes unchanged.
    pub(crate) fn print_bytes(&self, bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }

    /// Prints a value as JSON: a line for each member on a terminal, otherwise one line.
    pub(crate) fn print_json<T: serde::Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        self.print_raw_json(&to_json(value)?)
    }

    /// Prints a value as one line of JSON, for one result of many.
    pub(crate) fn print_json_line<T: serde::Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        let text = to_json(value)?;
        self.print_line(&if self.is_terminal { sanitize_json(&text) } else { text })
    }

    /// Prints JSON text. On a terminal, control characters are escaped, which does not change the value.
    pub(crate) fn print_raw_json(&self, text: &str) -> Result<()> {
        match self.is_terminal {
            true => self.print_line(&sanitize_json(&json_text::pretty(text))),
            false => self.print_line(text),
        }
    }

    /// Prints a note on standard error.
    pub(crate) fn note(&self, text: &str) {
        self.clear_progress();
        write_note(text);
    }

    /// Prints an error on standard error, as JSON with `--json`.
    pub(crate) fn print_error(&self, failure: &CliError) {
        self.clear_progress();
        if failure.exit == ExitStatus::Interrupted && self.stderr_is_terminal {
            // The cursor is still on the line of a prompt.
            let _ = writeln!(io::stderr().lock());
        }
        if failure.message.is_empty() {
            return;
        }
        if self.json {
            let _ = writeln!(io::stderr().lock(), "{}", sanitize_json(&failure.to_json()));
            return;
        }
        let mut text =
            format!("{} {}\n", self.paint_stderr(Style::Red, "error:"), sanitize(&failure.message));
        let mut row = |name: &str, value: &str| {
            let value = sanitize(value).trim_end().replace('\n', "\n        ");
            let _ = writeln!(text, "  {} {value}", self.paint_stderr(Style::Dim, &format!("{name:<5}")));
        };
        if let Some(step) = failure.step {
            row("step", step);
        }
        if let Some(detail) = &failure.detail {
            row("seen", detail);
        }
        for hint in &failure.hints {
            row("try", hint);
        }
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// Shows the status of a task, on a terminal only, in place of its progress.
    pub(crate) fn show_status(&self, status: &str) {
        self.draw_status_line(&first_line(status));
    }

    /// Draws the progress of a call, on a terminal only.
    pub(crate) fn show_progress(&self, progress: &ProgressParams) {
        let message = progress.message.as_deref().map(first_line).unwrap_or_default();
        let drawn = match progress.total {
            Some(total) if total > 0.0 => {
                let part = (progress.progress / total).clamp(0.0, 1.0);
                // `part` is between 0 and 1.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
                let filled = (part * BAR_WIDTH as f64).round() as usize;
                let bar = "█".repeat(filled) + &"░".repeat(BAR_WIDTH.saturating_sub(filled));
                format!("{bar} {:>3.0} % {message}", part * 100.0)
            }
            _ => format!("{} {message}", progress.progress),
        };
        self.draw_status_line(&drawn);
    }

    /// Replaces the last line of the terminal.
    fn draw_status_line(&self, drawn: &str) {
        let is_editing = NOTE_SINK.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !self.stderr_is_terminal || self.json || is_editing {
            return;
        }
        let mut is_shown = PROGRESS_BAR.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = write!(io::stderr().lock(), "\r\x1b[K{drawn}");
        let _ = io::stderr().flush();
        *is_shown = true;
    }

    /// Erases the progress bar.
    pub(crate) fn clear_progress(&self) {
        let mut is_shown = PROGRESS_BAR.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *is_shown) {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }

    /// Styles a text, if standard output is a terminal.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        paint(self.color, style, text)
    }

    fn paint_stderr(&self, style: Style, text: &str) -> String {
        paint(self.stderr_color, style, text)
    }

    /// Sanitizes text from a server, if standard output is a terminal.
    pub(crate) fn sanitized(&self, text: &str) -> String {
        if self.is_terminal { sanitize(text) } else { text.to_owned() }
    }

    /// Sanitizes a name from a server, if standard output is a terminal.
    pub(crate) fn sanitized_name(&self, text: &str) -> String {
        if self.is_terminal { sanitize_name(text) } else { text.to_owned() }
    }
}

/// The beginning of the first line of a text from a server, sanitized.
fn first_line(text: &str) -> String {
    sanitize(text).lines().next().unwrap_or_default().chars().take(MAX_MESSAGE_CHARS).collect()
}

fn to_json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| CliError::usage(error.to_string()))
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

/// Escapes control characters and marks that change the direction of the text.
pub(crate) fn sanitize(text: &str) -> String {
    escape_controls(text, |letter| letter.escape_unicode().to_string())
}

/// Sanitizes a name, which is one line: also escapes line ends and characters without a width, which would make two
/// different names look the same.
pub(crate) fn sanitize_name(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in sanitize(text).chars() {
        match matches!(letter, '\n' | '\t') || is_invisible(letter) {
            true => out.extend(letter.escape_unicode()),
            false => out.push(letter),
        }
    }
    out
}

/// Whether a character has no width and no glyph of its own: zero-width spaces and joiners, fillers, tags.
fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    )
}

fn sanitize_json(text: &str) -> String {
    // All escaped characters are below U+10000.
    escape_controls(text, |letter| format!("\\u{:04x}", u32::from(letter)))
}

fn escape_controls(text: &str, escape: impl Fn(char) -> String) -> String {
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

/// Width of a progress bar, in characters.
const BAR_WIDTH: usize = 24;
/// Characters of the message beside a progress bar.
const MAX_MESSAGE_CHARS: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(sanitize("a\x1b[2Jb\r\nc\td"), "a\\u{1b}[2Jb\nc\td");
        assert_eq!(sanitize("\u{202e}gnp.exe\u{9b}"), "\\u{202e}gnp.exe\\u{9b}");
        assert_eq!(sanitize("継手 🪵"), "継手 🪵");
        assert_eq!(sanitize_name("a\u{200b}b\nc\u{e0041}\u{9b}"), "a\\u{200b}b\\u{a}c\\u{e0041}\\u{9b}");
        assert_eq!(sanitize_name("継手 🪵"), "継手 🪵");
        assert_eq!(sanitize_json("{\"a\":\"\u{9b}\u{202e}\"}"), r#"{"a":"\u009b\u202e"}"#);
    }
}
