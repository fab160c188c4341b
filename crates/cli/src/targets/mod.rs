//! Resolves the TARGET of a command line to a server, with one grammar for every verb.

pub(crate) mod config_files;
pub(crate) mod hosts;
pub(crate) mod lookup;
pub(crate) mod references;
pub(crate) mod secrets;
mod user_dirs;

pub(crate) use user_dirs::NO_USER_DIRS;

use std::ffi::OsString;

use tsugite::Server;
use tsugite::client::servers::ConnectionConfig;

use crate::console::Console;
use crate::error::{CliError, Result};
use crate::options::CommonOptions;
use crate::trust;
use crate::url_hints;
use hosts::ConfigDirs;
use lookup::FoundServer;

/// A server to connect to.
#[derive(Clone)]
pub(crate) enum Target {
    /// The built-in demo server, in this process.
    Demo,
    /// Another server in this process.
    InProcess(Server),
    Url(String),
    Command(Vec<OsString>),
    /// An entry of a configuration file.
    Configured(ConnectionConfig),
}

/// A target, and its name for messages.
pub(crate) struct ResolvedTarget {
    pub(crate) target: Target,
    pub(crate) display_name: String,
    /// The word that names it on a command line, without secrets.
    pub(crate) word: String,
}

/// Resolves the target of a verb: the command after `--`, or else the first word. Returns the remaining words.
pub(crate) async fn resolve(
    words: Vec<String>,
    common: &CommonOptions,
    verb: &str,
) -> Result<(ResolvedTarget, Vec<String>)> {
    if let Some(program) = common.command.first() {
        let display_name = format!("`{}`", program.to_string_lossy());
        let target = Target::Command(common.command.clone());
        return Ok((ResolvedTarget { target, display_name, word: String::new() }, words));
    }
    let mut words = words.into_iter();
    let Some(word) = words.next() else {
        return Err(CliError::usage(format!("`{verb}` needs a TARGET"))
            .hint(TARGET_HINT)
            .hint(format!("`tsugite {verb} --help` shows examples")));
    };
    let found = resolve_word(&word, common).await?;
    Ok((found, words.collect()))
}

/// A target, and the prefix of its names where there are several servers.
pub(crate) struct NamedTarget {
    pub(crate) name: String,
    pub(crate) target: Target,
    /// The word that names it on a command line, without secrets.
    pub(crate) word: String,
}

/// Resolves several targets, and the command after `--`.
pub(crate) async fn resolve_many(words: &[String], common: &CommonOptions) -> Result<Vec<NamedTarget>> {
    let mut named = Vec::with_capacity(words.len());
    for word in words {
        let (name, word) = match word.split_once('=') {
            Some((name, rest)) if is_name(name) => (Some(name.to_owned()), rest),
            _ => (None, word.as_str()),
        };
        let found = resolve_word(word, common).await?;
        let name = name.unwrap_or_else(|| short_name(word));
        named.push(NamedTarget { name, target: found.target, word: found.word });
    }
    if let Some(program) = common.command.first() {
        let program = std::path::Path::new(program).file_stem().unwrap_or_default();
        let name = sanitize_name(&program.to_string_lossy());
        let target = Target::Command(common.command.clone());
        named.push(NamedTarget { name, target, word: String::new() });
    }
    Ok(named)
}

/// Resolves every enabled server of a file; an invalid entry is an error of its own. Fails if one of them is not trusted.
pub(crate) async fn resolve_file(
    path: &std::path::Path,
    common: &CommonOptions,
) -> Result<Vec<Result<NamedTarget>>> {
    let mut resolved = Vec::new();
    for found in lookup::servers_in_file(path)? {
        let config = match lookup::read_unexpanded(&found) {
            Ok(_) => {
                let permit = trust::obtain(&found, common.consent_policy()).await?;
                lookup::connection(&found, &permit, common)
            }
            Err(failure) => Err(failure),
        };
        let name = sanitize_name(&found.name);
        let word = format!("{}:{}", found.location.path.display(), found.name);
        resolved.push(config.map(|config| NamedTarget { name, target: Target::Configured(config), word }));
    }
    if !common.json {
        Console::new(false).note(&format!("note: the servers are from {}", path.display()));
    }
    Ok(resolved)
}

/// Derives a short name from a target: the last part of a name, or the first distinctive label of a host name.
fn short_name(word: &str) -> String {
    if let Some(socket) = word.strip_prefix("unix:") {
        let file = socket.split('#').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        return sanitize_name(file.strip_suffix(".sock").unwrap_or(file));
    }
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

/// Replaces all characters but letters, digits, `-`, `.` and `_`: the name becomes part of tool names and URIs.
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

async fn resolve_word(word: &str, common: &CommonOptions) -> Result<ResolvedTarget> {
    if word == "demo" {
        return Ok(ResolvedTarget {
            target: Target::Demo,
            display_name: "the built-in demo server".to_owned(),
            word: word.to_owned(),
        });
    }
    if is_url(word)? {
        let shown = url_hints::redacted(word);
        let target = Target::Url(word.to_owned());
        return Ok(ResolvedTarget { target, display_name: shown.clone(), word: shown });
    }
    let found = look_up(word)?;
    let permit = trust::obtain(&found, common.consent_policy()).await?;
    let config = lookup::connection(&found, &permit, common)?;
    let display_name = format!("`{}`", found.name);
    if !common.json {
        let note = format!("note: {display_name} is from {}", found.location.describe());
        Console::new(false).note(&note);
    }
    Ok(ResolvedTarget { target: Target::Configured(config), display_name, word: word.to_owned() })
}

/// Looks up a server in configuration files: `NAME`, `FILE.json:NAME` or `HOST:NAME`.
pub(crate) fn look_up(word: &str) -> Result<FoundServer> {
    let folders = ConfigDirs::from_env();
    match word.split_once(".json:") {
        Some((file, name)) => lookup::find_in_file(format!("{file}.json").as_ref(), name),
        None => match word.split_once(':') {
            Some((host, name)) => lookup::find_in_host(host, name, &folders),
            None if word.ends_with(".json") => Err(lookup::missing_name_error(word.as_ref())),
            None => lookup::find_by_name(word, &folders),
        },
    }
}

/// Looks up a server, or all enabled servers of `FILE.json`.
pub(crate) fn look_up_all(word: &str) -> Result<Vec<FoundServer>> {
    match word.ends_with(".json") && !word.contains(".json:") {
        true => lookup::servers_in_file(word.as_ref()),
        false => Ok(vec![look_up(word)?]),
    }
}

/// Whether a word is a URL or `unix:PATH`. Fails for schemes other than http and https.
pub(crate) fn is_url(word: &str) -> Result<bool> {
    if word.starts_with("unix:") {
        return Ok(true);
    }
    let Some((scheme, _)) = word.split_once("://") else { return Ok(false) };
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => Ok(true),
        _ => Err(CliError::usage(format!("unsupported URL scheme `{scheme}`"))
            .at_step("name")
            .hint("use http://, https:// or unix:PATH")),
    }
}

pub(crate) const TARGET_HINT: &str =
    "a TARGET is a URL, unix:SOCKET, NAME, FILE.json:NAME, HOST:NAME, `demo`, or `-- COMMAND` at the end";
