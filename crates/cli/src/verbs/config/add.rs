//! `tsugite config add`: adds a server to the configuration files of hosts.

use std::ffi::OsString;

use clap::Args;
use serde_json::{Map, Value, json};

use super::change_plan::{ChangeKind, ChangePlan, edit_error};
use super::entry::{
    Destination, EntryKind, EntrySource, RenderedEntry, ServerEntry, current_program, not_utf8_error,
};
use super::{ScopeOptions, parse_hosts, scope_option};
use crate::access_token;
use crate::console::{Console, sanitize};
use crate::edit::{Document, field_path};
use crate::error::{CliError, Result};
use crate::headers;
use crate::options::{Transport, parse_env_var};
use crate::targets::config_files;
use crate::targets::hosts::{ConfigDirs, ConfigLocation, ConfigSection, OWN_HOST, Scope};
use crate::targets::lookup;
use crate::targets::references;
use crate::targets::{self, NO_USER_DIRS, TARGET_HINT};

/// Add a server to the configuration files of hosts
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite config add [OPTIONS] NAME TARGET\n       tsugite config add [OPTIONS] NAME -- COMMAND…",
    after_help = "A TARGET is a URL, `-- COMMAND ARGS…`, `demo`, or a server to copy from another file: NAME, FILE.json:NAME or\nHOST:NAME. References to variables are kept, in the syntax of the host.\n\nExamples:\n  tsugite config add issues https://example.com/mcp --to cursor,claude-code -H 'Authorization: Bearer ${TOKEN}'\n  tsugite config add files --to claude-desktop -e ROOT=/srv -- npx -y some-server\n  tsugite config add issues cursor:issues --to vscode --project --dry-run"
)]
pub(super) struct Add {
    #[arg(hide = true)]
    words: Vec<String>,
    /// The hosts: claude-desktop, claude-code, cursor, vscode, or tsugite (the default)
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    to: Vec<String>,
    #[command(flatten)]
    scopes: ScopeOptions,
    /// An environment variable of the server; -e NAME writes a reference to the variable
    #[arg(short, long = "env", value_name = "K=V", value_parser = parse_env_var)]
    env: Vec<(String, Option<String>)>,
    /// A header to send with every request; -H @FILE reads a file of headers
    #[arg(short = 'H', long = "header", value_name = "K: V")]
    headers: Vec<String>,
    /// The transport for a URL
    #[arg(long, value_enum, default_value_t = Transport::Auto)]
    transport: Transport,
    /// Show the changes without making them
    #[arg(long)]
    dry_run: bool,
    /// Replace an existing server with this name
    #[arg(long)]
    force: bool,
    /// Print changes and errors as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// The server to start
    #[arg(last = true, hide = true)]
    command: Vec<OsString>,
}

impl Add {
    pub(super) fn run(self) -> Result<()> {
        let console = Console::new(self.json);
        let (name, entry) = self.parse_entry()?;
        let names = if self.to.is_empty() { vec![OWN_HOST.to_owned()] } else { self.to.clone() };
        let scope = self.scopes.scope();
        let folders = ConfigDirs::from_env();
        let mut plan = ChangePlan::default();
        let mut notes = Vec::new();
        for host in parse_hosts(&names)? {
            let location = location_for(&folders, host, scope)?;
            let format = if is_shared(&location) { "claude-code" } else { host };
            let file = config_files::absolute_path(&location);
            let to = Destination { host: format, file: &file, is_global: location.path.is_absolute() };
            let RenderedEntry { value, omitted } = self.with_options(&entry, format)?.render(&to)?;
            self.add_to_plan(&mut plan, host, &location, &name, &value)?;
            if !omitted.is_empty() {
                notes.push(format!("note: {host} does not support {}; omitted", omitted.join(", ")));
            }
            notes.extend(shadowing_notes(&folders, host, &location, &name));
        }
        plan.apply(&name, self.dry_run, &console)?;
        if !self.json {
            notes.iter().for_each(|note| console.note(note));
        }
        Ok(())
    }

    /// Parses the name and the entry.
    fn parse_entry(&self) -> Result<(String, ServerEntry)> {
        let mut words = self.words.iter();
        let example = "tsugite config add issues https://example.com/mcp --to cursor";
        let Some(name) = words.next() else {
            return Err(CliError::usage("`config add` needs a name for the server").hint(example));
        };
        if name.is_empty() || sanitize(name) != *name || name.contains(['\n', '\t']) {
            return Err(CliError::usage(format!("{name:?} is not a valid server name")));
        }
        let entry = match (self.command.split_first(), words.next()) {
            (Some(_), Some(word)) => return Err(CliError::usage(format!("unexpected argument {word:?}"))),
            (Some((program, args)), None) => entry_for_program(program, args)?,
            (None, None) => {
                return Err(CliError::usage("`config add` needs a TARGET").hint(TARGET_HINT).hint(example));
            }
            (None, Some(word)) if word == "demo" => {
                let args = vec!["serve".to_owned(), "--stdio".to_owned()];
                command_entry(current_program()?, args)
            }
            // Hosts know no Unix sockets.
            (None, Some(word)) if word.starts_with("unix:") => {
                command_entry(current_program()?, vec!["bridge".to_owned(), word.clone()])
            }
            (None, Some(word)) if targets::is_url(word)? => {
                let mut headers = Map::new();
                // A server that this user serves on this machine may need a token.
                if let Some(token) = access_token::token_for_url(word) {
                    headers.insert("Authorization".to_owned(), format!("Bearer {token}").into());
                }
                ServerEntry::new(EntryKind::Url { url: word.clone(), headers, transport: Transport::Auto })
            }
            (None, Some(word)) => entry_from_file(word)?,
        };
        match words.next() {
            None => Ok((name.clone(), entry)),
            Some(word) => Err(CliError::usage(format!("unexpected argument {word:?}"))
                .hint("put a command and its arguments after `--`")),
        }
    }

    /// Returns the entry with the options applied, for one host.
    fn with_options(&self, entry: &ServerEntry, host: &'static str) -> Result<ServerEntry> {
        let mut entry = entry.clone();
        match &mut entry.kind {
            EntryKind::Command { env, .. } => {
                if !self.headers.is_empty() {
                    return Err(CliError::usage("-H only applies to servers with a URL"));
                }
                if self.transport != Transport::Auto {
                    return Err(CliError::usage("--transport only applies to servers with a URL"));
                }
                for (name, value) in &self.env {
                    let value = match value {
                        Some(value) => value.clone(),
                        None => references::env_reference(name, host).map_err(|wrong| {
                            let failure = CliError::usage(format!("-e {name}: {wrong}")).at_step("entry");
                            failure.hint(format!("-e {name}=VALUE writes the value itself to the file"))
                        })?,
                    };
                    env.insert(name.clone(), json!(value));
                }
            }
            EntryKind::Url { headers, transport, .. } => {
                if !self.env.is_empty() {
                    return Err(CliError::usage("-e only applies to servers that the host starts"));
                }
                for (name, value) in headers::parse_all(&self.headers)? {
                    headers.insert(name, json!(value));
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
        location: &ConfigLocation,
        name: &str,
        value: &Value,
    ) -> Result<()> {
        let (file, document) = plan.file(location)?;
        let path = list_path_for(document, location, host)?;
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let failed = |wrong| edit_error(location, &wrong);
        let existing = match document.find(&names).map_err(failed)? {
            Some(list) => document.member(list, name, &names).map_err(failed)?,
            None => None,
        };
        let kind = match existing
            .map(|member| (member.value.value() == *value, document.line_number(member.start)))
        {
            None => ChangeKind::Added,
            Some((true, _)) => ChangeKind::Unchanged,
            Some((false, _)) if self.force => ChangeKind::Replaced,
            Some((false, line)) => {
                return Err(CliError::usage(format!("{host} already has a different `{name}`"))
                    .at_step("edit")
                    .detail(format!("{}, line {line}; nothing was written", location.describe()))
                    .hint("--force replaces it")
                    .hint("choose another name"));
            }
        };
        if kind != ChangeKind::Unchanged {
            let changed = document.set(&names, name, value);
            plan.set_text(file, location, changed)?;
        }
        plan.add_step(host, location, file, kind);
        Ok(())
    }
}

/// Returns the entry for a command.
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

/// Copies an entry from another file.
fn entry_from_file(word: &str) -> Result<ServerEntry> {
    let found = targets::look_up(word)?;
    let (name, location) = (&found.name, &found.location);
    let failed = |detail: String| {
        CliError::usage(format!("invalid entry `{name}` in {}", location.describe()))
            .at_step("name")
            .detail(detail)
    };
    let opened = config_files::open(location).map_err(|wrong| wrong.to_cli_error(location))?;
    let opened = opened.ok_or_else(|| failed("the entry was removed in the meantime".to_owned()))?;
    match lookup::read_unexpanded_entry(&found)? {
        // The file may exist where the host runs.
        Err(wrong) if wrong.field().ends_with(".envFile") => {}
        Err(wrong) => return Err(failed(opened.locate_error(&wrong).to_string())),
        Ok(_) => {}
    }
    let member = opened.list().and_then(|list| list.members().iter().find(|member| member.name == *name));
    let member = member.ok_or_else(|| failed("the entry was removed in the meantime".to_owned()))?;
    let all = ConfigDirs::from_env().all_locations().into_iter();
    let file = config_files::absolute_path(location);
    let hosts = all
        .filter(|(known, _)| config_files::absolute_path(known) == file)
        .flat_map(|(_, hosts)| hosts)
        .collect();
    Ok(ServerEntry::from_json(&member.value.value(), EntrySource { file, hosts }))
}

/// Returns the list of a host for a scope.
fn location_for(folders: &ConfigDirs, host: &'static str, scope: Option<Scope>) -> Result<ConfigLocation> {
    if let Some(location) = folders.scoped_location(host, scope.unwrap_or(Scope::Global)) {
        return Ok(location);
    }
    let failure = match scope {
        None | Some(Scope::Global) => {
            CliError::usage(format!("cannot locate the configuration file of {host}")).detail(NO_USER_DIRS)
        }
        Some(scope) => CliError::usage(format!("{host} does not support {}", scope_option(scope))),
    };
    let scopes = [Scope::Global, Scope::Project, Scope::Local].into_iter();
    let others: Vec<&str> =
        scopes.filter(|scope| folders.scoped_location(host, *scope).is_some()).map(scope_option).collect();
    Err(match others.is_empty() {
        true => failure,
        false => failure.hint(format!("it supports {}", others.join(" and "))),
    })
}

/// Whether it is the project file that several programs read.
fn is_shared(location: &ConfigLocation) -> bool {
    location.section == ConfigSection::TopLevel && location.path.as_os_str() == ".mcp.json"
}

/// Returns the path of the list that a host reads.
fn list_path_for(document: &Document, location: &ConfigLocation, host: &str) -> Result<Vec<String>> {
    let wanted: Vec<String> = match (&location.section, host) {
        (ConfigSection::ClaudeProject(project), _) => {
            let project = project.to_str().ok_or_else(|| not_utf8_error("this folder"))?;
            vec!["projects".to_owned(), project.to_owned(), "mcpServers".to_owned()]
        }
        (_, "vscode") => vec!["servers".to_owned()],
        _ => vec!["mcpServers".to_owned()],
    };
    let found =
        config_files::list_path(document, &location.section).map_err(|wrong| edit_error(location, &wrong))?;
    match found {
        Some(found) if found == wanted || (host == OWN_HOST && !is_shared(location)) => Ok(found),
        Some(found) => {
            let names = |path: &[String]| field_path(&path.iter().map(String::as_str).collect::<Vec<_>>());
            Err(edit_error(
                location,
                &format!("its servers are in `{}`, but {host} reads `{}`", names(&found), names(&wanted)),
            ))
        }
        None => Ok(wanted),
    }
}

/// Returns a note for each list that overrides the one being changed and has a server of this name.
fn shadowing_notes(folders: &ConfigDirs, host: &str, location: &ConfigLocation, name: &str) -> Vec<String> {
    let locations = if host == OWN_HOST {
        folders.own_locations()
    } else {
        folders.host_locations(host).unwrap_or_default()
    };
    let before = locations.into_iter().take_while(|other| !other.is_same_list(location));
    let lists = before.filter(|other| {
        let opened = config_files::open(other).ok().flatten();
        opened.is_some_and(|opened| {
            opened.list().is_some_and(|list| list.members().iter().any(|member| member.name == name))
        })
    });
    lists
        .map(|other| {
            format!("note: {} also has `{name}`, and takes precedence for {host} here", other.describe())
        })
        .collect()
}
