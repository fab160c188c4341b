//! What can be wrong with a file and with an entry of it.
//!
//! An error says where and what, and never shows a value: it may be a secret.

use std::fmt;

use super::field::Field;
use super::jsonc::{BadJson, Node};
use super::text::BadText;

/// Why a file lists no servers at all.
pub struct BadServersFile(Kind);

enum Kind {
    Text(BadText),
    Json(BadJson),
    Field(BadEntry),
    NoList,
    TwoLists(String, String),
}

impl BadServersFile {
    pub(super) fn no_list() -> Self {
        Self(Kind::NoList)
    }

    pub(super) fn two_lists(one: &Field<'_>, other: &Field<'_>) -> Self {
        Self(Kind::TwoLists(one.to_string(), other.to_string()))
    }

    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(&self.0, Kind::Text(BadText::Io(error)) if error.kind() == std::io::ErrorKind::NotFound)
    }

    /// Whether there is a file, and nothing in it is a list of servers. Hosts that know none yet have such files.
    pub fn lists_nothing(&self) -> bool {
        matches!(self.0, Kind::NoList)
    }
}

impl From<BadText> for BadServersFile {
    fn from(error: BadText) -> Self {
        Self(Kind::Text(error))
    }
}

impl From<BadJson> for BadServersFile {
    fn from(error: BadJson) -> Self {
        Self(Kind::Json(error))
    }
}

impl From<BadEntry> for BadServersFile {
    fn from(error: BadEntry) -> Self {
        Self(Kind::Field(error))
    }
}

/// In words: this is what a `main` that returns it prints.
impl fmt::Debug for BadServersFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BadServersFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Text(error) => write!(f, "the file {error}"),
            Kind::Json(error) => error.fmt(f),
            Kind::Field(error) => error.fmt(f),
            Kind::NoList => f.write_str("there is none of `mcpServers`, `servers` and `mcp.servers`"),
            Kind::TwoLists(one, other) => {
                write!(f, "there are both `{one}` and `{other}`, and only one of them can be meant")
            }
        }
    }
}

impl std::error::Error for BadServersFile {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Kind::Text(BadText::Io(error)) => Some(error),
            _ => None,
        }
    }
}

/// What is wrong with one entry of the list. The first thing, if there are several.
#[derive(Clone, PartialEq, Eq)]
pub struct BadEntry {
    field: String,
    wrong: Wrong,
}

impl BadEntry {
    pub(super) fn new(field: &Field<'_>, wrong: Wrong) -> Self {
        Self { field: field.to_string(), wrong }
    }

    /// Where it is wrong, such as `mcpServers.github.args[1]`.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The variable that is not set, if that is what is wrong. Once it is, the file can be read again.
    pub fn unset_variable(&self) -> Option<&str> {
        match &self.wrong {
            Wrong::Unset { variable, .. } => Some(variable),
            _ => None,
        }
    }
}

/// In words.
impl fmt::Debug for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.wrong)
    }
}

impl std::error::Error for BadEntry {}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrong {
    Type {
        expected: &'static str,
        found: &'static str,
    },
    Twice,
    NoName,
    Both(&'static str, &'static str),
    Neither,
    Needs(&'static str),
    UnknownType,
    Empty,
    Nul,
    Blank,
    EnvName,
    HeaderName,
    HeaderValue,
    Unset {
        variable: String,
        /// The input of VS Code that it answers.
        input: Option<String>,
    },
    Unclosed,
    Nested,
    VariableName,
    UnknownKind(String),
    TooLong,
    NoFolder,
    /// Already in words, without the path: variables may have been put into it.
    EnvFile(String),
    EnvLine(usize),
}

impl Wrong {
    pub(super) fn kind(expected: &'static str, found: &Node) -> Self {
        Wrong::Type { expected, found: found.kind() }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Type { expected, found } => write!(f, "expected {expected}, found {found}"),
            Wrong::Twice => f.write_str("it is there more than once"),
            Wrong::NoName => f.write_str("a server needs a name"),
            Wrong::Both(one, other) => write!(f, "it has both `{one}` and `{other}`"),
            Wrong::Neither => f.write_str("it has neither `command` nor `url`"),
            Wrong::Needs(member) => write!(f, "what has this type needs `{member}`"),
            Wrong::UnknownType => f.write_str("expected `stdio`, `http`, `streamable-http` or `sse`"),
            Wrong::Empty => f.write_str("it is empty"),
            Wrong::Nul => f.write_str("it holds a NUL byte"),
            Wrong::Blank => f.write_str("it holds a blank or a control character"),
            Wrong::EnvName => f.write_str("no variable can have this name"),
            Wrong::HeaderName => f.write_str("no header can have this name"),
            Wrong::HeaderValue => f.write_str("it holds a line break or another control character"),
            Wrong::Unset { variable, input: None } => write!(f, "the variable {variable} is not set"),
            Wrong::Unset { variable, input: Some(input) } => {
                write!(f, "the variable {variable} is not set, which answers the input {input:?}")
            }
            Wrong::Unclosed => f.write_str("a `${` is not closed"),
            Wrong::Nested => f.write_str("a default cannot hold another variable"),
            Wrong::VariableName => f.write_str("what stands between `${` and `}` is no name of a variable"),
            Wrong::UnknownKind(kind) => write!(f, "variables like `${{{kind}:…}}` are not known"),
            Wrong::TooLong => f.write_str("the variables of this file are too long in all"),
            Wrong::NoFolder => f.write_str("no other file is read for a text that is in none"),
            Wrong::EnvFile(error) => write!(f, "that file {error}"),
            Wrong::EnvLine(line) => write!(f, "line {line} of that file is not `NAME=value`"),
        }
    }
}
