//! The line being edited, and its cursor.

use unicode_width::UnicodeWidthChar;

use super::keys::Key;

/// A text and a cursor.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    text: String,
    /// The offset of the cursor in bytes, on a character boundary.
    cursor: usize,
    /// The text of the last kill, for yank.
    killed: String,
}

/// A position on the screen, relative to the start of the prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ScreenPosition {
    pub(super) row: usize,
    pub(super) column: usize,
}

impl LineBuffer {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text before the cursor.
    pub(super) fn before_cursor(&self) -> &str {
        self.text.get(..self.cursor).unwrap_or_default()
    }

    /// Replaces the text, and moves the cursor to its end.
    pub(super) fn replace(&mut self, text: &str) {
        self.text = text.to_owned();
        self.cursor = self.text.len();
    }

    /// Replaces the text between `start` and the cursor.
    pub(super) fn complete(&mut self, start: usize, word: &str) {
        if self.text.is_char_boundary(start) && start <= self.cursor {
            self.text.replace_range(start..self.cursor, word);
            self.cursor = start + word.len();
        }
    }

    /// Applies an editing key.
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

    /// Returns the positions of the cursor and of the end, after a prompt.
    pub(super) fn cursor_and_end(&self, prompt: &str, columns: usize) -> (ScreenPosition, ScreenPosition) {
        let begin = advance(ScreenPosition::default(), prompt, columns);
        let cursor = advance(begin, self.before_cursor(), columns);
        (cursor, advance(cursor, self.text.get(self.cursor..).unwrap_or_default(), columns))
    }

    fn previous_char(&self, at: usize) -> usize {
        // Combining marks belong to the character before them.
        let letters = self.text.get(..at).unwrap_or_default().char_indices().rev();
        letters.into_iter().find(|(_, letter)| char_width(*letter) > 0).map_or(0, |(position, _)| position)
    }

    fn next_char(&self, at: usize) -> usize {
        let mut letters = self.text.get(at..).unwrap_or_default().char_indices().skip(1);
        letters
            .find(|(_, letter)| char_width(*letter) > 0)
            .map_or(self.text.len(), |(position, _)| at + position)
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

    /// Returns the start of the word before the cursor, delimited by whitespace.
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

/// Returns the position after a text. A character that does not fit goes to the next row.
pub(super) fn advance(from: ScreenPosition, text: &str, columns: usize) -> ScreenPosition {
    let mut position = from;
    for letter in text.chars() {
        if letter == '\n' {
            position = ScreenPosition { row: position.row + 1, column: 0 };
            continue;
        }
        let width = char_width(letter);
        if position.column + width > columns {
            position = ScreenPosition { row: position.row + 1, column: 0 };
        }
        position.column += width;
        if position.column == columns {
            position = ScreenPosition { row: position.row + 1, column: 0 };
        }
    }
    position
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
    fn keys_edit_at_the_cursor() {
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
    fn completion_replaces_before_the_cursor() {
        let mut line = LineBuffer::default();
        line.replace("ca x");
        line.apply_key(&Key::WordLeft);
        line.apply_key(&Key::Left);
        line.complete(0, "call ");
        assert_eq!((line.before_cursor(), line.text()), ("call ", "call  x"));
    }

    #[test]
    fn long_lines_wrap() {
        let mut line = LineBuffer::default();
        line.replace("12345");
        let position = |row, column| ScreenPosition { row, column };
        assert_eq!(line.cursor_and_end("> ", 80), (position(0, 7), position(0, 7)));
        assert_eq!(line.cursor_and_end("> ", 7), (position(1, 0), position(1, 0)));
        assert_eq!(line.cursor_and_end("> ", 4), (position(1, 3), position(1, 3)));
        line.apply_key(&Key::Home);
        assert_eq!(line.cursor_and_end("> ", 4), (position(0, 2), position(1, 3)));
        // A wide character is not split.
        line.replace("継継");
        assert_eq!(line.cursor_and_end("> ", 5).1, position(1, 2));
    }
}
