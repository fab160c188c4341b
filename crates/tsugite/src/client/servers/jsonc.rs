//! Parses JSON with comments and trailing commas, as VS Code writes it.
//!
//! Members keep their order and duplicates, so that a duplicate name can be reported. Strings and numbers are decoded by
//! `serde_json`. Errors never contain the text, which may be a secret.

use std::fmt;

use serde_json::Number;

/// A parsed value. It has no `Debug`, because it may be a secret.
#[cfg_attr(test, derive(Debug, PartialEq))]
pub(super) enum Node {
    Null,
    Bool(bool),
    /// The number as written.
    Number(String),
    String(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// The name of the type, for error messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "a boolean",
            Node::Number(_) => "a number",
            Node::String(_) => "a string",
            Node::Array(_) => "an array",
            Node::Object(_) => "an object",
        }
    }
}

/// Parses a text that holds one value.
pub(super) fn parse(text: &str) -> Result<Node, JsoncError> {
    let mut parser = Parser { rest: text };
    parser
        .value(0)
        .and_then(|node| {
            parser.skip_whitespace()?;
            if parser.rest.is_empty() { Ok(node) } else { Err("expected the end") }
        })
        .map_err(|says| JsoncError::new(text, parser.rest, says))
}

/// The position of a syntax error.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JsoncError {
    line: usize,
    column: usize,
    message: &'static str,
}

impl JsoncError {
    fn new(text: &str, rest: &str, message: &'static str) -> Self {
        let before = text.strip_suffix(rest).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self { line: before.matches('\n').count() + 1, column: line.chars().count() + 1, message }
    }
}

impl fmt::Display for JsoncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

/// The parser. After an error it stays at the position of the error.
struct Parser<'a> {
    rest: &'a str,
}

type ParseResult<T> = Result<T, &'static str>;

impl Parser<'_> {
    fn value(&mut self, depth: usize) -> ParseResult<Node> {
        self.skip_whitespace()?;
        if depth > MAX_DEPTH {
            return Err("nested too deeply");
        }
        match self.rest.bytes().next() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Node::String(self.string()?)),
            _ => self.literal(),
        }
    }

    fn object(&mut self, depth: usize) -> ParseResult<Node> {
        let mut members = Vec::new();
        self.eat('{');
        loop {
            self.skip_whitespace()?;
            if self.eat('}') {
                return Ok(Node::Object(members));
            }
            if !self.rest.starts_with('"') {
                return Err("expected a name in double quotes or `}`");
            }
            let name = self.string()?;
            self.skip_whitespace()?;
            if !self.eat(':') {
                return Err("expected `:`");
            }
            members.push((name, self.value(depth + 1)?));
            self.skip_whitespace()?;
            if !self.eat(',') && !self.rest.starts_with('}') {
                return Err("expected `,` or `}`");
            }
        }
    }

    fn array(&mut self, depth: usize) -> ParseResult<Node> {
        let mut items = Vec::new();
        self.eat('[');
        loop {
            self.skip_whitespace()?;
            if self.eat(']') {
                return Ok(Node::Array(items));
            }
            items.push(self.value(depth + 1)?);
            self.skip_whitespace()?;
            if !self.eat(',') && !self.rest.starts_with(']') {
                return Err("expected `,` or `]`");
            }
        }
    }

    fn string(&mut self) -> ParseResult<String> {
        let mut escaped = false;
        let closing = |byte: u8| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        };
        // The first byte is the opening quote.
        let end = self.rest.bytes().skip(1).position(closing).ok_or("a string is not closed")?;
        let (literal, rest) = self.rest.split_at_checked(end + 2).ok_or("a string is not closed")?;
        let string = serde_json::from_str(literal)
            .map_err(|_| "a string holds a control character or an escape that JSON does not know")?;
        self.rest = rest;
        Ok(string)
    }

    fn literal(&mut self) -> ParseResult<Node> {
        let ends = |letter: char| !letter.is_alphanumeric() && !"+-._".contains(letter);
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end).unwrap_or_default();
        let node = match word {
            "null" => Node::Null,
            "true" => Node::Bool(true),
            "false" => Node::Bool(false),
            _ if serde_json::from_str::<Number>(word).is_ok() => Node::Number(word.to_owned()),
            _ => return Err("expected a value"),
        };
        self.rest = rest;
        Ok(node)
    }

    /// Skips whitespace and comments.
    fn skip_whitespace(&mut self) -> ParseResult<()> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
            if let Some(comment) = self.rest.strip_prefix("//") {
                self.rest = comment.trim_start_matches(|letter| letter != '\n' && letter != '\r');
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                self.rest = comment.split_once("*/").ok_or("a comment is not closed")?.1;
            } else {
                return Ok(());
            }
        }
    }

    fn eat(&mut self, sign: char) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

/// Deeper nesting is rejected; real files have a few levels.
const MAX_DEPTH: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::Value;

    use super::*;

    fn string(text: &str) -> Node {
        Node::String(text.to_owned())
    }

    fn number(text: &str) -> Node {
        Node::Number(text.to_owned())
    }

    /// The error of a text that is not JSON.
    fn error_text(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_kind_of_value_is_read() {
        let text =
            r#" { "a": [null, true, false], "b": -1.50e+2, "": {}, "c": "d\n\u00e9\ud83d\ude00\"\\" } "#;
        let members = vec![
            ("a".to_owned(), Node::Array(vec![Node::Null, Node::Bool(true), Node::Bool(false)])),
            ("b".to_owned(), number("-1.50e+2")),
            (String::new(), Node::Object(vec![])),
            ("c".to_owned(), string("d\né😀\"\\")),
        ];
        assert_eq!(parse(text).unwrap(), Node::Object(members));
        for text in ["\"a\"", "\t1\r\n", "[]", "[[]]", r#""\\""#] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn members_keep_order_and_duplicates() {
        let members = [("b", "1"), ("a", "2"), ("b", "3")];
        let members = members.map(|(name, value)| (name.to_owned(), number(value)));
        assert_eq!(parse(r#"{"b":1,"a":2,"b":3}"#).unwrap(), Node::Object(members.into()));
    }

    #[test]
    fn comments_are_allowed_where_whitespace_is() {
        let text = "// one\n/* two */{/**/\"a\"/* * / */:// three\r\n1/*\n*/,// \"b\": 2,\r\"c\" : [ /* , */ ] }// four";
        let members = vec![("a".to_owned(), number("1")), ("c".to_owned(), Node::Array(vec![]))];
        assert_eq!(parse(text).unwrap(), Node::Object(members));
        assert_eq!(parse(r#""/* a */ // b""#).unwrap(), string("/* a */ // b"));
        assert_eq!(error_text("1 /* a"), "line 1, column 3: a comment is not closed");
        assert_eq!(error_text("1 / 2"), "line 1, column 3: expected the end");
        assert_eq!(error_text("/*/ 1"), "line 1, column 1: a comment is not closed");
    }

    #[test]
    fn one_trailing_comma_is_allowed() {
        assert_eq!(parse("[1,2,]").unwrap(), parse("[1,2]").unwrap());
        assert_eq!(parse(r#"{"a":1 , }"#).unwrap(), parse(r#"{"a":1}"#).unwrap());
        for text in ["[,]", "[1,,]", "[1,,2]"] {
            assert!(error_text(text).ends_with("expected a value"), "{text}");
        }
        for text in ["{,}", r#"{"a":1,,}"#] {
            assert!(error_text(text).ends_with("expected a name in double quotes or `}`"), "{text}");
        }
        assert!(error_text("1,").ends_with("expected the end"));
    }

    #[test]
    fn error_has_line_and_column() {
        let cases = [
            ("", "line 1, column 1: expected a value"),
            (" // a\n ", "line 2, column 2: expected a value"),
            ("{\n  \"é\": tru\n}", "line 2, column 8: expected a value"),
            ("{\"a\" 1}", "line 1, column 6: expected `:`"),
            ("{\"a\": 1 \"b\": 2}", "line 1, column 9: expected `,` or `}`"),
            ("{\"a\": 1", "line 1, column 8: expected `,` or `}`"),
            ("{", "line 1, column 2: expected a name in double quotes or `}`"),
            ("{a: 1}", "line 1, column 2: expected a name in double quotes or `}`"),
            ("{'a': 1}", "line 1, column 2: expected a name in double quotes or `}`"),
            ("[1 2]", "line 1, column 4: expected `,` or `]`"),
            ("[1", "line 1, column 3: expected `,` or `]`"),
            ("{} {}", "line 1, column 4: expected the end"),
            ("[\"a]", "line 1, column 2: a string is not closed"),
            ("\"\\\"", "line 1, column 1: a string is not closed"),
            ("\"", "line 1, column 1: a string is not closed"),
        ];
        for (text, expected) in cases {
            assert_eq!(error_text(text), expected, "{text:?}");
        }
        let bad = ["\"a\nb\"", r#""\x""#, r#""\ud800""#, r#""\u12""#, "\"\0\""];
        for text in bad {
            let expected =
                "line 1, column 1: a string holds a control character or an escape that JSON does not know";
            assert_eq!(error_text(text), expected, "{text:?}");
        }
        for text in
            ["01", "+1", "1.", ".5", "NaN", "-", "1e999", "True", "nul", "nulll", "undefined", "#", "“a”"]
        {
            assert_eq!(error_text(text), "line 1, column 1: expected a value", "{text}");
        }
    }

    #[test]
    fn nesting_is_limited_to_64() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&nested(MAX_DEPTH + 1)).is_ok());
        assert_eq!(error_text(&nested(MAX_DEPTH + 2)), "line 1, column 66: nested too deeply");
        let objects = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        assert!(parse(&objects(MAX_DEPTH)).is_ok());
        assert!(error_text(&objects(MAX_DEPTH + 1)).ends_with("nested too deeply"));
        assert!(error_text(&"[".repeat(1 << 20)).ends_with("nested too deeply"));
    }

    /// As `serde_json` would have it: the last of several members counts.
    fn value(node: &Node) -> Value {
        match node {
            Node::Null => Value::Null,
            Node::Bool(bool) => Value::Bool(*bool),
            Node::Number(number) => serde_json::from_str(number).unwrap(),
            Node::String(string) => Value::String(string.clone()),
            Node::Array(items) => items.iter().map(value).collect(),
            Node::Object(members) => members.iter().map(|(name, node)| (name.clone(), value(node))).collect(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn values_equal_those_of_serde_json(tokens in vec(select(TOKENS), 0..16)) {
            let text = tokens.concat();
            let ours = parse(&text);
            if let Ok(theirs) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(ours.as_ref().ok().map(value), Some(theirs));
            } else if ours.is_ok() {
                let more = text.contains("//") || text.contains("/*") || text.contains(',');
                prop_assert!(more, "{}", text);
            }
        }
    }

    const TOKENS: &[&str] = &[
        "{", "}", "[", "]", ":", ",", " ", "\n", "\r", "\"", "\\", "/", "*", "//", "/*", "*/", "null",
        "true", "0", "-1", ".5", "e9", "\"a\"", "\"b\"", "\"a\":", "[]", "{}", "é", "\0",
    ];
}
