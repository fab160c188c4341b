//! Plans changes to several files, and makes them together.

use std::fmt::Display;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::console::{Console, Style};
use crate::edit::diff::unified_diff;
use crate::edit::save::{self, FileChange, OriginalFile};
use crate::edit::{Document, EditError};
use crate::error::{CliError, Result};
use crate::targets::config_files::ConfigFileError;
use crate::targets::hosts::ConfigLocation;

/// The planned changes.
#[derive(Default)]
pub(super) struct ChangePlan {
    files: Vec<PlannedFile>,
    steps: Vec<PlanStep>,
}

/// A file and its new document. Two paths may lead to the same file.
struct PlannedFile {
    original: OriginalFile,
    document: Document,
    private: bool,
}

/// One change, for the output.
struct PlanStep {
    host: String,
    location: ConfigLocation,
    kind: ChangeKind,
    /// The index of the file.
    file: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeKind {
    Added,
    Replaced,
    Removed,
    Unchanged,
}

impl ChangePlan {
    /// Returns the index and the document of a file, with the changes planned so far. A missing or empty file is treated as
    /// an empty object.
    pub(super) fn file(&mut self, location: &ConfigLocation) -> Result<(usize, &Document)> {
        let original = OriginalFile::read(&location.path)?;
        let known = self.files.iter().position(|file| file.original.real_path() == original.real_path());
        let number = match known {
            Some(number) => number,
            None => {
                let text = original.text().filter(|text| !text.trim().is_empty());
                let document = match text {
                    None => Document::empty(),
                    Some(text) => Document::parse(text.to_owned()).map_err(|wrong| {
                        ConfigFileError::from(wrong).to_cli_error(location).nothing_written()
                    })?,
                };
                self.files.push(PlannedFile { original, document, private: location.path.is_absolute() });
                self.files.len() - 1
            }
        };
        match self.files.get(number) {
            Some(file) => Ok((number, &file.document)),
            None => Err(CliError::usage("the file is not part of the plan")),
        }
    }

    /// Sets the new text of a file.
    pub(super) fn set_text(
        &mut self,
        number: usize,
        location: &ConfigLocation,
        changed: Result<String, EditError>,
    ) -> Result<()> {
        let text = changed.map_err(|wrong| edit_error(location, &wrong))?;
        // Never write a text that cannot be parsed again.
        let document = Document::parse(text).map_err(|wrong| edit_error(location, &wrong))?;
        if let Some(file) = self.files.get_mut(number) {
            file.document = document;
        }
        Ok(())
    }

    pub(super) fn add_step(
        &mut self,
        host: impl Into<String>,
        location: &ConfigLocation,
        file: usize,
        kind: ChangeKind,
    ) {
        self.steps.push(PlanStep { host: host.into(), location: location.clone(), kind, file });
    }

    /// Makes the changes, or shows them with `dry_run`, and prints what was done.
    pub(super) fn apply(self, name: &str, dry_run: bool, console: &Console) -> Result<()> {
        let changed = |file: &&PlannedFile| file.original.text() != Some(file.document.text());
        let used = |number: usize| {
            self.steps.iter().any(|step| step.file == number && step.kind != ChangeKind::Unchanged)
        };
        let files: Vec<(usize, &PlannedFile)> = self.files.iter().enumerate().collect();
        let files: Vec<(usize, &PlannedFile)> =
            files.into_iter().filter(|(number, file)| used(*number) && changed(file)).collect();
        let changes: Vec<FileChange<'_>> = files
            .iter()
            .map(|(_, file)| FileChange {
                original: &file.original,
                text: file.document.text(),
                private: file.private,
            })
            .collect();
        let backup_paths = if dry_run { Vec::new() } else { save::replace_all(&changes)? };
        let backups: Vec<(usize, Option<PathBuf>)> =
            files.iter().map(|(number, _)| *number).zip(backup_paths).collect();
        if console.json {
            return console.print_json(&self.to_json(name, dry_run, &backups, &files));
        }
        for step in &self.steps {
            console.print_line(&console.sanitized(&step.describe(name, dry_run)))?;
        }
        for (_, file) in files.iter().filter(|_| dry_run) {
            let path = file.original.path().display();
            let old = if file.original.text().is_some() { path.to_string() } else { "/dev/null".to_owned() };
            console.print_line(
                &console.paint(Style::Bold, &console.sanitized(&format!("--- {old}\n+++ {path}"))),
            )?;
            for line in unified_diff(file.original.text().unwrap_or_default(), file.document.text()).lines() {
                let style = match line.as_bytes().first() {
                    Some(b'+') => Some(Style::Green),
                    Some(b'-') => Some(Style::Red),
                    _ => None,
                };
                let line = console.sanitized(line);
                console.print_line(&style.map_or(line.clone(), |style| console.paint(style, &line)))?;
            }
        }
        for backup in backups.iter().filter_map(|(_, backup)| backup.as_ref()) {
            console.note(&format!("backup saved to {}", backup.display()));
        }
        Ok(())
    }

    fn to_json(
        &self,
        name: &str,
        dry_run: bool,
        backups: &[(usize, Option<PathBuf>)],
        files: &[(usize, &PlannedFile)],
    ) -> Value {
        let steps = self.steps.iter().map(|step| {
            let backup = backups.iter().find(|(number, _)| *number == step.file);
            let backup = backup.and_then(|(_, backup)| backup.as_ref());
            let file = files.iter().find(|(number, _)| *number == step.file).filter(|_| dry_run);
            let diff = file.map(|(_, file)| {
                unified_diff(file.original.text().unwrap_or_default(), file.document.text())
            });
            json!({
                "host": step.host,
                "path": crate::targets::config_files::absolute_path(&step.location),
                "project": step.location.project(),
                "done": step.kind.as_str(),
                "backup": backup,
                "diff": diff,
            })
        });
        json!({"name": name, "dryRun": dry_run, "changes": steps.collect::<Vec<Value>>()})
    }
}

impl PlanStep {
    fn describe(&self, name: &str, dry_run: bool) -> String {
        let (host, location) = (&self.host, self.location.describe());
        match (self.kind, dry_run) {
            (ChangeKind::Unchanged, _) => format!("{host}: `{name}` is already in {location}"),
            (kind, true) => format!("{host}: `{name}` would be {} {location}", kind.phrase()),
            (kind, false) => format!("{host}: `{name}` {} {location}", kind.phrase()),
        }
    }
}

impl ChangeKind {
    fn as_str(self) -> &'static str {
        match self {
            ChangeKind::Added => "added",
            ChangeKind::Replaced => "replaced",
            ChangeKind::Removed => "removed",
            ChangeKind::Unchanged => "already there",
        }
    }

    fn phrase(self) -> &'static str {
        match self {
            ChangeKind::Added => "added to",
            ChangeKind::Replaced => "replaced in",
            ChangeKind::Removed => "removed from",
            ChangeKind::Unchanged => "already in",
        }
    }
}

/// Returns the error for a file that cannot be changed.
pub(super) fn edit_error(location: &ConfigLocation, detail: &dyn Display) -> CliError {
    let failure = CliError::usage(format!("cannot change {}", location.describe())).at_step("edit");
    failure.detail(detail.to_string()).nothing_written()
}
