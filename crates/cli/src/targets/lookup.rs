//! A server that some file lists under a name.

use std::path::Path;

use tsugite::client::servers::{ConnectionConfig, ServerEntry, ServersFile, ServersFileError};

use super::hosts::{ConfigDirs, ConfigLocation, ConfigSection, HOSTS};
use super::{config_files, is_url};
use crate::edit::Document;
use crate::error::{CliError, Result};
use crate::options::CommonOptions;
use crate::suggest::did_you_mean;

/// What a file says under a name, and which list it stands in.
pub(crate) type FoundServer = (ServerEntry, ConfigLocation);

/// A name without anything before it.
pub(super) fn find_by_name(name: &str, folders: &ConfigDirs, common: &CommonOptions) -> Result<FoundServer> {
    let hint = match Path::new(name).exists() {
        true => format!("`-- {name}` starts a program"),
        false => super::TARGET_HINT.to_owned(),
    };
    search(name, &folders.own_locations(), common, Some(hint))
}

/// `HOST:MCP_NAME`.
pub(super) fn find_in_host(
    host: &str,
    name: &str,
    folders: &ConfigDirs,
    common: &CommonOptions,
) -> Result<FoundServer> {
    match folders.host_locations(host) {
        Some(places) => {
            let hint = format!("`tsugite config add {name} TARGET --to {host}` writes one there");
            search(name, &places, common, Some(hint))
        }
        None => {
            let failure = CliError::usage(format!("no host is known as `{host}`")).at_step("name");
            let failure = match did_you_mean(host, HOSTS) {
                Some(advice) => failure.hint(advice),
                None => failure,
            };
            let port = name.split('/').next().unwrap_or(name);
            let failure = match port.parse::<u16>() {
                Ok(_) => failure.hint(format!("a URL begins with http:// or https://: http://{host}:{name}")),
                Err(_) => failure,
            };
            Err(failure.hint(format!("known are {}", HOSTS.join(", "))))
        }
    }
}

/// `FILE_FLAGS.json:MCP_NAME`.
pub(super) fn find_in_file(path: &Path, name: &str, common: &CommonOptions) -> Result<FoundServer> {
    let place = ConfigLocation { path: path.to_owned(), section: ConfigSection::TopLevel };
    match read_list(&place, common) {
        Err(error) if error.is_not_found() => {
            Err(CliError::usage(format!("there is no file {}", path.display()))
                .at_step("name")
                .hint(super::TARGET_HINT))
        }
        _ => search(name, &[place], common, None),
    }
}

/// A file alone, which says too little.
pub(super) fn missing_name_error(path: &Path, common: &CommonOptions) -> CliError {
    let place = ConfigLocation { path: path.to_owned(), section: ConfigSection::TopLevel };
    match read_list(&place, common) {
        Ok(file) => {
            let names = file.servers.iter().map(|listed| format!("{}:{}", path.display(), listed.name));
            let failure = CliError::usage(format!("which server of {}?", path.display())).at_step("name");
            names.take(MAX_SHOWN_NAMES).fold(failure, CliError::hint)
        }
        Err(error) => read_error(&place, &error),
    }
}

/// All servers of a file, with their names: each as it is reached, or what is wrong with it.
pub(super) fn servers_in_file(
    path: &Path,
    common: &CommonOptions,
) -> Result<Vec<(String, Result<ConnectionConfig>)>> {
    let place = ConfigLocation { path: path.to_owned(), section: ConfigSection::TopLevel };
    let file = read_list(&place, common).map_err(|error| match error.is_not_found() {
        true => CliError::usage(format!("there is no file {}", path.display())).at_step("name"),
        false => read_error(&place, &error),
    })?;
    let used = file.servers.into_iter().filter(|listed| !listed.disabled);
    Ok(used.map(|listed| (listed.name.clone(), ensure_usable((listed, place.clone())))).collect())
}

/// Looks through lists; `otherwise` is what to try if it stands in none.
fn search(
    name: &str,
    places: &[ConfigLocation],
    common: &CommonOptions,
    otherwise: Option<String>,
) -> Result<FoundServer> {
    let mut looked = String::from("looked in");
    let mut names = Vec::new();
    for place in places {
        let found = match read_list(place, common) {
            Ok(file) => {
                let (mut hit, mut others) = (None, Vec::new());
                for listed in file.servers {
                    match listed.name == name {
                        true => hit = Some(listed),
                        false => others.push(listed.name),
                    }
                }
                if let Some(listed) = hit {
                    return Ok((listed, place.clone()));
                }
                let found = match others.len() {
                    0 => "lists none".to_owned(),
                    1 => "lists one other".to_owned(),
                    count => format!("lists {count} others"),
                };
                names.extend(others);
                found
            }
            Err(error) if error.is_not_found() => "not there".to_owned(),
            Err(error) if error.has_no_server_list() => "lists none".to_owned(),
            Err(error) => return Err(read_error(place, &error)),
        };
        looked.push_str(&format!("\n{} ({found})", place.describe()));
    }
    let failure = CliError::usage(format!("no server is called `{name}`")).at_step("name").detail(looked);
    let failure = match did_you_mean(name, names.iter().map(String::as_str)) {
        Some(advice) => failure.hint(advice),
        None if names.is_empty() => failure,
        None => {
            // Two places may be one file.
            names.sort();
            names.dedup();
            let known: Vec<String> =
                names.iter().take(MAX_SHOWN_NAMES).map(|name| format!("`{name}`")).collect();
            failure.hint(format!("listed are {}", known.join(", ")))
        }
    };
    Err(otherwise.into_iter().fold(failure, CliError::hint))
}

/// How to reach it, if that can be told.
pub(super) fn ensure_usable((listed, place): FoundServer) -> Result<ConnectionConfig> {
    if listed.disabled {
        tracing::info!(name = listed.name, "the file says that this server is not to be used");
    }
    // Where it stands, as long as nobody changes the file.
    let opened = config_files::open(&place).ok().flatten();
    let unusable = |seen: String| {
        CliError::usage(format!("`{}` in {} cannot be used", listed.name, place.describe()))
            .at_step("name")
            .detail(seen)
    };
    match listed.connection {
        Ok(ConnectionConfig::Url { ref url, .. }) if !is_url(url).unwrap_or_default() => {
            let says = "the URL of a server begins with http:// or https://";
            let wrong = opened.map(|opened| opened.url_error(&listed.name, says).to_string());
            Err(unusable(wrong.unwrap_or_else(|| says.to_owned())))
        }
        Ok(way) => Ok(way),
        Err(wrong) => {
            let seen = opened.map(|opened| opened.locate_error(&wrong).to_string());
            let failure = unusable(seen.unwrap_or_else(|| wrong.to_string()));
            Err(match wrong.unset_variable() {
                Some(variable) => failure.hint(format!("-e {variable}=VALUE sets it")),
                None => failure.hint("`tsugite config doctor` looks over all files"),
            })
        }
    }
}

fn read_error(place: &ConfigLocation, error: &ServersFileError) -> CliError {
    let wrong = config_files::open(place).err().map(|wrong| wrong.to_string());
    let failure = CliError::usage(format!("{} cannot be read", place.describe())).at_step("name");
    failure.detail(wrong.unwrap_or_else(|| error.to_string()))
}

/// Reads a list. Variables that were given with `-e` come first.
fn read_list(place: &ConfigLocation, common: &CommonOptions) -> Result<ServersFile, ServersFileError> {
    let lookup = |name: &str| {
        let given = common.env.iter().rev().find(|(given, _)| given == name);
        given.and_then(|(_, value)| value.clone()).or_else(|| std::env::var(name).ok())
    };
    read_servers(place, lookup)
}

/// Reads a list, of a large file only the part that is meant.
pub(crate) fn read_servers(
    place: &ConfigLocation,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<ServersFile, ServersFileError> {
    let path = match &place.section {
        ConfigSection::TopLevel => return ServersFile::read_with(&place.path, lookup),
        ConfigSection::ClaudeUser => vec!["mcpServers"],
        // A folder with another name than text has no list.
        ConfigSection::ClaudeProject(project) => {
            vec!["projects", project.to_str().unwrap_or_default(), "mcpServers"]
        }
    };
    // Whatever is wrong with the file is said by whoever reads files.
    let text = std::fs::read_to_string(&place.path).ok().map(Document::parse);
    let Some(Ok(document)) = text else { return ServersFile::read_with(&place.path, lookup) };
    let text = match document.find(&path) {
        Ok(Some(list)) => format!("{{\"mcpServers\":{}}}", document.text_of(list)),
        _ => "{}".to_owned(),
    };
    ServersFile::parse(&text, lookup)
}

/// Names that are shown of a file.
const MAX_SHOWN_NAMES: usize = 10;
