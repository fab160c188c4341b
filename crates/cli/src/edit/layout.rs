//! The layout of a JSON file: line endings, indentation, and whether it uses several lines.

use serde_json::Value;

use super::parser::{BYTE_ORDER_MARK, Node};

/// The layout for inserted text.
pub(super) struct Layout<'a> {
    pub(super) text: &'a str,
    /// The line ending.
    pub(super) newline: &'static str,
    /// One level of indentation.
    pub(super) indent_unit: &'a str,
    /// Whether members are on lines of their own.
    pub(super) multiline: bool,
    /// Whether a space follows colons and commas within a line.
    pub(super) spaced: bool,
}

impl<'a> Layout<'a> {
    /// Detects the layout of a text. The default is several lines, indented by two spaces.
    pub(super) fn detect(text: &'a str, root: &Node) -> Self {
        let newline = match text.find('\n') {
            Some(at) if text.get(..at).is_some_and(|before| before.ends_with('\r')) => "\r\n",
            _ => "\n",
        };
        let first = root.members().first();
        let indent = first.and_then(|first| indent_at_line_start(text, first.start));
        let indent_unit = indent
            .and_then(|indent| indent.strip_prefix(line_indent(text, root.start)))
            .filter(|unit| !unit.is_empty())
            .unwrap_or("  ");
        let spaced = first.is_none_or(|first| {
            text.get(..first.value.start).is_some_and(|before| before.ends_with(super::parser::WHITESPACE))
        });
        Self { text, newline, indent_unit, multiline: first.is_none() || indent.is_some(), spaced }
    }

    /// Formats a member over several lines; its first line is indented by `indent`.
    pub(super) fn multiline_member(&self, name: &str, value: &Value, indent: &str) -> String {
        let mut out = format!("{}: ", Value::from(name));
        self.write(value, indent, &mut out);
        out
    }

    /// Formats a value over several lines.
    pub(super) fn multiline_value(&self, value: &Value, indent: &str) -> String {
        let mut out = String::new();
        self.write(value, indent, &mut out);
        out
    }

    /// Formats a member within a line.
    pub(super) fn inline_member(&self, name: &str, value: &Value) -> String {
        format!("{}:{}{}", Value::from(name), if self.spaced { " " } else { "" }, self.inline_value(value))
    }

    /// Formats a value within a line.
    pub(super) fn inline_value(&self, value: &Value) -> String {
        let comma = if self.spaced { ", " } else { "," };
        match value {
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.inline_value(item)).collect();
                format!("[{}]", items.join(comma))
            }
            Value::Object(members) => {
                let members: Vec<String> =
                    members.iter().map(|(name, value)| self.inline_member(name, value)).collect();
                format!("{{{}}}", members.join(comma))
            }
            other => other.to_string(),
        }
    }

    fn write(&self, value: &Value, indent: &str, out: &mut String) {
        let inner = format!("{indent}{}", self.indent_unit);
        let begin = |out: &mut String, first: bool| {
            out.push_str(if first { "" } else { "," });
            out.push_str(self.newline);
            out.push_str(&inner);
        };
        match value {
            Value::Object(members) if !members.is_empty() => {
                out.push('{');
                for (number, (name, value)) in members.iter().enumerate() {
                    begin(out, number == 0);
                    out.push_str(&format!("{}: ", Value::from(name.as_str())));
                    self.write(value, &inner, out);
                }
            }
            Value::Array(items) if !is_short(items) => {
                out.push('[');
                for (number, item) in items.iter().enumerate() {
                    begin(out, number == 0);
                    self.write(item, &inner, out);
                }
            }
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                return out.push_str(&format!("[{}]", items.join(", ")));
            }
            other => return out.push_str(&other.to_string()),
        }
        out.push_str(self.newline);
        out.push_str(indent);
        out.push(if value.is_object() { '}' } else { ']' });
    }
}

/// Whether an array fits on one line: only scalars, and short enough.
fn is_short(items: &[Value]) -> bool {
    let scalars = items.iter().all(|item| !item.is_object() && !item.is_array());
    scalars && items.iter().map(|item| item.to_string().len() + 2).sum::<usize>() <= MAX_INLINE_WIDTH
}

/// Returns the offset of the start of the line that contains `at`.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    match before.rfind('\n') {
        Some(newline) => newline + 1,
        None if text.starts_with(BYTE_ORDER_MARK) => BYTE_ORDER_MARK.len_utf8(),
        None => 0,
    }
}

/// Returns the indentation before `at`, if only indentation precedes it on its line.
pub(super) fn indent_at_line_start(text: &str, at: usize) -> Option<&str> {
    let before = text.get(line_start(text, at)..at)?;
    before.chars().all(is_indent).then_some(before)
}

/// Returns the indentation of the line that contains `at`.
pub(super) fn line_indent(text: &str, at: usize) -> &str {
    let line = text.get(line_start(text, at)..).unwrap_or_default();
    let end = line.find(|letter| !is_indent(letter)).unwrap_or(line.len());
    line.get(..end).unwrap_or_default()
}

pub(super) fn is_indent(letter: char) -> bool {
    matches!(letter, ' ' | '\t')
}

/// The longest array on one line, in characters.
const MAX_INLINE_WIDTH: usize = 80;
