//! Which server is meant: one grammar for every verb.

pub(crate) mod files;
pub(crate) mod hosts;
pub(crate) mod listed;

use std::ffi::OsString;

use tsugite::client::servers::ConnectionConfig;

use crate::fail::{Failure, Result};
use crate::options::Common;
use hosts::Folders;

/// A server.
pub(crate) enum Target {
    /// The built-in one, in this process.
    Demo,
    Url(String),
    Command(Vec<OsString>),
    /// From a file.
    Listed(ConnectionConfig),
}

/// A server, and what it is called in messages.
pub(crate) struct Found {
    pub(crate) target: Target,
    pub(crate) place: String,
}

/// Finds the server that the words of a verb begin with, or that stands after `--`. Gives what is left of the words.
pub(crate) fn find(words: Vec<String>, common: &Common, verb: &str) -> Result<(Found, Vec<String>)> {
    if let Some(program) = common.command.first() {
        let place = format!("`{}`", program.to_string_lossy());
        return Ok((Found { target: Target::Command(common.command.clone()), place }, words));
    }
    let mut words = words.into_iter();
    let Some(word) = words.next() else {
        return Err(Failure::usage(format!("`{verb}` needs a server"))
            .hint(SPELLINGS)
            .hint(format!("`tsugite {verb} --help` has examples")));
    };
    let found = read(&word, common)?;
    Ok((found, words.collect()))
}

/// A server, and what its names begin with where there are several.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) target: Target,
}

/// The servers that words name, and the one after `--`.
pub(crate) fn several(words: &[String], common: &Common) -> Result<Vec<Named>> {
    let mut named = Vec::with_capacity(words.len());
    for word in words {
        let (name, word) = match word.split_once('=') {
            Some((name, rest)) if is_name(name) => (Some(name.to_owned()), rest),
            _ => (None, word.as_str()),
        };
        let found = read(word, common)?;
        let name = name.unwrap_or_else(|| short(word));
        named.push(Named { name, target: found.target });
    }
    if let Some(program) = common.command.first() {
        let program = std::path::Path::new(program).file_stem().unwrap_or_default();
        let name = plain(&program.to_string_lossy());
        named.push(Named { name, target: Target::Command(common.command.clone()) });
    }
    Ok(named)
}

/// Every server of a file that is not switched off; or why it cannot be used.
pub(crate) fn all_in(path: &std::path::Path, common: &Common) -> Result<Vec<Result<Named>>> {
    let listed = listed::all(path, common)?;
    Ok(listed
        .into_iter()
        .map(|(name, way)| Ok(Named { name: plain(&name), target: Target::Listed(way?) }))
        .collect())
}

/// What a server is called by its target: the last part of a name, or the first of a host that says something.
fn short(word: &str) -> String {
    let name = match word.split_once("://") {
        Some((_, rest)) => {
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let host = host.rsplit('@').next().unwrap_or_default();
            let host = host.split(':').next().unwrap_or_default();
            let mut parts = host.split('.').filter(|part| !["www", "mcp", "api"].contains(part));
            match host.parse::<std::net::IpAddr>() {
                Ok(_) => host,
                Err(_) => parts.next().unwrap_or(host),
            }
        }
        None => word.rsplit(':').next().unwrap_or(word),
    };
    plain(name)
}

/// Letters, digits, `-`, `.` and `_` only: it stands in names of tools, and in URIs.
fn plain(name: &str) -> String {
    let plain: String = name.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect();
    match plain.is_empty() {
        true => "server".to_owned(),
        false => plain,
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(fits)
}

fn fits(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || ['_', '-', '.'].contains(&letter)
}

fn read(word: &str, common: &Common) -> Result<Found> {
    if word == "demo" {
        return Ok(Found { target: Target::Demo, place: "the built-in demo server".to_owned() });
    }
    if is_url(word)? {
        return Ok(Found { target: Target::Url(word.to_owned()), place: word.to_owned() });
    }
    let hit = look_up(word, common)?;
    let place = format!("`{}`", hit.0.name);
    Ok(Found { target: Target::Listed(listed::usable(hit)?), place })
}

/// A server that some file lists: `MCP_NAME`, `FILE_FLAGS.json:MCP_NAME` or `HOST:MCP_NAME`.
pub(crate) fn look_up(word: &str, common: &Common) -> Result<listed::Hit> {
    let folders = Folders::of_this_process();
    match word.split_once(".json:") {
        Some((file, name)) => listed::in_file(format!("{file}.json").as_ref(), name, common),
        None => match word.split_once(':') {
            Some((host, name)) => listed::in_host(host, name, &folders, common),
            None if word.ends_with(".json") => Err(listed::without_name(word.as_ref(), common)),
            None => listed::by_name(word, &folders, common),
        },
    }
}

/// Whether a word is a URL; one that nobody speaks is refused.
pub(crate) fn is_url(word: &str) -> Result<bool> {
    let Some((scheme, _)) = word.split_once("://") else { return Ok(false) };
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => Ok(true),
        _ => Err(Failure::usage(format!("`{scheme}` is nothing a server speaks"))
            .at("name")
            .hint("URLs of servers begin with http:// or https://")),
    }
}

pub(crate) const SPELLINGS: &str =
    "a server is a URL, a NAME, FILE.json:NAME, HOST:NAME, `demo`, or `-- COMMAND` at the end";
