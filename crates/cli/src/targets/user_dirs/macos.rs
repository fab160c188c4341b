//! The folders of a user on macOS.

use super::{UserDirs, folder, xdg_config};

pub(in crate::targets) fn user_dirs() -> UserDirs {
    let home = folder("HOME");
    let config = xdg_config().or_else(|| Some(home.as_ref()?.join(".config")));
    let app_data = home.as_ref().map(|home| home.join("Library/Application Support"));
    UserDirs { home, config, app_data }
}

/// The reason why a folder is not known.
pub(crate) const NO_USER_DIRS: &str = "HOME is not set";
