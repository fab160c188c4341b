//! Private files on Unix: their modes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The XDG state folder.
pub(crate) fn state_dir() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")))
}

/// Says that there is no state folder.
pub(crate) const NO_STATE_DIR: &str = "neither XDG_STATE_HOME nor HOME names a folder for credentials";

/// Creates a folder, and those above it, that only its owner may enter.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes `options` create files that only their owner may read and write.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Makes `options` fail if there is a link in place of the file. Sets the flags of the file.
pub(crate) fn unfollowed(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
}

/// Fails with a reason if others can read a file.
pub(crate) fn check_private(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        let reason = format!("others can read it (mode {:o}); run: chmod 600", mode & 0o777);
        return Err(io::Error::other(reason));
    }
    Ok(())
}

/// Replaces a file by another one in one step.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}
