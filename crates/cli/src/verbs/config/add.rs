//! `tsugite config add`: a server is written into the files of hosts.

use std::ffi::OsString;

use clap::Args;
use serde_json::{Map, Value, json};

use super::change_plan::{ChangeKind, ChangePlan, edit_error};
use super::entry::{
    Destination, EntryKind, EntrySource, RenderedEntry, ServerEntry, current_program, not_utf8_error,
};
use super::references;
use super::{ScopeOptions, parse_hosts, scope_option};
use crate::console::{Console, sanitize};
use crate::edit::{Document, field_path};
use crate::error::{CliError, Result};
use crate::options::{CommonOptions, Transport, parse_env_var, parse_header};
use crate::targets::config_files;
use crate::targets::hosts::{ConfigDirs, ConfigLocation, ConfigSection, OWN_HOST, Scope};
use crate::targets::{self, TARGET_HINT};

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
    scopes: ScopeOptions,
    /// A variable of the server's environment; -e NAME refers to the one of that name
    #[arg(short, long = "env", value_name = "K=V", value_parser = parse_env_var)]
    env: Vec<(String, Option<String>)>,
    /// A header to send with every request
    #[arg(short = 'H', long = "header", value_name = "K: V", value_parser = parse_header)]
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
        let screen = Console::new(self.json);
        let (name, entry) = self.parse_entry()?;
        let names = if self.to.is_empty() { vec![OWN_HOST.to_owned()] } else { self.to.clone() };
        let scope = self.scopes.scope();
        let folders = ConfigDirs::from_env();
        let mut plan = ChangePlan::default();
        let mut notes = Vec::new();
        for host in parse_hosts(&names)? {
            let place = location_for(&folders, host, scope)?;
            let form = if is_shared(&place) { "claude-code" } else { host };
            let file = config_files::absolute_path(&place);
            let to = Destination { host: form, file: &file, is_global: place.path.is_absolute() };
            let RenderedEntry { value, omitted: left_out } = self.with_options(&entry, form)?.render(&to)?;
            self.add_to_plan(&mut plan, host, &place, &name, &value)?;
            if !left_out.is_empty() {
                notes.push(format!("note: {host} has no use for {}, left out", left_out.join(", ")));
            }
            notes.extend(shadowing_notes(&folders, host, &place, &name));
        }
        plan.apply(&name, self.dry_run, &screen)?;
        if !self.json {
            notes.iter().for_each(|note| screen.note(note));
        }
        Ok(())
    }

    /// The name, and what it stands for.
    fn parse_entry(&self) -> Result<(String, ServerEntry)> {
        let mut words = self.words.iter();
        let example = "tsugite config add issues https://example.com/mcp --to cursor";
        let Some(name) = words.next() else {
            return Err(CliError::usage("`config add` needs a name for the server").hint(example));
        };
        if name.is_empty() || sanitize(name) != *name || name.contains(['\n', '\t']) {
            return Err(CliError::usage(format!("{name:?} is no name for a server")));
        }
        let entry = match (self.command.split_first(), words.next()) {
            (Some(_), Some(word)) => return Err(CliError::usage(format!("{word:?} is one word too many"))),
            (Some((program, args)), None) => entry_for_program(program, args)?,
            (None, None) => {
                return Err(CliError::usage("`config add` needs a server").hint(TARGET_HINT).hint(example));
            }
            (None, Some(word)) if word == "demo" => {
                let args = vec!["serve".to_owned(), "--stdio".to_owned()];
                command_entry(current_program()?, args)
            }
            (None, Some(word)) if targets::is_url(word)? => ServerEntry::new(EntryKind::Url {
                url: word.clone(),
                headers: Map::new(),
                transport: Transport::Auto,
            }),
            (None, Some(word)) => entry_from_file(word)?,
        };
        match words.next() {
            None => Ok((name.clone(), entry)),
            Some(word) => Err(CliError::usage(format!("{word:?} is one word too many"))
                .hint("a command and its arguments stand after `--`")),
        }
    }

    /// The entry, with what the options say, for one host.
    fn with_options(&self, entry: &ServerEntry, host: &'static str) -> Result<ServerEntry> {
        let mut entry = entry.clone();
        match &mut entry.kind {
            EntryKind::Command { env, .. } => {
                if !self.headers.is_empty() {
                    return Err(CliError::usage("-H is for servers with a URL"));
                }
                if self.transport != Transport::Auto {
                    return Err(CliError::usage("--transport is for servers with a URL"));
                }
                for (name, value) in &self.env {
                    let value = match value {
                        Some(value) => value.clone(),
                        None => references::env_reference(name, host).map_err(|wrong| {
                            let failure = CliError::usage(format!("-e {name}: {wrong}")).at_step("entry");
                            failure.hint(format!("-e {name}=VALUE writes the value itself into the file"))
                        })?,
                    };
                    env.insert(name.clone(), json!(value));
                }
            }
            EntryKind::Url { headers, transport, .. } => {
                if !self.env.is_empty() {
                    return Err(CliError::usage("-e is for servers that are started"));
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

    fn add_to_plan(
        &self,
        plan: &mut ChangePlan,
        host: &str,
        place: &ConfigLocation,
        name: &str,
        value: &Value,
    ) -> Result<()> {
        let (file, document) = plan.file(place)?;
        let path = list_path_for(document, place, host)?;
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let failed = |wrong| edit_error(place, &wrong);
        let there = match document.find(&names).map_err(failed)? {
            Some(list) => document.member(list, name, &names).map_err(failed)?,
            None => None,
        };
        let done =
            match there.map(|member| (member.value.value() == *value, document.line_number(member.start))) {
                None => ChangeKind::Added,
                Some((true, _)) => ChangeKind::Unchanged,
                Some((false, _)) if self.force => ChangeKind::Replaced,
                Some((false, line)) => {
                    return Err(CliError::usage(format!("{host} has another `{name}`"))
                        .at_step("edit")
                        .detail(format!("{}, line {line}; nothing was written", place.describe()))
                        .hint("--force replaces it")
                        .hint("another name can stand beside it"));
                }
            };
        if done != ChangeKind::Unchanged {
            let changed = document.set(&names, name, value);
            plan.set_text(file, place, changed)?;
        }
        plan.add_step(host, place, file, done);
        Ok(())
    }
}

/// A program that is started.
fn entry_for_program(program: &OsString, args: &[OsString]) -> Result<ServerEntry> {
    let text = |word: &OsString| {
        let text = word.to_str().ok_or_else(|| not_utf8_error("the command"))?;
        Ok(text.to_owned())
    };
    let program = text(program)?;
    if program.is_empty() {
        return Err(CliError::usage("the command is empty"));
    }
    Ok(command_entry(program, args.iter().map(text).collect::<Result<_>>()?))
}

fn command_entry(command: String, args: Vec<String>) -> ServerEntry {
    ServerEntry::new(EntryKind::Command { command, args, env: Map::new(), env_file: None, cwd: None })
}

/// A server of another file, as it stands there.
fn entry_from_file(word: &str) -> Result<ServerEntry> {
    let (listed, place) = targets::look_up(word, &CommonOptions::defaults())?;
    let failed = |seen: String| {
        CliError::usage(format!("`{}` in {} cannot be used", listed.name, place.describe()))
            .at_step("name")
            .detail(seen)
    };
    let opened = config_files::open(&place).map_err(|wrong| wrong.to_cli_error(&place))?;
    let opened = opened.ok_or_else(|| failed("it is gone".to_owned()))?;
    match &listed.connection {
        // Its host may have the variables and the files that we have not.
        Err(wrong) if wrong.unset_variable().is_some() || wrong.field().ends_with(".envFile") => {}
        Err(wrong) => return Err(failed(opened.locate_error(wrong).to_string())),
        Ok(_) => {}
    }
    let member =
        opened.list().and_then(|list| list.members().iter().find(|member| member.name == listed.name));
    let member = member.ok_or_else(|| failed("it is gone".to_owned()))?;
    let all = ConfigDirs::from_env().all_locations().into_iter();
    let file = config_files::absolute_path(&place);
    let hosts = all
        .filter(|(known, _)| config_files::absolute_path(known) == file)
        .flat_map(|(_, hosts)| hosts)
        .collect();
    Ok(ServerEntry::from_json(&member.value.value(), EntrySource { file, hosts }))
}

/// Where a host lists a server of this scope.
fn location_for(folders: &ConfigDirs, host: &'static str, scope: Option<Scope>) -> Result<ConfigLocation> {
    if let Some(place) = folders.scoped_location(host, scope.unwrap_or(Scope::Global)) {
        return Ok(place);
    }
    let failure = match scope {
        None | Some(Scope::Global) => {
            CliError::usage(format!("it cannot be told where {host} has its file")).detail("HOME is not set")
        }
        Some(scope) => CliError::usage(format!("{host} has no file for {}", scope_option(scope))),
    };
    let scopes = [Scope::Global, Scope::Project, Scope::Local].into_iter();
    let others: Vec<&str> =
        scopes.filter(|scope| folders.scoped_location(host, *scope).is_some()).map(scope_option).collect();
    Err(match others.is_empty() {
        true => failure,
        false => failure.hint(format!("it has one for {}", others.join(" and "))),
    })
}

/// Whether it is the file of a project that several programs read.
fn is_shared(place: &ConfigLocation) -> bool {
    place.section == ConfigSection::TopLevel && place.path.as_os_str() == ".mcp.json"
}

/// The names on the way to the list that a host reads.
fn list_path_for(document: &Document, place: &ConfigLocation, host: &str) -> Result<Vec<String>> {
    let wanted: Vec<String> = match (&place.section, host) {
        (ConfigSection::ClaudeProject(project), _) => {
            let project = project.to_str().ok_or_else(|| not_utf8_error("this folder"))?;
            vec!["projects".to_owned(), project.to_owned(), "mcpServers".to_owned()]
        }
        (_, "vscode") => vec!["servers".to_owned()],
        _ => vec!["mcpServers".to_owned()],
    };
    let found =
        config_files::list_path(document, &place.section).map_err(|wrong| edit_error(place, &wrong))?;
    match found {
        Some(found) if found == wanted || (host == OWN_HOST && !is_shared(place)) => Ok(found),
        Some(found) => {
            let names = |path: &[String]| field_path(&path.iter().map(String::as_str).collect::<Vec<_>>());
            Err(edit_error(
                place,
                &format!("it lists servers in `{}`, and {host} reads `{}`", names(&found), names(&wanted)),
            ))
        }
        None => Ok(wanted),
    }
}

/// Lists that come before the one that is written to, and have a server of this name.
fn shadowing_notes(folders: &ConfigDirs, host: &str, place: &ConfigLocation, name: &str) -> Vec<String> {
    let places = if host == OWN_HOST {
        folders.own_locations()
    } else {
        folders.host_locations(host).unwrap_or_default()
    };
    let before = places.into_iter().take_while(|other| !other.is_same_list(place));
    let lists = before.filter(|other| {
        let opened = config_files::open(other).ok().flatten();
        opened.is_some_and(|opened| {
            opened.list().is_some_and(|list| list.members().iter().any(|member| member.name == name))
        })
    });
    lists
        .map(|other| {
            format!("note: {} lists `{name}` too, and comes first for {host} here", other.describe())
        })
        .collect()
}
