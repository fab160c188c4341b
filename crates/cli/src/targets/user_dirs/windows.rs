//! The folders of a user on Windows.

use super::{UserDirs, folder, xdg_config};

/// Hosts use `USERPROFILE`, also where a Unix shell sets `HOME`.
pub(in crate::targets) fn user_dirs() -> UserDirs {
    let home = folder("USERPROFILE").or_else(|| folder("HOME"));
    let app_data = folder("APPDATA");
    UserDirs { home, config: xdg_config().or_else(|| app_data.clone()), app_data }
}

/// The reason why a folder is not known.
pub(crate) const NO_USER_DIRS: &str = "APPDATA or USERPROFILE is not set";
