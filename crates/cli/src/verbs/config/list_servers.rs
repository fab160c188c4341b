//! `tsugite config list`: lists the servers of every configuration file, including invalid entries.

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::console::{Console, Style};
use crate::error::{CliError, ExitStatus, Result};
use crate::readable_path::is_plain;
use crate::targets::config_files::{self, ConfigFile, ConfigFileError, ListedServer, ServerList};
use crate::targets::hosts::ConfigDirs;
use crate::targets::secrets::{mask_args, mask_url};

/// List the servers of every known configuration file
#[derive(Debug, Args)]
#[command(
    after_help = "Only the names of variables and headers are shown. The exit code is 1 if a file cannot be read.\n\nExamples:\n  tsugite config list\n  tsugite config list --json"
)]
pub(super) struct ListServers {
    /// Print the list and errors as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A server without its secrets, for output.
#[derive(Debug, Serialize)]
pub(super) struct ServerSummary {
    pub(super) name: String,
    pub(super) disabled: bool,
    pub(super) transport: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
    /// Names only.
    pub(super) env: Vec<String>,
    pub(super) headers: Vec<String>,
    pub(super) problem: Option<ConfigFileError>,
}

impl ListServers {
    pub(super) fn run(self) -> Result<()> {
        let console = Console::new(self.json);
        let lists = config_files::all_lists();
        let shown: Vec<(&ServerList, Result<Vec<ServerSummary>, ConfigFileError>)> =
            lists.iter().map(|list| (list, summarize_list(list))).collect();
        if self.json {
            let files: Vec<Value> = shown.iter().map(|(list, servers)| file_json(list, servers)).collect();
            console.print_json(&json!({ "files": files }))?;
        } else {
            for (list, servers) in &shown {
                show_list(&console, list, servers)?;
            }
        }
        if shown.iter().all(|(_, servers)| servers.as_ref().is_ok_and(Vec::is_empty)) && !self.json {
            let locations = ConfigDirs::from_env().all_locations().into_iter();
            let searched: Vec<String> = locations.map(|(location, _)| location.describe()).collect();
            console.note(&format!("no servers found; searched\n{}", searched.join("\n")));
        }
        match shown.iter().any(|(_, servers)| servers.is_err()) {
            true => Err(CliError::silent(ExitStatus::Usage)),
            false => Ok(()),
        }
    }
}

fn summarize_list(list: &ServerList) -> Result<Vec<ServerSummary>, ConfigFileError> {
    let opened = list.file.as_ref().map_err(Clone::clone)?;
    let servers = opened.servers(&list.location)?;
    Ok(servers.iter().map(|server| summarize(opened, server)).collect())
}

/// Summarizes a server, with secrets masked.
pub(super) fn summarize(opened: &ConfigFile, server: &ListedServer<'_>) -> ServerSummary {
    let entry = server.member.value.value();
    let string = |name: &str| entry.get(name).and_then(Value::as_str);
    let names = |name: &str| {
        let members = entry.get(name).and_then(Value::as_object).into_iter().flatten();
        members.map(|(name, _)| name.clone()).collect::<Vec<String>>()
    };
    let url = string("url").or_else(|| string("serverUrl"));
    let kind = match (string("type"), string("command"), url) {
        (Some(kind), ..) => Some(kind),
        (None, Some(_), None) => Some("stdio"),
        (None, None, Some(_)) => Some("auto"),
        _ => None,
    };
    let args = entry.get("args").and_then(Value::as_array).map(|args| {
        let args: Vec<String> = args.iter().map(|arg| arg.as_str().unwrap_or("?").to_owned()).collect();
        mask_args(&args)
    });
    ServerSummary {
        name: server.member.name.clone(),
        disabled: server.disabled,
        transport: kind.map(str::to_owned),
        command: string("command").map(str::to_owned),
        args: string("command").and(args),
        url: url.map(mask_url),
        env: names("env"),
        headers: names("headers"),
        problem: server.error.as_ref().map(|wrong| opened.locate_error(wrong)),
    }
}

fn file_json(list: &ServerList, servers: &Result<Vec<ServerSummary>, ConfigFileError>) -> Value {
    json!({
        "path": config_files::absolute_path(&list.location),
        "project": list.location.project(),
        "hosts": list.hosts,
        "servers": servers.as_deref().unwrap_or_default(),
        "error": servers.as_ref().err(),
    })
}

fn show_list(
    console: &Console,
    list: &ServerList,
    servers: &Result<Vec<ServerSummary>, ConfigFileError>,
) -> Result<()> {
    let heading = format!("{} ({})", list.location.describe(), list.hosts.join(", "));
    console.print_line(&console.paint(Style::Bold, &console.sanitized(&heading)))?;
    let servers = match servers {
        Ok(servers) => servers,
        Err(wrong) => {
            let label = console.paint(Style::Red, "error:");
            return console.print_line(&format!("  {label} {}", console.sanitized(&wrong.to_string())));
        }
    };
    let width = servers.iter().map(|server| server.name.chars().count()).max().unwrap_or_default();
    for server in servers {
        let name = console.paint(Style::Green, &console.sanitized_name(&format!("{:<width$}", server.name)));
        let mut line = format!("  {name}  {}", console.sanitized_name(&server.endpoint_line()));
        if server.disabled {
            line.push_str(&format!("  {}", console.paint(Style::Dim, "disabled")));
        }
        console.print_line(&line)?;
        if let Some(problem) = &server.problem {
            let label = console.paint(Style::Red, "invalid:");
            console.print_line(&format!(
                "  {:width$}  {label} {}",
                "",
                console.sanitized(&problem.to_string())
            ))?;
        }
    }
    Ok(())
}

impl ServerSummary {
    /// Formats the command or URL in one line.
    pub(super) fn endpoint_line(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.command.iter().chain(self.args.iter().flatten()).map(|word| quote(word)));
        words.extend(self.url.clone());
        if self.command.is_none() && self.url.is_none() {
            words.push("?".to_owned());
        }
        let mut more = Vec::new();
        match self.transport.as_deref() {
            None | Some("stdio" | "auto") => {}
            Some(kind) => more.push(kind.to_owned()),
        }
        for (label, names) in [("env", &self.env), ("headers", &self.headers)] {
            if !names.is_empty() {
                more.push(format!("{label} {}", names.join(", ")));
            }
        }
        if !more.is_empty() {
            words.push(format!("({})", more.join("; ")));
        }
        words.join(" ")
    }
}

/// Quotes a word that contains spaces or quotes.
fn quote(word: &str) -> String {
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("{word:?}"),
    }
}
