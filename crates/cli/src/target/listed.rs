//! A server that some file lists under a name.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use tsugite::client::servers::{BadServersFile, Listed, ServersFile, Way};

use super::hosts::{Folders, HOSTS, Part, Place};
use crate::fail::{Failure, Result};
use crate::near::did_you_mean;
use crate::options::Common;

/// A name without anything before it.
pub(super) fn by_name(name: &str, folders: &Folders, common: &Common) -> Result<Way> {
    let hint = match Path::new(name).exists() {
        true => format!("`-- {name}` starts a program"),
        false => super::SPELLINGS.to_owned(),
    };
    search(name, &folders.own(), common).map_err(|failure| failure.hint(hint))
}

/// `HOST:NAME`.
pub(super) fn in_host(host: &str, name: &str, folders: &Folders, common: &Common) -> Result<Way> {
    match folders.of(host) {
        Some(places) => search(name, &places, common),
        None => {
            let failure = Failure::usage(format!("no host is known as `{host}`")).at("name");
            let failure = match did_you_mean(host, HOSTS) {
                Some(advice) => failure.hint(advice),
                None => failure,
            };
            Err(failure.hint(format!("known are {}", HOSTS.join(", "))))
        }
    }
}

/// `FILE.json:NAME`.
pub(super) fn in_file(path: &Path, name: &str, common: &Common) -> Result<Way> {
    let place = Place { path: path.to_owned(), part: Part::List };
    match read(&place, common) {
        Err(error) if error.is_missing() => {
            Err(Failure::usage(format!("there is no file {}", path.display())).at("name"))
        }
        _ => search(name, &[place], common),
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
pub(super) fn all(path: &Path, common: &Common) -> Result<Vec<(String, Result<Way>)>> {
    let place = Place { path: path.to_owned(), part: Part::List };
    let file = read(&place, common).map_err(|error| match error.is_missing() {
        true => Failure::usage(format!("there is no file {}", path.display())).at("name"),
        false => unreadable(&place, &error),
    })?;
    let used = file.servers.into_iter().filter(|listed| !listed.disabled);
    Ok(used.map(|listed| (listed.name.clone(), usable(listed, &place))).collect())
}

fn search(name: &str, places: &[Place], common: &Common) -> Result<Way> {
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
                    return usable(listed, place);
                }
                let found = match others.len() {
                    0 => "lists none".to_owned(),
                    1 => "lists one other".to_owned(),
                    count => format!("lists {count} others"),
                };
                names.extend(others);
                found
            }
            Err(error) if error.is_missing() => "not there".to_owned(),
            Err(error) if error.lists_nothing() => "lists none".to_owned(),
            Err(error) => return Err(unreadable(place, &error)),
        };
        looked.push_str(&format!("\n{} ({found})", shown(place)));
    }
    let failure = Failure::usage(format!("no server is called `{name}`")).at("name").seen(looked);
    Err(match did_you_mean(name, names.iter().map(String::as_str)) {
        Some(advice) => failure.hint(advice),
        None => failure,
    })
}

fn usable(listed: Listed, place: &Place) -> Result<Way> {
    if listed.disabled {
        tracing::info!(name = listed.name, "the file says that this server is not to be used");
    }
    listed.way.map_err(|wrong| {
        let failure = Failure::usage(format!("{} cannot be used", shown(place)));
        let failure = failure.at("name").seen(wrong.to_string());
        match wrong.unset_variable() {
            Some(variable) => failure.hint(format!("-e {variable}=VALUE sets it")),
            None => failure,
        }
    })
}

fn unreadable(place: &Place, error: &BadServersFile) -> Failure {
    Failure::usage(format!("{} cannot be read", shown(place))).at("name").seen(error.to_string())
}

fn shown(place: &Place) -> String {
    match &place.part {
        Part::Project(project) => format!("{}, for {}", place.path.display(), project.display()),
        Part::List | Part::Everywhere => place.path.display().to_string(),
    }
}

/// Reads a list. Variables that were given with `-e` come first.
fn read(place: &Place, common: &Common) -> Result<ServersFile, BadServersFile> {
    let lookup = |name: &str| {
        let given = common.env.iter().rev().find(|(given, _)| given == name);
        given.and_then(|(_, value)| value.clone()).or_else(|| std::env::var(name).ok())
    };
    let read = || ServersFile::read_with(&place.path, lookup);
    let text = match place.part {
        Part::List => return read(),
        Part::Everywhere | Part::Project(_) => std::fs::read_to_string(&place.path),
    };
    // Whatever is wrong with the file is said by whoever reads files.
    let Ok(text) = text else { return read() };
    let Ok(file) = serde_json::from_str::<ClaudeFile<'_>>(&text) else { return read() };
    let list = match &place.part {
        Part::Project(project) => {
            project.to_str().and_then(|project| file.projects.get(project)?.mcp_servers)
        }
        Part::Everywhere | Part::List => file.mcp_servers,
    };
    let text = match list {
        Some(servers) => format!("{{\"mcpServers\":{}}}", servers.get()),
        None => "{}".to_owned(),
    };
    ServersFile::parse(&text, lookup)
}

/// A file of Claude Code: its list, and those for single projects.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaudeFile<'a> {
    #[serde(borrow, default)]
    mcp_servers: Option<&'a RawValue>,
    #[serde(borrow, default)]
    projects: HashMap<String, Project<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Project<'a> {
    #[serde(borrow, default)]
    mcp_servers: Option<&'a RawValue>,
}

/// Names that are shown of a file.
const MOST_NAMES: usize = 10;
