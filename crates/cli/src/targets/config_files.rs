//! The lists of servers as they stand in their files, with the line of everything in them.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use tsugite::client::servers::{ServerEntry, ServerEntryError};

use super::hosts::{ConfigDirs, ConfigLocation, ConfigSection};
use super::lookup;
use crate::edit::save::OriginalFile;
use crate::edit::{Document, EditError, JsonSyntaxError, Member, Node, NodeKind, field_path};
use crate::error::CliError;

/// A list, and those who read it.
pub(crate) struct ServerList {
    pub(crate) location: ConfigLocation,
    pub(crate) hosts: Vec<&'static str>,
    pub(crate) file: Result<ConfigFile, ConfigFileError>,
}

/// A file that was read.
pub(crate) struct ConfigFile {
    pub(crate) document: Document,
    /// The names on the way to the list; `None` if there is none.
    pub(crate) list_path: Option<Vec<String>>,
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ConfigFileError {
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
    pub(crate) field: Option<String>,
    pub(crate) message: String,
}

/// A server of a list.
pub(crate) struct ListedServer<'a> {
    pub(crate) member: &'a Member,
    pub(crate) disabled: bool,
    /// Why it cannot be used, if it cannot.
    pub(crate) error: Option<ServerEntryError>,
    pub(crate) endpoint: Option<tsugite::client::servers::ConnectionConfig>,
}

/// Every list of a file that is there.
pub(crate) fn all_lists() -> Vec<ServerList> {
    let all = ConfigDirs::from_env().all_locations().into_iter();
    let read = all.filter_map(|(place, hosts)| {
        let file = open(&place).transpose()?;
        Some(ServerList { location: place, hosts, file })
    });
    let mut listings: Vec<ServerList> = read.collect();
    // A project that Claude Code knows nothing of is no list, and what is wrong with its file is told once.
    let wrong: Vec<ConfigFileError> = listings
        .iter()
        .filter(|listing| listing.location.section == ConfigSection::ClaudeUser)
        .filter_map(|listing| listing.file.as_ref().err().cloned())
        .collect();
    listings.retain(|listing| match (&listing.location.section, &listing.file) {
        (ConfigSection::ClaudeProject(_), Ok(opened)) => opened.list_path.is_some(),
        (ConfigSection::ClaudeProject(_), Err(error)) => !wrong.contains(error),
        _ => true,
    });
    listings
}

/// Reads the file of a list; `None` if there is no such file.
pub(crate) fn open(place: &ConfigLocation) -> Result<Option<ConfigFile>, ConfigFileError> {
    let original = OriginalFile::read(&place.path)?;
    let Some(text) = original.text() else { return Ok(None) };
    let document = Document::parse(text.to_owned())?;
    let path = list_path(&document, &place.section)?;
    if let Some(path) = &path {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        if let Some(node) = document.find(&names)? {
            // Only objects have members.
            document.member(node, "", &names)?;
        }
    }
    Ok(Some(ConfigFile { document, list_path: path }))
}

/// Where the list stands in a file.
pub(crate) fn list_path(document: &Document, part: &ConfigSection) -> Result<Option<Vec<String>>, EditError> {
    let there = |path: &[&str]| document.find(path).map(|found| found.map(|node| node.start));
    let owned = |path: &[&str]| path.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    match part {
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
                        let says = format!(
                            "there is `{}` too, and only one of them can be meant",
                            field_path(before)
                        );
                        return Err(EditError {
                            line: document.line_number(at),
                            field: field_path(path),
                            message: says,
                        });
                    }
                }
            }
            Ok(found.map(owned))
        }
    }
}

impl ConfigFile {
    /// The names on the way to the list.
    pub(crate) fn list_names(&self) -> Vec<&str> {
        self.list_path.iter().flatten().map(String::as_str).collect()
    }

    /// The list itself.
    pub(crate) fn list(&self) -> Option<&Node> {
        self.list_path.as_ref()?;
        self.document.find(&self.list_names()).ok().flatten()
    }

    /// Its servers, each name once, with what the reader of such files says of them.
    pub(crate) fn servers(&self, place: &ConfigLocation) -> Result<Vec<ListedServer<'_>>, ConfigFileError> {
        let said = match lookup::read_servers(place, |name| std::env::var(name).ok()) {
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
            // Whoever changed the file just now is not waited for.
            let Some(ServerEntry { disabled, connection: way, .. }) =
                said.iter().find(|listed| listed.name == member.name).cloned()
            else {
                continue;
            };
            let (wrong, way) = match way {
                Ok(way) => (None, Some(way)),
                Err(wrong) => (Some(wrong), None),
            };
            servers.push(ListedServer { member, disabled, error: wrong, endpoint: way });
        }
        Ok(servers)
    }

    /// What is wrong with an entry, with its line and its field as the file has it.
    pub(crate) fn locate_error(&self, entry: &ServerEntryError) -> ConfigFileError {
        let whole = entry.to_string();
        let message = whole.strip_prefix(entry.field()).and_then(|rest| rest.strip_prefix(": "));
        let message = message.unwrap_or(&whole).to_owned();
        let names = self.list_names();
        // The reader of files has seen only the list.
        let known =
            if names.first() == Some(&"projects") { "mcpServers".to_owned() } else { field_path(&names) };
        let at = self.list().and_then(|list| locate(list, &known, entry.field()));
        let shown = entry.field().strip_prefix(&known).map(|rest| format!("{}{rest}", field_path(&names)));
        let field = Some(shown.unwrap_or_else(|| entry.field().to_owned()));
        ConfigFileError { line: at.map(|at| self.document.line_number(at)), column: None, field, message }
    }

    /// What is wrong with the URL of a server.
    pub(crate) fn url_error(&self, name: &str, says: &str) -> ConfigFileError {
        let servers = self.list().map(Node::members).unwrap_or_default();
        let members =
            servers.iter().filter(|server| server.name == name).flat_map(|server| server.value.members());
        let url = members.into_iter().find(|member| ["url", "serverUrl"].contains(&member.name.as_str()));
        let path: Vec<&str> =
            self.list_names().into_iter().chain([name]).chain(url.map(|url| url.name.as_str())).collect();
        let line = url.map(|url| self.document.line_number(url.start));
        ConfigFileError { line, column: None, field: Some(field_path(&path)), message: says.to_owned() }
    }
}

/// Where the part with this field begins.
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
    /// As a failure of a verb that needs the file.
    pub(crate) fn to_cli_error(&self, place: &ConfigLocation) -> CliError {
        CliError::usage(format!("{} cannot be read", place.describe()))
            .at_step("read")
            .detail(self.to_string())
    }
}

/// Where, and what.
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
    fn from(JsonSyntaxError { line, column, field, message: says }: JsonSyntaxError) -> Self {
        Self { line: Some(line), column: Some(column), field, message: says.to_owned() }
    }
}

impl From<EditError> for ConfigFileError {
    fn from(EditError { line, field, message: says }: EditError) -> Self {
        Self { line: Some(line), column: None, field: Some(field), message: says }
    }
}

impl From<CliError> for ConfigFileError {
    fn from(failure: CliError) -> Self {
        Self { message: failure.detail.unwrap_or(failure.message), ..Self::default() }
    }
}

/// The file of a place, as the system knows it.
pub(crate) fn absolute_path(place: &ConfigLocation) -> PathBuf {
    std::path::absolute(&place.path).unwrap_or_else(|_| place.path.clone())
}

/// The lists a file may have, of which it has one.
const LIST_PATHS: [&[&str]; 3] = [&["mcpServers"], &["servers"], &["mcp", "servers"]];
