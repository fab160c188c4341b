//! `tsugite config`: the servers that hosts list in their own files.

mod add;
mod change_plan;
mod checks;
mod connect;
mod doctor;
mod entry;
mod list_servers;
mod references;
mod remove;
mod secrets;

use clap::{Args, Subcommand};

use crate::error::{CliError, Result};
use crate::suggest::did_you_mean;
use crate::targets::hosts::{HOSTS, OWN_HOST, Scope};

/// List, add, remove and check servers in the files of Claude, Cursor and VS Code
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "Examples:\n  tsugite config list\n  tsugite config add issues https://example.com/mcp --to cursor,vscode\n  tsugite config remove issues --from cursor\n  tsugite config doctor --connect"
)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list_servers::ListServers),
    Add(add::Add),
    Remove(remove::Remove),
    Doctor(doctor::Doctor),
}

impl Config {
    pub(crate) async fn run(self) -> Result<()> {
        match self.action {
            Action::List(action) => action.run(),
            Action::Add(action) => action.run(),
            Action::Remove(action) => action.run(),
            Action::Doctor(action) => action.run().await,
        }
    }

    pub(crate) fn wants_json(&self) -> bool {
        match &self.action {
            Action::List(action) => action.json,
            Action::Add(action) => action.json,
            Action::Remove(action) => action.json,
            Action::Doctor(action) => action.json,
        }
    }
}

/// For whom.
#[derive(Debug, Args)]
struct ScopeOptions {
    /// The file for every folder; the default
    #[arg(long, group = "scope")]
    global: bool,
    /// The file of this folder, for everybody who works in it
    #[arg(long, group = "scope")]
    project: bool,
    /// Claude Code's list for you in this folder
    #[arg(long, group = "scope")]
    local: bool,
}

impl ScopeOptions {
    fn scope(&self) -> Option<Scope> {
        match (self.global, self.project, self.local) {
            (true, ..) => Some(Scope::Global),
            (_, true, _) => Some(Scope::Project),
            (.., true) => Some(Scope::Local),
            _ => None,
        }
    }
}

/// A host that was named.
fn parse_host(name: &str) -> Result<&'static str> {
    if let Some(host) = HOSTS.into_iter().chain([OWN_HOST]).find(|host| *host == name) {
        return Ok(host);
    }
    let failure = CliError::usage(format!("no host is known as `{name}`")).at_step("name");
    let failure = match did_you_mean(name, HOSTS.into_iter().chain([OWN_HOST])) {
        Some(advice) => failure.hint(advice),
        None => failure,
    };
    Err(failure.hint(format!("known are {}, {OWN_HOST}", HOSTS.join(", "))))
}

/// Hosts that were named, each once.
fn parse_hosts(names: &[String]) -> Result<Vec<&'static str>> {
    let mut hosts = Vec::new();
    for name in names {
        let host = parse_host(name)?;
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    Ok(hosts)
}

/// How a scope is asked for.
fn scope_option(scope: Scope) -> &'static str {
    match scope {
        Scope::Global => "--global",
        Scope::Project => "--project",
        Scope::Local => "--local",
    }
}
