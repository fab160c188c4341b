//! Opening files on Unix without following links.

use std::fs::File;
use std::io;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, retry_on_intr};

use super::error::FileError;

/// Opens a file that the server chose; never blocks, whatever kind of file it is.
pub(super) fn open_file(path: &Path) -> Result<File, FileError> {
    Ok(retry_on_intr(|| open(path, FILE_FLAGS, Mode::empty()))?.into())
}

/// Opens a canonical path inside `root` one segment at a time and follows no link, so that a link created meanwhile does
/// not lead out.
pub(super) fn open_beneath(root: &Path, inside: &Path) -> Result<File, FileError> {
    let mut file = retry_on_intr(|| open(root, DIRECTORY_FLAGS, Mode::empty()))?;
    let mut steps = inside.components().peekable();
    while let Some(step) = steps.next() {
        let Component::Normal(name) = step else { return Err(FileError::NotFound) };
        let flags = if steps.peek().is_some() { DIRECTORY_FLAGS } else { FILE_FLAGS };
        file = retry_on_intr(|| openat(&file, name, flags | OFlags::NOFOLLOW, Mode::empty()))?;
    }
    Ok(file.into())
}

/// Whether a name of a path is that of a file or a folder: every name is.
pub(super) fn is_plain_name(_: &str) -> bool {
    true
}

/// Whether a peer may read what a path that it named leads to; `inside` is canonical. Always true: only a link can lead to
/// a hidden name, and the owner of the folder has made it.
pub(super) fn may_be_reached(_: &Path) -> bool {
    true
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG | Errno::INVAL => {
                FileError::NotFound
            }
            // Sockets, and devices without a driver.
            Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP => FileError::NotAFile,
            errno => FileError::Io(errno.into()),
        }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => errno.into(),
            None => FileError::Io(error),
        }
    }
}

/// Non-blocking, so that a FIFO without a writer does not block; no controlling terminal.
const FILE_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);
