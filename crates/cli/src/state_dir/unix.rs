//! The state folder on Unix.

use std::env;
use std::path::PathBuf;

/// Returns `tsugite` in the XDG state folder; `None` without a home folder.
pub(crate) fn state_dir() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("tsugite"))
}

/// The reason why there is no state folder.
pub(crate) const NO_STATE_DIR: &str = "neither XDG_STATE_HOME nor HOME names a folder for it";
