//! `tsugite config remove`: removes a server from the configuration files of hosts.

use clap::Args;

use super::change_plan::{ChangeKind, ChangePlan};
use super::{ScopeOptions, parse_hosts, scope_option};
use crate::console::Console;
use crate::edit::Node;
use crate::error::{CliError, Result};
use crate::suggest::did_you_mean;
use crate::targets::config_files::{self, ConfigFile};
use crate::targets::hosts::{ConfigDirs, ConfigLocation, OWN_HOST, Scope};

/// Remove a server from the configuration files of hosts
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite config remove [OPTIONS] NAME --from <HOST,…>",
    mut_arg("global", |global| global.help("Remove it only from the file for all folders")),
    mut_arg("project", |project| project.help("Remove it only from the file of this folder")),
    mut_arg("local", |local| local.help("Remove it only from Claude Code's private list for this folder")),
    after_help = "`--from all` removes it from every file that has it.\n\nExamples:\n  tsugite config remove issues --from cursor,vscode\n  tsugite config remove issues --from all --dry-run"
)]
pub(super) struct Remove {
    /// The name of the server
    #[arg(value_name = "NAME")]
    name: String,
    /// The hosts: claude-desktop, claude-code, cursor, vscode, tsugite, or all
    #[arg(long, value_name = "HOST,…", value_delimiter = ',', required = true)]
    from: Vec<String>,
    #[command(flatten)]
    scopes: ScopeOptions,
    /// Show the changes without making them
    #[arg(long)]
    dry_run: bool,
    /// Print changes and errors as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A list and the hosts that read it.
type RemovalTarget = (ConfigLocation, Vec<&'static str>);

impl Remove {
    pub(super) fn run(self) -> Result<()> {
        let console = Console::new(self.json);
        let mut plan = ChangePlan::default();
        let mut done: Vec<ConfigLocation> = Vec::new();
        for (location, hosts) in self.find_targets(&ConfigDirs::from_env())? {
            // Two hosts may read the same file.
            if done.iter().any(|other| other.is_same_list(&location)) {
                continue;
            }
            let (file, document) = plan.file(&location)?;
            let path =
                config_files::list_path(document, &location.section).ok().flatten().unwrap_or_default();
            let names: Vec<&str> = path.iter().map(String::as_str).collect();
            let changed = document.remove(&names, &self.name);
            let changed = changed.map(|text| text.unwrap_or_else(|| document.text().to_owned()));
            plan.set_text(file, &location, changed)?;
            plan.add_step(hosts.join(", "), &location, file, ChangeKind::Removed);
            done.push(location);
        }
        plan.apply(&self.name, self.dry_run, &console)
    }

    /// Returns the lists to remove the server from.
    fn find_targets(&self, folders: &ConfigDirs) -> Result<Vec<RemovalTarget>> {
        let scope = self.scopes.scope();
        if self.from.iter().any(|from| from == "all") {
            let all = folders.all_locations().into_iter().filter(|(location, hosts)| {
                scope.is_none_or(|scope| {
                    hosts.iter().any(|host| folders.scoped_location(host, scope).as_ref() == Some(location))
                })
            });
            return self.lists_with_server(all.collect(), "no configuration file has a server named");
        }
        let mut hits = Vec::new();
        for host in parse_hosts(&self.from)? {
            let locations = match scope {
                Some(scope) => folders.scoped_location(host, scope).into_iter().collect(),
                None if host == OWN_HOST => folders.own_locations(),
                None => folders.host_locations(host).unwrap_or_default(),
            };
            if let (true, Some(scope)) = (locations.is_empty(), scope) {
                return Err(CliError::usage(format!("{host} does not support {}", scope_option(scope))));
            }
            let found = self.lists_with_server(
                locations.into_iter().map(|location| (location, vec![host])).collect(),
                &format!("{host} has no server named"),
            )?;
            if found.len() > 1 {
                return Err(self.ambiguous_error(host, &found, folders));
            }
            hits.extend(found);
        }
        Ok(hits)
    }

    /// Returns the lists that have the server. Fails on a file that cannot be read, since it may have the server.
    fn lists_with_server(
        &self,
        candidates: Vec<RemovalTarget>,
        not_found: &str,
    ) -> Result<Vec<RemovalTarget>> {
        let mut searched = String::from("searched");
        let (mut hits, mut names) = (Vec::new(), Vec::new());
        let mut seen: Vec<ConfigLocation> = Vec::new();
        for (location, hosts) in candidates {
            if seen.iter().any(|other| other.is_same_list(&location)) {
                continue;
            }
            seen.push(location.clone());
            let opened = config_files::open(&location)
                .map_err(|wrong| wrong.to_cli_error(&location).nothing_written())?;
            let state = match &opened {
                None => "not found".to_owned(),
                Some(opened) => match server_names(opened).len() {
                    0 => "no servers".to_owned(),
                    1 => "1 other server".to_owned(),
                    count => format!("{count} other servers"),
                },
            };
            searched.push_str(&format!("\n{} ({state})", location.describe()));
            let listed: Vec<String> = opened.iter().flat_map(server_names).collect();
            if listed.contains(&self.name) {
                hits.push((location, hosts));
            }
            names.extend(listed);
        }
        if !hits.is_empty() {
            return Ok(hits);
        }
        let failure =
            CliError::usage(format!("{not_found} `{}`", self.name)).at_step("name").detail(searched);
        Err(match did_you_mean(&self.name, names.iter().map(String::as_str)) {
            Some(advice) => failure.hint(advice),
            None => failure.hint("`tsugite config list` lists all servers"),
        })
    }

    fn ambiguous_error(&self, host: &str, found: &[RemovalTarget], folders: &ConfigDirs) -> CliError {
        let locations: Vec<String> = found.iter().map(|(location, _)| location.describe()).collect();
        let failure = CliError::usage(format!("{host} has `{}` in more than one list", self.name));
        let failure =
            failure.at_step("name").detail(format!("{}; nothing was written", locations.join("\n")));
        let scopes = [Scope::Project, Scope::Local, Scope::Global].into_iter();
        let hints = scopes.filter_map(|scope| {
            let location = folders.scoped_location(host, scope)?;
            let is_there = found.iter().any(|(found, _)| *found == location);
            is_there.then(|| format!("{} removes the one in {}", scope_option(scope), location.describe()))
        });
        hints.fold(failure, CliError::hint).hint("--from all removes it everywhere")
    }
}

fn server_names(opened: &ConfigFile) -> Vec<String> {
    let members = opened.list().map(Node::members).unwrap_or_default();
    members.iter().map(|member| member.name.clone()).collect()
}
