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
mod jsonc;
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
/// assert!(matches!(&files.way, Ok(ConnectionConfig::Command { program, args, .. }) if program == "mcp-files" && args == &["/srv"]));
/// let wrong = issues.way.as_ref().unwrap_err();
/// assert_eq!(wrong.to_string(), "mcpServers.issues.headers.X-Key: the variable KEY is not set");
/// # Ok::<(), tsugite::client::servers::ServersFileError>(())
/// ```
///
/// # Variables
///
/// They are resolved in `command`, `args`, `cwd`, `envFile`, `url`, `serverUrl` and the values of `env` and `headers`:
///
/// | written | is |
/// |---|---|
/// | `${VAR}`, `${env:VAR}` | the variable `VAR` |
/// | `${VAR:-default}` | the same, or `default` if it is not set; empty counts as set |
/// | `${input:some-id}` | the variable `MCP_INPUT_SOME_ID`, or the `default` that `inputs` has for it |
/// | `${workspaceFolder}` | the variable `workspaceFolder`, or the folder that the file belongs to |
/// | `${workspaceFolderBasename}` | the last part of that |
/// | `${userHome}` | the variable `userHome`, or else `HOME` |
/// | `${pathSeparator}`, `${/}` | `/` |
///
/// One that is not set makes its entry fail, where hosts pass on an empty text or the `${VAR}` itself. What a variable
/// holds is not searched for variables, and `$VAR` without braces is no variable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServersFile {
    /// In the order of the file. No name is there twice.
    pub servers: Vec<ServerEntry>,
}

impl ServersFile {
    /// Reads a file, with the variables of this process. A value that is not UTF-8 counts as not set.
    ///
    /// The file belongs to the folder it lies in, or to the one above if that is `.vscode` or `.cursor`. A `cwd` that
    /// is relative begins there, and an `envFile` that is relative where the file itself lies.
    ///
    /// It blocks. Fails if the file cannot be read, is larger than 4 MiB, is not UTF-8 or no JSON, or lists no
    /// servers. What is wrong with a single server is said by its [`ServerEntry::connection`].
    pub fn read(path: &Path) -> Result<Self, ServersFileError> {
        Self::read_with(path, |name| std::env::var(name).ok())
    }

    /// The same, with variables from elsewhere: fewer of them if the file is not trusted with all, since it may send
    /// them anywhere; more of them if somebody can be asked.
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

    /// Reads a text that may have come from anywhere. No file is opened: an entry with an `envFile` fails.
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
        let place = EntryContext { variables, folders, sse_fallback: list.sse_fallback };
        let servers = list.entries.iter().map(|(name, entry)| {
            let field = FieldPath::Member(&list.field, name);
            let (disabled, way) = entry::read(name, *entry, &field, &place);
            ServerEntry { name: (*name).to_owned(), disabled, connection: way }
        });
        Ok(Self { servers: servers.collect() })
    }
}

/// One server of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerEntry {
    /// What the file calls it.
    pub name: String,
    /// Whether the file says that it is not to be used.
    pub disabled: bool,
    /// How to reach it, or why that cannot be told.
    pub connection: Result<ConnectionConfig, ServerEntryError>,
}

/// How to reach a server.
///
/// What it shows with `{:?}` is fit for a log: no values of `env` and `headers`, no arguments, nothing of a URL but its
/// host.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionConfig {
    /// A process that speaks over its standard input and output.
    #[non_exhaustive]
    Command {
        /// A name to be looked for in `PATH`, or a path.
        program: String,
        /// What follows it.
        args: Vec<String>,
        /// What is added to its environment: that of `envFile`, with `env` above it. No name is there twice.
        env: Vec<(String, String)>,
        /// What is taken from its environment, where `env` has `null`.
        unset: Vec<String>,
        /// Where it runs, if the file says so.
        cwd: Option<PathBuf>,
    },
    /// An HTTP endpoint.
    #[non_exhaustive]
    Url {
        /// As the file has it, with its variables resolved. Not looked at further than for blanks.
        url: String,
        /// To be sent with every request. What stands here may stand in a header.
        headers: Vec<(String, String)>,
        /// What to speak there.
        transport: UrlTransport,
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
            ConnectionConfig::Url { url, headers, transport } => f
                .debug_struct("Url")
                .field("url", &redacted_url(url))
                .field("headers", &RedactedPairs(headers))
                .field("transport", transport)
                .finish(),
        }
    }
}

/// What is spoken at a URL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UrlTransport {
    /// To be found out: Streamable HTTP, or else HTTP+SSE.
    #[default]
    Auto,
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP+SSE, as it was in 2024-11-05.
    Sse,
}

/// The folders around a file.
#[derive(Clone, Copy)]
struct Folders<'a> {
    /// Where the file lies.
    file: &'a Path,
    /// What it belongs to.
    workspace: &'a Path,
}

/// The names in a list whose values are secret.
struct RedactedPairs<'a>(&'a [(String, String)]);

impl fmt::Debug for RedactedPairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, _)| (name, Redacted))).finish()
    }
}

/// Stands for a secret.
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
