//! Reads the server lists in configuration files, with line numbers.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use tsugite::client::servers::{ServerEntry, ServerEntryError};

use super::hosts::{ConfigDirs, ConfigLocation, ConfigSection};
use super::lookup;
use crate::edit::save::OriginalFile;
use crate::edit::{Document, EditError, JsonSyntaxError, Member, Node, NodeKind, field_path};
use crate::error::CliError;

/// A server list, and the hosts that read it.
pub(crate) struct ServerList {
    pub(crate) location: ConfigLocation,
    pub(crate) hosts: Vec<&'static str>,
    pub(crate) file: Result<ConfigFile, ConfigFileError>,
}

/// A parsed configuration file.
pub(crate) struct ConfigFile {
    pub(crate) document: Document,
    /// The path of member names to the list; `None` if the file has no list.
    pub(crate) list_path: Option<Vec<String>>,
}

/// An error in a file, and its position.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ConfigFileError {
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
    pub(crate) field: Option<String>,
    pub(crate) message: String,
}

/// A server in a list.
pub(crate) struct ListedServer<'a> {
    pub(crate) member: &'a Member,
    pub(crate) disabled: bool,
    /// Why the entry is invalid.
    pub(crate) error: Option<ServerEntryError>,
    pub(crate) endpoint: Option<tsugite::client::servers::ConnectionConfig>,
}

/// Returns every list whose file exists.
pub(crate) fn all_lists() -> Vec<ServerList> {
    let all = ConfigDirs::from_env().all_locations().into_iter();
    let read = all.filter_map(|(location, hosts)| {
        let file = open(&location).transpose()?;
        Some(ServerList { location, hosts, file })
    });
    let mut lists: Vec<ServerList> = read.collect();
    // Skip projects that Claude Code does not list, and report an error of its file only once.
    let wrong: Vec<ConfigFileError> = lists
        .iter()
        .filter(|list| list.location.section == ConfigSection::ClaudeUser)
        .filter_map(|list| list.file.as_ref().err().cloned())
        .collect();
    lists.retain(|list| match (&list.location.section, &list.file) {
        (ConfigSection::ClaudeProject(_), Ok(opened)) => opened.list_path.is_some(),
        (ConfigSection::ClaudeProject(_), Err(error)) => !wrong.contains(error),
        _ => true,
    });
    lists
}

/// Reads the file of a list; `None` if the file does not exist.
pub(crate) fn open(location: &ConfigLocation) -> Result<Option<ConfigFile>, ConfigFileError> {
    let original = OriginalFile::read(&location.path)?;
    let Some(text) = original.text() else { return Ok(None) };
    let document = Document::parse(text.to_owned())?;
    let path = list_path(&document, &location.section)?;
    if let Some(path) = &path {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        if let Some(node) = document.find(&names)? {
            // Fails unless the list is an object.
            document.member(node, "", &names)?;
        }
    }
    Ok(Some(ConfigFile { document, list_path: path }))
}

/// Returns the path of the list in a file.
pub(crate) fn list_path(
    document: &Document,
    section: &ConfigSection,
) -> Result<Option<Vec<String>>, EditError> {
    let there = |path: &[&str]| document.find(path).map(|found| found.map(|node| node.start));
    let owned = |path: &[&str]| path.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    match section {
        ConfigSection::ClaudeUser => Ok(there(&["mcpServers"])?.map(|_| owned(&["mcpServers"]))),
        ConfigSection::ClaudeProject(project) => {
            let path = ["projects", project.to_str().unwrap_or_default(), "mcpServers"];
            Ok(there(&path)?.map(|_| owned(&path)))
        }
        ConfigSection::TopLevel => {
            let settings =
                document.find(&["mcp"])?.is_some_and(|node| matches!(node.kind, NodeKind::Object(_)));
            let lists = LIST_PATHS.iter().filter(|path| settings || path.len() == 1);
            let mut found: Option<&[&str]> = None;
            for path in lists {
                match (there(path)?, found) {
                    (None, _) => {}
                    (Some(_), None) => found = Some(path),
                    (Some(at), Some(before)) => {
                        let message =
                            format!("the file also has `{}`; keep only one of them", field_path(before));
                        return Err(EditError {
                            line: document.line_number(at),
                            field: field_path(path),
                            message,
                        });
                    }
                }
            }
            Ok(found.map(owned))
        }
    }
}

impl ConfigFile {
    /// Returns the path of member names to the list.
    pub(crate) fn list_names(&self) -> Vec<&str> {
        self.list_path.iter().flatten().map(String::as_str).collect()
    }

    /// Returns the list.
    pub(crate) fn list(&self) -> Option<&Node> {
        self.list_path.as_ref()?;
        self.document.find(&self.list_names()).ok().flatten()
    }

    /// Returns the servers of the list, each name once, with the result of parsing its entry.
    pub(crate) fn servers(
        &self,
        location: &ConfigLocation,
    ) -> Result<Vec<ListedServer<'_>>, ConfigFileError> {
        let entries = match lookup::read_servers(location, |name| std::env::var(name).ok()) {
            Ok(file) => file.servers,
            Err(error) if error.has_no_server_list() || error.is_not_found() => Vec::new(),
            Err(error) => {
                return Err(ConfigFileError { message: error.to_string(), ..ConfigFileError::default() });
            }
        };
        let mut servers: Vec<ListedServer<'_>> = Vec::new();
        for member in self.list().map(Node::members).unwrap_or_default() {
            if servers.iter().any(|server| server.member.name == member.name) {
                continue;
            }
            // Skip an entry that was removed since the document was read.
            let Some(ServerEntry { disabled, connection, .. }) =
                entries.iter().find(|listed| listed.name == member.name).cloned()
            else {
                continue;
            };
            let (error, endpoint) = match connection {
                Ok(endpoint) => (None, Some(endpoint)),
                Err(error) => (Some(error), None),
            };
            servers.push(ListedServer { member, disabled, error, endpoint });
        }
        Ok(servers)
    }

    /// Adds the line and the full field path to the error of an entry.
    pub(crate) fn locate_error(&self, entry: &ServerEntryError) -> ConfigFileError {
        let whole = entry.to_string();
        let message = whole.strip_prefix(entry.field()).and_then(|rest| rest.strip_prefix(": "));
        let message = message.unwrap_or(&whole).to_owned();
        let names = self.list_names();
        // The parser of entries was given only the list.
        let known =
            if names.first() == Some(&"projects") { "mcpServers".to_owned() } else { field_path(&names) };
        let at = self.list().and_then(|list| locate(list, &known, entry.field()));
        let shown = entry.field().strip_prefix(&known).map(|rest| format!("{}{rest}", field_path(&names)));
        let field = Some(shown.unwrap_or_else(|| entry.field().to_owned()));
        ConfigFileError { line: at.map(|at| self.document.line_number(at)), column: None, field, message }
    }

    /// Returns an error for the URL of a server.
    pub(crate) fn url_error(&self, name: &str, message: &str) -> ConfigFileError {
        let servers = self.list().map(Node::members).unwrap_or_default();
        let members =
            servers.iter().filter(|server| server.name == name).flat_map(|server| server.value.members());
        let url = members.into_iter().find(|member| ["url", "serverUrl"].contains(&member.name.as_str()));
        let path: Vec<&str> =
            self.list_names().into_iter().chain([name]).chain(url.map(|url| url.name.as_str())).collect();
        let line = url.map(|url| self.document.line_number(url.start));
        ConfigFileError { line, column: None, field: Some(field_path(&path)), message: message.to_owned() }
    }
}

/// Returns the offset of the node with this field path.
fn locate(node: &Node, own: &str, wanted: &str) -> Option<usize> {
    if own == wanted {
        return Some(node.start);
    }
    let inside = |at: usize, name: String, value: &Node| {
        let rest = wanted.strip_prefix(&name)?;
        let within = rest.is_empty() || rest.starts_with(['.', '[']);
        within.then(|| if rest.is_empty() { at } else { locate(value, &name, wanted).unwrap_or(at) })
    };
    match &node.kind {
        NodeKind::Object(members) => members.iter().find_map(|member| {
            let rest = field_path(&[&member.name]);
            let dot = if rest.starts_with('[') { "" } else { "." };
            inside(member.start, format!("{own}{dot}{rest}"), &member.value)
        }),
        NodeKind::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(number, item)| inside(item.start, format!("{own}[{number}]"), item)),
        _ => None,
    }
}

impl ConfigFileError {
    /// Converts it to the error of a verb that needs the file.
    pub(crate) fn to_cli_error(&self, location: &ConfigLocation) -> CliError {
        CliError::usage(format!("cannot read {}", location.describe()))
            .at_step("read")
            .detail(self.to_string())
    }
}

/// Formats the position, then the message.
impl fmt::Display for ConfigFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line.map(|line| format!("line {line}"));
        let column = self.column.map(|column| format!("column {column}"));
        let parts: Vec<String> = [line, column, self.field.clone()].into_iter().flatten().collect();
        match parts.is_empty() {
            true => f.write_str(&self.message),
            false => write!(f, "{}: {}", parts.join(", "), self.message),
        }
    }
}

impl From<JsonSyntaxError> for ConfigFileError {
    fn from(JsonSyntaxError { line, column, field, message }: JsonSyntaxError) -> Self {
        Self { line: Some(line), column: Some(column), field, message: message.to_owned() }
    }
}

impl From<EditError> for ConfigFileError {
    fn from(EditError { line, field, message }: EditError) -> Self {
        Self { line: Some(line), column: None, field: Some(field), message }
    }
}

impl From<CliError> for ConfigFileError {
    fn from(failure: CliError) -> Self {
        Self { message: failure.detail.unwrap_or(failure.message), ..Self::default() }
    }
}

/// Returns the absolute path of a file.
pub(crate) fn absolute_path(location: &ConfigLocation) -> PathBuf {
    std::path::absolute(&location.path).unwrap_or_else(|_| location.path.clone())
}

/// The paths at which a file may have its list. A file may use only one of them.
const LIST_PATHS: [&[&str]; 3] = [&["mcpServers"], &["servers"], &["mcp", "servers"]];
