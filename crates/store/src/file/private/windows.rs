//! Private files on Windows, where a file inherits from its folder who may read it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Creates a file with the access rights of its folder. Fails if there is one.
pub(in crate::file) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

/// Does nothing: a folder cannot be opened like a file, and NTFS keeps a journal of names.
pub(in crate::file) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
