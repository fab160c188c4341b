//! A server as it is written down: read from any file, written in the form of each host.
//!
//! What a host cannot say is refused, unless it is something that only the host it came from has a use for.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::references;
use crate::fail::{Failure, Result};
use crate::options::Transport;
use crate::target::hosts::OWN;

/// A server, with its variables unresolved.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) way: Way,
    /// What else the file says of it.
    pub(super) more: Map<String, Value>,
    /// Where it was copied from.
    pub(super) from: Option<Source>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Source {
    pub(super) file: PathBuf,
    /// Those who read that file.
    pub(super) hosts: Vec<&'static str>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Way {
    Command {
        command: String,
        args: Vec<String>,
        env: Map<String, Value>,
        env_file: Option<String>,
        cwd: Option<String>,
    },
    Url {
        url: String,
        headers: Map<String, Value>,
        transport: Transport,
    },
}

/// Where an entry is written.
pub(super) struct Destination<'a> {
    /// Whose form it has.
    pub(super) host: &'static str,
    pub(super) file: &'a Path,
    /// Whether it is for every folder.
    pub(super) everywhere: bool,
}

/// An entry for a host, and what was left out of it.
pub(super) struct Written {
    pub(super) value: Value,
    pub(super) left_out: Vec<String>,
}

impl Entry {
    pub(super) fn new(way: Way) -> Self {
        Self { way, more: Map::new(), from: None }
    }

    /// What stands in a file, and was found to be right.
    pub(super) fn read(value: &Value, from: Source) -> Self {
        let string = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let object = |name: &str| value.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        let way = match string("command") {
            Some(command) => {
                let args = value.get("args").and_then(Value::as_array).into_iter().flatten();
                let args = args.filter_map(Value::as_str).map(str::to_owned).collect();
                Way::Command {
                    command,
                    args,
                    env: object("env"),
                    env_file: string("envFile"),
                    cwd: string("cwd"),
                }
            }
            None => {
                let url = string("url").or_else(|| string("serverUrl")).unwrap_or_default();
                let transport = match string("type").as_deref() {
                    Some("sse") => Transport::Sse,
                    Some(_) => Transport::Http,
                    None => Transport::Auto,
                };
                Way::Url { url, headers: object("headers"), transport }
            }
        };
        let members = value.as_object().into_iter().flatten();
        let more = members.filter(|(name, _)| !SHARED.contains(&name.as_str()));
        Self {
            way,
            more: more.map(|(name, value)| (name.clone(), value.clone())).collect(),
            from: Some(from),
        }
    }

    /// The entry in the form of a host.
    pub(super) fn write(&self, to: &Destination<'_>) -> Result<Written> {
        let mut value = match &self.way {
            Way::Command { command, args, env, env_file, cwd } => {
                let mut entry = Map::new();
                if matches!(to.host, "claude-code" | "cursor" | "vscode") {
                    entry.insert("type".to_owned(), json!("stdio"));
                }
                entry.insert("command".to_owned(), json!(self.command(command, to)?));
                if !args.is_empty() {
                    let numbered = args.iter().enumerate();
                    let args = numbered.map(|(number, arg)| self.text(arg, &format!("args[{number}]"), to));
                    entry.insert("args".to_owned(), json!(args.collect::<Result<Vec<String>>>()?));
                }
                if !env.is_empty() {
                    let env = env.iter().map(|(name, value)| Ok((name.clone(), variable(name, value, to)?)));
                    entry.insert("env".to_owned(), Value::Object(env.collect::<Result<_>>()?));
                }
                for (name, path) in [("envFile", env_file), ("cwd", cwd)] {
                    if let Some(path) = path {
                        entry.insert(name.to_owned(), json!(self.path(name, path, to)?));
                    }
                }
                entry
            }
            Way::Url { url, headers, transport } if to.host == "claude-desktop" => {
                bridged(url, headers, *transport, to)?
            }
            Way::Url { url, headers, transport } => {
                let mut entry = Map::new();
                let kind = match (to.host, transport) {
                    (_, Transport::Sse) => Some("sse"),
                    // Cursor and we find out.
                    ("cursor" | OWN, Transport::Auto) => None,
                    _ => Some("http"),
                };
                if let Some(kind) = kind {
                    entry.insert("type".to_owned(), json!(kind));
                }
                entry.insert("url".to_owned(), json!(self.text(url, "url", to)?));
                if !headers.is_empty() {
                    let headers = headers.iter().map(|(name, value)| {
                        let field = format!("headers.{name}");
                        Ok((name.clone(), json!(translated(value.as_str().unwrap_or_default(), &field, to)?)))
                    });
                    entry.insert("headers".to_owned(), Value::Object(headers.collect::<Result<_>>()?));
                }
                entry
            }
        };
        let hosts = self.from.as_ref().map(|from| from.hosts.as_slice()).unwrap_or_default();
        let own = to.host == OWN || hosts.contains(&to.host);
        let left_out = if own { Vec::new() } else { self.more.keys().cloned().collect() };
        if own {
            value.extend(self.more.clone());
        }
        Ok(Written { value: Value::Object(value), left_out })
    }

    /// A program that lies beside us is named from the root, where nobody knows what is beside us.
    fn command(&self, command: &str, to: &Destination<'_>) -> Result<String> {
        let beside = command.contains('/') && Path::new(command).is_relative() && !command.starts_with("${");
        let from_here = self.from.is_none() && beside && to.everywhere;
        match std::path::absolute(command) {
            Ok(path) if from_here => path.into_os_string().into_string().map_err(|_| not_text("the command")),
            _ => self.text(command, "command", to),
        }
    }

    /// What was typed is meant as it is: a shell that is started may have variables of its own.
    fn text(&self, text: &str, field: &str, to: &Destination<'_>) -> Result<String> {
        match self.from {
            None => Ok(text.to_owned()),
            Some(_) => translated(text, field, to),
        }
    }

    fn path(&self, name: &str, path: &str, to: &Destination<'_>) -> Result<String> {
        if matches!(to.host, "claude-code" | "claude-desktop") {
            return Err(unsayable(&format!("{} does not know `{name}`", to.host), to));
        }
        let moved = self.from.as_ref().is_some_and(|from| belongs_to(&from.file) != belongs_to(to.file));
        if moved && Path::new(path).is_relative() && !path.starts_with("${") {
            return Err(unsayable(&format!("`{name}` is relative, and would lead elsewhere from there"), to));
        }
        translated(path, name, to)
    }
}

/// A program that takes a URL to Claude Desktop, which only starts programs.
fn bridged(
    url: &str,
    headers: &Map<String, Value>,
    transport: Transport,
    to: &Destination<'_>,
) -> Result<Map<String, Value>> {
    let mut args = vec!["bridge".to_owned(), translated(url, "url", to)?];
    match transport {
        Transport::Auto => {}
        Transport::Http => args.extend(["--transport".to_owned(), "http".to_owned()]),
        Transport::Sse => args.extend(["--transport".to_owned(), "sse".to_owned()]),
    }
    for (name, value) in headers {
        let value = translated(value.as_str().unwrap_or_default(), &format!("headers.{name}"), to)?;
        args.extend(["-H".to_owned(), format!("{name}: {value}")]);
    }
    Ok(Map::from_iter([("command".to_owned(), json!(this_program()?)), ("args".to_owned(), json!(args))]))
}

/// This program, as others can start it.
pub(super) fn this_program() -> Result<String> {
    let path = std::env::current_exe()
        .map_err(|error| Failure::usage(format!("it cannot be told where this program lies: {error}")))?;
    path.into_os_string().into_string().map_err(|_| not_text("the path of this program"))
}

pub(super) fn not_text(what: &str) -> Failure {
    Failure::usage(format!("{what} is not in UTF-8, and JSON can say nothing else"))
}

/// A value of `env`.
fn variable(name: &str, value: &Value, to: &Destination<'_>) -> Result<Value> {
    match value {
        Value::String(text) => Ok(json!(translated(text, &format!("env.{name}"), to)?)),
        Value::Null if !matches!(to.host, "vscode" | OWN) => {
            Err(unsayable(&format!("env.{name} is null, and {} takes only texts", to.host), to))
        }
        Value::Number(number) if !matches!(to.host, "vscode" | OWN) => Ok(json!(number.to_string())),
        other => Ok(other.clone()),
    }
}

fn translated(text: &str, field: &str, to: &Destination<'_>) -> Result<String> {
    references::translated(text, to.host).map_err(|wrong| {
        let failure = unsayable(&format!("{field}: {wrong}"), to);
        match field.split_once('.') {
            Some(("env", name)) => {
                failure.hint(format!("-e {name}=VALUE writes the value itself into the file"))
            }
            Some(("headers", name)) => {
                failure.hint(format!("-H '{name}: VALUE' writes the value itself into the file"))
            }
            _ => failure,
        }
    })
}

fn unsayable(seen: &str, to: &Destination<'_>) -> Failure {
    Failure::usage(format!("this server cannot be listed for {}", to.host)).at("entry").seen(seen)
}

/// The folder that a file speaks of.
fn belongs_to(file: &Path) -> PathBuf {
    let folder = file.parent().unwrap_or(file);
    match folder.file_name().and_then(|name| name.to_str()) {
        Some(".vscode" | ".cursor") => folder.parent().unwrap_or(folder).to_owned(),
        _ => folder.to_owned(),
    }
}

/// What every host has, under the same or another name.
const SHARED: [&str; 9] = ["type", "command", "args", "env", "envFile", "cwd", "url", "serverUrl", "headers"];
