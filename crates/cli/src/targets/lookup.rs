//! Looks up a server by name in configuration files.

use std::path::Path;

use tsugite::client::servers::{ConnectionConfig, ServerEntry, ServersFile, ServersFileError};

use super::hosts::{ConfigDirs, ConfigLocation, ConfigSection, HOSTS};
use super::{config_files, is_url};
use crate::edit::Document;
use crate::error::{CliError, Result};
use crate::options::CommonOptions;
use crate::suggest::did_you_mean;
use crate::url_hints;

/// A server entry, and the list that contains it.
pub(crate) type FoundServer = (ServerEntry, ConfigLocation);

/// Looks up `NAME` in the lists of this program.
pub(super) fn find_by_name(name: &str, folders: &ConfigDirs, common: &CommonOptions) -> Result<FoundServer> {
    let hint = match Path::new(name).exists() {
        true => format!("`-- {name}` starts a program"),
        false => super::TARGET_HINT.to_owned(),
    };
    search(name, &folders.own_locations(), common, Some(hint))
}

/// Looks up `HOST:NAME`.
pub(super) fn find_in_host(
    host: &str,
    name: &str,
    folders: &ConfigDirs,
    common: &CommonOptions,
) -> Result<FoundServer> {
    match folders.host_locations(host) {
        Some(locations) => {
            let hint = format!("`tsugite config add {name} TARGET --to {host}` adds it");
            search(name, &locations, common, Some(hint))
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
pub(super) fn find_in_file(path: &Path, name: &str, common: &CommonOptions) -> Result<FoundServer> {
    let location = ConfigLocation { path: path.to_owned(), section: ConfigSection::TopLevel };
    match read_list(&location, common) {
        Err(error) if error.is_not_found() => {
            Err(CliError::usage(format!("file not found: {}", path.display()))
                .at_step("name")
                .hint(super::TARGET_HINT))
        }
        _ => search(name, &[location], common, None),
    }
}

/// Returns the error for `FILE.json` without a name.
pub(super) fn missing_name_error(path: &Path, common: &CommonOptions) -> CliError {
    let location = ConfigLocation { path: path.to_owned(), section: ConfigSection::TopLevel };
    match read_list(&location, common) {
        Ok(file) => {
            let names = file.servers.iter().map(|listed| format!("{}:{}", path.display(), listed.name));
            let failure =
                CliError::usage(format!("{} needs the name of a server", path.display())).at_step("name");
            names.take(MAX_SHOWN_NAMES).fold(failure, CliError::hint)
        }
        Err(error) => read_error(&location, &error),
    }
}

/// Returns all enabled servers of a file by name: the connection, or the error of the entry.
pub(super) fn servers_in_file(
    path: &Path,
    common: &CommonOptions,
) -> Result<Vec<(String, Result<ConnectionConfig>)>> {
    let location = ConfigLocation { path: path.to_owned(), section: ConfigSection::TopLevel };
    let file = read_list(&location, common).map_err(|error| match error.is_not_found() {
        true => CliError::usage(format!("file not found: {}", path.display())).at_step("name"),
        false => read_error(&location, &error),
    })?;
    let used = file.servers.into_iter().filter(|listed| !listed.disabled);
    Ok(used.map(|listed| (listed.name.clone(), ensure_usable((listed, location.clone())))).collect())
}

/// Searches lists for a name. `otherwise` is a hint for the error if none has it.
fn search(
    name: &str,
    locations: &[ConfigLocation],
    common: &CommonOptions,
    otherwise: Option<String>,
) -> Result<FoundServer> {
    let mut searched = String::from("searched");
    let mut names = Vec::new();
    for location in locations {
        let found = match read_list(location, common) {
            Ok(file) => {
                let (mut hit, mut others) = (None, Vec::new());
                for listed in file.servers {
                    match listed.name == name {
                        true => hit = Some(listed),
                        false => others.push(listed.name),
                    }
                }
                if let Some(listed) = hit {
                    return Ok((listed, location.clone()));
                }
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

/// Returns the connection of an entry, or the error that makes it unusable.
pub(super) fn ensure_usable((listed, location): FoundServer) -> Result<ConnectionConfig> {
    if listed.disabled {
        tracing::info!(name = listed.name, "the server is disabled in its configuration file");
    }
    // For the line number of an error.
    let opened = config_files::open(&location).ok().flatten();
    let unusable = |detail: String| {
        CliError::usage(format!("invalid entry `{}` in {}", listed.name, location.describe()))
            .at_step("name")
            .detail(detail)
    };
    match listed.connection {
        Ok(ConnectionConfig::Url { ref url, .. }) if !is_url(url).unwrap_or_default() => {
            let message = "the URL must begin with http://, https:// or unix:";
            let wrong = opened.map(|opened| opened.url_error(&listed.name, message).to_string());
            Err(unusable(wrong.unwrap_or_else(|| message.to_owned())))
        }
        Ok(config) => Ok(config),
        Err(wrong) => {
            let detail = opened.map(|opened| opened.locate_error(&wrong).to_string());
            let failure = unusable(detail.unwrap_or_else(|| wrong.to_string()));
            Err(match wrong.unset_variable() {
                Some(variable) => failure.hint(format!("-e {variable}=VALUE sets it")),
                None => failure.hint("`tsugite config doctor` checks all configuration files"),
            })
        }
    }
}

fn read_error(location: &ConfigLocation, error: &ServersFileError) -> CliError {
    let wrong = config_files::open(location).err().map(|wrong| wrong.to_string());
    let failure = CliError::usage(format!("cannot read {}", location.describe())).at_step("name");
    failure.detail(wrong.unwrap_or_else(|| error.to_string()))
}

/// Reads a list. Variables given with `-e` override the environment.
fn read_list(location: &ConfigLocation, common: &CommonOptions) -> Result<ServersFile, ServersFileError> {
    let lookup = |name: &str| {
        let given = common.env.iter().rev().find(|(given, _)| given == name);
        given.and_then(|(_, value)| value.clone()).or_else(|| std::env::var(name).ok())
    };
    read_servers(location, lookup)
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
