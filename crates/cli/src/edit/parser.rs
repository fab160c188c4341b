//! A parser for JSON with comments and trailing commas that records the position of every value.
//!
//! It accepts the same texts as `tsugite::client::servers`. Strings and numbers are parsed by `serde_json`. No error
//! shows the text itself, since that may be a secret.

use std::fmt;

use serde_json::{Map, Number, Value};

/// A value and its byte range. No `Debug`, because it may be a secret.
pub(crate) struct Node {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) kind: NodeKind,
}

pub(crate) enum NodeKind {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Node>),
    /// In file order, with duplicates.
    Object(Vec<Member>),
}

/// A member of an object.
pub(crate) struct Member {
    pub(crate) name: String,
    /// The offset of the opening quote of the name.
    pub(crate) start: usize,
    pub(crate) value: Node,
    /// The offset of the comma after the member.
    pub(crate) comma: Option<usize>,
}

impl NodeKind {
    /// Returns the name of the kind, with an article.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            NodeKind::Null => "null",
            NodeKind::Bool(_) => "a boolean",
            NodeKind::Number(_) => "a number",
            NodeKind::String(_) => "a string",
            NodeKind::Array(_) => "an array",
            NodeKind::Object(_) => "an object",
        }
    }
}

impl Node {
    /// Returns the plain value. Of several members with one name, the last one counts.
    pub(crate) fn value(&self) -> Value {
        match &self.kind {
            NodeKind::Null => Value::Null,
            NodeKind::Bool(bool) => Value::Bool(*bool),
            NodeKind::Number(number) => Value::Number(number.clone()),
            NodeKind::String(string) => Value::String(string.clone()),
            NodeKind::Array(items) => items.iter().map(Node::value).collect(),
            NodeKind::Object(members) => {
                let members = members.iter().map(|member| (member.name.clone(), member.value.value()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    pub(crate) fn members(&self) -> &[Member] {
        match &self.kind {
            NodeKind::Object(members) => members,
            _ => &[],
        }
    }
}

/// A syntax error and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonSyntaxError {
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// The path of the member that was being parsed.
    pub(crate) field: Option<String>,
    pub(crate) message: &'static str,
}

impl fmt::Display for JsonSyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)?;
        if let Some(field) = &self.field {
            write!(f, ", in {field}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Parses a text that is one value.
pub(super) fn parse(text: &str) -> Result<Node, JsonSyntaxError> {
    let at = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
    let mut parser = Parser { text, position: at, path: Vec::new() };
    parser
        .value(0)
        .and_then(|node| {
            parser.skip_whitespace_and_comments()?;
            if parser.position == text.len() { Ok(node) } else { Err("expected the end of the file") }
        })
        .map_err(|message| {
            let before = text.get(..parser.position).unwrap_or_default();
            let line = before.rsplit('\n').next().unwrap_or_default().trim_start_matches(BYTE_ORDER_MARK);
            let path: Vec<&str> = parser.path.iter().map(String::as_str).collect();
            JsonSyntaxError {
                line: before.matches('\n').count() + 1,
                column: line.chars().count() + 1,
                field: (!path.is_empty()).then(|| super::field_path(&path)),
                message,
            }
        })
}

/// The parser state. After an error, `position` is where it occurred.
struct Parser<'a> {
    text: &'a str,
    position: usize,
    /// The names of the enclosing members.
    path: Vec<String>,
}

type ParseResult<T> = Result<T, &'static str>;

impl<'a> Parser<'a> {
    fn value(&mut self, depth: usize) -> ParseResult<Node> {
        self.skip_whitespace_and_comments()?;
        if depth > MAX_DEPTH {
            return Err("nested too deeply");
        }
        let start = self.position;
        let kind = match self.rest().bytes().next() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => NodeKind::String(self.string()?),
            _ => self.literal()?,
        };
        Ok(Node { start, end: self.position, kind })
    }

    fn object(&mut self, depth: usize) -> ParseResult<NodeKind> {
        let mut members: Vec<Member> = Vec::new();
        self.take('{');
        loop {
            self.skip_whitespace_and_comments()?;
            if self.take('}') {
                return Ok(NodeKind::Object(members));
            }
            let start = self.position;
            if !self.rest().starts_with('"') {
                return Err("expected a name in double quotes or `}`");
            }
            let name = self.string()?;
            self.path.push(name);
            self.skip_whitespace_and_comments()?;
            if !self.take(':') {
                return Err("expected `:`");
            }
            let value = self.value(depth + 1)?;
            let name = self.path.pop().unwrap_or_default();
            self.skip_whitespace_and_comments()?;
            let comma = self.position;
            let comma = self.take(',').then_some(comma);
            if comma.is_none() && !self.rest().starts_with('}') {
                return Err("expected `,` or `}`");
            }
            members.push(Member { name, start, value, comma });
        }
    }

    fn array(&mut self, depth: usize) -> ParseResult<NodeKind> {
        let mut items = Vec::new();
        self.take('[');
        loop {
            self.skip_whitespace_and_comments()?;
            if self.take(']') {
                return Ok(NodeKind::Array(items));
            }
            items.push(self.value(depth + 1)?);
            self.skip_whitespace_and_comments()?;
            if !self.take(',') && !self.rest().starts_with(']') {
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
        let rest = self.rest();
        // The first byte is the quote that opens it.
        let end = rest.bytes().skip(1).position(closing).ok_or("unterminated string")? + 2;
        let literal = rest.get(..end).ok_or("unterminated string")?;
        let string =
            serde_json::from_str(literal).map_err(|_| "invalid control character or escape in a string")?;
        self.position += end;
        Ok(string)
    }

    fn literal(&mut self) -> ParseResult<NodeKind> {
        let ends = |letter: char| !letter.is_alphanumeric() && !"+-._".contains(letter);
        let rest = self.rest();
        let end = rest.find(ends).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        let kind = match word {
            "null" => NodeKind::Null,
            "true" => NodeKind::Bool(true),
            "false" => NodeKind::Bool(false),
            _ => NodeKind::Number(serde_json::from_str(word).map_err(|_| "expected a value")?),
        };
        self.position += end;
        Ok(kind)
    }

    /// Skips whitespace and comments.
    fn skip_whitespace_and_comments(&mut self) -> ParseResult<()> {
        loop {
            let rest = self.rest().trim_start_matches(WHITESPACE);
            self.position = self.text.len() - rest.len();
            if let Some(comment) = rest.strip_prefix("//") {
                let rest = comment.trim_start_matches(|letter| letter != '\n' && letter != '\r');
                self.position = self.text.len() - rest.len();
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let (_, rest) = comment.split_once("*/").ok_or("unterminated comment")?;
                self.position = self.text.len() - rest.len();
            } else {
                return Ok(());
            }
        }
    }

    fn take(&mut self, sign: char) -> bool {
        let found = self.rest().starts_with(sign);
        self.position += if found { sign.len_utf8() } else { 0 };
        found
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }
}

/// The whitespace of JSON.
pub(super) const WHITESPACE: [char; 4] = [' ', '\t', '\n', '\r'];
/// The byte order mark.
pub(super) const BYTE_ORDER_MARK: char = '\u{feff}';
/// The nesting limit, the same as that of `serde_json`.
const MAX_DEPTH: usize = 128;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error_for(text: &str) -> String {
        parse(text).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn values_have_their_positions() {
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
    fn syntax_error_has_line_and_field() {
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
            ("{} {}", "line 1, column 4: expected the end of the file"),
            ("[\"a]", "line 1, column 2: unterminated string"),
            ("1 /* a", "line 1, column 3: unterminated comment"),
            ("[01]", "line 1, column 2: expected a value"),
        ];
        for (text, expected) in cases {
            assert_eq!(error_for(text).replace("[\"é\"]", "é"), expected, "{text:?}");
        }
        assert!(error_for(&"[".repeat(1 << 20)).ends_with("nested too deeply"));
    }
}
