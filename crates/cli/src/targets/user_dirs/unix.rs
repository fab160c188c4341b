//! The folders of a user on Linux and other Unix systems: those of XDG.

use super::{UserDirs, folder, xdg_config};

pub(in crate::targets) fn user_dirs() -> UserDirs {
    let home = folder("HOME");
    let config = xdg_config().or_else(|| Some(home.as_ref()?.join(".config")));
    UserDirs { home, app_data: config.clone(), config }
}

/// The reason why a folder is not known.
pub(crate) const NO_USER_DIRS: &str = "HOME is not set";
