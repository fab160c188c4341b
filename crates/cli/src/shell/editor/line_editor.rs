//! Reads one line from the terminal, with editing, completion and history.

use std::io;

use super::super::completion::Candidate;
use super::keys::{Key, KeyDecoder};
use super::line_buffer::{LineBuffer, ScreenPosition, advance, char_width};
use super::terminal::{self, InputWaker, RawMode, TerminalInput};

/// The result of reading a line.
pub(super) enum ReadOutcome {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal is gone.
    Eof,
    /// The request was cancelled.
    Cancelled,
}

/// The settings for reading a line.
pub(super) struct LineConfig<'a> {
    /// The prompt.
    pub(super) prompt: &'a str,
    /// Earlier lines, the oldest first.
    pub(super) history: &'a [String],
    /// Returns the candidates for the text before the cursor, and the offset that they replace from.
    pub(super) complete: &'a dyn Fn(&str) -> (usize, Vec<Candidate>),
    /// Whether the request was cancelled.
    pub(super) is_cancelled: &'a dyn Fn() -> bool,
}

/// Reads a line in raw mode. Keys typed after it stay in `keys`.
pub(super) fn read_line(
    _raw: RawMode,
    keys: &mut KeyDecoder,
    waker: &InputWaker,
    config: &LineConfig<'_>,
) -> io::Result<ReadOutcome> {
    let (line, draft, drawn) = (LineBuffer::default(), String::new(), String::new());
    let mut editor = LineEditor { config, line, draft, history_index: config.history.len(), drawn };
    editor.draw("")?;
    loop {
        if (config.is_cancelled)() {
            editor.finish_line("\n")?;
            return Ok(ReadOutcome::Cancelled);
        }
        while let Some(key) = keys.next() {
            match key {
                Key::Enter => {
                    editor.finish_line("\n")?;
                    return Ok(ReadOutcome::Line(editor.line.text().to_owned()));
                }
                Key::Interrupt => {
                    editor.finish_line("^C\n")?;
                    return Ok(ReadOutcome::Interrupted);
                }
                Key::EndOrDelete if editor.line.text().is_empty() => {
                    editor.finish_line("\n")?;
                    return Ok(ReadOutcome::Eof);
                }
                Key::ClearScreen => {
                    terminal::write("\x1b[H\x1b[2J")?;
                    editor.drawn.clear();
                }
                Key::Tab => {
                    let listed = editor.complete();
                    if !listed.is_empty() {
                        editor.finish_line("\n")?;
                        terminal::write(&listed)?;
                        editor.drawn.clear();
                    }
                }
                Key::Up => editor.browse_history(-1),
                Key::Down => editor.browse_history(1),
                other => editor.line.apply_key(&other),
            }
            editor.draw("")?;
        }
        match terminal::wait_for_input(waker, keys.has_partial_key())? {
            TerminalInput::Bytes(bytes) => keys.feed(&bytes),
            TerminalInput::Timeout => keys.discard_partial_key(),
            TerminalInput::Wake => {
                let notes = waker.take_notes().unwrap_or_default();
                editor.draw(&notes)?;
            }
            TerminalInput::Eof => return Ok(ReadOutcome::Eof),
        }
    }
}

struct LineEditor<'a> {
    config: &'a LineConfig<'a>,
    line: LineBuffer,
    /// The line before history was browsed.
    draft: String,
    /// The history entry shown; the length of the history stands for the draft.
    history_index: usize,
    /// The text on the screen before the cursor.
    drawn: String,
}

impl LineEditor<'_> {
    /// Redraws the prompt and the line in place, with `above` printed above them.
    fn draw(&mut self, above: &str) -> io::Result<()> {
        let columns = terminal::columns();
        let (now, end) = self.line.cursor_and_end(self.config.prompt, columns);
        // The terminal may have been resized, which wraps the text differently.
        let mut text = cursor_up(advance(ScreenPosition::default(), &self.drawn, columns).row);
        text.push_str("\r\x1b[J");
        text.push_str(above);
        text.push_str(self.config.prompt);
        text.push_str(self.line.text());
        if end.column == 0 && end.row > 0 {
            // Terminals move to the next row only with the next character.
            text.push('\n');
        }
        text.push_str(&cursor_up(end.row - now.row));
        text.push('\r');
        if now.column > 0 {
            text.push_str(&format!("\x1b[{}C", now.column));
        }
        self.drawn = format!("{}{}", self.config.prompt, self.line.before_cursor());
        terminal::write(&text)
    }

    /// Moves the cursor to the end of the line and writes `with`.
    fn finish_line(&self, with: &str) -> io::Result<()> {
        let (now, end) = self.line.cursor_and_end(self.config.prompt, terminal::columns());
        let mut text = String::new();
        if end.row > now.row {
            text.push_str(&format!("\x1b[{}B", end.row - now.row));
        }
        text.push('\r');
        if end.column > 0 {
            text.push_str(&format!("\x1b[{}C", end.column));
        }
        text.push_str(with);
        terminal::write(&text)
    }

    /// Shows an earlier or a later line of the history.
    fn browse_history(&mut self, by: isize) {
        let earlier = self.config.history;
        let Some(next) = self.history_index.checked_add_signed(by).filter(|next| *next <= earlier.len())
        else {
            return;
        };
        if self.history_index == earlier.len() {
            self.draft = self.line.text().to_owned();
        }
        self.history_index = next;
        let text = earlier.get(next).unwrap_or(&self.draft).clone();
        self.line.replace(&text);
    }

    /// Completes the unambiguous part, or returns the list of candidates to print.
    fn complete(&mut self) -> String {
        let typed = self.line.before_cursor().to_owned();
        let (start, candidates) = (self.config.complete)(&typed);
        let words: Vec<&str> = candidates.iter().map(|candidate| candidate.replacement.as_str()).collect();
        let common = common_prefix(&words);
        let prefix = typed.get(start..).unwrap_or_default();
        match candidates.as_slice() {
            [] => String::new(),
            [one] => {
                self.line.complete(start, &one.replacement);
                String::new()
            }
            _ if common.len() > prefix.len() => {
                self.line.complete(start, common);
                String::new()
            }
            many => format_candidates(many, terminal::columns()),
        }
    }
}

fn cursor_up(rows: usize) -> String {
    if rows == 0 { String::new() } else { format!("\x1b[{rows}A") }
}

/// Returns the longest common prefix of the words.
fn common_prefix<'a>(words: &[&'a str]) -> &'a str {
    let Some((first, others)) = words.split_first() else { return "" };
    let mut end = first.len();
    for other in others {
        let same = first.chars().zip(other.chars()).take_while(|(one, another)| one == another);
        end = end.min(same.map(|(letter, _)| letter.len_utf8()).sum());
    }
    let text = first.get(..end).unwrap_or_default();
    // Do not split an escape sequence.
    let slashes = text.len() - text.trim_end_matches('\\').len();
    text.get(..text.len() - slashes % 2).unwrap_or_default()
}

/// Formats the candidates in columns.
fn format_candidates(candidates: &[Candidate], columns: usize) -> String {
    let width = |text: &str| text.chars().map(char_width).sum::<usize>();
    let shown = candidates.iter().take(MAX_SHOWN_CANDIDATES);
    let widest = shown.clone().map(|candidate| width(&candidate.display)).max().unwrap_or(0) + 2;
    let per_row = (columns / widest).max(1);
    let mut text = String::new();
    let shown: Vec<&Candidate> = shown.collect();
    for row in shown.chunks(per_row) {
        for (number, candidate) in row.iter().enumerate() {
            text.push_str(&candidate.display);
            if number + 1 < row.len() {
                text.extend(std::iter::repeat_n(' ', widest - width(&candidate.display)));
            }
        }
        text.push('\n');
    }
    if candidates.len() > MAX_SHOWN_CANDIDATES {
        text.push_str(&format!("and {} more\n", candidates.len() - MAX_SHOWN_CANDIDATES));
    }
    text
}

/// Candidates to show.
const MAX_SHOWN_CANDIDATES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_prefix_does_not_split_escapes() {
        assert_eq!(common_prefix(&["list ", "listen "]), "list");
        assert_eq!(common_prefix(&["継手 ", "継木 "]), "継");
        assert_eq!(common_prefix(&["a\\ b", "a\\'c"]), "a");
        assert_eq!(common_prefix(&["a\\\\x", "a\\\\y"]), "a\\\\");
        assert_eq!(common_prefix(&["x", "y"]), "");
    }

    #[test]
    fn candidates_fit_the_terminal() {
        let candidates: Vec<Candidate> = ["one", "three", "木"]
            .iter()
            .map(|word| Candidate { display: (*word).to_owned(), replacement: String::new() })
            .collect();
        assert_eq!(format_candidates(&candidates, 80), "one    three  木\n");
        assert_eq!(format_candidates(&candidates, 14), "one    three\n木\n");
        assert_eq!(format_candidates(&candidates, 1), "one\nthree\n木\n");
        assert!(format_candidates(&vec![candidates[0].clone(); 130], 80).ends_with("and 30 more\n"));
    }
}
