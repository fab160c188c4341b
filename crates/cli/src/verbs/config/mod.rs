//! `tsugite config`: manages the servers in the configuration files of hosts.

mod add;
mod change_plan;
mod checks;
mod connect;
mod doctor;
mod entry;
mod list_servers;
mod remove;

use clap::{Args, Subcommand};

use crate::error::{CliError, Result};
use crate::suggest::did_you_mean;
use crate::targets::hosts::{HOSTS, OWN_HOST, Scope};

/// List, add, remove and check servers in the configuration files of Claude, Cursor and VS Code
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

/// The options that select a scope.
#[derive(Debug, Args)]
struct ScopeOptions {
    /// Use the file for all folders (the default)
    #[arg(long, group = "scope")]
    global: bool,
    /// Use the file of this folder, which is shared with others
    #[arg(long, group = "scope")]
    project: bool,
    /// Use Claude Code's private list for this folder
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

/// Parses the name of a host.
fn parse_host(name: &str) -> Result<&'static str> {
    if let Some(host) = HOSTS.into_iter().chain([OWN_HOST]).find(|host| *host == name) {
        return Ok(host);
    }
    let failure = CliError::usage(format!("unknown host `{name}`")).at_step("name");
    let failure = match did_you_mean(name, HOSTS.into_iter().chain([OWN_HOST])) {
        Some(advice) => failure.hint(advice),
        None => failure,
    };
    Err(failure.hint(format!("the hosts are {}, {OWN_HOST}", HOSTS.join(", "))))
}

/// Parses the names of hosts, without duplicates.
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

/// Returns the option that selects a scope.
fn scope_option(scope: Scope) -> &'static str {
    match scope {
        Scope::Global => "--global",
        Scope::Project => "--project",
        Scope::Local => "--local",
    }
}
