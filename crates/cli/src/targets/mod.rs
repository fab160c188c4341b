//! Which server is meant: one grammar for every verb.

pub(crate) mod config_files;
pub(crate) mod hosts;
pub(crate) mod lookup;

use std::ffi::OsString;

use tsugite::client::servers::ConnectionConfig;

use crate::error::{CliError, Result};
use crate::options::CommonOptions;
use hosts::ConfigDirs;

/// A server.
pub(crate) enum Target {
    /// The built-in one, in this process.
    Demo,
    Url(String),
    Command(Vec<OsString>),
    /// From a file.
    Configured(ConnectionConfig),
}

/// A server, and what it is called in messages.
pub(crate) struct ResolvedTarget {
    pub(crate) target: Target,
    pub(crate) display_name: String,
}

/// Finds the server that the words of a verb begin with, or that stands after `--`. Gives what is left of the words.
pub(crate) fn resolve(
    words: Vec<String>,
    common: &CommonOptions,
    verb: &str,
) -> Result<(ResolvedTarget, Vec<String>)> {
    if let Some(program) = common.command.first() {
        let place = format!("`{}`", program.to_string_lossy());
        return Ok((
            ResolvedTarget { target: Target::Command(common.command.clone()), display_name: place },
            words,
        ));
    }
    let mut words = words.into_iter();
    let Some(word) = words.next() else {
        return Err(CliError::usage(format!("`{verb}` needs a server"))
            .hint(TARGET_HINT)
            .hint(format!("`tsugite {verb} --help` has examples")));
    };
    let found = resolve_word(&word, common)?;
    Ok((found, words.collect()))
}

/// A server, and what its names begin with where there are several.
pub(crate) struct NamedTarget {
    pub(crate) name: String,
    pub(crate) target: Target,
}

/// The servers that words name, and the one after `--`.
pub(crate) fn resolve_many(words: &[String], common: &CommonOptions) -> Result<Vec<NamedTarget>> {
    let mut named = Vec::with_capacity(words.len());
    for word in words {
        let (name, word) = match word.split_once('=') {
            Some((name, rest)) if is_name(name) => (Some(name.to_owned()), rest),
            _ => (None, word.as_str()),
        };
        let found = resolve_word(word, common)?;
        let name = name.unwrap_or_else(|| short_name(word));
        named.push(NamedTarget { name, target: found.target });
    }
    if let Some(program) = common.command.first() {
        let program = std::path::Path::new(program).file_stem().unwrap_or_default();
        let name = sanitize_name(&program.to_string_lossy());
        named.push(NamedTarget { name, target: Target::Command(common.command.clone()) });
    }
    Ok(named)
}

/// Every server of a file that is not switched off; or why it cannot be used.
pub(crate) fn resolve_file(
    path: &std::path::Path,
    common: &CommonOptions,
) -> Result<Vec<Result<NamedTarget>>> {
    let listed = lookup::servers_in_file(path, common)?;
    Ok(listed
        .into_iter()
        .map(|(name, way)| Ok(NamedTarget { name: sanitize_name(&name), target: Target::Configured(way?) }))
        .collect())
}

/// What a server is called by its target: the last part of a name, or the first of a host that says something.
fn short_name(word: &str) -> String {
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
    sanitize_name(name)
}

/// Letters, digits, `-`, `.` and `_` only: it stands in names of tools, and in URIs.
fn sanitize_name(name: &str) -> String {
    let plain: String = name.chars().map(|letter| if is_name_char(letter) { letter } else { '_' }).collect();
    match plain.is_empty() {
        true => "server".to_owned(),
        false => plain,
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_name_char)
}

fn is_name_char(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || ['_', '-', '.'].contains(&letter)
}

fn resolve_word(word: &str, common: &CommonOptions) -> Result<ResolvedTarget> {
    if word == "demo" {
        return Ok(ResolvedTarget {
            target: Target::Demo,
            display_name: "the built-in demo server".to_owned(),
        });
    }
    if is_url(word)? {
        return Ok(ResolvedTarget { target: Target::Url(word.to_owned()), display_name: word.to_owned() });
    }
    let hit = look_up(word, common)?;
    let place = format!("`{}`", hit.0.name);
    Ok(ResolvedTarget { target: Target::Configured(lookup::ensure_usable(hit)?), display_name: place })
}

/// A server that some file lists: `MCP_NAME`, `FILE_FLAGS.json:MCP_NAME` or `HOST:MCP_NAME`.
pub(crate) fn look_up(word: &str, common: &CommonOptions) -> Result<lookup::FoundServer> {
    let folders = ConfigDirs::from_env();
    match word.split_once(".json:") {
        Some((file, name)) => lookup::find_in_file(format!("{file}.json").as_ref(), name, common),
        None => match word.split_once(':') {
            Some((host, name)) => lookup::find_in_host(host, name, &folders, common),
            None if word.ends_with(".json") => Err(lookup::missing_name_error(word.as_ref(), common)),
            None => lookup::find_by_name(word, &folders, common),
        },
    }
}

/// Whether a word is a URL; one that nobody speaks is refused.
pub(crate) fn is_url(word: &str) -> Result<bool> {
    let Some((scheme, _)) = word.split_once("://") else { return Ok(false) };
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => Ok(true),
        _ => Err(CliError::usage(format!("`{scheme}` is nothing a server speaks"))
            .at_step("name")
            .hint("URLs of servers begin with http:// or https://")),
    }
}

pub(crate) const TARGET_HINT: &str =
    "a server is a URL, a NAME, FILE.json:NAME, HOST:NAME, `demo`, or `-- COMMAND` at the end";
