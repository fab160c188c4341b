//! A line as words, by the rules of a POSIX shell: blanks separate, quotes and backslashes keep together, `#` begins a
//! comment. Nothing is expanded.

/// The words of a line. Fails with what is not finished.
pub(super) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut reader = WordSplitter::default();
    for (at, letter) in line.char_indices() {
        reader.push_char(at, letter);
    }
    match reader.state {
        SplitState::SingleQuoted => return Err("a ' is not closed"),
        SplitState::DoubleQuoted | SplitState::DoubleEscape => return Err("a \" is not closed"),
        SplitState::Escape => return Err("a \\ has nothing after it"),
        SplitState::BetweenWords | SplitState::Unquoted | SplitState::Comment => {}
    }
    reader.end_word();
    Ok(reader.words)
}

/// What is typed so far, up to the cursor.
#[derive(Debug, PartialEq)]
pub(super) struct PartialLine {
    /// The words that are whole.
    pub(super) words: Vec<String>,
    /// The one that is being typed, as it is meant; empty behind a blank.
    pub(super) partial_word: String,
    /// Where it begins in the line.
    pub(super) start: usize,
}

/// The beginning of a line. `None` in a comment.
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

/// A word that is read back as it is.
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
                // Before anything else a backslash is one.
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

    /// A word may be empty: `''` is one.
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
    fn words_are_cut_as_a_shell_cuts_them() {
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
    fn what_is_not_finished_is_named() {
        assert_eq!(split("call 'x").unwrap_err(), "a ' is not closed");
        assert_eq!(split("call \"x'").unwrap_err(), "a \" is not closed");
        assert_eq!(split("call \"x\\").unwrap_err(), "a \" is not closed");
        assert_eq!(split("call x\\").unwrap_err(), "a \\ has nothing after it");
    }

    #[test]
    fn what_is_being_typed_is_known_with_its_place() {
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
    fn a_quoted_word_is_read_back() {
        for word in ["plain", "two words", "it's \"so\"", "back\\slash", "#tag", "a#b", "継 手"] {
            assert_eq!(split(&quote(word)).unwrap(), [word]);
        }
        assert_eq!(quote("demo://cities/{country}?x=1&y=2"), "demo://cities/{country}?x=1&y=2");
    }
}
