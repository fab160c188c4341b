//! `tsugite config remove`: a server is taken out of the files of hosts.

use clap::Args;

use super::change_plan::{ChangeKind, ChangePlan};
use super::{ScopeOptions, parse_hosts, scope_option};
use crate::console::Console;
use crate::edit::Node;
use crate::error::{CliError, Result};
use crate::suggest::did_you_mean;
use crate::targets::config_files::{self, ConfigFile};
use crate::targets::hosts::{ConfigDirs, ConfigLocation, OWN_HOST, Scope};

/// Remove a server from the files of hosts
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite config remove [OPTIONS] NAME --from <HOST,…>",
    mut_arg("global", |global| global.help("Only from the file for every folder")),
    mut_arg("project", |project| project.help("Only from the file of this folder")),
    mut_arg("local", |local| local.help("Only from Claude Code's list for you in this folder")),
    after_help = "`--from all` removes it from every file that lists it.\n\nExamples:\n  tsugite config remove issues --from cursor,vscode\n  tsugite config remove issues --from all --dry-run"
)]
pub(super) struct Remove {
    /// The server's name
    #[arg(value_name = "NAME")]
    name: String,
    /// From whom: claude-desktop, claude-code, cursor, vscode, tsugite, or all
    #[arg(long, value_name = "HOST,…", value_delimiter = ',', required = true)]
    from: Vec<String>,
    #[command(flatten)]
    scopes: ScopeOptions,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print what was done, and failures, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A list, those who read it, and its file.
type RemovalTarget = (ConfigLocation, Vec<&'static str>);

impl Remove {
    pub(super) fn run(self) -> Result<()> {
        let screen = Console::new(self.json);
        let mut plan = ChangePlan::default();
        let mut done: Vec<ConfigLocation> = Vec::new();
        for (place, hosts) in self.find_targets(&ConfigDirs::from_env())? {
            // Two hosts may read one file.
            if done.iter().any(|other| other.is_same_list(&place)) {
                continue;
            }
            let (file, document) = plan.file(&place)?;
            let path = config_files::list_path(document, &place.section).ok().flatten().unwrap_or_default();
            let names: Vec<&str> = path.iter().map(String::as_str).collect();
            let changed = document.remove(&names, &self.name);
            let changed = changed.map(|text| text.unwrap_or_else(|| document.text().to_owned()));
            plan.set_text(file, &place, changed)?;
            plan.add_step(hosts.join(", "), &place, file, ChangeKind::Removed);
            done.push(place);
        }
        plan.apply(&self.name, self.dry_run, &screen)
    }

    /// The lists that the server is removed from.
    fn find_targets(&self, folders: &ConfigDirs) -> Result<Vec<RemovalTarget>> {
        let scope = self.scopes.scope();
        if self.from.iter().any(|from| from == "all") {
            let all = folders.all_locations().into_iter().filter(|(place, hosts)| {
                scope.is_none_or(|scope| {
                    hosts.iter().any(|host| folders.scoped_location(host, scope).as_ref() == Some(place))
                })
            });
            return self.lists_with_server(all.collect(), "no file lists");
        }
        let mut hits = Vec::new();
        for host in parse_hosts(&self.from)? {
            let places = match scope {
                Some(scope) => folders.scoped_location(host, scope).into_iter().collect(),
                None if host == OWN_HOST => folders.own_locations(),
                None => folders.host_locations(host).unwrap_or_default(),
            };
            if let (true, Some(scope)) = (places.is_empty(), scope) {
                return Err(CliError::usage(format!("{host} has no file for {}", scope_option(scope))));
            }
            let found = self.lists_with_server(
                places.into_iter().map(|place| (place, vec![host])).collect(),
                &format!("{host} lists no"),
            )?;
            if found.len() > 1 {
                return Err(self.ambiguous_error(host, &found, folders));
            }
            hits.extend(found);
        }
        Ok(hits)
    }

    /// Those of the lists that have the server. A file that cannot be read may have it too.
    fn lists_with_server(&self, candidates: Vec<RemovalTarget>, nobody: &str) -> Result<Vec<RemovalTarget>> {
        let mut looked = String::from("looked in");
        let (mut hits, mut names) = (Vec::new(), Vec::new());
        let mut seen: Vec<ConfigLocation> = Vec::new();
        for (place, hosts) in candidates {
            if seen.iter().any(|other| other.is_same_list(&place)) {
                continue;
            }
            seen.push(place.clone());
            let opened =
                config_files::open(&place).map_err(|wrong| wrong.to_cli_error(&place).nothing_written())?;
            let there = match &opened {
                None => "not there".to_owned(),
                Some(opened) => match server_names(opened).len() {
                    0 => "lists none".to_owned(),
                    1 => "lists one other".to_owned(),
                    count => format!("lists {count} others"),
                },
            };
            looked.push_str(&format!("\n{} ({there})", place.describe()));
            let mine: Vec<String> = opened.iter().flat_map(server_names).collect();
            if mine.contains(&self.name) {
                hits.push((place, hosts));
            }
            names.extend(mine);
        }
        if !hits.is_empty() {
            return Ok(hits);
        }
        let failure = CliError::usage(format!("{nobody} `{}`", self.name)).at_step("name").detail(looked);
        Err(match did_you_mean(&self.name, names.iter().map(String::as_str)) {
            Some(advice) => failure.hint(advice),
            None => failure.hint("`tsugite config list` shows what there is"),
        })
    }

    fn ambiguous_error(&self, host: &str, found: &[RemovalTarget], folders: &ConfigDirs) -> CliError {
        let places: Vec<String> = found.iter().map(|(place, _)| place.describe()).collect();
        let failure = CliError::usage(format!("{host} lists `{}` more than once", self.name));
        let failure = failure.at_step("name").detail(format!("{}; nothing was written", places.join("\n")));
        let scopes = [Scope::Project, Scope::Local, Scope::Global].into_iter();
        let hints = scopes.filter_map(|scope| {
            let place = folders.scoped_location(host, scope)?;
            let is_there = found.iter().any(|(found, _)| *found == place);
            is_there.then(|| format!("{} removes the one in {}", scope_option(scope), place.describe()))
        });
        hints.fold(failure, CliError::hint).hint("--from all removes it everywhere")
    }
}

fn server_names(opened: &ConfigFile) -> Vec<String> {
    let members = opened.list().map(Node::members).unwrap_or_default();
    members.iter().map(|member| member.name.clone()).collect()
}
