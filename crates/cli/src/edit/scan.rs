//! JSON with comments and trailing commas, with the place of every part.
//!
//! It takes what `tsugite::client::servers` takes. Strings and numbers are left to `serde_json`; no error shows what it
//! met, since that may be a secret.

use std::fmt;

use serde_json::{Map, Number, Value};

/// A value and the bytes it stands on. No `Debug`: it may be a secret.
pub(crate) struct Node {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Node>),
    /// In their order, and as often as they are there.
    Object(Vec<Member>),
}

/// A member of an object.
pub(crate) struct Member {
    pub(crate) name: String,
    /// Where the quote before its name stands.
    pub(crate) start: usize,
    pub(crate) value: Node,
    /// Where the comma after it stands, if there is one.
    pub(crate) comma: Option<usize>,
}

impl Kind {
    /// What it is, for a person.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool(_) => "a boolean",
            Kind::Number(_) => "a number",
            Kind::String(_) => "a string",
            Kind::Array(_) => "an array",
            Kind::Object(_) => "an object",
        }
    }
}

impl Node {
    /// Without comments, and without places. The last of several members with one name counts.
    pub(crate) fn value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(bool) => Value::Bool(*bool),
            Kind::Number(number) => Value::Number(number.clone()),
            Kind::String(string) => Value::String(string.clone()),
            Kind::Array(items) => items.iter().map(Node::value).collect(),
            Kind::Object(members) => {
                let members = members.iter().map(|member| (member.name.clone(), member.value.value()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    pub(crate) fn members(&self) -> &[Member] {
        match &self.kind {
            Kind::Object(members) => members,
            _ => &[],
        }
    }
}

/// Where a text is no JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadJson {
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// What was being read, if it has a name.
    pub(crate) field: Option<String>,
    pub(crate) says: &'static str,
}

impl fmt::Display for BadJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)?;
        if let Some(field) = &self.field {
            write!(f, ", in {field}")?;
        }
        write!(f, ": {}", self.says)
    }
}

/// Reads a text that is one value.
pub(super) fn parse(text: &str) -> Result<Node, BadJson> {
    let at = if text.starts_with(MARK) { MARK.len_utf8() } else { 0 };
    let mut parser = Parser { text, at, path: Vec::new() };
    parser
        .value(0)
        .and_then(|node| {
            parser.blank()?;
            if parser.at == text.len() { Ok(node) } else { Err("expected the end") }
        })
        .map_err(|says| {
            let before = text.get(..parser.at).unwrap_or_default();
            let line = before.rsplit('\n').next().unwrap_or_default().trim_start_matches(MARK);
            let path: Vec<&str> = parser.path.iter().map(String::as_str).collect();
            BadJson {
                line: before.matches('\n').count() + 1,
                column: line.chars().count() + 1,
                field: (!path.is_empty()).then(|| super::field(&path)),
                says,
            }
        })
}

/// Stands still where it fails.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// The names of the members it is in.
    path: Vec<String>,
}

type Parsed<T> = Result<T, &'static str>;

impl<'a> Parser<'a> {
    fn value(&mut self, depth: usize) -> Parsed<Node> {
        self.blank()?;
        if depth > DEPTH {
            return Err("nested too deeply");
        }
        let start = self.at;
        let kind = match self.rest().bytes().next() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => Kind::String(self.string()?),
            _ => self.word()?,
        };
        Ok(Node { start, end: self.at, kind })
    }

    fn object(&mut self, depth: usize) -> Parsed<Kind> {
        let mut members: Vec<Member> = Vec::new();
        self.take('{');
        loop {
            self.blank()?;
            if self.take('}') {
                return Ok(Kind::Object(members));
            }
            let start = self.at;
            if !self.rest().starts_with('"') {
                return Err("expected a name in double quotes or `}`");
            }
            let name = self.string()?;
            self.path.push(name);
            self.blank()?;
            if !self.take(':') {
                return Err("expected `:`");
            }
            let value = self.value(depth + 1)?;
            let name = self.path.pop().unwrap_or_default();
            self.blank()?;
            let comma = self.at;
            let comma = self.take(',').then_some(comma);
            if comma.is_none() && !self.rest().starts_with('}') {
                return Err("expected `,` or `}`");
            }
            members.push(Member { name, start, value, comma });
        }
    }

    fn array(&mut self, depth: usize) -> Parsed<Kind> {
        let mut items = Vec::new();
        self.take('[');
        loop {
            self.blank()?;
            if self.take(']') {
                return Ok(Kind::Array(items));
            }
            items.push(self.value(depth + 1)?);
            self.blank()?;
            if !self.take(',') && !self.rest().starts_with(']') {
                return Err("expected `,` or `]`");
            }
        }
    }

    fn string(&mut self) -> Parsed<String> {
        let mut escaped = false;
        let closing = |byte: u8| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        };
        let rest = self.rest();
        // The first byte is the quote that opens it.
        let end = rest.bytes().skip(1).position(closing).ok_or("a string is not closed")? + 2;
        let literal = rest.get(..end).ok_or("a string is not closed")?;
        let string = serde_json::from_str(literal)
            .map_err(|_| "a string holds a control character or an escape that JSON does not know")?;
        self.at += end;
        Ok(string)
    }

    fn word(&mut self) -> Parsed<Kind> {
        let ends = |letter: char| !letter.is_alphanumeric() && !"+-._".contains(letter);
        let rest = self.rest();
        let end = rest.find(ends).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        let kind = match word {
            "null" => Kind::Null,
            "true" => Kind::Bool(true),
            "false" => Kind::Bool(false),
            _ => Kind::Number(serde_json::from_str(word).map_err(|_| "expected a value")?),
        };
        self.at += end;
        Ok(kind)
    }

    /// Passes over blanks and comments.
    fn blank(&mut self) -> Parsed<()> {
        loop {
            let rest = self.rest().trim_start_matches(BLANK);
            self.at = self.text.len() - rest.len();
            if let Some(comment) = rest.strip_prefix("//") {
                let rest = comment.trim_start_matches(|letter| letter != '\n' && letter != '\r');
                self.at = self.text.len() - rest.len();
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let (_, rest) = comment.split_once("*/").ok_or("a comment is not closed")?;
                self.at = self.text.len() - rest.len();
            } else {
                return Ok(());
            }
        }
    }

    fn take(&mut self, sign: char) -> bool {
        let there = self.rest().starts_with(sign);
        self.at += if there { sign.len_utf8() } else { 0 };
        there
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }
}

/// What JSON takes for blank.
pub(super) const BLANK: [char; 4] = [' ', '\t', '\n', '\r'];
/// The mark of the byte order.
pub(super) const MARK: char = '\u{feff}';
/// As deep as `serde_json` goes: what some host wrote is read.
const DEPTH: usize = 128;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn says(text: &str) -> String {
        parse(text).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn every_part_knows_where_it_stands() {
        let text = "\u{feff}// a\n{ \"a\": [1, /* b */ true,], \"é\" /*:*/ : \"x\\\"y\" , }\r\n";
        let node = parse(text).unwrap();
        assert_eq!(node.value(), json!({"a": [1, true], "é": "x\"y"}));
        let [first, second] = node.members() else { panic!() };
        assert_eq!(&text[first.start..first.value.end], "\"a\": [1, /* b */ true,]");
        assert_eq!(&text[first.comma.unwrap()..][..1], ",");
        assert_eq!(&text[second.value.start..second.value.end], "\"x\\\"y\"");
        assert_eq!(second.comma, Some(second.value.end + 1));
        assert_eq!(&text[node.start..node.end], text[8..].trim_end());
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_its_field() {
        let cases = [
            ("", "line 1, column 1: expected a value"),
            ("\u{feff}x", "line 1, column 1: expected a value"),
            ("{\n  \"é\": tru\n}", "line 2, column 8, in é: expected a value"),
            (
                "{\"mcpServers\": {\"a b\": {\"args\": [1 2]}}}",
                "line 1, column 36, in mcpServers[\"a b\"].args: expected `,` or `]`",
            ),
            ("{\"a\" 1}", "line 1, column 6, in a: expected `:`"),
            ("{\"a\": {\"b\": 1 \"c\": 2}}", "line 1, column 15, in a: expected `,` or `}`"),
            ("{'a': 1}", "line 1, column 2: expected a name in double quotes or `}`"),
            ("{} {}", "line 1, column 4: expected the end"),
            ("[\"a]", "line 1, column 2: a string is not closed"),
            ("1 /* a", "line 1, column 3: a comment is not closed"),
            ("[01]", "line 1, column 2: expected a value"),
        ];
        for (text, expected) in cases {
            assert_eq!(says(text).replace("[\"é\"]", "é"), expected, "{text:?}");
        }
        assert!(says(&"[".repeat(1 << 20)).ends_with("nested too deeply"));
    }
}
