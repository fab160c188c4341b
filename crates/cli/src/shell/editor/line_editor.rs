//! One line, from the first key to Enter: drawn, edited, completed, brought back from earlier.

use std::io;

use super::super::completion::Candidate;
use super::keys::{Key, KeyDecoder};
use super::line_buffer::{LineBuffer, ScreenPosition, advance, char_width};
use super::terminal::{self, InputWaker, RawMode, TerminalInput};

/// What came of a line.
pub(super) enum ReadOutcome {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal is gone.
    Eof,
    /// It is not wanted any more.
    Cancelled,
}

/// What belongs to one kind of line.
pub(super) struct LineConfig<'a> {
    /// What stands before it.
    pub(super) prompt: &'a str,
    /// What was typed earlier, the oldest first.
    pub(super) history: &'a [String],
    /// What could follow, and where that begins.
    pub(super) complete: &'a dyn Fn(&str) -> (usize, Vec<Candidate>),
    /// Whether nobody waits for it any more.
    pub(super) is_cancelled: &'a dyn Fn() -> bool,
}

/// Reads a line. What is typed beyond it stays in `keys`.
pub(super) fn read_line(
    keys: &mut KeyDecoder,
    door: &InputWaker,
    ways: &LineConfig<'_>,
) -> io::Result<ReadOutcome> {
    if (ways.is_cancelled)() {
        return Ok(ReadOutcome::Cancelled);
    }
    let _raw = RawMode::new()?;
    let (line, draft, drawn) = (LineBuffer::default(), String::new(), String::new());
    let mut desk = LineEditor { config: ways, line, draft, history_index: ways.history.len(), drawn };
    desk.draw("")?;
    loop {
        if (ways.is_cancelled)() {
            desk.finish_line("\n")?;
            return Ok(ReadOutcome::Cancelled);
        }
        while let Some(key) = keys.next() {
            match key {
                Key::Enter => {
                    desk.finish_line("\n")?;
                    return Ok(ReadOutcome::Line(desk.line.text().to_owned()));
                }
                Key::Interrupt => {
                    desk.finish_line("^C\n")?;
                    return Ok(ReadOutcome::Interrupted);
                }
                Key::EndOrDelete if desk.line.text().is_empty() => {
                    desk.finish_line("\n")?;
                    return Ok(ReadOutcome::Eof);
                }
                Key::ClearScreen => {
                    terminal::write("\x1b[H\x1b[2J")?;
                    desk.drawn.clear();
                }
                Key::Tab => {
                    let listed = desk.complete();
                    if !listed.is_empty() {
                        desk.finish_line("\n")?;
                        terminal::write(&listed)?;
                        desk.drawn.clear();
                    }
                }
                Key::Up => desk.browse_history(-1),
                Key::Down => desk.browse_history(1),
                other => desk.line.apply_key(&other),
            }
            desk.draw("")?;
        }
        match terminal::wait_for_input(door, keys.has_partial_key())? {
            TerminalInput::Bytes(bytes) => keys.feed(&bytes),
            TerminalInput::Timeout => keys.discard_partial_key(),
            TerminalInput::Wake => {
                let notes = door.take_notes().unwrap_or_default();
                desk.draw(&notes)?;
            }
            TerminalInput::Eof => return Ok(ReadOutcome::Eof),
        }
    }
}

struct LineEditor<'a> {
    config: &'a LineConfig<'a>,
    line: LineBuffer,
    /// What was typed before somebody looked at earlier lines.
    draft: String,
    /// Which of those is looked at; behind the last is the draft.
    history_index: usize,
    /// What stands on the screen before the cursor.
    drawn: String,
}

impl LineEditor<'_> {
    /// Draws all of it anew, where it stood, with `above` above it.
    fn draw(&mut self, above: &str) -> io::Result<()> {
        let columns = terminal::columns();
        let (now, end) = self.line.cursor_and_end(self.config.prompt, columns);
        // A terminal of another width has put it into other rows.
        let mut text = cursor_up(advance(ScreenPosition::default(), &self.drawn, columns).row);
        text.push_str("\r\x1b[J");
        text.push_str(above);
        text.push_str(self.config.prompt);
        text.push_str(self.line.text());
        if end.column == 0 && end.row > 0 {
            // Terminals wait with the next row until something is in it.
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

    /// Goes behind the line.
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

    /// To an earlier line, or a later one.
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

    /// Completes as far as it is clear; else gives the list of what is possible.
    fn complete(&mut self) -> String {
        let typed = self.line.before_cursor().to_owned();
        let (start, candidates) = (self.config.complete)(&typed);
        let words: Vec<&str> = candidates.iter().map(|candidate| candidate.replacement.as_str()).collect();
        let common = common_prefix(&words);
        let begun = typed.get(start..).unwrap_or_default();
        match candidates.as_slice() {
            [] => String::new(),
            [one] => {
                self.line.complete(start, &one.replacement);
                String::new()
            }
            _ if common.len() > begun.len() => {
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

/// What all words begin with.
fn common_prefix<'a>(words: &[&'a str]) -> &'a str {
    let Some((first, others)) = words.split_first() else { return "" };
    let mut end = first.len();
    for other in others {
        let same = first.chars().zip(other.chars()).take_while(|(one, another)| one == another);
        end = end.min(same.map(|(letter, _)| letter.len_utf8()).sum());
    }
    let text = first.get(..end).unwrap_or_default();
    // A backslash belongs to what follows it.
    let slashes = text.len() - text.trim_end_matches('\\').len();
    text.get(..text.len() - slashes % 2).unwrap_or_default()
}

/// A list in columns.
fn format_candidates(candidates: &[Candidate], columns: usize) -> String {
    let wide = |text: &str| text.chars().map(char_width).sum::<usize>();
    let shown = candidates.iter().take(MAX_SHOWN_CANDIDATES);
    let widest = shown.clone().map(|candidate| wide(&candidate.display)).max().unwrap_or(0) + 2;
    let per_row = (columns / widest).max(1);
    let mut text = String::new();
    let shown: Vec<&Candidate> = shown.collect();
    for row in shown.chunks(per_row) {
        for (number, candidate) in row.iter().enumerate() {
            text.push_str(&candidate.display);
            if number + 1 < row.len() {
                text.extend(std::iter::repeat_n(' ', widest - wide(&candidate.display)));
            }
        }
        text.push('\n');
    }
    if candidates.len() > MAX_SHOWN_CANDIDATES {
        text.push_str(&format!("and {} more\n", candidates.len() - MAX_SHOWN_CANDIDATES));
    }
    text
}

/// Candidates that are listed.
const MAX_SHOWN_CANDIDATES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_in_common_what_they_begin_with() {
        assert_eq!(common_prefix(&["list ", "listen "]), "list");
        assert_eq!(common_prefix(&["継手 ", "継木 "]), "継");
        assert_eq!(common_prefix(&["a\\ b", "a\\'c"]), "a");
        assert_eq!(common_prefix(&["a\\\\x", "a\\\\y"]), "a\\\\");
        assert_eq!(common_prefix(&["x", "y"]), "");
    }

    #[test]
    fn a_list_fits_the_terminal() {
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
