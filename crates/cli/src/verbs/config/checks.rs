//! Checks configuration files and their entries without connecting to a server.

use std::env;
use std::fs;
use std::path::Path;

use serde::Serialize;
use tsugite::client::servers;

use crate::edit::{Node, NodeKind, field_path};
use crate::environment::same_name;
use crate::executable;
use crate::suggest::{closest_names, did_you_mean};
use crate::targets::config_files::{ConfigFile, ConfigFileError, ListedServer, ServerList};
use crate::targets::hosts::OWN_HOST;
use crate::targets::references::{self, Reference};
use crate::targets::secrets;

/// A problem or warning of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Severity,
    #[serde(flatten)]
    pub(super) location: ConfigFileError,
    #[serde(rename = "try")]
    pub(super) hints: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// The server does not work, or not as intended.
    Problem,
    /// The server works.
    Warning,
}

impl Finding {
    fn new(level: Severity, location: ConfigFileError) -> Self {
        Self { level, location, hints: Vec::new() }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// Checks a file as a whole.
pub(super) fn check_file(list: &ServerList) -> Vec<Finding> {
    let opened = match &list.file {
        Ok(opened) => opened,
        Err(wrong) => return vec![Finding::new(Severity::Problem, wrong.clone())],
    };
    let document = &opened.document;
    if opened.list_path.is_none() {
        // A host without servers may have such a file; report only misspelt names.
        let names = ["mcpServers", "servers"];
        let typos =
            document.root().members().iter().filter(|member| !closest_names(&member.name, names).is_empty());
        return typos
            .map(|member| {
                let location = ConfigFileError {
                    line: Some(document.line_number(member.start)),
                    column: None,
                    field: Some(field_path(&[&member.name])),
                    message: "no host reads this field".to_owned(),
                };
                let finding = Finding::new(Severity::Problem, location);
                did_you_mean(&member.name, names).into_iter().fold(finding, Finding::hint)
            })
            .collect();
    }
    let mut findings = Vec::new();
    let (expected, actual) = (expected_list(list), field_path(&opened.list_names()));
    if let (Some(wanted), Some(node)) = (expected, opened.list())
        && wanted != actual
    {
        let message = format!("{} reads `{wanted}`", list.hosts.join(" and "));
        let location = ConfigFileError {
            line: Some(document.line_number(node.start)),
            column: None,
            field: Some(actual),
            message,
        };
        findings.push(Finding::new(Severity::Problem, location));
    }
    findings
}

/// Returns the name of the list that the hosts of a file read, if there is only one.
fn expected_list(list: &ServerList) -> Option<&'static str> {
    let name = list.location.path.file_name().and_then(|name| name.to_str());
    match (list.hosts.as_slice(), name) {
        ([OWN_HOST], _) | (_, Some("settings.json" | ".claude.json")) => None,
        (["vscode"], _) => Some("servers"),
        _ => Some("mcpServers"),
    }
}

/// Checks one server.
pub(super) fn check_server(
    list: &ServerList,
    opened: &ConfigFile,
    server: &ListedServer<'_>,
) -> Vec<Finding> {
    let names: Vec<&str> = opened.list_names().into_iter().chain([server.member.name.as_str()]).collect();
    let check = ServerCheck { opened, hosts: &list.hosts, field_path: field_path(&names), server };
    let mut findings = Vec::new();
    check.check_shape(&mut findings);
    check.check_unknown_members(&mut findings);
    check.check_variables(&mut findings);
    check.check_command(&mut findings);
    check.check_url(&mut findings);
    check.check_secrets(&mut findings);
    if server.disabled {
        // A disabled server is never started.
        findings.iter_mut().for_each(|finding| finding.level = Severity::Warning);
    }
    findings.sort_by_key(|finding| (finding.level == Severity::Warning, finding.location.line));
    findings
}

/// Returns a warning for each host that reads a server of this name from another list first.
pub(super) fn find_shadowed(lists: &[ServerList], which: usize, name: &str) -> Vec<Finding> {
    let line_of = |list: &ServerList| {
        let opened = list.file.as_ref().ok();
        opened.and_then(|opened| {
            let member = opened.list()?.members().iter().find(|member| member.name == name)?;
            Some(opened.document.line_number(member.start))
        })
    };
    let Some(list) = lists.get(which) else { return Vec::new() };
    let Some(line) = line_of(list) else { return Vec::new() };
    let hosts = list.hosts.iter().filter_map(|host| {
        let before = host_precedence(lists, host).into_iter().take_while(|number| *number != which);
        let winner = before.filter_map(|number| lists.get(number)).find(|other| line_of(other).is_some())?;
        Some((*host, winner))
    });
    hosts
        .map(|(host, winner)| {
            let message = format!("{host} uses the one in {} instead", winner.location.describe());
            let own = list.file.as_ref().map(|opened| {
                let names: Vec<&str> = opened.list_names().into_iter().chain([name]).collect();
                field_path(&names)
            });
            Finding::new(
                Severity::Warning,
                ConfigFileError { line: Some(line), column: None, field: own.ok(), message },
            )
        })
        .collect()
}

/// Returns the lists of a host in order of precedence.
fn host_precedence(lists: &[ServerList], host: &str) -> Vec<usize> {
    let folders = crate::targets::hosts::ConfigDirs::from_env();
    let locations = if host == OWN_HOST {
        folders.own_locations()
    } else {
        folders.host_locations(host).unwrap_or_default()
    };
    locations
        .iter()
        .filter_map(|location| lists.iter().position(|list| list.location.is_same_list(location)))
        .collect()
}

struct ServerCheck<'a> {
    opened: &'a ConfigFile,
    hosts: &'a [&'static str],
    /// The path of the server in the file.
    field_path: String,
    server: &'a ListedServer<'a>,
}

impl ServerCheck<'_> {
    /// Reports the error of parsing the entry. Variables have a check of their own.
    fn check_shape(&self, findings: &mut Vec<Finding>) {
        let Some(wrong) = self.server.error.as_ref() else { return };
        if wrong.unset_variable().is_none() {
            findings.push(Finding::new(Severity::Problem, self.opened.locate_error(wrong)));
        }
    }

    fn check_unknown_members(&self, findings: &mut Vec<Finding>) {
        for member in self.server.member.value.members() {
            let name = member.name.as_str();
            if KNOWN_FIELDS.contains(&name) {
                continue;
            }
            let meant = FIELD_ALIASES
                .iter()
                .find(|(wrong, _)| *wrong == name)
                .map(|(_, right)| format!("did you mean `{right}`?"));
            let Some(advice) = meant.or_else(|| did_you_mean(name, KNOWN_FIELDS)) else { continue };
            let finding =
                self.finding(Severity::Problem, &[name], member.start, "no host supports this field");
            findings.push(finding.hint(advice));
        }
    }

    fn check_variables(&self, findings: &mut Vec<Finding>) {
        let mut strings = Vec::new();
        for member in self.server.member.value.members() {
            if FIELDS_WITH_VARIABLES.contains(&member.name.as_str()) {
                collect_strings(&member.value, field_path(&[&member.name]), &mut strings);
            }
        }
        for (name, at, text) in strings {
            for (written, reference) in references::split_references(text) {
                let Some(reference) = reference else { continue };
                findings.extend(self.check_reference(&name, at, written, reference));
            }
        }
    }

    fn check_reference(
        &self,
        name: &str,
        at: usize,
        written: &str,
        reference: Reference<'_>,
    ) -> Option<Finding> {
        let finding = |message: String| {
            self.finding(Severity::Problem, &[], at, &message).with_field(name, &self.field_path)
        };
        let with_env = written.starts_with("${env:");
        let unsupported_by =
            self.hosts.iter().find(|host| !references::is_supported(reference, with_env, host));
        if let Some(host) = unsupported_by {
            let found = finding(format!("{host} does not support `{written}`"));
            return Some(match references::translate(written, host) {
                Ok(instead) => found.hint(format!("write `{instead}` for {host}")),
                Err(_) => found,
            });
        }
        match reference {
            Reference::Variable { name, default: None } if env::var_os(name).is_none() => Some(
                finding(format!("the environment variable {name} is not set"))
                    .hint("set it in the environment of the host"),
            ),
            Reference::Input(id) if !self.has_input(id) && self.hosts.contains(&"vscode") => {
                Some(finding(format!("`inputs` has no entry {id:?}")))
            }
            _ => None,
        }
    }

    fn has_input(&self, id: &str) -> bool {
        let inputs = self.opened.document.root().members().iter().find(|member| member.name == "inputs");
        let inputs = inputs.map(|member| member.value.value());
        let inputs = inputs.as_ref().and_then(serde_json::Value::as_array).into_iter().flatten();
        inputs.filter_map(|input| input.get("id")?.as_str()).any(|known| known == id)
    }

    fn check_command(&self, findings: &mut Vec<Finding>) {
        let Some(servers::ConnectionConfig::Command { program, env, cwd, .. }) = &self.server.endpoint else {
            return;
        };
        let own = env.iter().find(|(name, _)| same_name(name, "PATH")).map(|(_, value)| value.into());
        let path = own.or_else(|| env::var_os("PATH")).unwrap_or_default();
        if let Some(message) = missing_program(program, &path, cwd.as_deref()) {
            let at = self.position_of("command");
            findings.push(self.finding(Severity::Problem, &["command"], at, &message));
        }
    }

    fn check_url(&self, findings: &mut Vec<Finding>) {
        let members = self.server.member.value.members().iter();
        let url = members.clone().find(|member| matches!(member.name.as_str(), "url" | "serverUrl"));
        let Some((member, NodeKind::String(url))) = url.map(|member| (member, &member.value.kind)) else {
            return;
        };
        let finding = |level, message: &str| self.finding(level, &[&member.name], member.start, message);
        if self.hosts.contains(&"claude-desktop") {
            let name = &self.server.member.name;
            let found =
                finding(Severity::Problem, "Claude Desktop does not support URLs; it only starts programs");
            findings.push(found.hint(format!(
                "`tsugite config add {name} URL --to claude-desktop --force` writes an entry that starts a bridge to it"
            )));
        }
        let has_type = members.clone().any(|member| member.name == "type");
        if self.hosts.contains(&"claude-code") && !has_type {
            let found = finding(Severity::Problem, "Claude Code ignores a server with a URL and no `type`");
            findings.push(found.hint("add \"type\": \"http\" for Streamable HTTP, or \"sse\" for HTTP+SSE"));
        }
        match url.split_once("://") {
            _ if url.starts_with("${") => {}
            None => {
                let found = finding(Severity::Problem, "the URL has no scheme");
                findings.push(found.hint("begin it with https:// or http://"));
            }
            Some(("https", _)) => {}
            Some(("unix" | "pipe", _)) if self.hosts == ["vscode"] => {}
            Some(("http", rest)) => {
                if !is_loopback(rest) {
                    findings.push(finding(
                        Severity::Warning,
                        "http:// is not encrypted: others on the network can read and change the messages",
                    ));
                }
            }
            Some(_) => {
                let found = finding(Severity::Problem, "unsupported URL scheme");
                findings.push(found.hint("begin it with https:// or http://"));
            }
        }
    }

    fn check_secrets(&self, findings: &mut Vec<Finding>) {
        let mut found = |name: String, at: usize| {
            let finding = self.finding(Severity::Warning, &[], at, "this looks like a secret in plain text");
            let finding = finding.with_field(&name, &self.field_path);
            let instead = match self.hosts {
                hosts if hosts.contains(&"claude-desktop") => None,
                hosts if hosts.contains(&"cursor") || hosts.contains(&"vscode") => Some("${env:NAME}"),
                _ => Some("${NAME}"),
            };
            let hint =
                instead.map(|instead| format!("use `{instead}` to take it from an environment variable"));
            findings.push(hint.into_iter().fold(finding, Finding::hint));
        };
        for member in self.server.member.value.members() {
            match (member.name.as_str(), &member.value.kind) {
                (name @ ("env" | "headers" | "oauth" | "auth"), NodeKind::Object(pairs)) => {
                    for pair in pairs {
                        if let NodeKind::String(value) = &pair.value.kind
                            && secrets::is_plain_secret(&pair.name, value)
                        {
                            found(field_path(&[name, &pair.name]), pair.start);
                        }
                    }
                }
                ("args", NodeKind::Array(items)) => {
                    let text = |item: &Node| match &item.kind {
                        NodeKind::String(text) => text.clone(),
                        _ => String::new(),
                    };
                    let args: Vec<String> = items.iter().map(text).collect();
                    for number in secrets::secret_arg_indices(&args) {
                        let at = items.get(number).map_or(member.start, |item| item.start);
                        found(format!("args[{number}]"), at);
                    }
                }
                (name @ ("url" | "serverUrl"), NodeKind::String(url)) if secrets::url_has_secret(url) => {
                    found(name.to_owned(), member.start);
                }
                _ => {}
            }
        }
    }

    fn finding(&self, level: Severity, names: &[&str], at: usize, message: &str) -> Finding {
        let inner = if names.is_empty() { String::new() } else { field_path(names) };
        let dot = if inner.is_empty() || inner.starts_with('[') { "" } else { "." };
        let location = ConfigFileError {
            line: Some(self.opened.document.line_number(at)),
            column: None,
            field: Some(format!("{}{dot}{inner}", self.field_path)),
            message: message.to_owned(),
        };
        Finding::new(level, location)
    }

    fn position_of(&self, name: &str) -> usize {
        let member = self.server.member.value.members().iter().find(|member| member.name == name);
        member.map_or(self.server.member.start, |member| member.start)
    }
}

impl Finding {
    /// Sets the field to `name` within the server at the path `own`.
    fn with_field(mut self, name: &str, own: &str) -> Self {
        let dot = if name.starts_with('[') { "" } else { "." };
        self.location.field = Some(format!("{own}{dot}{name}"));
        self
    }
}

/// Collects every string of a value, with its field and its offset.
fn collect_strings<'a>(node: &'a Node, own: String, out: &mut Vec<(String, usize, &'a str)>) {
    match &node.kind {
        NodeKind::String(text) => out.push((own, node.start, text)),
        NodeKind::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                collect_strings(item, format!("{own}[{number}]"), out);
            }
        }
        NodeKind::Object(members) => {
            for member in members {
                let name = field_path(&[&member.name]);
                let dot = if name.starts_with('[') { "" } else { "." };
                collect_strings(&member.value, format!("{own}{dot}{name}"), out);
            }
        }
        _ => {}
    }
}

/// Returns why a program cannot be started, if so.
fn missing_program(program: &str, path: &std::ffi::OsStr, cwd: Option<&Path>) -> Option<String> {
    if executable::is_path(program) {
        let named = cwd.unwrap_or(Path::new("")).join(program);
        let candidates = executable::candidates(&named);
        if candidates.iter().any(|file| is_executable(file)) {
            return None;
        }
        let found = candidates.iter().find(|file| file.exists()).unwrap_or(&named);
        return match fs::metadata(found) {
            Err(error) => Some(format!("cannot start `{program}`: {error}")),
            Ok(metadata) if !metadata.is_file() => Some(format!("`{program}` is not a regular file")),
            Ok(_) => Some(format!("`{program}` is not executable")),
        };
    }
    let found = env::split_paths(path)
        .filter_map(executable::search_folder)
        .any(|folder| executable::candidates(&folder.join(program)).iter().any(|file| is_executable(file)));
    (!found).then(|| format!("`{program}` not found in PATH: {}", path.to_string_lossy()))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && executable::is_executable(file, &metadata))
}

/// Whether the host after `http://` is this machine.
fn is_loopback(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(inside) => inside.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.to_ascii_lowercase();
    let address = name.parse::<std::net::IpAddr>();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.starts_with("${")
        || address.is_ok_and(|address| address.is_loopback())
}

/// The fields in which hosts resolve variables.
const FIELDS_WITH_VARIABLES: [&str; 10] =
    ["command", "args", "env", "envFile", "cwd", "url", "serverUrl", "headers", "oauth", "auth"];
/// The fields that at least one host supports.
const KNOWN_FIELDS: [&str; 32] = [
    "type",
    "command",
    "args",
    "env",
    "envFile",
    "cwd",
    "url",
    "serverUrl",
    "headers",
    "headersHelper",
    "disabled",
    "enabled",
    "timeout",
    "oauth",
    "auth",
    "alwaysAllow",
    "alwaysLoad",
    "autoApprove",
    "disabledTools",
    "tools",
    "dev",
    "sandbox",
    "sandboxEnabled",
    "gallery",
    "version",
    "name",
    "title",
    "description",
    "icon",
    "icons",
    "metadata",
    "trust",
];
/// Wrong names of fields, and the right ones, where they are not similar.
const FIELD_ALIASES: [(&str, &str); 9] = [
    ("transport", "type"),
    ("transportType", "type"),
    ("cmd", "command"),
    ("program", "command"),
    ("arguments", "args"),
    ("environment", "env"),
    ("uri", "url"),
    ("endpoint", "url"),
    ("httpUrl", "url"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_recognized() {
        for rest in ["localhost:1/mcp", "127.0.0.1/", "127.8.8.8", "[::1]:80/x", "a.localhost", "u@LOCALHOST"]
        {
            assert!(is_loopback(rest), "{rest}");
        }
        for rest in
            ["example.com", "localhost.example.com", "192.168.0.1:80", "[::2]/", "127.0.0.1.example.com"]
        {
            assert!(!is_loopback(rest), "{rest}");
        }
    }
}
