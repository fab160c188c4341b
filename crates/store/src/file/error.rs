//! The reasons a store cannot be opened.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use redb::{DatabaseError, StorageError};

use super::tables::FORMAT;
use crate::StoreError;

/// The reason a [`FileStore`](crate::FileStore) cannot be opened. The message names the file.
#[derive(Debug)]
pub struct FileStoreError {
    path: PathBuf,
    reason: Reason,
}

#[derive(Debug)]
pub(super) enum Reason {
    /// The folder of the file does not exist.
    NoFolder,
    /// The path names a folder or a device.
    NotAFile,
    /// Another store has opened the file.
    InUse,
    /// The file is of another kind.
    NotAStore,
    /// A newer version of this library has written the file.
    Newer(u64),
    /// The file is damaged.
    Damaged(StoreError),
    /// Reading or writing failed.
    Io(io::Error),
    /// The thread that writes could not be started.
    Thread(io::Error),
}

impl FileStoreError {
    pub(super) fn new(path: &Path, reason: Reason) -> Self {
        Self { path: path.to_owned(), reason }
    }

    /// Whether another process, or another store of this process, has opened the file.
    pub fn is_in_use(&self) -> bool {
        matches!(self.reason, Reason::InUse)
    }
}

impl From<DatabaseError> for Reason {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::DatabaseAlreadyOpen => Reason::InUse,
            DatabaseError::UpgradeRequired(_) => Reason::NotAStore,
            DatabaseError::Storage(StorageError::Io(error)) => match error.kind() {
                io::ErrorKind::InvalidData => Reason::NotAStore,
                io::ErrorKind::UnexpectedEof => Reason::Damaged(error.into()),
                _ => Reason::Io(error),
            },
            error => Reason::Damaged(error.into()),
        }
    }
}

impl fmt::Display for FileStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot open the store {}: ", self.path.display())?;
        match &self.reason {
            Reason::NoFolder => f.write_str("its folder does not exist; create it first"),
            Reason::NotAFile => f.write_str("it is not a file; name a file"),
            Reason::InUse => f.write_str(
                "another process uses it; stop that process, name another file, or use a store for several replicas",
            ),
            Reason::NotAStore => f.write_str("the file is not a store and was not overwritten; name another file"),
            Reason::Newer(format) => write!(
                f,
                "the file has format {format}, and this version reads format {FORMAT}; use the version that wrote it"
            ),
            Reason::Damaged(error) => {
                write!(f, "the file is damaged ({error}); restore it from a backup or move it away")
            }
            Reason::Io(error) => write!(f, "{error}"),
            Reason::Thread(error) => write!(f, "the thread that writes cannot be started: {error}"),
        }
    }
}

impl Error for FileStoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.reason {
            Reason::Io(error) | Reason::Thread(error) => Some(error),
            Reason::Damaged(error) => Some(&**error),
            Reason::NoFolder | Reason::NotAFile | Reason::InUse | Reason::NotAStore | Reason::Newer(_) => {
                None
            }
        }
    }
}
