//! [`FileStore`]: credentials in a file that only its owner can read.
//!
//! The file is replaced as a whole: a new one is written beside it and renamed. The lock is a file of its own, because a
//! lock on a file that is replaced would not exclude a process that opens the new one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::private::{NO_STATE_DIR, check_private, create_dir, private, replace, state_dir, unfollowed};
use super::{LockedStore, Store, StoreFuture, Vault};
use crate::error::{AuthError, Result};
use crate::jose::random_text;

/// Keeps credentials in a file of mode 0600. Several processes may share it.
///
/// On Windows the file inherits from its folder who may read it.
#[derive(Debug, Clone)]
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// Keeps the credentials at a path. The file and its folder are created when something is kept.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Keeps the credentials where programs of this user keep their state: `tsugite/credentials.json` in
    /// `$XDG_STATE_HOME`, or else in `~/.local/state`, on Windows in `%LOCALAPPDATA%`.
    pub fn in_home() -> Result<Self> {
        let folder = state_dir().ok_or_else(|| AuthError::store(NO_STATE_DIR))?;
        Ok(Self::new(folder.join("tsugite").join("credentials.json")))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    }

    fn error(&self, error: impl std::fmt::Display) -> AuthError {
        AuthError::store(format!("{}: {error}", self.path.display()))
    }

    fn read_file(&self) -> Result<Vault> {
        let file = match unfollowed(OpenOptions::new().read(true)).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vault::default()),
            Err(error) => return Err(self.error(error)),
        };
        check_private(&file).map_err(|error| self.error(error))?;
        // The error names a position, never a part of the text.
        let malformed = |error: serde_json::Error| {
            self.error(format!("malformed at line {}, column {}", error.line(), error.column()))
        };
        serde_json::from_reader(io::BufReader::new(file)).map_err(malformed)
    }

    fn write_file(&self, vault: &Vault) -> Result<()> {
        let text = serde_json::to_vec_pretty(vault).map_err(|error| self.error(error))?;
        let temporary = self.beside(&format!(".{}", random_text()?));
        let written = (|| {
            let mut file = private(OpenOptions::new().write(true).create_new(true)).open(&temporary)?;
            file.write_all(&text)?;
            file.sync_all()?;
            drop(file);
            replace(&temporary, &self.path)
        })();
        written.map_err(|error: io::Error| {
            let _ = fs::remove_file(&temporary);
            self.error(error)
        })
    }

    /// Waits for the lock. It is released when the file is closed.
    pub(super) async fn take_lock(&self) -> Result<File> {
        // Not a lock that blocks: a thread that waits for it would keep the process from ending.
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            let store = self.clone();
            if let Some(lock) = blocking(move || store.try_lock()).await? {
                return Ok(lock);
            }
            if Instant::now() > deadline {
                let seconds = LOCK_TIMEOUT.as_secs();
                return Err(self.error(format!("another process has held the lock for {seconds} s")));
            }
            tokio::time::sleep(LOCK_INTERVAL).await;
        }
    }

    /// Opens the lock and takes it; `None` if another holder has it.
    fn try_lock(&self) -> Result<Option<File>> {
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            create_dir(folder).map_err(|error| self.error(error))?;
        }
        let mut options = OpenOptions::new();
        unfollowed(private(options.write(true).create(true).truncate(false)));
        let file = options.open(self.beside(".lock")).map_err(|error| self.error(error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(self.error(error)),
        }
    }
}

/// Longer than two requests to an authorization server may take.
const LOCK_TIMEOUT: Duration = Duration::from_secs(90);
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

impl Store for FileStore {
    fn read(&self) -> StoreFuture<'_, Vault> {
        let store = self.clone();
        Box::pin(blocking(move || store.read_file()))
    }

    fn lock(&self) -> StoreFuture<'_, Box<dyn LockedStore>> {
        Box::pin(async {
            let lock = self.take_lock().await?;
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

/// Runs file operations, which may wait for a lock, on a thread for that.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| AuthError::store("the task that reads the credentials has ended"))?
}
