//! `tsugite config remove`: a server is taken out of the files of hosts.

use clap::Args;

use super::writing::{Done, Plan};
use super::{Scopes, hosts, option};
use crate::edit::Node;
use crate::fail::{Failure, Result};
use crate::near::did_you_mean;
use crate::screen::Screen;
use crate::target::files::{self, Opened};
use crate::target::hosts::{Folders, OWN, Place, Scope};

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
    scopes: Scopes,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print what was done, and failures, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A list, those who read it, and its file.
type Candidate = (Place, Vec<&'static str>);

impl Remove {
    pub(super) fn run(self) -> Result<()> {
        let screen = Screen::new(self.json);
        let mut plan = Plan::default();
        let mut done: Vec<Place> = Vec::new();
        for (place, hosts) in self.hits(&Folders::of_this_process())? {
            // Two hosts may read one file.
            if done.iter().any(|other| other.is_same(&place)) {
                continue;
            }
            let (file, document) = plan.file(&place)?;
            let path = files::list_path(document, &place.part).ok().flatten().unwrap_or_default();
            let names: Vec<&str> = path.iter().map(String::as_str).collect();
            let changed = document.without(&names, &self.name);
            let changed = changed.map(|text| text.unwrap_or_else(|| document.text().to_owned()));
            plan.change(file, &place, changed)?;
            plan.step(hosts.join(", "), &place, file, Done::Removed);
            done.push(place);
        }
        plan.carry_out(&self.name, self.dry_run, &screen)
    }

    /// The lists that the server is removed from.
    fn hits(&self, folders: &Folders) -> Result<Vec<Candidate>> {
        let scope = self.scopes.given();
        if self.from.iter().any(|from| from == "all") {
            let all = folders.all().into_iter().filter(|(place, hosts)| {
                scope.is_none_or(|scope| {
                    hosts.iter().any(|host| folders.scoped(host, scope).as_ref() == Some(place))
                })
            });
            return self.listing(all.collect(), "no file lists");
        }
        let mut hits = Vec::new();
        for host in hosts(&self.from)? {
            let places = match scope {
                Some(scope) => folders.scoped(host, scope).into_iter().collect(),
                None if host == OWN => folders.own(),
                None => folders.of(host).unwrap_or_default(),
            };
            if let (true, Some(scope)) = (places.is_empty(), scope) {
                return Err(Failure::usage(format!("{host} has no file for {}", option(scope))));
            }
            let found = self.listing(
                places.into_iter().map(|place| (place, vec![host])).collect(),
                &format!("{host} lists no"),
            )?;
            if found.len() > 1 {
                return Err(self.which(host, &found, folders));
            }
            hits.extend(found);
        }
        Ok(hits)
    }

    /// Those of the lists that have the server. A file that cannot be read may have it too.
    fn listing(&self, candidates: Vec<Candidate>, nobody: &str) -> Result<Vec<Candidate>> {
        let mut looked = String::from("looked in");
        let (mut hits, mut names) = (Vec::new(), Vec::new());
        let mut seen: Vec<Place> = Vec::new();
        for (place, hosts) in candidates {
            if seen.iter().any(|other| other.is_same(&place)) {
                continue;
            }
            seen.push(place.clone());
            let opened = files::open(&place).map_err(|wrong| wrong.failure(&place).nothing_written())?;
            let there = match &opened {
                None => "not there".to_owned(),
                Some(opened) => match listed(opened).len() {
                    0 => "lists none".to_owned(),
                    1 => "lists one other".to_owned(),
                    count => format!("lists {count} others"),
                },
            };
            looked.push_str(&format!("\n{} ({there})", place.shown()));
            let mine: Vec<String> = opened.iter().flat_map(listed).collect();
            if mine.contains(&self.name) {
                hits.push((place, hosts));
            }
            names.extend(mine);
        }
        if !hits.is_empty() {
            return Ok(hits);
        }
        let failure = Failure::usage(format!("{nobody} `{}`", self.name)).at("name").seen(looked);
        Err(match did_you_mean(&self.name, names.iter().map(String::as_str)) {
            Some(advice) => failure.hint(advice),
            None => failure.hint("`tsugite config list` shows what there is"),
        })
    }

    fn which(&self, host: &str, found: &[Candidate], folders: &Folders) -> Failure {
        let places: Vec<String> = found.iter().map(|(place, _)| place.shown()).collect();
        let failure = Failure::usage(format!("{host} lists `{}` more than once", self.name));
        let failure = failure.at("name").seen(format!("{}; nothing was written", places.join("\n")));
        let scopes = [Scope::Project, Scope::Local, Scope::Global].into_iter();
        let hints = scopes.filter_map(|scope| {
            let place = folders.scoped(host, scope)?;
            let is_there = found.iter().any(|(found, _)| *found == place);
            is_there.then(|| format!("{} removes the one in {}", option(scope), place.shown()))
        });
        hints.fold(failure, Failure::hint).hint("--from all removes it everywhere")
    }
}

fn listed(opened: &Opened) -> Vec<String> {
    let members = opened.list().map(Node::members).unwrap_or_default();
    members.iter().map(|member| member.name.clone()).collect()
}
