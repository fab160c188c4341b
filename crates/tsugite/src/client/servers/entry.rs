//! Converts one entry of a servers file into a connection configuration.

use std::path::Path;

use indexmap::IndexMap;

use super::field_path::FieldPath;
use super::jsonc::Node;
use super::server_list::{Members, members};
use super::servers_file_error::{EntryFieldError, ServerEntryError};
use super::variables::Variables;
use super::{ConnectionConfig, Folders, OAuthConfig, UrlTransport, env_file, oauth, text_file};

/// The context shared by all entries of a file.
pub(super) struct EntryContext<'a> {
    pub(super) variables: Variables<'a>,
    /// The directory of the file, if the text comes from one.
    pub(super) folders: Option<Folders<'a>>,
    /// Whether `http` means Streamable HTTP with a fallback to HTTP+SSE.
    pub(super) sse_fallback: bool,
}

/// Reads whether the entry is disabled and how to connect. A missing `node` means that the name occurs twice.
pub(super) fn read(
    name: &str,
    node: Option<&Node>,
    field: &FieldPath<'_>,
    context: &EntryContext<'_>,
) -> (bool, Result<ConnectionConfig, ServerEntryError>) {
    let entry = match node {
        None => Err(ServerEntryError::new(field, EntryFieldError::Duplicate)),
        Some(_) if name.is_empty() => Err(ServerEntryError::new(field, EntryFieldError::MissingName)),
        Some(node) => members(node, field).map(|members| EntryReader { members, field, context }),
    };
    let entry = match entry {
        Ok(entry) => entry,
        Err(error) => return (false, Err(error)),
    };
    match entry.disabled() {
        Ok(disabled) => (disabled, entry.connection()),
        Err(error) => (false, Err(error)),
    }
}

struct EntryReader<'a> {
    members: Members<'a>,
    field: &'a FieldPath<'a>,
    context: &'a EntryContext<'a>,
}

impl EntryReader<'_> {
    fn disabled(&self) -> Result<bool, ServerEntryError> {
        match self.member("disabled")? {
            None => Ok(false),
            Some((Node::Bool(disabled), _)) => Ok(*disabled),
            Some((other, field)) => {
                Err(ServerEntryError::new(&field, EntryFieldError::wrong_type("a boolean", other)))
            }
        }
    }

    fn connection(&self) -> Result<ConnectionConfig, ServerEntryError> {
        let url = match (self.has("url"), self.has("serverUrl")) {
            (true, true) => return Err(self.error(EntryFieldError::Conflicting("url", "serverUrl"))),
            (true, false) => Some("url"),
            (false, true) => Some("serverUrl"),
            (false, false) => None,
        };
        let kind = self.server_type()?;
        match (self.has("command"), url, kind) {
            (true, Some(url), _) => Err(self.error(EntryFieldError::Conflicting("command", url))),
            (false, None, _) => Err(self.error(EntryFieldError::MissingCommandOrUrl)),
            (true, None, Some(ServerType::Url(_))) => Err(self.error(EntryFieldError::MissingMember("url"))),
            (false, Some(_), Some(ServerType::Command)) => {
                Err(self.error(EntryFieldError::MissingMember("command")))
            }
            (true, None, _) => self.command(),
            (false, Some(url), Some(ServerType::Url(transport))) => self.url(url, transport),
            (false, Some(url), None) => self.url(url, UrlTransport::Auto),
        }
    }

    fn server_type(&self) -> Result<Option<ServerType>, ServerEntryError> {
        let Some((node, field)) = self.member("type")? else { return Ok(None) };
        let Node::String(kind) = node else {
            return Err(ServerEntryError::new(&field, EntryFieldError::wrong_type("a string", node)));
        };
        Ok(Some(match kind.as_str() {
            // Copilot writes the latter.
            "stdio" | "local" => ServerType::Command,
            "http" if self.context.sse_fallback => ServerType::Url(UrlTransport::Auto),
            "http" | "streamable-http" | "streamableHttp" => ServerType::Url(UrlTransport::StreamableHttp),
            "sse" => ServerType::Url(UrlTransport::Sse),
            _ => return Err(ServerEntryError::new(&field, EntryFieldError::UnknownType)),
        }))
    }

    fn command(&self) -> Result<ConnectionConfig, ServerEntryError> {
        let program = self.string("command")?.unwrap_or_default();
        let args = self.args()?;
        let (mut env, mut unset) = (Vec::new(), Vec::new());
        for (name, value) in self.env()? {
            match value {
                Some(value) => env.push((name, value)),
                None => unset.push(name),
            }
        }
        let cwd = self.string("cwd")?.map(|cwd| match self.context.folders {
            Some(folders) => folders.workspace.join(cwd),
            None => cwd.into(),
        });
        Ok(ConnectionConfig::Command { program, args, env, unset, cwd })
    }

    fn url(
        &self,
        member: &'static str,
        transport: UrlTransport,
    ) -> Result<ConnectionConfig, ServerEntryError> {
        let url = self.string(member)?.unwrap_or_default();
        if url.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return Err(ServerEntryError::new(
                &FieldPath::Member(self.field, member),
                EntryFieldError::Whitespace,
            ));
        }
        let (headers, oauth) = (self.headers()?, self.oauth()?);
        Ok(ConnectionConfig::Url { url, headers, transport, oauth })
    }

    fn args(&self) -> Result<Vec<String>, ServerEntryError> {
        let Some((node, field)) = self.member("args")? else { return Ok(Vec::new()) };
        let Node::Array(items) = node else {
            return Err(ServerEntryError::new(&field, EntryFieldError::wrong_type("an array", node)));
        };
        let items = items.iter().enumerate();
        items.map(|(index, item)| self.os_string(item, &FieldPath::Item(&field, index))).collect()
    }

    /// Reads the environment variables to set; a variable without a value is removed.
    fn env(&self) -> Result<IndexMap<String, Option<String>>, ServerEntryError> {
        let mut env = IndexMap::new();
        if let Some(path) = self.string("envFile")? {
            let of_file = self.env_file(Path::new(&path));
            let of_file = of_file
                .map_err(|wrong| ServerEntryError::new(&FieldPath::Member(self.field, "envFile"), wrong))?;
            env.extend(of_file.into_iter().map(|(name, value)| (name, Some(value))));
        }
        self.for_each_member("env", |name, node, field| {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(ServerEntryError::new(field, EntryFieldError::InvalidEnvName));
            }
            let value = match node {
                Node::Null => None,
                Node::Number(number) => Some(number.clone()),
                Node::String(_) => Some(self.os_string(node, field)?),
                other => {
                    return Err(ServerEntryError::new(
                        field,
                        EntryFieldError::wrong_type("a string, a number or null", other),
                    ));
                }
            };
            env.insert(name.to_owned(), value);
            Ok(())
        })?;
        Ok(env)
    }

    fn env_file(&self, path: &Path) -> Result<Vec<(String, String)>, EntryFieldError> {
        let folders = self.context.folders.ok_or(EntryFieldError::EnvFileWithoutFolder)?;
        let text = text_file::read(&folders.file.join(path))
            .map_err(|error| EntryFieldError::UnreadableEnvFile(error.to_string()))?;
        env_file::parse(&text).map_err(EntryFieldError::InvalidEnvLine)
    }

    fn headers(&self) -> Result<Vec<(String, String)>, ServerEntryError> {
        let mut headers = Vec::new();
        self.for_each_member("headers", |name, node, field| {
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(ServerEntryError::new(field, EntryFieldError::InvalidHeaderName));
            }
            let value = self.resolve_string(node, field)?;
            // A line break in a value would start another header.
            if value.chars().any(|letter| letter.is_control() && letter != '\t') {
                return Err(ServerEntryError::new(field, EntryFieldError::InvalidHeaderValue));
            }
            headers.push((name.to_owned(), value));
            Ok(())
        })?;
        Ok(headers)
    }

    fn oauth(&self) -> Result<Option<OAuthConfig>, ServerEntryError> {
        for name in ["oauth", "auth"] {
            let Some((node, field)) = self.member(name)? else { continue };
            let read = oauth::read(node, &field, &|node, field| self.resolve_string(node, field))?;
            if read.is_some() {
                return Ok(read);
            }
        }
        Ok(None)
    }

    /// Calls `f` for each member of an object member.
    fn for_each_member(
        &self,
        member: &'static str,
        mut take: impl FnMut(&str, &Node, &FieldPath<'_>) -> Result<(), ServerEntryError>,
    ) -> Result<(), ServerEntryError> {
        let Some((node, field)) = self.member(member)? else { return Ok(()) };
        for (name, node) in members(node, &field)? {
            let field = FieldPath::Member(&field, name);
            let node = node.ok_or_else(|| ServerEntryError::new(&field, EntryFieldError::Duplicate))?;
            take(name, node, &field)?;
        }
        Ok(())
    }

    /// Reads a non-empty string member.
    fn string(&self, member: &'static str) -> Result<Option<String>, ServerEntryError> {
        let Some((node, field)) = self.member(member)? else { return Ok(None) };
        match self.os_string(node, &field)? {
            empty if empty.is_empty() => Err(ServerEntryError::new(&field, EntryFieldError::Empty)),
            string => Ok(Some(string)),
        }
    }

    /// Reads a string without NUL bytes, which the operating system rejects.
    fn os_string(&self, node: &Node, field: &FieldPath<'_>) -> Result<String, ServerEntryError> {
        let string = self.resolve_string(node, field)?;
        if string.contains('\0') {
            return Err(ServerEntryError::new(field, EntryFieldError::NulByte));
        }
        Ok(string)
    }

    fn resolve_string(&self, node: &Node, field: &FieldPath<'_>) -> Result<String, ServerEntryError> {
        let Node::String(string) = node else {
            return Err(ServerEntryError::new(field, EntryFieldError::wrong_type("a string", node)));
        };
        self.context.variables.resolve(string).map_err(|wrong| ServerEntryError::new(field, wrong))
    }

    fn has(&self, member: &str) -> bool {
        self.members.contains_key(member)
    }

    fn member(&self, name: &'static str) -> Result<Option<(&Node, FieldPath<'_>)>, ServerEntryError> {
        let field = FieldPath::Member(self.field, name);
        match self.members.get(name) {
            None => Ok(None),
            Some(None) => Err(ServerEntryError::new(&field, EntryFieldError::Duplicate)),
            Some(Some(node)) => Ok(Some((*node, field))),
        }
    }

    fn error(&self, wrong: EntryFieldError) -> ServerEntryError {
        ServerEntryError::new(self.field, wrong)
    }
}

/// The value of `type`.
enum ServerType {
    Command,
    Url(UrlTransport),
}

/// RFC 9110 §5.6.2: a header name is a token.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
