//! Edits JSON configuration files of other programs: adds, replaces or removes one entry and keeps every other byte.
//!
//! `parser` finds the position of every value, `splice` cuts and inserts text, `layout` detects the style of the file,
//! `diff` shows the change, and `save` replaces files atomically and keeps backups. Comments and trailing commas are
//! accepted everywhere, since VS Code and Cursor write them.

pub(crate) mod diff;
mod layout;
mod parser;
pub(crate) mod save;
mod splice;

#[cfg(test)]
mod proptests;

use std::fmt;

use serde_json::Value;

pub(crate) use parser::{JsonSyntaxError, Member, Node, NodeKind};

/// A JSON text with the positions of its values.
pub(crate) struct Document {
    text: String,
    root: Node,
}

/// Why a value cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EditError {
    /// The line of the value, from 1.
    pub(crate) line: usize,
    pub(crate) field: String,
    pub(crate) message: String,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, field, message } = self;
        write!(f, "line {line}, {field}: {message}")
    }
}

impl Document {
    /// Parses a text that is one value, optionally after a byte order mark.
    pub(crate) fn parse(text: String) -> Result<Self, JsonSyntaxError> {
        let root = parser::parse(&text)?;
        Ok(Self { text, root })
    }

    /// Returns an empty object, for a file that does not exist yet.
    pub(crate) fn empty() -> Self {
        let root = Node { start: 0, end: 2, kind: NodeKind::Object(Vec::new()) };
        Self { text: "{}\n".to_owned(), root }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// Returns the text of a node.
    pub(crate) fn text_of(&self, node: &Node) -> &str {
        self.text.get(node.start..node.end).unwrap_or_default()
    }

    /// Returns the line of an offset, from 1.
    pub(crate) fn line_number(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }

    /// Returns the value at a path of member names; `None` if there is none. Fails if a name occurs more than once, or
    /// if a value on the path is not an object.
    pub(crate) fn find(&self, path: &[&str]) -> Result<Option<&Node>, EditError> {
        let mut node = &self.root;
        for (depth, name) in path.iter().enumerate() {
            let above = path.get(..depth).unwrap_or_default();
            match self.member(node, name, above)? {
                Some(member) => node = &member.value,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    /// Returns a member of the object at the path `above`.
    pub(crate) fn member<'a>(
        &self,
        node: &'a Node,
        name: &str,
        above: &[&str],
    ) -> Result<Option<&'a Member>, EditError> {
        let NodeKind::Object(members) = &node.kind else {
            let message = format!("expected an object, found {}", node.kind.name());
            return Err(EditError { line: self.line_number(node.start), field: field_path(above), message });
        };
        let mut found = members.iter().filter(|member| member.name == name);
        let Some(member) = found.next() else { return Ok(None) };
        match found.next() {
            None => Ok(Some(member)),
            Some(again) => {
                let lines =
                    format!("lines {} and {}", self.line_number(member.start), self.line_number(again.start));
                let message = format!("duplicate name, on {lines}");
                let path: Vec<&str> = above.iter().copied().chain([name]).collect();
                Err(EditError { line: self.line_number(again.start), field: field_path(&path), message })
            }
        }
    }

    /// Returns the text with `name` set in the object at `path`: replaced in place, or added as the last member. Creates
    /// missing objects on the path.
    pub(crate) fn set(&self, path: &[&str], name: &str, value: &Value) -> Result<String, EditError> {
        splice::set(self, path, name, value)
    }

    /// Returns the text without `name` in the object at `path`; `None` if the object does not have it.
    pub(crate) fn remove(&self, path: &[&str], name: &str) -> Result<Option<String>, EditError> {
        splice::remove(self, path, name)
    }
}

/// Formats a path as in JavaScript: `mcpServers.github`, `projects["/srv/shop"]`.
pub(crate) fn field_path(path: &[&str]) -> String {
    let mut out = String::new();
    for name in path {
        let plain = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        match (plain, out.is_empty()) {
            (true, true) => out.push_str(name),
            (true, false) => out.push_str(&format!(".{name}")),
            (false, _) => out.push_str(&format!("[{name:?}]")),
        }
    }
    if out.is_empty() { "the file".to_owned() } else { out }
}
