//! [`FileStore`]: credentials in a file that only its owner can read.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::{LockedStore, Store, StoreFuture, Vault};
use crate::error::{AuthError, Result};
use crate::private::{NO_STATE_DIR, state_dir};
use crate::private_file::{PrivateFile, blocking};

/// Keeps credentials in a file of mode 0600. Several processes may share it.
///
/// On Windows the file inherits from its folder who may read it.
#[derive(Debug, Clone)]
pub struct FileStore {
    file: PrivateFile,
}

impl FileStore {
    /// Keeps the credentials at a path. The file and its folder are created when something is kept.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { file: PrivateFile::new(path) }
    }

    /// Keeps the credentials where programs of this user keep their state: `tsugite/credentials.json` in
    /// `$XDG_STATE_HOME`, or else in `~/.local/state`, on Windows in `%LOCALAPPDATA%`.
    pub fn in_home() -> Result<Self> {
        let folder = state_dir().ok_or_else(|| AuthError::store(NO_STATE_DIR))?;
        Ok(Self::new(folder.join("tsugite").join("credentials.json")))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    fn read_file(&self) -> Result<Vault> {
        match self.file.read()? {
            Some(text) => serde_json::from_str(&text).map_err(|error| self.file.malformed(&error)),
            None => Ok(Vault::default()),
        }
    }

    fn write_file(&self, vault: &Vault) -> Result<()> {
        let text = serde_json::to_vec_pretty(vault).map_err(|error| self.file.error(error))?;
        self.file.replace(&text)
    }
}

impl Store for FileStore {
    fn read(&self) -> StoreFuture<'_, Vault> {
        let store = self.clone();
        Box::pin(blocking(move || store.read_file()))
    }

    fn lock(&self) -> StoreFuture<'_, Box<dyn LockedStore>> {
        Box::pin(async {
            let lock = self.file.take_lock().await?;
            Ok(Box::new(LockedFile { store: self.clone(), _lock: lock }) as Box<dyn LockedStore>)
        })
    }
}

struct LockedFile {
    store: FileStore,
    /// Closing it releases the lock.
    _lock: File,
}

impl LockedStore for LockedFile {
    fn read(&mut self) -> StoreFuture<'_, Vault> {
        self.store.read()
    }

    fn write<'a>(&'a mut self, vault: &'a Vault) -> StoreFuture<'a, ()> {
        let (store, vault) = (self.store.clone(), vault.clone());
        Box::pin(blocking(move || store.write_file(&vault)))
    }
}
