//! The command lines of sessions: a small part of `sh`, read in the same way on every system.
//!
//! - Words are separated by blanks. In `'…'` and `"…"` nothing is special.
//! - `NAME=value` before a command sets a variable for it.
//! - `< FILE` and `<<'END'` are the input of a command, `> FILE` is its output.
//! - `|` connects two commands; `;` and `&&` separate them.
//!
//! Everything else that a shell would treat in its own way is an error.

/// A step of a session.
#[derive(Debug, PartialEq)]
pub(super) struct CommandLine(pub(super) Vec<Pipeline>);

/// Commands with `|` between them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Pipeline {
    /// Whether it runs only after a success, that is after `&&`.
    pub(super) after_success: bool,
    pub(super) commands: Vec<Command>,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Command {
    pub(super) variables: Vec<(String, String)>,
    /// The name and the arguments.
    pub(super) words: Vec<String>,
    pub(super) input: Option<Input>,
    /// The file of its output.
    pub(super) output: Option<String>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Input {
    File(String),
    Text(String),
}

impl CommandLine {
    /// Reads a step: a line, and the lines of its input after it.
    pub(super) fn parse(step: &str) -> Result<Self, String> {
        let (line, rest) = step.split_once('\n').map_or((step, None), |(line, rest)| (line, Some(rest)));
        let mut text = match rest.map(|rest| format!("{rest}\n")) {
            None => None,
            Some(rest) => match rest.strip_suffix("END\n") {
                Some(text) if text.is_empty() || text.ends_with('\n') => Some(text.to_owned()),
                _ => return Err("the last line is not END".to_owned()),
            },
        };
        let mut all = Self(vec![Pipeline::default()]);
        let mut tokens = tokens(line)?.into_iter();
        let mut command = Command::default();
        while let Some(token) = tokens.next() {
            let mut word = |after| match tokens.next() {
                Some(Token::Word(word)) => Ok(word),
                _ => Err(format!("a word is missing after {after}")),
            };
            match token {
                Token::Word(word) => match assignment(&word) {
                    Some(variable) if command.words.is_empty() => command.variables.push(variable),
                    _ => command.words.push(word),
                },
                Token::Mark("<") => command.input = Some(Input::File(word("<")?)),
                Token::Mark(">") => command.output = Some(word(">")?),
                Token::Mark("<<") => {
                    if word("<<")? != "END" {
                        return Err("the word after << is not 'END'".to_owned());
                    }
                    let text = text.take().ok_or("<< without lines of text, or twice")?;
                    command.input = Some(Input::Text(text));
                }
                Token::Mark(mark) => {
                    all.end_command(&mut command)?;
                    if mark != "|" {
                        all.0.push(Pipeline { after_success: mark == "&&", commands: Vec::new() });
                    }
                }
            }
        }
        all.end_command(&mut command)?;
        match text {
            Some(_) => Err("lines of text without <<".to_owned()),
            None => Ok(all),
        }
    }

    fn end_command(&mut self, command: &mut Command) -> Result<(), String> {
        if command.words.is_empty() {
            return Err("a command is missing".to_owned());
        }
        self.0.last_mut().expect("there is always one").commands.push(std::mem::take(command));
        Ok(())
    }

    /// The command, if there is only one.
    pub(super) fn single(&self) -> Option<&Command> {
        match &self.0[..] {
            [Pipeline { commands, .. }] if commands.len() == 1 => commands.first(),
            _ => None,
        }
    }
}

#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Mark(&'static str),
}

/// The marks that are known, the longer ones first.
const MARKS: [&str; 6] = ["<<", "<", ">", "|", "&&", ";"];

fn tokens(line: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        match MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
            Some(mark) => {
                rest = &rest[mark.len()..];
                if mark != ";" && rest.starts_with(['<', '>', '|', '&', '(', '-']) {
                    return Err(format!("{mark:?} before {rest:?} is not supported"));
                }
                tokens.push(Token::Mark(mark));
            }
            None => tokens.push(Token::Word(word(&mut rest)?)),
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

/// Takes a word from the beginning of the text.
fn word(rest: &mut &str) -> Result<String, String> {
    let (mut word, start) = (String::new(), *rest);
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        match letter {
            '\'' | '"' => {
                let (quoted, after) = after.split_once(letter).ok_or(format!("{letter} is not closed"))?;
                if letter == '"' && quoted.contains(['$', '`', '\\']) {
                    return Err(format!("$, ` or \\ in \"{quoted}\" is not supported"));
                }
                word.push_str(quoted);
                *rest = after;
            }
            '<' | '>' | '|' | ';' => break,
            '&' if after.starts_with('&') => break,
            // The name of a value that differs between runs.
            '[' => {
                let end = after.find(']').filter(|end| after[..*end].chars().all(|c| c.is_ascii_uppercase()));
                let end = end.ok_or_else(|| format!("[ in {start:?} is not supported"))? + 2;
                word.push_str(&rest[..end]);
                *rest = &rest[end..];
            }
            '$' if word.is_empty() && is_word(after, "PID") => {
                word.push_str("$PID");
                *rest = &after[3..];
            }
            '$' | '`' | '\\' | '*' | '?' | '(' | ')' | '&' => {
                return Err(format!("{letter} in {start:?} is not supported"));
            }
            '~' | '#' | '!' if word.is_empty() => {
                return Err(format!("{letter} at the beginning of {start:?} is not supported"));
            }
            '{' | '}' if is_word(start, &letter.to_string()) => {
                return Err(format!("a word {letter} is not supported"));
            }
            _ if letter.is_whitespace() => break,
            _ => {
                word.push(letter);
                *rest = after;
            }
        }
    }
    // `2>` is the standard error of a shell.
    if rest.starts_with(['<', '>']) && word.chars().all(|letter| letter.is_ascii_digit()) {
        return Err(format!("a number before {rest:?} is not supported"));
    }
    Ok(word)
}

/// Whether the text begins with this word.
fn is_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word)
        .is_some_and(|rest| rest.chars().next().is_none_or(|next| next.is_whitespace() || next == ';'))
}

/// Splits `NAME=value`.
fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
    is_name.then(|| (name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Command {
        Command { words: words.iter().map(|word| (*word).to_owned()).collect(), ..Command::default() }
    }

    fn single(step: &str) -> Command {
        let CommandLine(mut all) = CommandLine::parse(step).unwrap();
        assert_eq!((all.len(), all[0].commands.len()), (1, 1), "{step}");
        all.remove(0).commands.remove(0)
    }

    #[test]
    fn words_are_plain_or_quoted() {
        for (step, expected) in [
            (" a  b ", &["a", "b"][..]),
            (r#"a 'b "$c"' "d 'e'" f'g h'"#, &["a", "b \"$c\"", "d 'e'", "fg h"]),
            ("call a:={ b=2 '' @-", &["call", "a:={", "b=2", "", "@-"]),
            ("info http://[DEMO]/mcp é", &["info", "http://[DEMO]/mcp", "é"]),
            ("kill -INT $PID", &["kill", "-INT", "$PID"]),
        ] {
            assert_eq!(single(step), words(expected), "{step}");
        }
    }

    #[test]
    fn variables_and_files_belong_to_a_command() {
        let expected = Command {
            variables: vec![("A".to_owned(), "b c".to_owned())],
            input: Some(Input::File("in".to_owned())),
            output: Some("out".to_owned()),
            ..words(&["cat", "D=e"])
        };
        assert_eq!(single("A='b c' cat D=e <in > out"), expected);
        let text = Some(Input::Text("one\n $two\n".to_owned()));
        assert_eq!(single("cat <<'END'\none\n $two\nEND"), Command { input: text, ..words(&["cat"]) });
    }

    #[test]
    fn commands_are_connected_and_separated() {
        let line = CommandLine::parse("a | b && c; d").unwrap();
        let pipeline = |after_success, commands| Pipeline { after_success, commands };
        let expected = vec![
            pipeline(false, vec![words(&["a"]), words(&["b"])]),
            pipeline(true, vec![words(&["c"])]),
            pipeline(false, vec![words(&["d"])]),
        ];
        assert_eq!(line, CommandLine(expected));
        assert_eq!(line.single(), None);
    }

    #[test]
    fn other_constructs_of_a_shell_are_errors() {
        for (step, expected) in [
            ("", "a command is missing"),
            ("a &&", "a command is missing"),
            ("A=b", "a command is missing"),
            ("| a", "a command is missing"),
            ("a >", "a word is missing after >"),
            ("a 'b", "' is not closed"),
            ("a \"$b\"", "is not supported"),
            ("a $b", "$ in"),
            ("a $PIDS", "$ in"),
            ("a `b`", "` in"),
            ("a *.txt", "* in"),
            ("a b\\ c", "\\ in"),
            ("a [bc]", "[ in"),
            ("a &", "& in"),
            ("(a)", "( in"),
            ("{ a; }", "a word { is not supported"),
            ("! a", "! at the beginning"),
            ("a # b", "# at the beginning"),
            ("a ~/b", "~ at the beginning"),
            ("a || b", "\"|\" before \"| b\""),
            ("a >> b", "\">\" before \"> b\""),
            ("a >&2", "\">\" before \"&2\""),
            ("a 2> b", "a number before"),
            ("a <(b)", "\"<\" before \"(b)\""),
            ("a <<END\nb\nFIN", "the last line is not END"),
            ("a <<'FIN'\nb\nEND", "the word after << is not 'END'"),
            ("a <<'END'", "<< without lines of text"),
            ("a\nb\nEND", "lines of text without <<"),
        ] {
            let error = CommandLine::parse(step).unwrap_err();
            assert!(error.contains(expected), "{step}: {error}");
        }
    }
}
