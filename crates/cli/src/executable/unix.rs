//! Programs on Unix: the mode of a file decides.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Whether a program is named by a path, which is not searched in `PATH`.
pub(crate) fn is_path(program: &str) -> bool {
    program.contains('/')
}

/// The folder that an entry of `PATH` means; an empty one means the current folder.
pub(crate) fn search_folder(entry: PathBuf) -> Option<PathBuf> {
    Some(entry)
}

/// The files that the path of a program may mean.
pub(crate) fn candidates(path: &Path) -> [PathBuf; 1] {
    [path.to_owned()]
}

/// Whether a file may be executed.
pub(crate) fn is_executable(_: &Path, metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o111 != 0
}
