//! The state folder on Windows.

use std::env;
use std::path::PathBuf;

/// Returns `tsugite` in `%LOCALAPPDATA%`, which only its user may read, unless `XDG_STATE_HOME` names another folder.
pub(crate) fn state_dir() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    Some(folder("XDG_STATE_HOME").or_else(|| folder("LOCALAPPDATA"))?.join("tsugite"))
}

/// The reason why there is no state folder.
pub(crate) const NO_STATE_DIR: &str = "neither XDG_STATE_HOME nor LOCALAPPDATA names a folder for it";
