//! Files and folders as resources: which may be read, which are listed, and their contents.
//!
//! A path that a peer names is confined to the folder by where it really leads, not by how it is spelled. Everything
//! here blocks: callers run it where blocking is allowed. No error shows where the folder is.
//!
//! - `content`: reading a file, and its type.
//! - `walk`: listing a folder.
//! - `unix`, `windows`: opening files without following links, and names with a meaning of their own.

mod content;
mod error;
#[cfg(unix)]
mod unix;
mod walk;
#[cfg(windows)]
mod windows;

use std::io;
use std::path::{Path, PathBuf};

#[cfg(unix)]
use unix::{is_plain_name, may_be_reached, open_beneath, open_file};
#[cfg(windows)]
use windows::{is_plain_name, may_be_reached, open_beneath, open_file};

pub(crate) use content::{FileBody, FileContent, mime_type};
pub(crate) use error::FileError;
pub(crate) use walk::DirectoryListing;

/// Reads one file that the server chose, of at most `max_bytes`.
pub(crate) fn read_file(path: &Path, max_bytes: u64) -> Result<FileBody, FileError> {
    content::read(open_file(path)?, path, max_bytes)
}

/// A folder whose files may be read.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    /// The canonical path.
    root: PathBuf,
}

impl Directory {
    /// Fails if there is no folder at `path`.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let root = path.canonicalize()?;
        if !root.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { root })
    }

    /// Reads the file that a peer named; `relative` is percent-decoded. Hidden files and files outside the folder are
    /// not found.
    pub(crate) fn read(&self, relative: &str, max_bytes: u64) -> Result<FileBody, FileError> {
        if !is_safe_path(relative) {
            return Err(FileError::NotFound);
        }
        let real = self.root.join(relative).canonicalize()?;
        let inside = real.strip_prefix(&self.root).map_err(|_| FileError::NotFound)?;
        if !may_be_reached(inside) {
            return Err(FileError::NotFound);
        }
        content::read(open_beneath(&self.root, inside)?, Path::new(relative), max_bytes)
    }

    /// Lists the files that can be read, in the order of their bytes, at most `max_files` of them.
    ///
    /// Fails if the folder itself cannot be read. Folders in it that cannot be read are left out, and so are those
    /// more than 32 deep.
    pub(crate) fn list(&self, max_files: usize) -> io::Result<DirectoryListing> {
        walk::list(&self.root, max_files)
    }
}

/// Encodes a relative path for a URI: everything but letters, digits, `-._~` and the `/` between segments is percent-encoded.
pub(crate) fn encode_path(relative: &str) -> String {
    let mut out = String::with_capacity(relative.len());
    for byte in relative.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Whether a path only leads down, on every system: no `.` and `..`, no separator of another system, no drive, and no
/// hidden name, since hidden files are not listed.
fn is_safe_path(relative: &str) -> bool {
    let mut start = relative.chars();
    let drive = start.next().is_some_and(|letter| letter.is_ascii_alphabetic()) && start.next() == Some(':');
    let segment = |segment: &str| !segment.is_empty() && !segment.starts_with('.') && is_plain_name(segment);
    !drive
        && relative.split('/').all(segment)
        && !relative.contains(|letter: char| letter == '\\' || letter.is_control())
}

#[cfg(test)]
mod tests;
