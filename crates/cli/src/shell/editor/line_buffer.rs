//! The line that is being typed, and the cursor in it.

use unicode_width::UnicodeWidthChar;

use super::keys::Key;

/// A text and a place in it.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    text: String,
    /// In bytes, between two letters.
    cursor: usize,
    /// What was cut out last.
    killed: String,
}

/// Where the cursor stands, and where the text ends, on a terminal of some width.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ScreenPosition {
    pub(super) row: usize,
    pub(super) column: usize,
}

impl LineBuffer {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What stands before the cursor.
    pub(super) fn before_cursor(&self) -> &str {
        self.text.get(..self.cursor).unwrap_or_default()
    }

    /// Another text, with the cursor at its end.
    pub(super) fn replace(&mut self, text: &str) {
        self.text = text.to_owned();
        self.cursor = self.text.len();
    }

    /// Another word in place of what stands between `start` and the cursor.
    pub(super) fn complete(&mut self, start: usize, word: &str) {
        if self.text.is_char_boundary(start) && start <= self.cursor {
            self.text.replace_range(start..self.cursor, word);
            self.cursor = start + word.len();
        }
    }

    /// Does what a key says, if it is about the line.
    pub(super) fn apply_key(&mut self, key: &Key) {
        match key {
            Key::Text(text) => {
                self.text.insert_str(self.cursor, text);
                self.cursor += text.len();
            }
            Key::Left => self.cursor = self.previous_char(self.cursor),
            Key::Right => self.cursor = self.next_char(self.cursor),
            Key::WordLeft => self.cursor = self.word_left(),
            Key::WordRight => self.cursor = self.word_right(),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.text.len(),
            Key::Backspace => self.remove(self.previous_char(self.cursor), self.cursor),
            Key::Delete | Key::EndOrDelete => self.remove(self.cursor, self.next_char(self.cursor)),
            Key::KillToEnd => self.kill(self.cursor, self.text.len()),
            Key::KillToStart => self.kill(0, self.cursor),
            Key::KillWord => self.kill(self.word_start(), self.cursor),
            Key::Yank => {
                let text = std::mem::take(&mut self.killed);
                self.text.insert_str(self.cursor, &text);
                self.cursor += text.len();
                self.killed = text;
            }
            _ => {}
        }
    }

    /// Where the cursor and the end stand behind a prompt, on a terminal with so many columns.
    pub(super) fn cursor_and_end(&self, prompt: &str, columns: usize) -> (ScreenPosition, ScreenPosition) {
        let begin = advance(ScreenPosition::default(), prompt, columns);
        let cursor = advance(begin, self.before_cursor(), columns);
        (cursor, advance(cursor, self.text.get(self.cursor..).unwrap_or_default(), columns))
    }

    fn previous_char(&self, at: usize) -> usize {
        // Marks without a width belong to the letter before them.
        let letters = self.text.get(..at).unwrap_or_default().char_indices().rev();
        letters.into_iter().find(|(_, letter)| char_width(*letter) > 0).map_or(0, |(place, _)| place)
    }

    fn next_char(&self, at: usize) -> usize {
        let mut letters = self.text.get(at..).unwrap_or_default().char_indices().skip(1);
        letters.find(|(_, letter)| char_width(*letter) > 0).map_or(self.text.len(), |(place, _)| at + place)
    }

    fn word_left(&self) -> usize {
        let head = self.before_cursor();
        let word = head.trim_end_matches(|letter: char| !letter.is_alphanumeric());
        word.trim_end_matches(char::is_alphanumeric).len()
    }

    fn word_right(&self) -> usize {
        let tail = self.text.get(self.cursor..).unwrap_or_default();
        let word = tail.trim_start_matches(|letter: char| !letter.is_alphanumeric());
        self.text.len() - word.trim_start_matches(char::is_alphanumeric).len()
    }

    /// Back to the blank before a word.
    fn word_start(&self) -> usize {
        self.before_cursor().trim_end().trim_end_matches(|letter: char| !letter.is_whitespace()).len()
    }

    fn remove(&mut self, from: usize, to: usize) {
        if self.text.is_char_boundary(from) && self.text.is_char_boundary(to) && from <= to {
            self.text.replace_range(from..to, "");
            self.cursor = from;
        }
    }

    fn kill(&mut self, from: usize, to: usize) {
        let text = self.text.get(from..to).unwrap_or_default().to_owned();
        if !text.is_empty() {
            self.killed = text;
            self.remove(from, to);
        }
    }
}

/// Where a text ends that begins somewhere. A letter that does not fit goes to the next row.
pub(super) fn advance(from: ScreenPosition, text: &str, columns: usize) -> ScreenPosition {
    let mut place = from;
    for letter in text.chars() {
        if letter == '\n' {
            place = ScreenPosition { row: place.row + 1, column: 0 };
            continue;
        }
        let width = char_width(letter);
        if place.column + width > columns {
            place = ScreenPosition { row: place.row + 1, column: 0 };
        }
        place.column += width;
        if place.column == columns {
            place = ScreenPosition { row: place.row + 1, column: 0 };
        }
    }
    place
}

pub(super) fn char_width(letter: char) -> usize {
    letter.width().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_after(keys: &[Key]) -> (String, String) {
        let mut line = LineBuffer::default();
        keys.iter().for_each(|key| line.apply_key(key));
        (line.before_cursor().to_owned(), line.text()[line.before_cursor().len()..].to_owned())
    }

    fn text(text: &str) -> Key {
        Key::Text(text.to_owned())
    }

    fn assert_state(keys: &[Key], before: &str, behind: &str) {
        assert_eq!(state_after(keys), (before.to_owned(), behind.to_owned()), "{keys:?}");
    }

    #[test]
    fn a_line_is_edited_where_the_cursor_stands() {
        assert_state(&[text("ab"), Key::Left, text("x")], "ax", "b");
        assert_state(&[text("継手"), Key::Left, Key::Backspace], "", "手");
        assert_state(&[text("e\u{301}x"), Key::Left, Key::Left, Key::Delete], "", "x");
        assert_state(&[text("call add"), Key::WordLeft, Key::WordLeft, Key::WordRight], "call", " add");
        assert_state(&[text("call add"), Key::Home, Key::EndOrDelete, Key::End], "all add", "");
        assert_state(&[text("call a=1 b=2"), Key::KillWord], "call a=1 ", "");
        assert_state(&[text("call a=1"), Key::KillToStart, text("x "), Key::Yank], "x call a=1", "");
        assert_state(
            &[text("abc"), Key::Left, Key::KillToEnd, Key::KillToEnd, Key::Home, Key::Yank],
            "c",
            "ab",
        );
        assert_state(&[Key::Left, Key::Right, Key::Backspace, Key::Delete, Key::KillWord, Key::Yank], "", "");
    }

    #[test]
    fn a_word_is_completed_before_the_cursor() {
        let mut line = LineBuffer::default();
        line.replace("ca x");
        line.apply_key(&Key::WordLeft);
        line.apply_key(&Key::Left);
        line.complete(0, "call ");
        assert_eq!((line.before_cursor(), line.text()), ("call ", "call  x"));
    }

    #[test]
    fn long_lines_go_on_in_the_next_row() {
        let mut line = LineBuffer::default();
        line.replace("12345");
        let place = |row, column| ScreenPosition { row, column };
        assert_eq!(line.cursor_and_end("> ", 80), (place(0, 7), place(0, 7)));
        assert_eq!(line.cursor_and_end("> ", 7), (place(1, 0), place(1, 0)));
        assert_eq!(line.cursor_and_end("> ", 4), (place(1, 3), place(1, 3)));
        line.apply_key(&Key::Home);
        assert_eq!(line.cursor_and_end("> ", 4), (place(0, 2), place(1, 3)));
        // A wide letter is not cut in two.
        line.replace("継継");
        assert_eq!(line.cursor_and_end("> ", 5).1, place(1, 2));
    }
}
