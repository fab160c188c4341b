//! Reads a script. Everything that is not a command with its words is an error.

use std::iter::Peekable;
use std::str::{Chars, FromStr};
use std::vec::IntoIter;

use super::{Condition, Script, Step};

/// The response to `initialize`.
const WELCOME: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}"#;

impl Script {
    /// Reads a script, or says which command is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self(steps(&mut tokens(text)?.into_iter().peekable(), false)?))
    }
}

#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Open,
    Close,
    /// The end of a command.
    End,
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\n' | ';' => tokens.push(Token::End),
            _ if letter.is_whitespace() => {}
            '\'' => {
                let mut word = String::new();
                loop {
                    match letters.next() {
                        Some('\'') => break,
                        Some(letter) => word.push(letter),
                        None => return Err(format!("the quote before {word:?} is not closed")),
                    }
                }
                if letters.peek().is_some_and(|next| !ends_word(*next)) {
                    return Err(format!("a blank is missing after the quoted word {word:?}"));
                }
                tokens.push(Token::Word(word));
            }
            _ => {
                let mut word = String::from(letter);
                while let Some(letter) = letters.next_if(|next| !ends_word(*next)) {
                    word.push(letter);
                }
                tokens.push(match word.as_str() {
                    "{" => Token::Open,
                    "}" => Token::Close,
                    _ if word.contains(['\'', '{', '}']) => {
                        return Err(format!("the word {word:?} needs quotes around all of it"));
                    }
                    _ => Token::Word(word),
                });
            }
        }
    }
    Ok(tokens)
}

fn ends_word(letter: char) -> bool {
    letter == ';' || letter.is_whitespace()
}

/// Reads commands up to the end of the script, or of the block they are in.
fn steps(tokens: &mut Peekable<IntoIter<Token>>, in_block: bool) -> Result<Vec<Step>, String> {
    let mut all = Vec::new();
    loop {
        let name = match tokens.next() {
            Some(Token::Word(name)) => name,
            Some(Token::End) => continue,
            Some(Token::Open) => return Err("`{` without a command before it".to_owned()),
            Some(Token::Close) if in_block => return Ok(all),
            Some(Token::Close) => return Err("`}` without a block".to_owned()),
            None if in_block => return Err("a block is not closed with `}`".to_owned()),
            None => return Ok(all),
        };
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = tokens.next_if(|token| matches!(token, Token::Word(_))) {
            words.push(word);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match tokens.next_if_eq(&Token::Open) {
            Some(_) if (name.as_str(), &*words) == ("else", &[]) => {
                let Some(Step::If { otherwise, .. }) = all.last_mut() else {
                    return Err("`else` without `if` before it".to_owned());
                };
                *otherwise = steps(tokens, true)?;
            }
            Some(_) => all.push(block(&name, &words, steps(tokens, true)?)?),
            None => command(&name, &words, &mut all)?,
        }
    }
}

fn command(name: &str, words: &[&str], steps: &mut Vec<Step>) -> Result<(), String> {
    let welcome = || Step::SendLine(WELCOME.to_owned());
    let step = match (name, words) {
        ("read_line", []) => Step::ReadLine,
        ("send_line", [text]) => Step::SendLine((*text).to_owned()),
        ("print", [text]) => Step::Print(bytes(text)?),
        ("welcome", []) => welcome(),
        ("handshake", []) => {
            steps.extend([Step::ReadLine, welcome()]);
            Step::ReadLine
        }
        ("answer", [id, text]) => Step::SendLine(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
        )),
        ("result", [json]) => Step::SendLine(format!(r#"{{"jsonrpc":"2.0","id":$id,"result":{json}}}"#)),
        ("error", [json]) => Step::SendLine(format!(r#"{{"jsonrpc":"2.0","id":$id,"error":{json}}}"#)),
        ("ask", [id]) => Step::SendLine(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create","params":{{"message":"?","requestedSchema":{{"type":"object","properties":{{}}}}}}}}"#
        )),
        ("set", [name, text]) => Step::Set { name: (*name).to_owned(), text: (*text).to_owned() },
        ("drain", []) => Step::Drain,
        ("stay", []) => Step::Stay,
        ("exit", [code]) => Step::Exit(number(name, code)?),
        ("abort", []) => Step::Abort,
        ("run", [program, words @ ..]) => Step::Run {
            program: (*program).to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        },
        ("stderr", [text]) => Step::Stderr((*text).to_owned()),
        ("append", [file, text]) => Step::Append { file: file.into(), text: (*text).to_owned() },
        ("report", [port, text]) => Step::Report { port: number(name, port)?, text: (*text).to_owned() },
        ("wait_for", [port]) => Step::WaitFor { port: number(name, port)? },
        ("call", [program, words @ ..]) => {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            Step::Call { program: (*program).to_owned(), words }
        }
        ("serve", []) => Step::Serve,
        ("hold", [port]) => Step::Hold { port: number(name, port)? },
        ("ignore_signals", []) => Step::IgnoreSignals,
        _ => return Err(unknown(name, words)),
    };
    steps.push(step);
    Ok(())
}

fn block(name: &str, words: &[&str], steps: Vec<Step>) -> Result<Step, String> {
    Ok(match (name, words) {
        ("once", [file]) => Step::Once { file: file.into(), steps },
        ("if_line", [text]) => {
            let condition = Condition::LineContains((*text).to_owned());
            Step::If { condition, steps, otherwise: Vec::new() }
        }
        ("if", [name, text]) => {
            let condition = Condition::VariableIs { name: (*name).to_owned(), text: (*text).to_owned() };
            Step::If { condition, steps, otherwise: Vec::new() }
        }
        ("if_environment", [name, text]) => {
            let condition = Condition::EnvironmentIs { name: (*name).to_owned(), text: (*text).to_owned() };
            Step::If { condition, steps, otherwise: Vec::new() }
        }
        ("repeat", ["forever"]) => Step::Repeat { count: None, steps },
        ("repeat", [count]) => Step::Repeat { count: Some(number(name, count)?), steps },
        _ => return Err(format!("{} before a block", unknown(name, words))),
    })
}

fn unknown(name: &str, words: &[&str]) -> String {
    format!("no command `{name}` with {} words: {words:?}", words.len())
}

fn number<T: FromStr>(name: &str, word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("`{name}` needs a number, not {word:?}"))
}

/// The bytes of a text with escapes.
fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => all.push(escape(&mut letters).ok_or_else(|| format!("an invalid escape in {text:?}"))?),
            _ => all.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Ok(all)
}

fn escape(letters: &mut Chars<'_>) -> Option<u8> {
    match letters.next()? {
        'n' => Some(b'\n'),
        'r' => Some(b'\r'),
        '\\' => Some(b'\\'),
        'x' => {
            let (high, low) = (letters.next()?.to_digit(16)?, letters.next()?.to_digit(16)?);
            u8::try_from(high * 16 + low).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_commands_separated() {
        let script = Script::parse("read_line; send_line 'a; {b} $n'\n\n  exit 7 ;").unwrap();
        let expected = [Step::ReadLine, Step::SendLine("a; {b} $n".to_owned()), Step::Exit(7)];
        assert_eq!(script.0, expected);
    }

    #[test]
    fn blocks_are_nested() {
        let script = Script::parse("repeat 2 { if_line x { stay }; drain\n}\nabort").unwrap();
        let condition = Condition::LineContains("x".to_owned());
        let inner = Step::If { condition, steps: vec![Step::Stay], otherwise: Vec::new() };
        assert_eq!(script.0, [Step::Repeat { count: Some(2), steps: vec![inner, Step::Drain] }, Step::Abort]);
    }

    #[test]
    fn escapes_of_print_are_bytes() {
        let script = Script::parse(r"print '\xff\x00\n\\é'").unwrap();
        assert_eq!(script.0, [Step::Print(b"\xff\x00\n\\\xc3\xa9".to_vec())]);
    }

    #[test]
    fn mistakes_are_errors() {
        for (script, expected) in [
            ("drain; echo yes", "no command `echo`"),
            ("send_line two words", "no command `send_line` with 2 words"),
            ("stay { drain }", "no command `stay`"),
            ("once a", "no command `once`"),
            ("call", "no command `call` with 0 words"),
            ("if_environment A { drain }", "no command `if_environment`"),
            ("run", "no command `run` with 0 words"),
            ("exit now", "`exit` needs a number"),
            ("repeat -1 { drain }", "`repeat` needs a number"),
            ("send_line 'a", "is not closed"),
            ("send_line 'a'b", "a blank is missing"),
            ("send_line a'b'", "needs quotes"),
            ("send_line {a}", "needs quotes"),
            ("repeat 2 { drain", "not closed with `}`"),
            ("drain }", "without a block"),
            ("{ drain }", "without a command"),
            ("drain; else { stay }", "`else` without `if`"),
            ("if_line a { drain } else b { stay }", "no command `else`"),
            ("set a", "no command `set`"),
            (r"print '\q'", "an invalid escape"),
            (r"print '\x1'", "an invalid escape"),
        ] {
            let error = Script::parse(script).unwrap_err();
            assert!(error.contains(expected), "{script}: {error}");
        }
    }
}
