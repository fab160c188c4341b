//! The consents of the user: one file for each, named by the digest of the entry, in the state folder.
//!
//! One file each, so that programs that run at the same time lose none.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::file_mode::{create_private_dir, make_private, open_private};
use crate::state_dir::{NO_STATE_DIR, state_dir};

/// A consent, and the entry that it was given for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Consent {
    /// The digest of the entry.
    pub(crate) id: String,
    pub(crate) file: PathBuf,
    pub(crate) name: String,
}

/// The contents of the file of a consent, for `tsugite trust list`.
#[derive(Serialize, Deserialize)]
struct Record {
    file: PathBuf,
    name: String,
}

/// Whether the user has agreed to the entry with this digest.
pub(super) fn contains(id: &str) -> bool {
    folder().is_ok_and(|folder| folder.join(id).is_file())
}

/// Records a consent.
pub(super) fn add(id: &str, file: &Path, name: &str) -> io::Result<()> {
    let folder = folder()?;
    create_private_dir(&folder)?;
    let record = Record { file: file.to_owned(), name: name.to_owned() };
    let text = serde_json::to_vec(&record)?;
    let mut file =
        open_private(OpenOptions::new().write(true).create(true).truncate(true)).open(folder.join(id))?;
    make_private(&file)?;
    file.write_all(&text)
}

/// Returns all consents, by file and name.
pub(super) fn all() -> Vec<Consent> {
    let files = folder().and_then(fs::read_dir).into_iter().flatten().flatten();
    let mut all: Vec<Consent> = files
        .filter_map(|file| {
            let id = file.file_name().into_string().ok()?;
            let Record { file, name } = serde_json::from_slice(&fs::read(file.path()).ok()?).ok()?;
            Some(Consent { id, file, name })
        })
        .collect();
    all.sort_by(|a, b| (&a.file, &a.name, &a.id).cmp(&(&b.file, &b.name, &b.id)));
    all
}

impl Consent {
    /// Withdraws the consent.
    pub(crate) fn revoke(&self) -> io::Result<()> {
        fs::remove_file(folder()?.join(&self.id))
    }
}

fn folder() -> io::Result<PathBuf> {
    let state = state_dir().ok_or_else(|| io::Error::other(NO_STATE_DIR))?;
    Ok(state.join("trust"))
}
