//! `tsugite config add`: a server is written into the files of hosts.

use std::ffi::OsString;

use clap::Args;
use serde_json::{Map, Value, json};

use super::entry::{Destination, Entry, Source, Way, Written, not_text, this_program};
use super::references;
use super::writing::{Done, Plan, unchangeable};
use super::{Scopes, hosts, option};
use crate::edit::{Document, field};
use crate::fail::{Failure, Result};
use crate::options::{Common, Transport, header, variable};
use crate::screen::{Screen, clean};
use crate::target::files;
use crate::target::hosts::{Folders, OWN, Part, Place, Scope};
use crate::target::{self, SPELLINGS};

/// Add a server to the files of hosts
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite config add [OPTIONS] NAME TARGET\n       tsugite config add [OPTIONS] NAME -- COMMAND…",
    after_help = "A TARGET is a URL, `-- COMMAND ARGS…`, `demo`, or a server of another file, which is copied: NAME, FILE.json:NAME\nor HOST:NAME. Its variables stay variables, in the spelling of the host.\n\nExamples:\n  tsugite config add issues https://example.com/mcp --to cursor,claude-code -H 'Authorization: Bearer ${TOKEN}'\n  tsugite config add files --to claude-desktop -e ROOT=/srv -- npx -y some-server\n  tsugite config add issues cursor:issues --to vscode --project --dry-run"
)]
pub(super) struct Add {
    #[arg(hide = true)]
    words: Vec<String>,
    /// For whom: claude-desktop, claude-code, cursor, vscode, or tsugite, the default
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    to: Vec<String>,
    #[command(flatten)]
    scopes: Scopes,
    /// A variable of the server's environment; -e NAME refers to the one of that name
    #[arg(short, long = "env", value_name = "K=V", value_parser = variable)]
    env: Vec<(String, Option<String>)>,
    /// A header to send with every request
    #[arg(short = 'H', long = "header", value_name = "K: V", value_parser = header)]
    headers: Vec<(String, String)>,
    /// What to speak at a URL
    #[arg(long, value_enum, default_value_t = Transport::Auto)]
    transport: Transport,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Replace a server that has this name
    #[arg(long)]
    force: bool,
    /// Print what was done, and failures, as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// The server to start
    #[arg(last = true, hide = true)]
    command: Vec<OsString>,
}

impl Add {
    pub(super) fn run(self) -> Result<()> {
        let screen = Screen::new(self.json);
        let (name, entry) = self.entry()?;
        let names = if self.to.is_empty() { vec![OWN.to_owned()] } else { self.to.clone() };
        let scope = self.scopes.given();
        let folders = Folders::of_this_process();
        let mut plan = Plan::default();
        let mut notes = Vec::new();
        for host in hosts(&names)? {
            let place = place(&folders, host, scope)?;
            let form = if is_shared(&place) { "claude-code" } else { host };
            let file = files::absolute(&place);
            let to = Destination { host: form, file: &file, everywhere: place.path.is_absolute() };
            let Written { value, left_out } = self.for_host(&entry, form)?.write(&to)?;
            self.plan(&mut plan, host, &place, &name, &value)?;
            if !left_out.is_empty() {
                notes.push(format!("note: {host} has no use for {}, left out", left_out.join(", ")));
            }
            notes.extend(hiding(&folders, host, &place, &name));
        }
        plan.carry_out(&name, self.dry_run, &screen)?;
        if !self.json {
            notes.iter().for_each(|note| screen.note(note));
        }
        Ok(())
    }

    /// The name, and what it stands for.
    fn entry(&self) -> Result<(String, Entry)> {
        let mut words = self.words.iter();
        let example = "tsugite config add issues https://example.com/mcp --to cursor";
        let Some(name) = words.next() else {
            return Err(Failure::usage("`config add` needs a name for the server").hint(example));
        };
        if name.is_empty() || clean(name) != *name || name.contains(['\n', '\t']) {
            return Err(Failure::usage(format!("{name:?} is no name for a server")));
        }
        let entry = match (self.command.split_first(), words.next()) {
            (Some(_), Some(word)) => return Err(Failure::usage(format!("{word:?} is one word too many"))),
            (Some((program, args)), None) => started(program, args)?,
            (None, None) => {
                return Err(Failure::usage("`config add` needs a server").hint(SPELLINGS).hint(example));
            }
            (None, Some(word)) if word == "demo" => {
                let args = vec!["serve".to_owned(), "--stdio".to_owned()];
                command(this_program()?, args)
            }
            (None, Some(word)) if target::is_url(word)? => {
                Entry::new(Way::Url { url: word.clone(), headers: Map::new(), transport: Transport::Auto })
            }
            (None, Some(word)) => copied(word)?,
        };
        match words.next() {
            None => Ok((name.clone(), entry)),
            Some(word) => Err(Failure::usage(format!("{word:?} is one word too many"))
                .hint("a command and its arguments stand after `--`")),
        }
    }

    /// The entry, with what the options say, for one host.
    fn for_host(&self, entry: &Entry, host: &'static str) -> Result<Entry> {
        let mut entry = entry.clone();
        match &mut entry.way {
            Way::Command { env, .. } => {
                if !self.headers.is_empty() {
                    return Err(Failure::usage("-H is for servers with a URL"));
                }
                if self.transport != Transport::Auto {
                    return Err(Failure::usage("--transport is for servers with a URL"));
                }
                for (name, value) in &self.env {
                    let value = match value {
                        Some(value) => value.clone(),
                        None => references::variable(name, host).map_err(|wrong| {
                            let failure = Failure::usage(format!("-e {name}: {wrong}")).at("entry");
                            failure.hint(format!("-e {name}=VALUE writes the value itself into the file"))
                        })?,
                    };
                    env.insert(name.clone(), json!(value));
                }
            }
            Way::Url { headers, transport, .. } => {
                if !self.env.is_empty() {
                    return Err(Failure::usage("-e is for servers that are started"));
                }
                for (name, value) in &self.headers {
                    headers.insert(name.clone(), json!(value));
                }
                if self.transport != Transport::Auto {
                    *transport = self.transport;
                }
            }
        }
        Ok(entry)
    }

    fn plan(&self, plan: &mut Plan, host: &str, place: &Place, name: &str, value: &Value) -> Result<()> {
        let (file, document) = plan.file(place)?;
        let path = list_for(document, place, host)?;
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let failed = |wrong| unchangeable(place, &wrong);
        let there = match document.find(&names).map_err(failed)? {
            Some(list) => document.member(list, name, &names).map_err(failed)?,
            None => None,
        };
        let done = match there.map(|member| (member.value.value() == *value, document.line(member.start))) {
            None => Done::Added,
            Some((true, _)) => Done::AlreadyThere,
            Some((false, _)) if self.force => Done::Replaced,
            Some((false, line)) => {
                return Err(Failure::usage(format!("{host} has another `{name}`"))
                    .at("edit")
                    .seen(format!("{}, line {line}; nothing was written", place.shown()))
                    .hint("--force replaces it")
                    .hint("another name can stand beside it"));
            }
        };
        if done != Done::AlreadyThere {
            let changed = document.set(&names, name, value);
            plan.change(file, place, changed)?;
        }
        plan.step(host, place, file, done);
        Ok(())
    }
}

/// A program that is started.
fn started(program: &OsString, args: &[OsString]) -> Result<Entry> {
    let text = |word: &OsString| {
        let text = word.to_str().ok_or_else(|| not_text("the command"))?;
        Ok(text.to_owned())
    };
    let program = text(program)?;
    if program.is_empty() {
        return Err(Failure::usage("the command is empty"));
    }
    Ok(command(program, args.iter().map(text).collect::<Result<_>>()?))
}

fn command(command: String, args: Vec<String>) -> Entry {
    Entry::new(Way::Command { command, args, env: Map::new(), env_file: None, cwd: None })
}

/// A server of another file, as it stands there.
fn copied(word: &str) -> Result<Entry> {
    let (listed, place) = target::look_up(word, &Common::plain())?;
    let failed = |seen: String| {
        Failure::usage(format!("`{}` in {} cannot be used", listed.name, place.shown())).at("name").seen(seen)
    };
    let opened = files::open(&place).map_err(|wrong| wrong.failure(&place))?;
    let opened = opened.ok_or_else(|| failed("it is gone".to_owned()))?;
    match &listed.connection {
        // Its host may have the variables and the files that we have not.
        Err(wrong) if wrong.unset_variable().is_some() || wrong.field().ends_with(".envFile") => {}
        Err(wrong) => return Err(failed(opened.wrong(wrong).to_string())),
        Ok(_) => {}
    }
    let member =
        opened.list().and_then(|list| list.members().iter().find(|member| member.name == listed.name));
    let member = member.ok_or_else(|| failed("it is gone".to_owned()))?;
    let all = Folders::of_this_process().all().into_iter();
    let file = files::absolute(&place);
    let hosts =
        all.filter(|(known, _)| files::absolute(known) == file).flat_map(|(_, hosts)| hosts).collect();
    Ok(Entry::read(&member.value.value(), Source { file, hosts }))
}

/// Where a host lists a server of this scope.
fn place(folders: &Folders, host: &'static str, scope: Option<Scope>) -> Result<Place> {
    if let Some(place) = folders.scoped(host, scope.unwrap_or(Scope::Global)) {
        return Ok(place);
    }
    let failure = match scope {
        None | Some(Scope::Global) => {
            Failure::usage(format!("it cannot be told where {host} has its file")).seen("HOME is not set")
        }
        Some(scope) => Failure::usage(format!("{host} has no file for {}", option(scope))),
    };
    let scopes = [Scope::Global, Scope::Project, Scope::Local].into_iter();
    let others: Vec<&str> =
        scopes.filter(|scope| folders.scoped(host, *scope).is_some()).map(option).collect();
    Err(match others.is_empty() {
        true => failure,
        false => failure.hint(format!("it has one for {}", others.join(" and "))),
    })
}

/// Whether it is the file of a project that several programs read.
fn is_shared(place: &Place) -> bool {
    place.part == Part::List && place.path.as_os_str() == ".mcp.json"
}

/// The names on the way to the list that a host reads.
fn list_for(document: &Document, place: &Place, host: &str) -> Result<Vec<String>> {
    let wanted: Vec<String> = match (&place.part, host) {
        (Part::Project(project), _) => {
            let project = project.to_str().ok_or_else(|| not_text("this folder"))?;
            vec!["projects".to_owned(), project.to_owned(), "mcpServers".to_owned()]
        }
        (_, "vscode") => vec!["servers".to_owned()],
        _ => vec!["mcpServers".to_owned()],
    };
    let found = files::list_path(document, &place.part).map_err(|wrong| unchangeable(place, &wrong))?;
    match found {
        Some(found) if found == wanted || (host == OWN && !is_shared(place)) => Ok(found),
        Some(found) => {
            let names = |path: &[String]| field(&path.iter().map(String::as_str).collect::<Vec<_>>());
            Err(unchangeable(
                place,
                &format!("it lists servers in `{}`, and {host} reads `{}`", names(&found), names(&wanted)),
            ))
        }
        None => Ok(wanted),
    }
}

/// Lists that come before the one that is written to, and have a server of this name.
fn hiding(folders: &Folders, host: &str, place: &Place, name: &str) -> Vec<String> {
    let places = if host == OWN { folders.own() } else { folders.of(host).unwrap_or_default() };
    let before = places.into_iter().take_while(|other| !other.is_same(place));
    let lists = before.filter(|other| {
        let opened = files::open(other).ok().flatten();
        opened.is_some_and(|opened| {
            opened.list().is_some_and(|list| list.members().iter().any(|member| member.name == name))
        })
    });
    lists
        .map(|other| format!("note: {} lists `{name}` too, and comes first for {host} here", other.shown()))
        .collect()
}
