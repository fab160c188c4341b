//! A line as words, by the rules of a POSIX shell: blanks separate, quotes and backslashes keep together, `#` begins a
//! comment. Nothing is expanded.

/// The words of a line. Fails with what is not finished.
pub(super) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut reader = Reader::default();
    for (at, letter) in line.char_indices() {
        reader.take(at, letter);
    }
    match reader.state {
        State::Single => return Err("a ' is not closed"),
        State::Double | State::DoubleEscape => return Err("a \" is not closed"),
        State::Escape => return Err("a \\ has nothing after it"),
        State::Between | State::Plain | State::Comment => {}
    }
    reader.end_word();
    Ok(reader.words)
}

/// What is typed so far, up to the cursor.
#[derive(Debug, PartialEq)]
pub(super) struct Typed {
    /// The words that are whole.
    pub(super) before: Vec<String>,
    /// The one that is being typed, as it is meant; empty behind a blank.
    pub(super) last: String,
    /// Where it begins in the line.
    pub(super) start: usize,
}

/// The beginning of a line. `None` in a comment.
pub(super) fn typed(line: &str) -> Option<Typed> {
    let mut reader = Reader::default();
    for (at, letter) in line.char_indices() {
        reader.take(at, letter);
    }
    match reader.state {
        State::Comment => None,
        State::Between => Some(Typed { before: reader.words, last: String::new(), start: line.len() }),
        _ => Some(Typed { before: reader.words, last: reader.word, start: reader.start }),
    }
}

/// A word that is read back as it is.
pub(super) fn quoted(word: &str) -> String {
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
struct Reader {
    words: Vec<String>,
    word: String,
    start: usize,
    state: State,
}

#[derive(Default, PartialEq)]
enum State {
    #[default]
    Between,
    Plain,
    Escape,
    Single,
    Double,
    DoubleEscape,
    Comment,
}

impl Reader {
    fn take(&mut self, at: usize, letter: char) {
        if self.state == State::Between && !letter.is_whitespace() {
            self.start = at;
        }
        self.state = match (&self.state, letter) {
            (State::Comment, _) | (State::Between, '#') => State::Comment,
            (State::Between | State::Plain, letter) if letter.is_whitespace() => {
                self.end_word();
                State::Between
            }
            (State::Between | State::Plain, '\'') => State::Single,
            (State::Between | State::Plain, '"') => State::Double,
            (State::Between | State::Plain, '\\') => State::Escape,
            (State::Single, '\'') | (State::Double, '"') => State::Plain,
            (State::Double, '\\') => State::DoubleEscape,
            (State::DoubleEscape, letter) => {
                // Before anything else a backslash is one.
                if !matches!(letter, '"' | '\\' | '$' | '`') {
                    self.word.push('\\');
                }
                self.word.push(letter);
                State::Double
            }
            (State::Single, letter) => {
                self.word.push(letter);
                State::Single
            }
            (State::Double, letter) => {
                self.word.push(letter);
                State::Double
            }
            (State::Between | State::Plain | State::Escape, letter) => {
                self.word.push(letter);
                State::Plain
            }
        };
    }

    /// A word may be empty: `''` is one.
    fn end_word(&mut self) {
        if self.state == State::Plain {
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
        let at = |line: &str| typed(line).map(|typed| (typed.before.len(), typed.last, typed.start));
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
            assert_eq!(split(&quoted(word)).unwrap(), [word]);
        }
        assert_eq!(quoted("demo://cities/{country}?x=1&y=2"), "demo://cities/{country}?x=1&y=2");
    }
}
