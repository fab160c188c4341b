//! `tsugite config list`: every server of every file, whatever else is wrong.

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::secrets::{mask_args, mask_url};
use crate::console::{Console, Style};
use crate::error::{CliError, ExitStatus, Result};
use crate::targets::config_files::{self, ConfigFile, ConfigFileError, ListedServer, ServerList};
use crate::targets::hosts::ConfigDirs;

/// List the servers of every known file
#[derive(Debug, Args)]
#[command(
    after_help = "Of variables and headers only the names are shown. It ends with 1 if a file cannot be read.\n\nExamples:\n  tsugite config list\n  tsugite config list --json"
)]
pub(super) struct ListServers {
    /// Print the list, and failures, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A server, as it may be shown.
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
    /// Names alone.
    pub(super) env: Vec<String>,
    pub(super) headers: Vec<String>,
    pub(super) problem: Option<ConfigFileError>,
}

impl ListServers {
    pub(super) fn run(self) -> Result<()> {
        let screen = Console::new(self.json);
        let listings = config_files::all_lists();
        let shown: Vec<(&ServerList, Result<Vec<ServerSummary>, ConfigFileError>)> =
            listings.iter().map(|listing| (listing, summarize_list(listing))).collect();
        if self.json {
            let files: Vec<Value> =
                shown.iter().map(|(listing, servers)| file_json(listing, servers)).collect();
            screen.print_json(&json!({ "files": files }))?;
        } else {
            for (listing, servers) in &shown {
                show_list(&screen, listing, servers)?;
            }
        }
        if shown.iter().all(|(_, servers)| servers.as_ref().is_ok_and(Vec::is_empty)) && !self.json {
            let places =
                ConfigDirs::from_env().all_locations().into_iter().map(|(place, _)| place.describe());
            let looked: Vec<String> = places.collect();
            screen.note(&format!("no server is listed; looked in\n{}", looked.join("\n")));
        }
        match shown.iter().any(|(_, servers)| servers.is_err()) {
            true => Err(CliError::silent(ExitStatus::Usage)),
            false => Ok(()),
        }
    }
}

fn summarize_list(listing: &ServerList) -> Result<Vec<ServerSummary>, ConfigFileError> {
    let opened = listing.file.as_ref().map_err(Clone::clone)?;
    let servers = opened.servers(&listing.location)?;
    Ok(servers.iter().map(|server| summarize(opened, server)).collect())
}

/// What of a server may be shown.
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

fn file_json(listing: &ServerList, servers: &Result<Vec<ServerSummary>, ConfigFileError>) -> Value {
    json!({
        "path": config_files::absolute_path(&listing.location),
        "project": listing.location.project(),
        "hosts": listing.hosts,
        "servers": servers.as_deref().unwrap_or_default(),
        "error": servers.as_ref().err(),
    })
}

fn show_list(
    screen: &Console,
    listing: &ServerList,
    servers: &Result<Vec<ServerSummary>, ConfigFileError>,
) -> Result<()> {
    let heading = format!("{} ({})", listing.location.describe(), listing.hosts.join(", "));
    screen.print_line(&screen.paint(Style::Bold, &screen.sanitized(&heading)))?;
    let servers = match servers {
        Ok(servers) => servers,
        Err(wrong) => {
            let label = screen.paint(Style::Red, "error:");
            return screen.print_line(&format!("  {label} {}", screen.sanitized(&wrong.to_string())));
        }
    };
    let width = servers.iter().map(|server| server.name.chars().count()).max().unwrap_or_default();
    for server in servers {
        let name = screen.paint(Style::Green, &screen.sanitized(&format!("{:<width$}", server.name)));
        let mut line = format!("  {name}  {}", screen.sanitized(&server.endpoint_line()));
        if server.disabled {
            line.push_str(&format!("  {}", screen.paint(Style::Dim, "disabled")));
        }
        screen.print_line(&line)?;
        if let Some(problem) = &server.problem {
            let label = screen.paint(Style::Red, "unusable:");
            screen.print_line(&format!(
                "  {:width$}  {label} {}",
                "",
                screen.sanitized(&problem.to_string())
            ))?;
        }
    }
    Ok(())
}

impl ServerSummary {
    /// In one line.
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

/// A word that would be several is put in quotes.
fn quote(word: &str) -> String {
    let plain = |letter: char| !letter.is_whitespace() && !"'\"\\".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("{word:?}"),
    }
}
