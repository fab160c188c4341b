//! File modes on Unix.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Creates a folder, and those above it, that only its owner may enter.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes `options` create files that only their owner may read and write.
pub(crate) fn open_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(PRIVATE_FILE)
}

/// Takes a file away from everyone but its owner.
pub(crate) fn make_private(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(PRIVATE_FILE))
}

/// Whether only its owner may read and write a file.
pub(crate) fn is_private(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o077 == 0
}

/// Replaces a file by another one in one step.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// The command that makes a read-only file writable.
pub(crate) fn writable_command(path: &Path) -> String {
    format!("chmod u+w {}", path.display())
}

/// Writes the name of a new file to the disk, so that it survives a loss of power.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

const PRIVATE_FILE: u32 = 0o600;
