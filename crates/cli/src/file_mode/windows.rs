//! Private files on Windows: a file inherits from its folder who may read it, and `%LOCALAPPDATA%` is the user's own.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Creates a folder, and those above it, with the access rights of the folder above.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Leaves `options` as they are: access rights are inherited.
pub(crate) fn open_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Leaves the access rights of a file as they are.
pub(crate) fn make_private(_: &File) -> io::Result<()> {
    Ok(())
}

/// Whether only its owner may read and write a file. The access rights are not examined.
pub(crate) fn is_private(_: &Metadata) -> bool {
    true
}

/// Replaces a file by another one in one step. A program that has just opened the file, such as a virus scanner or a host, keeps
/// it from being replaced for a moment.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    for pause in PAUSES {
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

/// The command that makes a read-only file writable.
pub(crate) fn writable_command(path: &Path) -> String {
    format!("attrib -R {}", path.display())
}

/// Does nothing: a folder cannot be opened like a file, and NTFS keeps a journal of names.
pub(crate) fn sync_folder_of(_: &Path) -> io::Result<()> {
    Ok(())
}

/// In milliseconds.
const PAUSES: [u64; 6] = [10, 20, 40, 80, 160, 320];
const ERROR_ACCESS_DENIED: i32 = 5;
const ERROR_SHARING_VIOLATION: i32 = 32;

#[cfg(test)]
mod tests {
    use std::os::windows::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn open_file_is_replaced_once_it_is_closed() {
        let folder = std::env::temp_dir().join(format!("tsugite-replace-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (old, new) = (folder.join("old"), folder.join("new"));
        fs::write(&old, "old").unwrap();
        fs::write(&new, "new").unwrap();
        // Shared for nothing, as an exclusive reader opens it.
        let held = OpenOptions::new().read(true).share_mode(0).open(&old).unwrap();
        assert!(replace(&new, &old).is_err());
        drop(held);
        replace(&new, &old).unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "new");
        fs::remove_dir_all(&folder).unwrap();
    }
}
