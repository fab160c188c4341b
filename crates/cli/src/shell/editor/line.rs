//! The line that is being typed, and the cursor in it.

use unicode_width::UnicodeWidthChar;

use super::keys::Key;

/// A text and a place in it.
#[derive(Debug, Default)]
pub(super) struct Line {
    text: String,
    /// In bytes, between two letters.
    at: usize,
    /// What was cut out last.
    cut: String,
}

/// Where the cursor stands, and where the text ends, on a terminal of some width.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) row: usize,
    pub(super) column: usize,
}

impl Line {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What stands before the cursor.
    pub(super) fn before(&self) -> &str {
        self.text.get(..self.at).unwrap_or_default()
    }

    /// Another text, with the cursor at its end.
    pub(super) fn replace(&mut self, text: &str) {
        self.text = text.to_owned();
        self.at = self.text.len();
    }

    /// Another word in place of what stands between `start` and the cursor.
    pub(super) fn complete(&mut self, start: usize, word: &str) {
        if self.text.is_char_boundary(start) && start <= self.at {
            self.text.replace_range(start..self.at, word);
            self.at = start + word.len();
        }
    }

    /// Does what a key says, if it is about the line.
    pub(super) fn press(&mut self, key: &Key) {
        match key {
            Key::Text(text) => {
                self.text.insert_str(self.at, text);
                self.at += text.len();
            }
            Key::Left => self.at = self.left(self.at),
            Key::Right => self.at = self.right(self.at),
            Key::WordLeft => self.at = self.word_left(),
            Key::WordRight => self.at = self.word_right(),
            Key::Home => self.at = 0,
            Key::End => self.at = self.text.len(),
            Key::Backspace => self.remove(self.left(self.at), self.at),
            Key::Delete | Key::EndOrDelete => self.remove(self.at, self.right(self.at)),
            Key::KillToEnd => self.cut(self.at, self.text.len()),
            Key::KillToStart => self.cut(0, self.at),
            Key::KillWord => self.cut(self.blank_left(), self.at),
            Key::Yank => {
                let text = std::mem::take(&mut self.cut);
                self.text.insert_str(self.at, &text);
                self.at += text.len();
                self.cut = text;
            }
            _ => {}
        }
    }

    /// Where the cursor and the end stand behind a prompt, on a terminal with so many columns.
    pub(super) fn places(&self, prompt: &str, columns: usize) -> (Place, Place) {
        let begin = advance(Place::default(), prompt, columns);
        let cursor = advance(begin, self.before(), columns);
        (cursor, advance(cursor, self.text.get(self.at..).unwrap_or_default(), columns))
    }

    fn left(&self, at: usize) -> usize {
        // Marks without a width belong to the letter before them.
        let letters = self.text.get(..at).unwrap_or_default().char_indices().rev();
        letters.into_iter().find(|(_, letter)| width(*letter) > 0).map_or(0, |(place, _)| place)
    }

    fn right(&self, at: usize) -> usize {
        let mut letters = self.text.get(at..).unwrap_or_default().char_indices().skip(1);
        letters.find(|(_, letter)| width(*letter) > 0).map_or(self.text.len(), |(place, _)| at + place)
    }

    fn word_left(&self) -> usize {
        let head = self.before();
        let word = head.trim_end_matches(|letter: char| !letter.is_alphanumeric());
        word.trim_end_matches(char::is_alphanumeric).len()
    }

    fn word_right(&self) -> usize {
        let tail = self.text.get(self.at..).unwrap_or_default();
        let word = tail.trim_start_matches(|letter: char| !letter.is_alphanumeric());
        self.text.len() - word.trim_start_matches(char::is_alphanumeric).len()
    }

    /// Back to the blank before a word.
    fn blank_left(&self) -> usize {
        self.before().trim_end().trim_end_matches(|letter: char| !letter.is_whitespace()).len()
    }

    fn remove(&mut self, from: usize, to: usize) {
        if self.text.is_char_boundary(from) && self.text.is_char_boundary(to) && from <= to {
            self.text.replace_range(from..to, "");
            self.at = from;
        }
    }

    fn cut(&mut self, from: usize, to: usize) {
        let text = self.text.get(from..to).unwrap_or_default().to_owned();
        if !text.is_empty() {
            self.cut = text;
            self.remove(from, to);
        }
    }
}

/// Where a text ends that begins somewhere. A letter that does not fit goes to the next row.
pub(super) fn advance(from: Place, text: &str, columns: usize) -> Place {
    let mut place = from;
    for letter in text.chars() {
        if letter == '\n' {
            place = Place { row: place.row + 1, column: 0 };
            continue;
        }
        let width = width(letter);
        if place.column + width > columns {
            place = Place { row: place.row + 1, column: 0 };
        }
        place.column += width;
        if place.column == columns {
            place = Place { row: place.row + 1, column: 0 };
        }
    }
    place
}

pub(super) fn width(letter: char) -> usize {
    letter.width().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(keys: &[Key]) -> (String, String) {
        let mut line = Line::default();
        keys.iter().for_each(|key| line.press(key));
        (line.before().to_owned(), line.text()[line.before().len()..].to_owned())
    }

    fn text(text: &str) -> Key {
        Key::Text(text.to_owned())
    }

    fn is(keys: &[Key], before: &str, behind: &str) {
        assert_eq!(after(keys), (before.to_owned(), behind.to_owned()), "{keys:?}");
    }

    #[test]
    fn a_line_is_edited_where_the_cursor_stands() {
        is(&[text("ab"), Key::Left, text("x")], "ax", "b");
        is(&[text("継手"), Key::Left, Key::Backspace], "", "手");
        is(&[text("e\u{301}x"), Key::Left, Key::Left, Key::Delete], "", "x");
        is(&[text("call add"), Key::WordLeft, Key::WordLeft, Key::WordRight], "call", " add");
        is(&[text("call add"), Key::Home, Key::EndOrDelete, Key::End], "all add", "");
        is(&[text("call a=1 b=2"), Key::KillWord], "call a=1 ", "");
        is(&[text("call a=1"), Key::KillToStart, text("x "), Key::Yank], "x call a=1", "");
        is(&[text("abc"), Key::Left, Key::KillToEnd, Key::KillToEnd, Key::Home, Key::Yank], "c", "ab");
        is(&[Key::Left, Key::Right, Key::Backspace, Key::Delete, Key::KillWord, Key::Yank], "", "");
    }

    #[test]
    fn a_word_is_completed_before_the_cursor() {
        let mut line = Line::default();
        line.replace("ca x");
        line.press(&Key::WordLeft);
        line.press(&Key::Left);
        line.complete(0, "call ");
        assert_eq!((line.before(), line.text()), ("call ", "call  x"));
    }

    #[test]
    fn long_lines_go_on_in_the_next_row() {
        let mut line = Line::default();
        line.replace("12345");
        let place = |row, column| Place { row, column };
        assert_eq!(line.places("> ", 80), (place(0, 7), place(0, 7)));
        assert_eq!(line.places("> ", 7), (place(1, 0), place(1, 0)));
        assert_eq!(line.places("> ", 4), (place(1, 3), place(1, 3)));
        line.press(&Key::Home);
        assert_eq!(line.places("> ", 4), (place(0, 2), place(1, 3)));
        // A wide letter is not cut in two.
        line.replace("継継");
        assert_eq!(line.places("> ", 5).1, place(1, 2));
    }
}
