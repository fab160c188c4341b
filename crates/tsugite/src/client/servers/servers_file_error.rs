//! Errors of a servers file and of its entries.
//!
//! An error names the place and the problem but never a value, which may be a secret.

use std::fmt;

use super::field_path::FieldPath;
use super::jsonc::{JsoncError, Node};
use super::text_file::TextFileError;

/// The reason a file yields no servers.
pub struct ServersFileError(ServersFileErrorKind);

enum ServersFileErrorKind {
    Text(TextFileError),
    Json(JsoncError),
    Field(ServerEntryError),
    NoList,
    MultipleLists(String, String),
}

impl ServersFileError {
    pub(super) fn no_list() -> Self {
        Self(ServersFileErrorKind::NoList)
    }

    pub(super) fn multiple_lists(one: &FieldPath<'_>, other: &FieldPath<'_>) -> Self {
        Self(ServersFileErrorKind::MultipleLists(one.to_string(), other.to_string()))
    }

    /// Whether the file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(&self.0, ServersFileErrorKind::Text(TextFileError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound)
    }

    /// Whether the file exists but contains no list of servers, as hosts without servers write it.
    pub fn has_no_server_list(&self) -> bool {
        matches!(self.0, ServersFileErrorKind::NoList)
    }
}

impl From<TextFileError> for ServersFileError {
    fn from(error: TextFileError) -> Self {
        Self(ServersFileErrorKind::Text(error))
    }
}

impl From<JsoncError> for ServersFileError {
    fn from(error: JsoncError) -> Self {
        Self(ServersFileErrorKind::Json(error))
    }
}

impl From<ServerEntryError> for ServersFileError {
    fn from(error: ServerEntryError) -> Self {
        Self(ServersFileErrorKind::Field(error))
    }
}

/// Prints the message, because this is what a `main` that returns the error prints.
impl fmt::Debug for ServersFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ServersFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ServersFileErrorKind::Text(error) => write!(f, "the file {error}"),
            ServersFileErrorKind::Json(error) => error.fmt(f),
            ServersFileErrorKind::Field(error) => error.fmt(f),
            ServersFileErrorKind::NoList => f.write_str("found no `mcpServers`, `servers` or `mcp.servers`"),
            ServersFileErrorKind::MultipleLists(one, other) => {
                write!(f, "found both `{one}` and `{other}`; keep one of them")
            }
        }
    }
}

impl std::error::Error for ServersFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            ServersFileErrorKind::Text(TextFileError::Io(error)) => Some(error),
            _ => None,
        }
    }
}

/// The error of one entry: the first problem found.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerEntryError {
    field: String,
    error: EntryFieldError,
}

impl ServerEntryError {
    pub(super) fn new(field: &FieldPath<'_>, error: EntryFieldError) -> Self {
        Self { field: field.to_string(), error }
    }

    /// The path of the invalid field, such as `mcpServers.github.args[1]`.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The variable that is not set, if that is the problem. Set it and read the file again.
    pub fn unset_variable(&self) -> Option<&str> {
        match &self.error {
            EntryFieldError::UnsetVariable { variable, .. } => Some(variable),
            _ => None,
        }
    }
}

/// Prints the message.
impl fmt::Debug for ServerEntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ServerEntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.error)
    }
}

impl std::error::Error for ServerEntryError {}

/// The problem of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryFieldError {
    WrongType {
        expected: &'static str,
        found: &'static str,
    },
    Duplicate,
    MissingName,
    Conflicting(&'static str, &'static str),
    MissingCommandOrUrl,
    MissingMember(&'static str),
    UnknownType,
    Empty,
    NulByte,
    Whitespace,
    InvalidEnvName,
    InvalidHeaderName,
    InvalidHeaderValue,
    UnsetVariable {
        variable: String,
        /// The VS Code input that the variable answers.
        input: Option<String>,
    },
    UnclosedVariable,
    NestedVariable,
    InvalidVariableName,
    UnknownVariableKind(String),
    VariablesTooLong,
    EnvFileWithoutFolder,
    /// A message without the path, because variables may have been substituted into the path.
    UnreadableEnvFile(String),
    InvalidEnvLine(usize),
}

impl EntryFieldError {
    pub(super) fn wrong_type(expected: &'static str, found: &Node) -> Self {
        EntryFieldError::WrongType { expected, found: found.kind() }
    }
}

impl fmt::Display for EntryFieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EntryFieldError::WrongType { expected, found } => write!(f, "expected {expected}, found {found}"),
            EntryFieldError::Duplicate => f.write_str("duplicate member"),
            EntryFieldError::MissingName => f.write_str("a server needs a name"),
            EntryFieldError::Conflicting(one, other) => write!(f, "it has both `{one}` and `{other}`"),
            EntryFieldError::MissingCommandOrUrl => f.write_str("it has neither `command` nor `url`"),
            EntryFieldError::MissingMember(member) => write!(f, "an entry of this type needs `{member}`"),
            EntryFieldError::UnknownType => {
                f.write_str("expected `stdio`, `http`, `streamable-http` or `sse`")
            }
            EntryFieldError::Empty => f.write_str("it is empty"),
            EntryFieldError::NulByte => f.write_str("it contains a NUL byte"),
            EntryFieldError::Whitespace => f.write_str("it contains whitespace or a control character"),
            EntryFieldError::InvalidEnvName => f.write_str("invalid name of a variable"),
            EntryFieldError::InvalidHeaderName => f.write_str("invalid name of a header"),
            EntryFieldError::InvalidHeaderValue => {
                f.write_str("it contains a line break or another control character")
            }
            EntryFieldError::UnsetVariable { variable, input: None } => {
                write!(f, "the variable {variable} is not set")
            }
            EntryFieldError::UnsetVariable { variable, input: Some(input) } => {
                write!(f, "the variable {variable} for the input {input:?} is not set")
            }
            EntryFieldError::UnclosedVariable => f.write_str("a `${` is not closed"),
            EntryFieldError::NestedVariable => f.write_str("a default cannot contain a variable"),
            EntryFieldError::InvalidVariableName => {
                f.write_str("the text between `${` and `}` is not the name of a variable")
            }
            EntryFieldError::UnknownVariableKind(kind) => {
                write!(f, "unknown kind of variable: `${{{kind}:…}}`")
            }
            EntryFieldError::VariablesTooLong => {
                f.write_str("the values of all variables in this file are too long")
            }
            EntryFieldError::EnvFileWithoutFolder => f.write_str("`envFile` needs a servers file on disk"),
            EntryFieldError::UnreadableEnvFile(error) => write!(f, "the file {error}"),
            EntryFieldError::InvalidEnvLine(line) => {
                write!(f, "line {line} of the file is not `NAME=value`")
            }
        }
    }
}
