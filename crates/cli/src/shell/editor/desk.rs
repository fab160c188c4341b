//! One line, from the first key to Enter: drawn, edited, completed, brought back from earlier.

use std::io;

use super::super::completing::Candidate;
use super::keys::{Key, Keys};
use super::line::{Line, Place, advance, width};
use super::terminal::{self, Came, Door, Raw};

/// What came of a line.
pub(super) enum Ended {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal is gone.
    End,
    /// It is not wanted any more.
    Withdrawn,
}

/// What belongs to one kind of line.
pub(super) struct Ways<'a> {
    /// What stands before it.
    pub(super) prompt: &'a str,
    /// What was typed earlier, the oldest first.
    pub(super) earlier: &'a [String],
    /// What could follow, and where that begins.
    pub(super) complete: &'a dyn Fn(&str) -> (usize, Vec<Candidate>),
    /// Whether nobody waits for it any more.
    pub(super) withdrawn: &'a dyn Fn() -> bool,
}

/// Reads a line. What is typed beyond it stays in `keys`.
pub(super) fn read(keys: &mut Keys, door: &Door, ways: &Ways<'_>) -> io::Result<Ended> {
    if (ways.withdrawn)() {
        return Ok(Ended::Withdrawn);
    }
    let _raw = Raw::new()?;
    let (line, draft, drawn) = (Line::default(), String::new(), String::new());
    let mut desk = Desk { ways, line, draft, place: ways.earlier.len(), drawn };
    desk.draw("")?;
    loop {
        if (ways.withdrawn)() {
            desk.leave("\n")?;
            return Ok(Ended::Withdrawn);
        }
        while let Some(key) = keys.next() {
            match key {
                Key::Enter => {
                    desk.leave("\n")?;
                    return Ok(Ended::Line(desk.line.text().to_owned()));
                }
                Key::Interrupt => {
                    desk.leave("^C\n")?;
                    return Ok(Ended::Interrupted);
                }
                Key::EndOrDelete if desk.line.text().is_empty() => {
                    desk.leave("\n")?;
                    return Ok(Ended::End);
                }
                Key::ClearScreen => {
                    terminal::write("\x1b[H\x1b[2J")?;
                    desk.drawn.clear();
                }
                Key::Tab => {
                    let listed = desk.complete();
                    if !listed.is_empty() {
                        desk.leave("\n")?;
                        terminal::write(&listed)?;
                        desk.drawn.clear();
                    }
                }
                Key::Up => desk.walk(-1),
                Key::Down => desk.walk(1),
                other => desk.line.press(&other),
            }
            desk.draw("")?;
        }
        match terminal::wait(door, keys.is_unsure())? {
            Came::Bytes(bytes) => keys.feed(&bytes),
            Came::Nothing => keys.give_up(),
            Came::Knock => {
                let notes = door.notes().unwrap_or_default();
                desk.draw(&notes)?;
            }
            Came::End => return Ok(Ended::End),
        }
    }
}

struct Desk<'a> {
    ways: &'a Ways<'a>,
    line: Line,
    /// What was typed before somebody looked at earlier lines.
    draft: String,
    /// Which of those is looked at; behind the last is the draft.
    place: usize,
    /// What stands on the screen before the cursor.
    drawn: String,
}

impl Desk<'_> {
    /// Draws all of it anew, where it stood, with `above` above it.
    fn draw(&mut self, above: &str) -> io::Result<()> {
        let columns = terminal::columns();
        let (now, end) = self.line.places(self.ways.prompt, columns);
        // A terminal of another width has put it into other rows.
        let mut text = up(advance(Place::default(), &self.drawn, columns).row);
        text.push_str("\r\x1b[J");
        text.push_str(above);
        text.push_str(self.ways.prompt);
        text.push_str(self.line.text());
        if end.column == 0 && end.row > 0 {
            // Terminals wait with the next row until something is in it.
            text.push('\n');
        }
        text.push_str(&up(end.row - now.row));
        text.push('\r');
        if now.column > 0 {
            text.push_str(&format!("\x1b[{}C", now.column));
        }
        self.drawn = format!("{}{}", self.ways.prompt, self.line.before());
        terminal::write(&text)
    }

    /// Goes behind the line.
    fn leave(&self, with: &str) -> io::Result<()> {
        let (now, end) = self.line.places(self.ways.prompt, terminal::columns());
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
    fn walk(&mut self, by: isize) {
        let earlier = self.ways.earlier;
        let Some(next) = self.place.checked_add_signed(by).filter(|next| *next <= earlier.len()) else {
            return;
        };
        if self.place == earlier.len() {
            self.draft = self.line.text().to_owned();
        }
        self.place = next;
        let text = earlier.get(next).unwrap_or(&self.draft).clone();
        self.line.replace(&text);
    }

    /// Completes as far as it is clear; else gives the list of what is possible.
    fn complete(&mut self) -> String {
        let typed = self.line.before().to_owned();
        let (start, candidates) = (self.ways.complete)(&typed);
        let words: Vec<&str> = candidates.iter().map(|candidate| candidate.word.as_str()).collect();
        let common = common(&words);
        let begun = typed.get(start..).unwrap_or_default();
        match candidates.as_slice() {
            [] => String::new(),
            [one] => {
                self.line.complete(start, &one.word);
                String::new()
            }
            _ if common.len() > begun.len() => {
                self.line.complete(start, common);
                String::new()
            }
            many => listed(many, terminal::columns()),
        }
    }
}

fn up(rows: usize) -> String {
    if rows == 0 { String::new() } else { format!("\x1b[{rows}A") }
}

/// What all words begin with.
fn common<'a>(words: &[&'a str]) -> &'a str {
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
fn listed(candidates: &[Candidate], columns: usize) -> String {
    let wide = |text: &str| text.chars().map(width).sum::<usize>();
    let shown = candidates.iter().take(SHOWN);
    let widest = shown.clone().map(|candidate| wide(&candidate.shown)).max().unwrap_or(0) + 2;
    let per_row = (columns / widest).max(1);
    let mut text = String::new();
    let shown: Vec<&Candidate> = shown.collect();
    for row in shown.chunks(per_row) {
        for (number, candidate) in row.iter().enumerate() {
            text.push_str(&candidate.shown);
            if number + 1 < row.len() {
                text.extend(std::iter::repeat_n(' ', widest - wide(&candidate.shown)));
            }
        }
        text.push('\n');
    }
    if candidates.len() > SHOWN {
        text.push_str(&format!("and {} more\n", candidates.len() - SHOWN));
    }
    text
}

/// Candidates that are listed.
const SHOWN: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_in_common_what_they_begin_with() {
        assert_eq!(common(&["list ", "listen "]), "list");
        assert_eq!(common(&["継手 ", "継木 "]), "継");
        assert_eq!(common(&["a\\ b", "a\\'c"]), "a");
        assert_eq!(common(&["a\\\\x", "a\\\\y"]), "a\\\\");
        assert_eq!(common(&["x", "y"]), "");
    }

    #[test]
    fn a_list_fits_the_terminal() {
        let candidates: Vec<Candidate> = ["one", "three", "木"]
            .iter()
            .map(|word| Candidate { shown: (*word).to_owned(), word: String::new() })
            .collect();
        assert_eq!(listed(&candidates, 80), "one    three  木\n");
        assert_eq!(listed(&candidates, 14), "one    three\n木\n");
        assert_eq!(listed(&candidates, 1), "one\nthree\n木\n");
        assert!(listed(&vec![candidates[0].clone(); 130], 80).ends_with("and 30 more\n"));
    }
}
