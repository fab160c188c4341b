//! Changes to several files at once: all are planned before any is made.

use std::fmt::Display;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::edit::diff::unified;
use crate::edit::save::{self, Change, Original};
use crate::edit::{BadPlace, Document};
use crate::fail::{Failure, Result};
use crate::screen::{Screen, Style};
use crate::target::files::BadFile;
use crate::target::hosts::Place;

/// The files that will be changed.
#[derive(Default)]
pub(super) struct Plan {
    files: Vec<Planned>,
    steps: Vec<Step>,
}

/// A file, and what it shall hold. Two names may lead to it.
struct Planned {
    original: Original,
    document: Document,
    private: bool,
}

/// What is done, for a person.
struct Step {
    host: String,
    place: Place,
    done: Done,
    /// Which of the files.
    file: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Added,
    Replaced,
    Removed,
    AlreadyThere,
}

impl Plan {
    /// The text of a place as it will be by now, and its number. A file that is not there, or is empty, holds an empty object.
    pub(super) fn file(&mut self, place: &Place) -> Result<(usize, &Document)> {
        let original = Original::read(&place.path)?;
        let known = self.files.iter().position(|file| file.original.real() == original.real());
        let number = match known {
            Some(number) => number,
            None => {
                let text = original.text().filter(|text| !text.trim().is_empty());
                let document = match text {
                    None => Document::empty(),
                    Some(text) => Document::parse(text.to_owned())
                        .map_err(|wrong| BadFile::from(wrong).failure(place).nothing_written())?,
                };
                self.files.push(Planned { original, document, private: place.path.is_absolute() });
                self.files.len() - 1
            }
        };
        match self.files.get(number) {
            Some(file) => Ok((number, &file.document)),
            None => Err(Failure::usage("the file is gone")),
        }
    }

    /// From now on the file holds this.
    pub(super) fn change(
        &mut self,
        number: usize,
        place: &Place,
        changed: Result<String, BadPlace>,
    ) -> Result<()> {
        let text = changed.map_err(|wrong| unchangeable(place, &wrong))?;
        // What we write must be readable; if not, it is not written.
        let document = Document::parse(text).map_err(|wrong| unchangeable(place, &wrong))?;
        if let Some(file) = self.files.get_mut(number) {
            file.document = document;
        }
        Ok(())
    }

    pub(super) fn step(&mut self, host: impl Into<String>, place: &Place, file: usize, done: Done) {
        self.steps.push(Step { host: host.into(), place: place.clone(), done, file });
    }

    /// Makes the changes, or shows them, and says what was done.
    pub(super) fn carry_out(self, name: &str, dry_run: bool, screen: &Screen) -> Result<()> {
        let changed = |file: &&Planned| file.original.text() != Some(file.document.text());
        let used = |number: usize| {
            self.steps.iter().any(|step| step.file == number && step.done != Done::AlreadyThere)
        };
        let files: Vec<(usize, &Planned)> = self.files.iter().enumerate().collect();
        let files: Vec<(usize, &Planned)> =
            files.into_iter().filter(|(number, file)| used(*number) && changed(file)).collect();
        let changes: Vec<Change<'_>> = files
            .iter()
            .map(|(_, file)| Change {
                original: &file.original,
                text: file.document.text(),
                private: file.private,
            })
            .collect();
        let kept = if dry_run { Vec::new() } else { save::replace(&changes)? };
        let backups: Vec<(usize, Option<PathBuf>)> =
            files.iter().map(|(number, _)| *number).zip(kept).collect();
        if screen.json {
            return screen.json(&self.json(name, dry_run, &backups, &files));
        }
        for step in &self.steps {
            screen.line(&screen.words(&step.line(name, dry_run)))?;
        }
        for (_, file) in files.iter().filter(|_| dry_run) {
            let path = file.original.path().display();
            let old = if file.original.text().is_some() { path.to_string() } else { "/dev/null".to_owned() };
            screen.line(&screen.paint(Style::Bold, &screen.words(&format!("--- {old}\n+++ {path}"))))?;
            for line in unified(file.original.text().unwrap_or_default(), file.document.text()).lines() {
                let style = match line.as_bytes().first() {
                    Some(b'+') => Some(Style::Green),
                    Some(b'-') => Some(Style::Red),
                    _ => None,
                };
                let line = screen.words(line);
                screen.line(&style.map_or(line.clone(), |style| screen.paint(style, &line)))?;
            }
        }
        for kept in backups.iter().filter_map(|(_, kept)| kept.as_ref()) {
            screen.note(&format!("what was there is kept in {}", kept.display()));
        }
        Ok(())
    }

    fn json(
        &self,
        name: &str,
        dry_run: bool,
        backups: &[(usize, Option<PathBuf>)],
        files: &[(usize, &Planned)],
    ) -> Value {
        let steps = self.steps.iter().map(|step| {
            let kept =
                backups.iter().find(|(number, _)| *number == step.file).and_then(|(_, kept)| kept.as_ref());
            let file = files.iter().find(|(number, _)| *number == step.file).filter(|_| dry_run);
            let diff =
                file.map(|(_, file)| unified(file.original.text().unwrap_or_default(), file.document.text()));
            json!({
                "host": step.host,
                "path": crate::target::files::absolute(&step.place),
                "project": step.place.project(),
                "done": step.done.word(),
                "backup": kept,
                "diff": diff,
            })
        });
        json!({"name": name, "dryRun": dry_run, "changes": steps.collect::<Vec<Value>>()})
    }
}

impl Step {
    fn line(&self, name: &str, dry_run: bool) -> String {
        let (host, place) = (&self.host, self.place.shown());
        match (self.done, dry_run) {
            (Done::AlreadyThere, _) => format!("{host}: `{name}` is already there, in {place}"),
            (done, true) => format!("{host}: `{name}` would be {} {place}", done.phrase()),
            (done, false) => format!("{host}: `{name}` {} {place}", done.phrase()),
        }
    }
}

impl Done {
    fn word(self) -> &'static str {
        match self {
            Done::Added => "added",
            Done::Replaced => "replaced",
            Done::Removed => "removed",
            Done::AlreadyThere => "already there",
        }
    }

    fn phrase(self) -> &'static str {
        match self {
            Done::Added => "added to",
            Done::Replaced => "replaced in",
            Done::Removed => "removed from",
            Done::AlreadyThere => "already there, in",
        }
    }
}

/// Why a file cannot get what it shall hold.
pub(super) fn unchangeable(place: &Place, seen: &dyn Display) -> Failure {
    let failure = Failure::usage(format!("{} cannot be changed", place.shown())).at("edit");
    failure.seen(seen.to_string()).nothing_written()
}
