//! Changes to several files at once: all are planned before any is made.

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

/// The files that will be changed.
#[derive(Default)]
pub(super) struct ChangePlan {
    files: Vec<PlannedFile>,
    steps: Vec<PlanStep>,
}

/// A file, and what it shall hold. Two names may lead to it.
struct PlannedFile {
    original: OriginalFile,
    document: Document,
    private: bool,
}

/// What is done, for a person.
struct PlanStep {
    host: String,
    location: ConfigLocation,
    kind: ChangeKind,
    /// Which of the files.
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
    /// The text of a place as it will be by now, and its number. A file that is not there, or is empty, holds an empty object.
    pub(super) fn file(&mut self, place: &ConfigLocation) -> Result<(usize, &Document)> {
        let original = OriginalFile::read(&place.path)?;
        let known = self.files.iter().position(|file| file.original.real_path() == original.real_path());
        let number = match known {
            Some(number) => number,
            None => {
                let text = original.text().filter(|text| !text.trim().is_empty());
                let document = match text {
                    None => Document::empty(),
                    Some(text) => Document::parse(text.to_owned()).map_err(|wrong| {
                        ConfigFileError::from(wrong).to_cli_error(place).nothing_written()
                    })?,
                };
                self.files.push(PlannedFile { original, document, private: place.path.is_absolute() });
                self.files.len() - 1
            }
        };
        match self.files.get(number) {
            Some(file) => Ok((number, &file.document)),
            None => Err(CliError::usage("the file is gone")),
        }
    }

    /// From now on the file holds this.
    pub(super) fn set_text(
        &mut self,
        number: usize,
        place: &ConfigLocation,
        changed: Result<String, EditError>,
    ) -> Result<()> {
        let text = changed.map_err(|wrong| edit_error(place, &wrong))?;
        // What we write must be readable; if not, it is not written.
        let document = Document::parse(text).map_err(|wrong| edit_error(place, &wrong))?;
        if let Some(file) = self.files.get_mut(number) {
            file.document = document;
        }
        Ok(())
    }

    pub(super) fn add_step(
        &mut self,
        host: impl Into<String>,
        place: &ConfigLocation,
        file: usize,
        done: ChangeKind,
    ) {
        self.steps.push(PlanStep { host: host.into(), location: place.clone(), kind: done, file });
    }

    /// Makes the changes, or shows them, and says what was done.
    pub(super) fn apply(self, name: &str, dry_run: bool, screen: &Console) -> Result<()> {
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
        let kept = if dry_run { Vec::new() } else { save::replace_all(&changes)? };
        let backups: Vec<(usize, Option<PathBuf>)> =
            files.iter().map(|(number, _)| *number).zip(kept).collect();
        if screen.json {
            return screen.print_json(&self.to_json(name, dry_run, &backups, &files));
        }
        for step in &self.steps {
            screen.print_line(&screen.sanitized(&step.describe(name, dry_run)))?;
        }
        for (_, file) in files.iter().filter(|_| dry_run) {
            let path = file.original.path().display();
            let old = if file.original.text().is_some() { path.to_string() } else { "/dev/null".to_owned() };
            screen.print_line(
                &screen.paint(Style::Bold, &screen.sanitized(&format!("--- {old}\n+++ {path}"))),
            )?;
            for line in unified_diff(file.original.text().unwrap_or_default(), file.document.text()).lines() {
                let style = match line.as_bytes().first() {
                    Some(b'+') => Some(Style::Green),
                    Some(b'-') => Some(Style::Red),
                    _ => None,
                };
                let line = screen.sanitized(line);
                screen.print_line(&style.map_or(line.clone(), |style| screen.paint(style, &line)))?;
            }
        }
        for kept in backups.iter().filter_map(|(_, kept)| kept.as_ref()) {
            screen.note(&format!("what was there is kept in {}", kept.display()));
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
            let kept =
                backups.iter().find(|(number, _)| *number == step.file).and_then(|(_, kept)| kept.as_ref());
            let file = files.iter().find(|(number, _)| *number == step.file).filter(|_| dry_run);
            let diff = file.map(|(_, file)| {
                unified_diff(file.original.text().unwrap_or_default(), file.document.text())
            });
            json!({
                "host": step.host,
                "path": crate::targets::config_files::absolute_path(&step.location),
                "project": step.location.project(),
                "done": step.kind.as_str(),
                "backup": kept,
                "diff": diff,
            })
        });
        json!({"name": name, "dryRun": dry_run, "changes": steps.collect::<Vec<Value>>()})
    }
}

impl PlanStep {
    fn describe(&self, name: &str, dry_run: bool) -> String {
        let (host, place) = (&self.host, self.location.describe());
        match (self.kind, dry_run) {
            (ChangeKind::Unchanged, _) => format!("{host}: `{name}` is already there, in {place}"),
            (done, true) => format!("{host}: `{name}` would be {} {place}", done.phrase()),
            (done, false) => format!("{host}: `{name}` {} {place}", done.phrase()),
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
            ChangeKind::Unchanged => "already there, in",
        }
    }
}

/// Why a file cannot get what it shall hold.
pub(super) fn edit_error(place: &ConfigLocation, seen: &dyn Display) -> CliError {
    let failure = CliError::usage(format!("{} cannot be changed", place.describe())).at_step("edit");
    failure.detail(seen.to_string()).nothing_written()
}
