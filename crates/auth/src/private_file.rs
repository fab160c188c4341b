//! A file that only its owner can read, which several processes may share.
//!
//! The file is replaced as a whole: a new one is written beside it and renamed. The lock is a file of its own, because a
//! lock on a file that is replaced would not exclude a process that opens the new one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{AuthError, Result};
use crate::jose::random_text;
use crate::private::{check_private, create_dir, private, replace, unfollowed};

/// A file of mode 0600. On Windows the file inherits from its folder who may read it.
#[derive(Debug, Clone)]
pub(crate) struct PrivateFile {
    path: PathBuf,
}

impl PrivateFile {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn error(&self, error: impl std::fmt::Display) -> AuthError {
        AuthError::store(format!("{}: {error}", self.path.display()))
    }

    /// Reads the text; `None` if there is no file. Fails if others can read it.
    pub(crate) fn read(&self) -> Result<Option<String>> {
        let mut file = match unfollowed(OpenOptions::new().read(true)).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.error(error)),
        };
        check_private(&file).map_err(|error| self.error(error))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| self.error(error))?;
        Ok(Some(text))
    }

    /// The error of a text that is not the expected JSON. It names a position, never a part of the text.
    pub(crate) fn malformed(&self, error: &serde_json::Error) -> AuthError {
        self.error(format!("malformed at line {}, column {}", error.line(), error.column()))
    }

    /// Replaces the text, or nothing if it fails.
    pub(crate) fn replace(&self, text: &[u8]) -> Result<()> {
        let temporary = self.beside(&format!(".{}", random_text()?));
        let written = (|| {
            let mut file = private(OpenOptions::new().write(true).create_new(true)).open(&temporary)?;
            file.write_all(text)?;
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
    pub(crate) async fn take_lock(&self) -> Result<File> {
        // Not a lock that blocks: a thread that waits for it would keep the process from ending.
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            let file = self.clone();
            if let Some(lock) = blocking(move || file.try_lock()).await? {
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

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    }
}

/// Runs file operations, which may wait for a disk, on a thread for that.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| AuthError::store("the task that reads a file has ended"))?
}

/// Longer than two requests to an authorization server may take.
const LOCK_TIMEOUT: Duration = Duration::from_secs(90);
const LOCK_INTERVAL: Duration = Duration::from_millis(20);
