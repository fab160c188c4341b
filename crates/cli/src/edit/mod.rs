//! Changes to the JSON files of others: one entry comes, goes or is replaced, and every other byte stays.
//!
//! `scan` finds where things stand, `change` cuts and inserts, `layout` writes as the file is written, `diff` shows
//! what would change, `save` replaces files whole and keeps what was there. Comments and trailing commas are understood
//! everywhere, since VS Code and Cursor write them.

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

/// A text, and where its parts stand.
pub(crate) struct Document {
    text: String,
    root: Node,
}

/// Why something cannot be changed at its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EditError {
    /// The line it stands on.
    pub(crate) line: usize,
    pub(crate) field: String,
    pub(crate) message: String,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, field, message: says } = self;
        write!(f, "line {line}, {field}: {says}")
    }
}

impl Document {
    /// Reads a text that is one value; a mark of the byte order may stand before it.
    pub(crate) fn parse(text: String) -> Result<Self, JsonSyntaxError> {
        let root = parser::parse(&text)?;
        Ok(Self { text, root })
    }

    /// An object with nothing in it, for files that are not there yet.
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

    /// The text of one of its parts.
    pub(crate) fn text_of(&self, node: &Node) -> &str {
        self.text.get(node.start..node.end).unwrap_or_default()
    }

    /// The line something stands on, from 1.
    pub(crate) fn line_number(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }

    /// What stands at a path of names; `None` if nothing does. A name that is there more than once is nobody's, and
    /// only objects have names in them.
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

    /// A member of an object that stands at the path `above`.
    pub(crate) fn member<'a>(
        &self,
        node: &'a Node,
        name: &str,
        above: &[&str],
    ) -> Result<Option<&'a Member>, EditError> {
        let NodeKind::Object(members) = &node.kind else {
            let says = format!("expected an object, found {}", node.kind.name());
            return Err(EditError {
                line: self.line_number(node.start),
                field: field_path(above),
                message: says,
            });
        };
        let mut found = members.iter().filter(|member| member.name == name);
        let Some(member) = found.next() else { return Ok(None) };
        match found.next() {
            None => Ok(Some(member)),
            Some(again) => {
                let lines =
                    format!("lines {} and {}", self.line_number(member.start), self.line_number(again.start));
                let says = format!("it is there more than once, on {lines}");
                let path: Vec<&str> = above.iter().copied().chain([name]).collect();
                Err(EditError {
                    line: self.line_number(again.start),
                    field: field_path(&path),
                    message: says,
                })
            }
        }
    }

    /// The text with `name` in the object at `path`: as its last member, or in the place of the one that is there.
    /// Objects on the way that are missing are made.
    pub(crate) fn set(&self, path: &[&str], name: &str, value: &Value) -> Result<String, EditError> {
        splice::set(self, path, name, value)
    }

    /// The text without `name` in the object at `path`; `None` if it is not there.
    pub(crate) fn remove(&self, path: &[&str], name: &str) -> Result<Option<String>, EditError> {
        splice::remove(self, path, name)
    }
}

/// A path as in JavaScript: `mcpServers.github`, `projects["/srv/shop"]`.
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
