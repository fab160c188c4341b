//! Consent for servers that files of the current folder list.
//!
//! Such a file may come with a checkout, and its entries start programs and send variables to URLs. So an entry is used,
//! and its variables are expanded, only after the user has seen it and agreed. As with direnv, consent holds for one
//! entry of one file in one form: a change asks again.

mod consents;
mod folder_entry;
mod warnings;

use std::fs;
use std::path::{Path, PathBuf};

use crate::console::Console;
use crate::error::{CliError, Result};
use crate::readable_path::readable;
use crate::server_requests::{Prompter, TerminalPrompter};
use crate::targets::hosts::{ConfigDirs, ConfigLocation, ConfigSection};
use crate::targets::lookup::FoundServer;

pub(crate) use consents::Consent;
pub(crate) use folder_entry::{FolderEntry, shell_word};

/// How consent is obtained for an entry that has none yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConsentPolicy {
    /// Ask on the terminal, if there is one.
    Ask,
    /// Never ask.
    OnlyRecorded,
    /// `--trust-folder`: the user has agreed to all entries, for this run.
    TrustFolder,
}

/// The permission to use an entry.
pub(crate) struct Permit {
    /// The entry that the user agreed to; `None` if the file is the user's own or is outside of the folder.
    entry: Option<FolderEntry>,
}

impl Permit {
    /// Whether the entry may read a variable: one that the user has seen.
    pub(crate) fn allows_variable(&self, name: &str) -> bool {
        self.entry.as_ref().is_none_or(|entry| entry.reads_variable(name))
    }

    /// Fails if the entry is no longer the one that the user agreed to.
    pub(crate) fn ensure_unchanged(&self, found: &FoundServer) -> Result<()> {
        match &self.entry {
            Some(entry) if FolderEntry::read(found)?.id() != entry.id() => {
                Err(CliError::usage(format!("{} has just been changed", found.location.describe()))
                    .at_step("trust")
                    .hint("run the command again"))
            }
            _ => Ok(()),
        }
    }
}

/// Obtains the permission to use an entry. Fails if the user does not agree, or cannot be asked.
pub(crate) async fn obtain(found: &FoundServer, policy: ConsentPolicy) -> Result<Permit> {
    if !needs_consent(&found.location) {
        return Ok(Permit { entry: None });
    }
    let entry = FolderEntry::read(found)?;
    if policy == ConsentPolicy::TrustFolder || consents::contains(entry.id()) {
        return Ok(Permit { entry: Some(entry) });
    }
    if policy == ConsentPolicy::OnlyRecorded || !Console::new(false).is_interactive() {
        return Err(untrusted_error(found));
    }
    let question = format!("{}\n{} (yes or no): ", entry.describe(), entry.question());
    // On a thread, so that Ctrl-C ends the program meanwhile.
    let answer = tokio::task::spawn_blocking(move || TerminalPrompter.read_line(&question)).await;
    match answer.ok().flatten().as_deref().map(str::trim) {
        Some("y" | "yes") => {
            entry.record()?;
            Ok(Permit { entry: Some(entry) })
        }
        _ => Err(CliError::usage(format!("`{}` was not trusted; nothing was started", found.name))
            .at_step("trust")),
    }
}

/// Whether entries of a file need consent: it is in the current folder, and is not a file of the user's own.
///
/// A file elsewhere was named on the command line, which is the choice of the user.
pub(crate) fn needs_consent(location: &ConfigLocation) -> bool {
    // Only the user's own file has other sections.
    if location.section != ConfigSection::TopLevel {
        return false;
    }
    let (Ok(here), Ok(real)) = (fs::canonicalize("."), fs::canonicalize(&location.path)) else { return true };
    let own = ConfigDirs::from_env().user_files();
    if own.iter().any(|file| fs::canonicalize(file).is_ok_and(|file| file == real)) {
        return false;
    }
    // A link in the folder is part of it, wherever it leads.
    real.starts_with(&here) || link_path(&location.path).starts_with(&here)
}

/// Returns the consents that the user has given, by file and name.
pub(crate) fn consents() -> Vec<Consent> {
    consents::all()
}

/// Returns the absolute path of a file that may be gone, without links.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    readable(fs::canonicalize(path).unwrap_or_else(|_| link_path(path)))
}

/// Returns the absolute path of a file in its folder, without following the file itself.
fn link_path(path: &Path) -> PathBuf {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = fs::canonicalize(folder).or_else(|_| std::path::absolute(folder));
    folder.unwrap_or_default().join(path.file_name().unwrap_or_default())
}

fn untrusted_error(found: &FoundServer) -> CliError {
    let (file, word) = (found.location.describe(), found.word());
    CliError::usage(format!("`{}` in {file} is not trusted", found.name))
        .at_step("trust")
        .detail("the file is in the current folder, and may be the work of someone else; nothing was started")
        .hint(format!("`tsugite trust show {word}` shows what it would run"))
        .hint(format!("`tsugite trust add {word}` trusts it, until it changes"))
        .hint("--trust-folder trusts all files of the folder, for this run")
}
