//! A server entry: read from any file, and written in the format of each host.
//!
//! An entry that a host cannot express is an error. Extra fields that only the host of the source uses are omitted.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::error::{CliError, Result};
use crate::executable;
use crate::options::Transport;
use crate::targets::hosts::OWN_HOST;
use crate::targets::references;

/// A server entry with unresolved variables.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServerEntry {
    pub(super) kind: EntryKind,
    /// Fields that only some hosts use.
    pub(super) extra_fields: Map<String, Value>,
    /// The file it was copied from.
    pub(super) source: Option<EntrySource>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct EntrySource {
    pub(super) file: PathBuf,
    /// The hosts that read that file.
    pub(super) hosts: Vec<&'static str>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum EntryKind {
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

/// The destination of an entry.
pub(super) struct Destination<'a> {
    /// The host whose format is used.
    pub(super) host: &'static str,
    pub(super) file: &'a Path,
    /// Whether it applies to every folder.
    pub(super) is_global: bool,
}

/// An entry in the format of a host, and the names of omitted fields.
pub(super) struct RenderedEntry {
    pub(super) value: Value,
    pub(super) omitted: Vec<String>,
}

impl ServerEntry {
    pub(super) fn new(kind: EntryKind) -> Self {
        Self { kind, extra_fields: Map::new(), source: None }
    }

    /// Reads a valid entry of a file.
    pub(super) fn from_json(value: &Value, from: EntrySource) -> Self {
        let string = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let object = |name: &str| value.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        let kind = match string("command") {
            Some(command) => {
                let args = value.get("args").and_then(Value::as_array).into_iter().flatten();
                let args = args.filter_map(Value::as_str).map(str::to_owned).collect();
                EntryKind::Command {
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
                EntryKind::Url { url, headers: object("headers"), transport }
            }
        };
        let members = value.as_object().into_iter().flatten();
        let more = members.filter(|(name, _)| !COMMON_FIELDS.contains(&name.as_str()));
        Self {
            kind,
            extra_fields: more.map(|(name, value)| (name.clone(), value.clone())).collect(),
            source: Some(from),
        }
    }

    /// Renders the entry in the format of a host.
    pub(super) fn render(&self, to: &Destination<'_>) -> Result<RenderedEntry> {
        let mut value = match &self.kind {
            EntryKind::Command { command, args, env, env_file, cwd } => {
                let mut entry = Map::new();
                if matches!(to.host, "claude-code" | "cursor" | "vscode") {
                    entry.insert("type".to_owned(), json!("stdio"));
                }
                entry.insert("command".to_owned(), json!(self.render_command(command, to)?));
                if !args.is_empty() {
                    let numbered = args.iter().enumerate();
                    let args =
                        numbered.map(|(number, arg)| self.render_text(arg, &format!("args[{number}]"), to));
                    entry.insert("args".to_owned(), json!(args.collect::<Result<Vec<String>>>()?));
                }
                if !env.is_empty() {
                    let env = env.iter().map(|(name, value)| Ok((name.clone(), env_value(name, value, to)?)));
                    entry.insert("env".to_owned(), Value::Object(env.collect::<Result<_>>()?));
                }
                for (name, path) in [("envFile", env_file), ("cwd", cwd)] {
                    if let Some(path) = path {
                        entry.insert(name.to_owned(), json!(self.render_path(name, path, to)?));
                    }
                }
                entry
            }
            EntryKind::Url { url, headers, transport } if to.host == "claude-desktop" => {
                bridge_entry(url, headers, *transport, to)?
            }
            EntryKind::Url { url, headers, transport } => {
                let mut entry = Map::new();
                let kind = match (to.host, transport) {
                    (_, Transport::Sse) => Some("sse"),
                    // Cursor and tsugite detect the transport.
                    ("cursor" | OWN_HOST, Transport::Auto) => None,
                    _ => Some("http"),
                };
                if let Some(kind) = kind {
                    entry.insert("type".to_owned(), json!(kind));
                }
                entry.insert("url".to_owned(), json!(self.render_text(url, "url", to)?));
                if !headers.is_empty() {
                    let headers = headers.iter().map(|(name, value)| {
                        let field = format!("headers.{name}");
                        Ok((name.clone(), json!(translate(value.as_str().unwrap_or_default(), &field, to)?)))
                    });
                    entry.insert("headers".to_owned(), Value::Object(headers.collect::<Result<_>>()?));
                }
                entry
            }
        };
        let hosts = self.source.as_ref().map(|from| from.hosts.as_slice()).unwrap_or_default();
        let keeps_extra = to.host == OWN_HOST || hosts.contains(&to.host);
        let omitted = if keeps_extra { Vec::new() } else { self.extra_fields.keys().cloned().collect() };
        if keeps_extra {
            value.extend(self.extra_fields.clone());
        }
        Ok(RenderedEntry { value: Value::Object(value), omitted })
    }

    /// Makes the relative path of a program absolute in a global file, where it would not be found.
    fn render_command(&self, command: &str, to: &Destination<'_>) -> Result<String> {
        let is_relative =
            executable::is_path(command) && Path::new(command).is_relative() && !command.starts_with("${");
        let resolve = self.source.is_none() && is_relative && to.is_global;
        match std::path::absolute(command) {
            Ok(path) if resolve => {
                path.into_os_string().into_string().map_err(|_| not_utf8_error("the command"))
            }
            _ => self.render_text(command, "command", to),
        }
    }

    /// Translates references in a copied entry. Text from the command line is kept: it may be meant for a shell.
    fn render_text(&self, text: &str, field: &str, to: &Destination<'_>) -> Result<String> {
        match self.source {
            None => Ok(text.to_owned()),
            Some(_) => translate(text, field, to),
        }
    }

    fn render_path(&self, name: &str, path: &str, to: &Destination<'_>) -> Result<String> {
        if matches!(to.host, "claude-code" | "claude-desktop") {
            return Err(unsupported_entry(&format!("{} does not support `{name}`", to.host), to));
        }
        let moved = self.source.as_ref().is_some_and(|from| config_root(&from.file) != config_root(to.file));
        if moved && Path::new(path).is_relative() && !path.starts_with("${") {
            return Err(unsupported_entry(
                &format!("`{name}` is a relative path that would change its meaning in this file"),
                to,
            ));
        }
        translate(path, name, to)
    }
}

/// Returns an entry that starts `tsugite bridge`, as Claude Desktop only starts programs.
fn bridge_entry(
    url: &str,
    headers: &Map<String, Value>,
    transport: Transport,
    to: &Destination<'_>,
) -> Result<Map<String, Value>> {
    let mut args = vec!["bridge".to_owned(), translate(url, "url", to)?];
    match transport {
        Transport::Auto => {}
        Transport::Http => args.extend(["--transport".to_owned(), "http".to_owned()]),
        Transport::Sse => args.extend(["--transport".to_owned(), "sse".to_owned()]),
    }
    for (name, value) in headers {
        let value = translate(value.as_str().unwrap_or_default(), &format!("headers.{name}"), to)?;
        args.extend(["-H".to_owned(), format!("{name}: {value}")]);
    }
    Ok(Map::from_iter([("command".to_owned(), json!(current_program()?)), ("args".to_owned(), json!(args))]))
}

/// Returns the path of this program.
pub(super) fn current_program() -> Result<String> {
    let path = std::env::current_exe()
        .map_err(|error| CliError::usage(format!("cannot determine the path of this program: {error}")))?;
    path.into_os_string().into_string().map_err(|_| not_utf8_error("the path of this program"))
}

pub(super) fn not_utf8_error(subject: &str) -> CliError {
    CliError::usage(format!("{subject} is not valid UTF-8, which JSON requires"))
}

/// Renders a value of `env`.
fn env_value(name: &str, value: &Value, to: &Destination<'_>) -> Result<Value> {
    match value {
        Value::String(text) => Ok(json!(translate(text, &format!("env.{name}"), to)?)),
        Value::Null if !matches!(to.host, "vscode" | OWN_HOST) => {
            Err(unsupported_entry(&format!("env.{name} is null, but {} accepts only strings", to.host), to))
        }
        Value::Number(number) if !matches!(to.host, "vscode" | OWN_HOST) => Ok(json!(number.to_string())),
        other => Ok(other.clone()),
    }
}

fn translate(text: &str, field: &str, to: &Destination<'_>) -> Result<String> {
    references::translate(text, to.host).map_err(|wrong| {
        let failure = unsupported_entry(&format!("{field}: {wrong}"), to);
        match field.split_once('.') {
            Some(("env", name)) => {
                failure.hint(format!("-e {name}=VALUE writes the value itself to the file"))
            }
            Some(("headers", name)) => {
                failure.hint(format!("-H '{name}: VALUE' writes the value itself to the file"))
            }
            _ => failure,
        }
    })
}

fn unsupported_entry(detail: &str, to: &Destination<'_>) -> CliError {
    CliError::usage(format!("{} does not support this server", to.host)).at_step("entry").detail(detail)
}

/// Returns the folder that relative paths in a file refer to.
fn config_root(file: &Path) -> PathBuf {
    let folder = file.parent().unwrap_or(file);
    match folder.file_name().and_then(|name| name.to_str()) {
        Some(".vscode" | ".cursor") => folder.parent().unwrap_or(folder).to_owned(),
        _ => folder.to_owned(),
    }
}

/// The fields that every host has, under the same or another name.
const COMMON_FIELDS: [&str; 9] =
    ["type", "command", "args", "env", "envFile", "cwd", "url", "serverUrl", "headers"];
