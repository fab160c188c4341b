//! A server that some file lists under a name.

use std::path::Path;

use tsugite::client::servers::{ServersFileError, ServerEntry, ServersFile, ConnectionConfig};

use super::hosts::{Folders, HOSTS, Part, Place};
use super::{files, is_url};
use crate::edit::Document;
use crate::fail::{Failure, Result};
use crate::near::did_you_mean;
use crate::options::Common;

/// What a file says under a name, and which list it stands in.
pub(crate) type Hit = (ServerEntry, Place);

/// A name without anything before it.
pub(super) fn by_name(name: &str, folders: &Folders, common: &Common) -> Result<Hit> {
    let hint = match Path::new(name).exists() {
        true => format!("`-- {name}` starts a program"),
        false => super::SPELLINGS.to_owned(),
    };
    search(name, &folders.own(), common, Some(hint))
}

/// `HOST:MCP_NAME`.
pub(super) fn in_host(host: &str, name: &str, folders: &Folders, common: &Common) -> Result<Hit> {
    match folders.of(host) {
        Some(places) => {
            let hint = format!("`tsugite config add {name} TARGET --to {host}` writes one there");
            search(name, &places, common, Some(hint))
        }
        None => {
            let failure = Failure::usage(format!("no host is known as `{host}`")).at("name");
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
pub(super) fn in_file(path: &Path, name: &str, common: &Common) -> Result<Hit> {
    let place = Place { path: path.to_owned(), part: Part::List };
    match read(&place, common) {
        Err(error) if error.is_not_found() => {
            Err(Failure::usage(format!("there is no file {}", path.display()))
                .at("name")
                .hint(super::SPELLINGS))
        }
        _ => search(name, &[place], common, None),
    }
}

/// A file alone, which says too little.
pub(super) fn without_name(path: &Path, common: &Common) -> Failure {
    let place = Place { path: path.to_owned(), part: Part::List };
    match read(&place, common) {
        Ok(file) => {
            let names = file.servers.iter().map(|listed| format!("{}:{}", path.display(), listed.name));
            let failure = Failure::usage(format!("which server of {}?", path.display())).at("name");
            names.take(MOST_NAMES).fold(failure, Failure::hint)
        }
        Err(error) => unreadable(&place, &error),
    }
}

/// All servers of a file, with their names: each as it is reached, or what is wrong with it.
pub(super) fn all(path: &Path, common: &Common) -> Result<Vec<(String, Result<ConnectionConfig>)>> {
    let place = Place { path: path.to_owned(), part: Part::List };
    let file = read(&place, common).map_err(|error| match error.is_not_found() {
        true => Failure::usage(format!("there is no file {}", path.display())).at("name"),
        false => unreadable(&place, &error),
    })?;
    let used = file.servers.into_iter().filter(|listed| !listed.disabled);
    Ok(used.map(|listed| (listed.name.clone(), usable((listed, place.clone())))).collect())
}

/// Looks through lists; `otherwise` is what to try if it stands in none.
fn search(name: &str, places: &[Place], common: &Common, otherwise: Option<String>) -> Result<Hit> {
    let mut looked = String::from("looked in");
    let mut names = Vec::new();
    for place in places {
        let found = match read(place, common) {
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
            Err(error) => return Err(unreadable(place, &error)),
        };
        looked.push_str(&format!("\n{} ({found})", place.shown()));
    }
    let failure = Failure::usage(format!("no server is called `{name}`")).at("name").seen(looked);
    let failure = match did_you_mean(name, names.iter().map(String::as_str)) {
        Some(advice) => failure.hint(advice),
        None if names.is_empty() => failure,
        None => {
            // Two places may be one file.
            names.sort();
            names.dedup();
            let known: Vec<String> = names.iter().take(MOST_NAMES).map(|name| format!("`{name}`")).collect();
            failure.hint(format!("listed are {}", known.join(", ")))
        }
    };
    Err(otherwise.into_iter().fold(failure, Failure::hint))
}

/// How to reach it, if that can be told.
pub(super) fn usable((listed, place): Hit) -> Result<ConnectionConfig> {
    if listed.disabled {
        tracing::info!(name = listed.name, "the file says that this server is not to be used");
    }
    // Where it stands, as long as nobody changes the file.
    let opened = files::open(&place).ok().flatten();
    let unusable = |seen: String| {
        Failure::usage(format!("`{}` in {} cannot be used", listed.name, place.shown())).at("name").seen(seen)
    };
    match listed.connection {
        Ok(ConnectionConfig::Url { ref url, .. }) if !is_url(url).unwrap_or_default() => {
            let says = "the URL of a server begins with http:// or https://";
            let wrong = opened.map(|opened| opened.wrong_url(&listed.name, says).to_string());
            Err(unusable(wrong.unwrap_or_else(|| says.to_owned())))
        }
        Ok(way) => Ok(way),
        Err(wrong) => {
            let seen = opened.map(|opened| opened.wrong(&wrong).to_string());
            let failure = unusable(seen.unwrap_or_else(|| wrong.to_string()));
            Err(match wrong.unset_variable() {
                Some(variable) => failure.hint(format!("-e {variable}=VALUE sets it")),
                None => failure.hint("`tsugite config doctor` looks over all files"),
            })
        }
    }
}

fn unreadable(place: &Place, error: &ServersFileError) -> Failure {
    let wrong = files::open(place).err().map(|wrong| wrong.to_string());
    let failure = Failure::usage(format!("{} cannot be read", place.shown())).at("name");
    failure.seen(wrong.unwrap_or_else(|| error.to_string()))
}

/// Reads a list. Variables that were given with `-e` come first.
fn read(place: &Place, common: &Common) -> Result<ServersFile, ServersFileError> {
    let lookup = |name: &str| {
        let given = common.env.iter().rev().find(|(given, _)| given == name);
        given.and_then(|(_, value)| value.clone()).or_else(|| std::env::var(name).ok())
    };
    servers(place, lookup)
}

/// Reads a list, of a large file only the part that is meant.
pub(crate) fn servers(
    place: &Place,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<ServersFile, ServersFileError> {
    let path = match &place.part {
        Part::List => return ServersFile::read_with(&place.path, lookup),
        Part::Everywhere => vec!["mcpServers"],
        // A folder with another name than text has no list.
        Part::Project(project) => vec!["projects", project.to_str().unwrap_or_default(), "mcpServers"],
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
const MOST_NAMES: usize = 10;
