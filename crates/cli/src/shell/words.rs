//! Splits a line into words by the rules of a POSIX shell: quotes, backslashes and `#` comments, but no expansion.

/// Splits a line into words. Fails on an unterminated quote or escape.
pub(super) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut reader = WordSplitter::default();
    for (at, letter) in line.char_indices() {
        reader.push_char(at, letter);
    }
    match reader.state {
        SplitState::SingleQuoted => return Err("unterminated '"),
        SplitState::DoubleQuoted | SplitState::DoubleEscape => return Err("unterminated \""),
        SplitState::Escape => return Err("\\ at the end of the line"),
        SplitState::BetweenWords | SplitState::Unquoted | SplitState::Comment => {}
    }
    reader.end_word();
    Ok(reader.words)
}

/// A line up to the cursor.
#[derive(Debug, PartialEq)]
pub(super) struct PartialLine {
    /// The complete words.
    pub(super) words: Vec<String>,
    /// The word at the cursor, unquoted; empty after a space.
    pub(super) partial_word: String,
    /// The offset of that word in the line.
    pub(super) start: usize,
}

/// Splits a line up to the cursor; `None` in a comment.
pub(super) fn parse_partial(line: &str) -> Option<PartialLine> {
    let mut reader = WordSplitter::default();
    for (at, letter) in line.char_indices() {
        reader.push_char(at, letter);
    }
    match reader.state {
        SplitState::Comment => None,
        SplitState::BetweenWords => {
            Some(PartialLine { words: reader.words, partial_word: String::new(), start: line.len() })
        }
        _ => Some(PartialLine { words: reader.words, partial_word: reader.word, start: reader.start }),
    }
}

/// Quotes a word so that `split` returns it unchanged.
pub(super) fn quote(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for (at, letter) in word.char_indices() {
        if letter.is_whitespace() || matches!(letter, '\'' | '"' | '\\') || (at == 0 && letter == '#') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

#[derive(Default)]
struct WordSplitter {
    words: Vec<String>,
    word: String,
    start: usize,
    state: SplitState,
}

#[derive(Default, PartialEq)]
enum SplitState {
    #[default]
    BetweenWords,
    Unquoted,
    Escape,
    SingleQuoted,
    DoubleQuoted,
    DoubleEscape,
    Comment,
}

impl WordSplitter {
    fn push_char(&mut self, at: usize, letter: char) {
        if self.state == SplitState::BetweenWords && !letter.is_whitespace() {
            self.start = at;
        }
        self.state = match (&self.state, letter) {
            (SplitState::Comment, _) | (SplitState::BetweenWords, '#') => SplitState::Comment,
            (SplitState::BetweenWords | SplitState::Unquoted, letter) if letter.is_whitespace() => {
                self.end_word();
                SplitState::BetweenWords
            }
            (SplitState::BetweenWords | SplitState::Unquoted, '\'') => SplitState::SingleQuoted,
            (SplitState::BetweenWords | SplitState::Unquoted, '"') => SplitState::DoubleQuoted,
            (SplitState::BetweenWords | SplitState::Unquoted, '\\') => SplitState::Escape,
            (SplitState::SingleQuoted, '\'') | (SplitState::DoubleQuoted, '"') => SplitState::Unquoted,
            (SplitState::DoubleQuoted, '\\') => SplitState::DoubleEscape,
            (SplitState::DoubleEscape, letter) => {
                // Before any other character the backslash is literal.
                if !matches!(letter, '"' | '\\' | '$' | '`') {
                    self.word.push('\\');
                }
                self.word.push(letter);
                SplitState::DoubleQuoted
            }
            (SplitState::SingleQuoted, letter) => {
                self.word.push(letter);
                SplitState::SingleQuoted
            }
            (SplitState::DoubleQuoted, letter) => {
                self.word.push(letter);
                SplitState::DoubleQuoted
            }
            (SplitState::BetweenWords | SplitState::Unquoted | SplitState::Escape, letter) => {
                self.word.push(letter);
                SplitState::Unquoted
            }
        };
    }

    /// Ends the current word. A word may be empty: `''`.
    fn end_word(&mut self) {
        if self.state == SplitState::Unquoted {
            self.words.push(std::mem::take(&mut self.word));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_in_a_posix_shell() {
        for (line, words) in [
            ("", &[][..]),
            ("  \t ", &[]),
            ("list", &["list"]),
            ("call add a=1  b=2 ", &["call", "add", "a=1", "b=2"]),
            (r#"text='two words' "three 'of' them""#, &["text=two words", "three 'of' them"]),
            (r#"a\ b \'c "d\"e\\f\n" 'g\h'"#, &["a b", "'c", r#"d"e\f\n"#, r"g\h"]),
            ("complete x ''", &["complete", "x", ""]),
            ("a''b \"\"", &["ab", ""]),
            ("# all of it", &[]),
            ("read demo://a#b # what is this", &["read", "demo://a#b"]),
            (r#"raw '{"method":"ping"}'"#, &["raw", r#"{"method":"ping"}"#]),
            ("継手=木 ☃", &["継手=木", "☃"]),
            ("$HOME *.txt ~", &["$HOME", "*.txt", "~"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
    }

    #[test]
    fn unterminated_quote_is_an_error() {
        assert_eq!(split("call 'x").unwrap_err(), "unterminated '");
        assert_eq!(split("call \"x'").unwrap_err(), "unterminated \"");
        assert_eq!(split("call \"x\\").unwrap_err(), "unterminated \"");
        assert_eq!(split("call x\\").unwrap_err(), "\\ at the end of the line");
    }

    #[test]
    fn partial_word_has_its_offset() {
        let at = |line: &str| {
            parse_partial(line).map(|typed| (typed.words.len(), typed.partial_word, typed.start))
        };
        assert_eq!(at(""), Some((0, String::new(), 0)));
        assert_eq!(at("ca"), Some((0, "ca".to_owned(), 0)));
        assert_eq!(at("call "), Some((1, String::new(), 5)));
        assert_eq!(at("call x='two w"), Some((1, "x=two w".to_owned(), 5)));
        assert_eq!(at("call a\\ "), Some((1, "a ".to_owned(), 5)));
        assert_eq!(at("call 木 x"), Some((2, "x".to_owned(), 9)));
        assert_eq!(at("# call"), None);
    }

    #[test]
    fn quoted_word_is_split_back() {
        for word in ["plain", "two words", "it's \"so\"", "back\\slash", "#tag", "a#b", "継 手"] {
            assert_eq!(split(&quote(word)).unwrap(), [word]);
        }
        assert_eq!(quote("demo://cities/{country}?x=1&y=2"), "demo://cities/{country}?x=1&y=2");
    }
}
