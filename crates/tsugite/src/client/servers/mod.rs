//! Reads the files in which MCP hosts configure their servers, and resolves variables.
//!
//! One reader handles all of them. The content decides, not the file name:
//!
//! | host | the list is | more |
//! |---|---|---|
//! | Claude Desktop, Claude Code | `mcpServers` | `${VAR}`, `${VAR:-default}` |
//! | Cursor | `mcpServers` | `${env:VAR}`, `envFile` |
//! | Windsurf | `mcpServers` | `serverUrl`, `disabled` |
//! | VS Code, `mcp.json` | `servers` | `${env:VAR}`, `${input:id}`, `envFile`, `null` in `env` |
//! | VS Code, `settings.json` | `mcp.servers` | the same |
//!
//! A member that one host understands is understood in every file, and so are comments and trailing commas. Unknown
//! members are ignored, since every host adds its own.
//!
//! An invalid entry does not hide the others: [`ServerEntry::connection`] returns its error.

use std::borrow::Cow;
use std::fmt;
use std::path::{self, Path, PathBuf};

mod entry;
mod env_file;
mod field_path;
mod home;
mod jsonc;
mod oauth;
mod server_list;
mod servers_file_error;
mod text_file;
mod variables;

#[cfg(test)]
mod tests;

pub use servers_file_error::{ServerEntryError, ServersFileError};

use entry::EntryContext;
use field_path::FieldPath;
use variables::Variables;

/// The servers that a host's file lists.
///
/// ```
/// use tsugite::client::servers::{ServersFile, ConnectionConfig};
///
/// let text = r#"{
///     "mcpServers": {
///         "files": { "command": "mcp-files", "args": ["${FOLDER:-/srv}"] },
///         "issues": { "type": "http", "url": "https://example.com/mcp", "headers": { "X-Key": "${KEY}" } },
///     }
/// }"#;
/// let file = ServersFile::parse(text, |_variable| None)?;
///
/// let [files, issues] = &file.servers[..] else { panic!() };
/// assert!(matches!(&files.connection, Ok(ConnectionConfig::Command { program, args, .. }) if program == "mcp-files" && args == &["/srv"]));
/// let error = issues.connection.as_ref().unwrap_err();
/// assert_eq!(error.to_string(), "mcpServers.issues.headers.X-Key: the variable KEY is not set");
/// # Ok::<(), tsugite::client::servers::ServersFileError>(())
/// ```
///
/// # Variables
///
/// They are resolved in `command`, `args`, `cwd`, `envFile`, `url`, `serverUrl` and the values of `env`, `headers`, `oauth`
/// and `auth`:
///
/// | written | is |
/// |---|---|
/// | `${VAR}`, `${env:VAR}` | the variable `VAR` |
/// | `${VAR:-default}` | the same, or `default` if it is not set; empty counts as set |
/// | `${input:some-id}` | the variable `MCP_INPUT_SOME_ID`, or the `default` that `inputs` has for it |
/// | `${workspaceFolder}` | the variable `workspaceFolder`, or the folder that the file belongs to |
/// | `${workspaceFolderBasename}` | the last part of that |
/// | `${userHome}` | the variable `userHome`, or else `HOME` (on Windows `USERPROFILE`, or else `HOME`) |
/// | `${pathSeparator}`, `${/}` | `/` |
///
/// A variable that is not set makes its entry fail, where hosts substitute an empty text or the `${VAR}` itself. The
/// value of a variable is not searched for variables, and `$VAR` without braces is not a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias("mcpServers", "MCPConfig"))]
pub struct ServersFile {
    /// The servers in the order of the file. Names are unique.
    pub servers: Vec<ServerEntry>,
}

impl ServersFile {
    /// Reads a file, with the variables of this process. A value that is not UTF-8 counts as not set.
    ///
    /// The file belongs to the folder it is in, or to the parent if that is `.vscode` or `.cursor`. A relative `cwd`
    /// starts there; a relative `envFile` starts at the file.
    ///
    /// This blocks. Fails if the file cannot be read, is larger than 4 MiB, is not UTF-8 or not JSON, or lists no
    /// servers. The error of a single server is in its [`ServerEntry::connection`].
    pub fn read(path: &Path) -> Result<Self, ServersFileError> {
        Self::read_with(path, |name| std::env::var(name).ok())
    }

    /// Reads a file with variables from `lookup`: fewer than those of the process for an untrusted file, which may send
    /// them anywhere, or more if the user can be asked for them.
    pub fn read_with(path: &Path, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ServersFileError> {
        let text = text_file::read(path)?;
        let folder = path::absolute(path).map_err(text_file::TextFileError::from)?;
        let folder = folder.parent().unwrap_or(&folder);
        let workspace = match folder.file_name().and_then(|name| name.to_str()) {
            Some(".vscode" | ".cursor") => folder.parent().unwrap_or(folder),
            _ => folder,
        };
        Self::from_text(&text, &lookup, Some(Folders { file: folder, workspace }))
    }

    /// Parses a text from any source. No file is opened: an entry with an `envFile` fails.
    ///
    /// Fails as [`read`](Self::read) does.
    pub fn parse(text: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ServersFileError> {
        text_file::check_text(text)?;
        Self::from_text(text, &lookup, None)
    }

    fn from_text(
        text: &str,
        lookup: &dyn Fn(&str) -> Option<String>,
        folders: Option<Folders<'_>>,
    ) -> Result<Self, ServersFileError> {
        let root = jsonc::parse(text)?;
        let list = server_list::find(&root)?;
        let variables = Variables::new(lookup, folders.map(|folders| folders.workspace), list.inputs);
        let context = EntryContext { variables, folders, sse_fallback: list.sse_fallback };
        let servers = list.entries.iter().map(|(name, entry)| {
            let field = FieldPath::Member(&list.field, name);
            let (disabled, connection) = entry::read(name, *entry, &field, &context);
            ServerEntry { name: (*name).to_owned(), disabled, connection }
        });
        Ok(Self { servers: servers.collect() })
    }
}

/// One server of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerEntry {
    /// The name in the file.
    pub name: String,
    /// Whether the file disables the server.
    pub disabled: bool,
    /// The way to connect to the server, or the error of the entry.
    pub connection: Result<ConnectionConfig, ServerEntryError>,
}

/// The way to connect to a server.
///
/// Its `Debug` output is safe to log: it omits the values of `env` and `headers`, the arguments, and all of a URL
/// except its host.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionConfig {
    /// A child process with standard input and output as its transport.
    #[non_exhaustive]
    Command {
        /// A name to look up in `PATH`, or a path.
        program: String,
        /// The arguments.
        args: Vec<String>,
        /// The variables added to the environment: those of `envFile`, overridden by `env`. Names are unique.
        env: Vec<(String, String)>,
        /// The variables removed from the environment, where `env` has `null`.
        unset: Vec<String>,
        /// The working directory, if the file sets one.
        cwd: Option<PathBuf>,
    },
    /// An HTTP endpoint.
    #[non_exhaustive]
    Url {
        /// The URL with its variables resolved. It is checked only for whitespace.
        url: String,
        /// The headers of every request. Names and values are valid.
        headers: Vec<(String, String)>,
        /// The transport to use.
        transport: UrlTransport,
        /// How to log in, if the entry says so.
        oauth: Option<OAuthConfig>,
    },
}

impl fmt::Debug for ConnectionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionConfig::Command { program, args, env, unset, cwd } => f
                .debug_struct("Command")
                .field("program", program)
                .field("args", &vec![Redacted; args.len()])
                .field("env", &RedactedPairs(env))
                .field("unset", unset)
                .field("cwd", cwd)
                .finish(),
            ConnectionConfig::Url { url, headers, transport, oauth } => f
                .debug_struct("Url")
                .field("url", &redacted_url(url))
                .field("headers", &RedactedPairs(headers))
                .field("transport", transport)
                .field("oauth", oauth)
                .finish(),
        }
    }
}

/// How to log in to a server: the member `oauth` as Claude Code and VS Code write it, or `auth` as Cursor writes it.
///
/// Its `Debug` output does not show the secret.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuthConfig {
    /// The id of a client that was registered beforehand: `clientId`, or `CLIENT_ID` of `auth`.
    pub client_id: Option<String>,
    /// Its secret: `clientSecret`, or `CLIENT_SECRET` of `auth`.
    pub client_secret: Option<String>,
    /// The port of `http://localhost:PORT/callback`, the redirect URI that the client was registered with: `callbackPort`.
    pub callback_port: Option<u16>,
    /// The scopes to ask for: `scopes`, an array or a text with spaces.
    pub scopes: Option<Vec<String>>,
}

impl fmt::Debug for OAuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthConfig")
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret.as_ref().map(|_| Redacted))
            .field("callback_port", &self.callback_port)
            .field("scopes", &self.scopes)
            .finish()
    }
}

/// The transport of a URL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UrlTransport {
    /// Streamable HTTP, or HTTP+SSE if the server supports nothing else.
    #[default]
    Auto,
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

/// The folders around a file.
#[derive(Clone, Copy)]
struct Folders<'a> {
    /// The folder of the file.
    file: &'a Path,
    /// The folder the file belongs to.
    workspace: &'a Path,
}

/// The names in a list whose values are secret.
struct RedactedPairs<'a>(&'a [(String, String)]);

impl fmt::Debug for RedactedPairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, _)| (name, Redacted))).finish()
    }
}

/// Prints in place of a secret.
#[derive(Clone)]
struct Redacted;

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The part of a URL that holds no secret: neither user nor path nor query.
fn redacted_url(url: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = url.split_once("://") else { return Cow::Borrowed("…") };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/…").into()
}
