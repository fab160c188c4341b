//! Opening files on Windows without following links.
//!
//! A folder that is open cannot be renamed or removed unless its handle was opened to share that. So every folder of the path
//! stays open, without sharing it, until the file is open, and none of them can be replaced by a link meanwhile.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path};

use super::error::FileError;
pub(super) use crate::shared::windows_names::is_plain_name;

/// Opens a file that the server chose; a device or a pipe is not a file.
pub(super) fn open_file(path: &Path) -> Result<File, FileError> {
    let name = path.file_name().and_then(|name| name.to_str());
    if name.is_some_and(|name| !is_plain_name(name)) {
        return Err(FileError::NotFound);
    }
    Ok(OpenOptions::new().read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?)
}

/// Opens a canonical path inside `root` one segment at a time and follows no link, so that a link created meanwhile does
/// not lead out.
pub(super) fn open_beneath(root: &Path, inside: &Path) -> Result<File, FileError> {
    let mut folders = vec![open_unfollowed(root, FILE_SHARE_READ | FILE_SHARE_WRITE)?];
    let mut path = root.to_owned();
    let mut steps = inside.components().peekable();
    while let Some(step) = steps.next() {
        let Component::Normal(name) = step else { return Err(FileError::NotFound) };
        path.push(name);
        let is_last = steps.peek().is_none();
        let share = FILE_SHARE_READ | FILE_SHARE_WRITE | if is_last { FILE_SHARE_DELETE } else { 0 };
        folders.push(open_unfollowed(&path, share)?);
    }
    let file = folders.pop().ok_or(FileError::NotFound)?;
    // An empty folder can become a link in its place. It would have been one when the next segment was opened.
    for folder in &folders {
        check_unfollowed(&folder.metadata()?)?;
    }
    Ok(file)
}

/// Whether a peer may read what a path that it named leads to; `inside` is canonical. The name that a peer wrote may be the short
/// name of another one, such as `GIT~1` of `.git`, which says nothing about the file.
pub(super) fn may_be_reached(inside: &Path) -> bool {
    let is_allowed =
        |name: &OsStr| name.to_str().is_some_and(|name| !name.starts_with('.') && is_plain_name(name));
    inside.iter().all(is_allowed)
}

/// Opens a file or a folder, and fails if it is a link.
fn open_unfollowed(path: &Path, share: u32) -> Result<File, FileError> {
    let mut options = OpenOptions::new();
    options.read(true).share_mode(share);
    let file = options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS).open(path)?;
    check_unfollowed(&file.metadata()?)?;
    Ok(file)
}

fn check_unfollowed(metadata: &Metadata) -> Result<(), FileError> {
    match metadata.file_attributes() & FILE_ATTRIBUTE_REPARSE_POINT {
        0 => Ok(()),
        _ => Err(FileError::NotFound),
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename, _)
            | (_, Some(ERROR_INVALID_NAME | ERROR_BAD_PATHNAME | ERROR_CANT_RESOLVE_FILENAME)) => {
                FileError::NotFound
            }
            _ => FileError::Io(error),
        }
    }
}

const FILE_SHARE_READ: u32 = 1;
const FILE_SHARE_WRITE: u32 = 2;
const FILE_SHARE_DELETE: u32 = 4;
const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
/// Needed to open a folder.
const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
const FILE_ATTRIBUTE_REPARSE_POINT: u32 = 0x0400;
const ERROR_INVALID_NAME: i32 = 123;
const ERROR_BAD_PATHNAME: i32 = 161;
const ERROR_CANT_RESOLVE_FILENAME: i32 = 1921;
