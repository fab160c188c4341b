//! Private files on Windows: a file inherits from its folder who may read it, and `%LOCALAPPDATA%` is the user's own.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// `%LOCALAPPDATA%`, unless `XDG_STATE_HOME` names a folder.
pub(crate) fn state_dir() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("XDG_STATE_HOME").or_else(|| set("LOCALAPPDATA"))
}

/// Says that there is no state folder.
pub(crate) const NO_STATE_DIR: &str =
    "neither XDG_STATE_HOME nor LOCALAPPDATA names a folder for credentials";

/// Creates a folder, and those above it, with the access rights of the folder above.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Leaves `options` as they are: access rights are inherited.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Makes `options` open a link itself and not its target, which [`check_private`] refuses.
pub(crate) fn unfollowed(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
}

/// Fails if the file is a link.
pub(crate) fn check_private(file: &File) -> io::Result<()> {
    if file.metadata()?.file_attributes() & FILE_ATTRIBUTE_REPARSE_POINT != 0 {
        return Err(io::Error::other("it is a link"));
    }
    Ok(())
}

/// Replaces a file by another one in one step. A program that has just opened the file, such as a virus scanner, keeps it from
/// being replaced for a moment.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    for pause in REPLACE_PAUSES {
        match fs::rename(from, to) {
            Err(error)
                if matches!(error.raw_os_error(), Some(ERROR_ACCESS_DENIED | ERROR_SHARING_VIOLATION)) =>
            {
                thread::sleep(Duration::from_millis(pause));
            }
            renamed => return renamed,
        }
    }
    fs::rename(from, to)
}

/// In milliseconds.
const REPLACE_PAUSES: [u64; 6] = [10, 20, 40, 80, 160, 320];
const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
const FILE_ATTRIBUTE_REPARSE_POINT: u32 = 0x0400;
const ERROR_ACCESS_DENIED: i32 = 5;
const ERROR_SHARING_VIOLATION: i32 = 32;
