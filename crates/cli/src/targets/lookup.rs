//! Looks up a server by name in configuration files.

use std::path::Path;

use tsugite::client::servers::{
    ConnectionConfig, ServerEntry, ServerEntryError, ServersFile, ServersFileError,
};

use super::hosts::{ConfigDirs, ConfigLocation, ConfigSection, HOSTS};
use super::{config_files, is_url};
use crate::edit::Document;
use crate::environment::HOME_VARIABLES;
use crate::error::{CliError, Result};
use crate::options::CommonOptions;
use crate::suggest::did_you_mean;
use crate::trust::{Permit, shell_word};
use crate::url_hints;

/// The name of a server, and the list that contains it.
#[derive(Debug, Clone)]
pub(crate) struct FoundServer {
    pub(crate) name: String,
    pub(crate) location: ConfigLocation,
}

impl FoundServer {
    /// Returns the target that names it from anywhere in the folder, quoted for a shell.
    pub(crate) fn word(&self) -> String {
        shell_word(&format!("{}:{}", self.location.path.display(), self.name))
    }
}

/// Looks up `NAME` in the lists of this program.
pub(super) fn find_by_name(name: &str, folders: &ConfigDirs) -> Result<FoundServer> {
    let hint = match Path::new(name).exists() {
        true => format!("`-- {name}` starts a program"),
        false => super::TARGET_HINT.to_owned(),
    };
    search(name, &folders.own_locations(), Some(hint))
}

/// Looks up `HOST:NAME`.
pub(super) fn find_in_host(host: &str, name: &str, folders: &ConfigDirs) -> Result<FoundServer> {
    match folders.host_locations(host) {
        Some(locations) => {
            let hint = format!("`tsugite config add {name} TARGET --to {host}` adds it");
            search(name, &locations, Some(hint))
        }
        None => {
            let failure = CliError::usage(format!("unknown host `{host}`")).at_step("name");
            let failure = match did_you_mean(host, HOSTS) {
                Some(advice) => failure.hint(advice),
                None => failure,
            };
            let failure = match url_hints::without_scheme(host, name) {
                Some(hint) => failure.hint(hint),
                None => failure,
            };
            Err(failure.hint(format!("the hosts are {}", HOSTS.join(", "))))
        }
    }
}

/// Looks up `FILE.json:NAME`.
pub(super) fn find_in_file(path: &Path, name: &str) -> Result<FoundServer> {
    let location = ConfigLocation { path: path.to_owned(), section: ConfigSection::TopLevel };
    match read_servers(&location, placeholder) {
        Err(error) if error.is_not_found() => {
            Err(CliError::usage(format!("file not found: {}", path.display()))
                .at_step("name")
                .hint(super::TARGET_HINT))
        }
        _ => search(name, &[location], None),
    }
}

/// Returns the error for `FILE.json` without a name.
pub(super) fn missing_name_error(path: &Path) -> CliError {
    let location = ConfigLocation { path: path.to_owned(), section: ConfigSection::TopLevel };
    match read_servers(&location, placeholder) {
        Ok(file) => {
            let names = file.servers.iter().map(|listed| format!("{}:{}", path.display(), listed.name));
            let failure =
                CliError::usage(format!("{} needs the name of a server", path.display())).at_step("name");
            names.take(MAX_SHOWN_NAMES).fold(failure, CliError::hint)
        }
        Err(error) => read_error(&location, &error),
    }
}

/// Returns all enabled servers of a file.
pub(super) fn servers_in_file(path: &Path) -> Result<Vec<FoundServer>> {
    let location = ConfigLocation { path: path.to_owned(), section: ConfigSection::TopLevel };
    let file = read_servers(&location, placeholder).map_err(|error| match error.is_not_found() {
        true => CliError::usage(format!("file not found: {}", path.display())).at_step("name"),
        false => read_error(&location, &error),
    })?;
    let used = file.servers.into_iter().filter(|listed| !listed.disabled);
    Ok(used.map(|listed| FoundServer { name: listed.name, location: location.clone() }).collect())
}

/// Searches lists for a name. `otherwise` is a hint for the error if none has it.
fn search(name: &str, locations: &[ConfigLocation], otherwise: Option<String>) -> Result<FoundServer> {
    let mut searched = String::from("searched");
    let mut names = Vec::new();
    for location in locations {
        let found = match read_servers(location, placeholder) {
            Ok(file) => {
                if file.servers.iter().any(|listed| listed.name == name) {
                    return Ok(FoundServer { name: name.to_owned(), location: location.clone() });
                }
                let others: Vec<String> = file.servers.into_iter().map(|listed| listed.name).collect();
                let found = match others.len() {
                    0 => "no servers".to_owned(),
                    1 => "1 other server".to_owned(),
                    count => format!("{count} other servers"),
                };
                names.extend(others);
                found
            }
            Err(error) if error.is_not_found() => "not found".to_owned(),
            Err(error) if error.has_no_server_list() => "no servers".to_owned(),
            Err(error) => return Err(read_error(location, &error)),
        };
        searched.push_str(&format!("\n{} ({found})", location.describe()));
    }
    let failure = CliError::usage(format!("no server named `{}`", url_hints::redacted(name)))
        .at_step("name")
        .detail(searched);
    let failure = match did_you_mean(name, names.iter().map(String::as_str)) {
        Some(advice) => failure.hint(advice),
        None if names.is_empty() => failure,
        None => {
            // Two locations may be the same file.
            names.sort();
            names.dedup();
            let known: Vec<String> =
                names.iter().take(MAX_SHOWN_NAMES).map(|name| format!("`{name}`")).collect();
            failure.hint(format!("the servers are {}", known.join(", ")))
        }
    };
    Err(otherwise.into_iter().fold(failure, CliError::hint))
}

/// Returns the connection of an entry with its variables expanded: those that the permit allows.
pub(crate) fn connection(
    found: &FoundServer,
    permit: &Permit,
    common: &CommonOptions,
) -> Result<ConnectionConfig> {
    let listed = read_entry(found, |name| {
        let given = common.env.iter().rev().find(|(given, _)| given == name);
        let value = given.and_then(|(_, value)| value.clone()).or_else(|| std::env::var(name).ok());
        value.filter(|_| permit.allows_variable(name))
    })?;
    permit.ensure_unchanged(found)?;
    if listed.disabled {
        tracing::info!(name = listed.name, "the server is disabled in its configuration file");
    }
    match listed.connection {
        Ok(ConnectionConfig::Url { ref url, .. }) if !is_url(url).unwrap_or_default() => {
            let message = "the URL must begin with http://, https:// or unix:";
            let opened = config_files::open(&found.location).ok().flatten();
            let wrong = opened.map(|opened| opened.url_error(&found.name, message).to_string());
            Err(invalid_entry(found, wrong.unwrap_or_else(|| message.to_owned())))
        }
        Ok(config) => Ok(config),
        Err(wrong) => Err(entry_error(found, &wrong)),
    }
}

/// Returns the connection of an entry with its variables as they are written. Fails if the entry is invalid.
pub(crate) fn read_unexpanded(found: &FoundServer) -> Result<ConnectionConfig> {
    read_unexpanded_entry(found)?.map_err(|wrong| entry_error(found, &wrong))
}

/// Returns the same, or the error of the entry.
pub(crate) fn read_unexpanded_entry(
    found: &FoundServer,
) -> Result<Result<ConnectionConfig, ServerEntryError>> {
    Ok(read_entry(found, placeholder)?.connection)
}

/// Reads an entry again.
fn read_entry(found: &FoundServer, lookup: impl Fn(&str) -> Option<String>) -> Result<ServerEntry> {
    let file = read_servers(&found.location, lookup).map_err(|error| read_error(&found.location, &error))?;
    let listed = file.servers.into_iter().find(|listed| listed.name == found.name);
    listed.ok_or_else(|| invalid_entry(found, "the entry was removed in the meantime".to_owned()))
}

/// Replaces a variable by a reference to it, for an entry that may not read variables.
///
/// Those of the folder and of the home folder are resolved: they lead to an `envFile`.
fn placeholder(name: &str) -> Option<String> {
    match name {
        "workspaceFolder" | "userHome" => None,
        home if HOME_VARIABLES.contains(&home) => std::env::var(home).ok(),
        _ => Some(format!("${{{name}}}")),
    }
}

/// Returns the error of an entry, with its line.
fn entry_error(found: &FoundServer, wrong: &ServerEntryError) -> CliError {
    let opened = config_files::open(&found.location).ok().flatten();
    let detail = opened.map(|opened| opened.locate_error(wrong).to_string());
    let failure = invalid_entry(found, detail.unwrap_or_else(|| wrong.to_string()));
    match wrong.unset_variable() {
        Some(variable) => failure.hint(format!("-e {variable}=VALUE sets it")),
        None => failure.hint("`tsugite config doctor` checks all configuration files"),
    }
}

fn invalid_entry(found: &FoundServer, detail: String) -> CliError {
    CliError::usage(format!("invalid entry `{}` in {}", found.name, found.location.describe()))
        .at_step("name")
        .detail(detail)
}

fn read_error(location: &ConfigLocation, error: &ServersFileError) -> CliError {
    let wrong = config_files::open(location).err().map(|wrong| wrong.to_string());
    let failure = CliError::usage(format!("cannot read {}", location.describe())).at_step("name");
    failure.detail(wrong.unwrap_or_else(|| error.to_string()))
}

/// Reads a list. Of `.claude.json` only the section is parsed as a server list.
pub(crate) fn read_servers(
    location: &ConfigLocation,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<ServersFile, ServersFileError> {
    let path = match &location.section {
        ConfigSection::TopLevel => return ServersFile::read_with(&location.path, lookup),
        ConfigSection::ClaudeUser => vec!["mcpServers"],
        // A folder whose name is not UTF-8 has no list.
        ConfigSection::ClaudeProject(project) => {
            vec!["projects", project.to_str().unwrap_or_default(), "mcpServers"]
        }
    };
    // `ServersFile` reports an error of the file itself.
    let text = std::fs::read_to_string(&location.path).ok().map(Document::parse);
    let Some(Ok(document)) = text else { return ServersFile::read_with(&location.path, lookup) };
    let text = match document.find(&path) {
        Ok(Some(list)) => format!("{{\"mcpServers\":{}}}", document.text_of(list)),
        _ => "{}".to_owned(),
    };
    ServersFile::parse(&text, lookup)
}

/// Names to show in an error.
const MAX_SHOWN_NAMES: usize = 10;
