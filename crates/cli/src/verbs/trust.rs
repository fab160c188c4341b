//! `tsugite trust`: shows, gives, lists and revokes consent for servers in files of the current folder.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::console::{Console, Style};
use crate::error::{CliError, Result};
use crate::targets;
use crate::targets::hosts::{ConfigDirs, ConfigLocation, ConfigSection};
use crate::targets::lookup::FoundServer;
use crate::trust::{self, Consent, FolderEntry};

/// Show, trust and revoke servers in configuration files of the current folder
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "Such a file may come with a checkout, so its servers are used only after you agreed. Consent holds for one entry of one\nfile, until the entry changes. Files of your own, and files outside of the folder, need none.\n\nExamples:\n  tsugite trust show .mcp.json:github\n  tsugite trust add .mcp.json:github\n  tsugite trust list\n  tsugite trust revoke --all"
)]
pub(crate) struct Trust {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Show(Show),
    Add(Add),
    Revoke(Revoke),
}

/// List the entries that are trusted
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tsugite trust list\n  tsugite trust list --json")]
struct List {
    /// Print the list and errors as JSON
    #[arg(long)]
    json: bool,
}

/// Show what entries would run, and whether they are trusted
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tsugite trust show .mcp.json:github\n  tsugite trust show cursor:github"
)]
struct Show {
    /// NAME, FILE.json:NAME, HOST:NAME, or FILE.json for all its entries
    #[arg(value_name = "TARGET", required = true)]
    targets: Vec<String>,
    /// Print entries and errors as JSON
    #[arg(long)]
    json: bool,
}

/// Trust entries, until they change
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tsugite trust add .mcp.json:github\n  tsugite trust add .mcp.json")]
struct Add {
    /// NAME, FILE.json:NAME, HOST:NAME, or FILE.json for all its entries
    #[arg(value_name = "TARGET", required = true)]
    targets: Vec<String>,
    /// Print entries and errors as JSON
    #[arg(long)]
    json: bool,
}

/// Revoke the trust in entries
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tsugite trust revoke .mcp.json:github\n  tsugite trust revoke --all")]
struct Revoke {
    /// NAME, FILE.json:NAME, HOST:NAME, FILE.json for all its entries, or an id of the list
    #[arg(value_name = "TARGET", required_unless_present = "all")]
    targets: Vec<String>,
    /// Revoke all of them
    #[arg(long, conflicts_with = "targets")]
    all: bool,
    /// Print entries and errors as JSON
    #[arg(long)]
    json: bool,
}

impl Trust {
    pub(crate) fn run(self) -> Result<()> {
        match self.action {
            Action::List(action) => action.run(),
            Action::Show(Show { targets, json }) => show(&targets, json, false),
            Action::Add(Add { targets, json }) => show(&targets, json, true),
            Action::Revoke(action) => action.run(),
        }
    }

    pub(crate) fn wants_json(&self) -> bool {
        match &self.action {
            Action::List(List { json })
            | Action::Show(Show { json, .. })
            | Action::Add(Add { json, .. })
            | Action::Revoke(Revoke { json, .. }) => *json,
        }
    }
}

impl List {
    fn run(self) -> Result<()> {
        let console = Console::new(self.json);
        let consents = trust::consents();
        if self.json {
            let entries: Vec<Value> = consents.iter().map(consent_json).collect();
            return console.print_json(&json!({ "entries": entries }));
        }
        if consents.is_empty() {
            console.note("no entry is trusted");
        }
        let mut before = None;
        for consent in &consents {
            if before != Some(&consent.file) {
                let file = console.sanitized_name(&consent.file.to_string_lossy());
                console.print_line(&console.paint(Style::Bold, &file))?;
                before = Some(&consent.file);
            }
            let name = console.paint(Style::Green, &console.sanitized_name(&consent.name));
            console.print_line(&format!("  {name}  {}  {}", state(consent), short_id(&consent.id)))?;
        }
        Ok(())
    }
}

/// Shows entries, and trusts them if `add` is set.
fn show(words: &[String], json: bool, add: bool) -> Result<()> {
    let console = Console::new(json);
    let mut entries = Vec::new();
    for word in words {
        for found in targets::look_up_all(word)? {
            match trust::needs_consent(&found.location) {
                true => entries.push(FolderEntry::read(&found)?),
                false => {
                    let file = found.location.describe();
                    console.note(&format!(
                        "note: `{}` needs no consent: {file} is your own, or outside of the folder",
                        found.name
                    ));
                }
            }
        }
    }
    if add {
        // After all of them were read: an error trusts none.
        entries.iter().try_for_each(FolderEntry::record)?;
    }
    if json {
        let entries: Vec<Value> = entries.iter().map(entry_json).collect();
        return console.print_json(&json!({ "entries": entries }));
    }
    for entry in &entries {
        let state = match (entry.is_trusted(), add) {
            (true, true) => "now trusted, until it changes",
            (true, false) => "trusted",
            (false, _) => "not trusted",
        };
        console.print_line(&format!("{}  {state}", entry.describe()))?;
    }
    Ok(())
}

impl Revoke {
    fn run(self) -> Result<()> {
        let console = Console::new(self.json);
        let all = trust::consents();
        let mut revoked: Vec<&Consent> = Vec::new();
        if self.all {
            revoked.extend(&all);
        }
        for word in &self.targets {
            let matches: Vec<&Consent> = all.iter().filter(|consent| names(word, consent)).collect();
            if matches.is_empty() {
                return Err(CliError::usage(format!("no consent for `{word}`"))
                    .at_step("name")
                    .hint("`tsugite trust list` lists all of them"));
            }
            revoked.extend(matches);
        }
        revoked.sort_by(|a, b| (&a.file, &a.name, &a.id).cmp(&(&b.file, &b.name, &b.id)));
        revoked.dedup();
        for consent in &revoked {
            consent.revoke().map_err(|error| {
                CliError::usage(format!("cannot revoke the consent for `{}`", consent.name))
                    .at_step("trust")
                    .detail(error.to_string())
            })?;
        }
        if self.json {
            let entries: Vec<Value> = revoked.iter().map(|consent| consent_json(consent)).collect();
            return console.print_json(&json!({ "revoked": entries }));
        }
        for consent in &revoked {
            let name = console.sanitized_name(&consent.name);
            let file = console.sanitized_name(&consent.file.to_string_lossy());
            console.print_line(&format!("`{name}` in {file} is no longer trusted"))?;
        }
        Ok(())
    }
}

/// Whether a word names the entry of a consent, which may have been removed from its file.
fn names(word: &str, consent: &Consent) -> bool {
    let folders = ConfigDirs::from_env();
    let is_one_of = |locations: Vec<ConfigLocation>| {
        locations.iter().any(|location| trust::real_path(&location.path) == consent.file)
    };
    let is_file = |path: String| trust::real_path(&PathBuf::from(path)) == consent.file;
    if word.len() >= MIN_ID_CHARS && consent.id.starts_with(word) {
        return true;
    }
    match (word.split_once(".json:"), word.split_once(':')) {
        (Some((file, name)), _) => consent.name == name && is_file(format!("{file}.json")),
        (None, Some((host, name))) => {
            consent.name == name && is_one_of(folders.host_locations(host).unwrap_or_default())
        }
        (None, None) if word.ends_with(".json") => is_file(word.to_owned()),
        (None, None) => consent.name == word && is_one_of(folders.own_locations()),
    }
}

/// Whether the entry is still the one that the consent was given for.
fn state(consent: &Consent) -> &'static str {
    let location = ConfigLocation { path: consent.file.clone(), section: ConfigSection::TopLevel };
    match FolderEntry::read(&FoundServer { name: consent.name.clone(), location }) {
        Ok(entry) if entry.id() == consent.id => "trusted",
        Ok(_) => "changed",
        Err(_) => "gone",
    }
}

fn consent_json(consent: &Consent) -> Value {
    json!({ "id": consent.id, "file": consent.file, "name": consent.name, "state": state(consent) })
}

fn entry_json(entry: &FolderEntry) -> Value {
    let rows = entry.rows.iter().map(|(label, line)| json!([label, line]));
    json!({
        "id": entry.id(),
        "file": entry.file,
        "name": entry.name,
        "trusted": entry.is_trusted(),
        "rows": rows.collect::<Vec<Value>>(),
        "reads": entry.variables,
        "warnings": entry.warnings,
    })
}

fn short_id(id: &str) -> &str {
    id.get(..MIN_ID_CHARS).unwrap_or(id)
}

/// The beginning of an id that names a consent.
const MIN_ID_CHARS: usize = 12;
