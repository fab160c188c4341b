//! The folders of a user in which hosts keep their configuration, by platform.

#[cfg(target_os = "macos")]
mod macos;
#[cfg(not(any(target_os = "macos", windows)))]
mod unix;
#[cfg(windows)]
mod windows;

use std::env;
use std::path::PathBuf;

#[cfg(target_os = "macos")]
pub(crate) use macos::NO_USER_DIRS;
#[cfg(target_os = "macos")]
pub(super) use macos::user_dirs;
#[cfg(not(any(target_os = "macos", windows)))]
pub(crate) use unix::NO_USER_DIRS;
#[cfg(not(any(target_os = "macos", windows)))]
pub(super) use unix::user_dirs;
#[cfg(windows)]
pub(crate) use windows::NO_USER_DIRS;
#[cfg(windows)]
pub(super) use windows::user_dirs;

/// The folders of the user.
pub(super) struct UserDirs {
    pub(super) home: Option<PathBuf>,
    /// The configuration folder of this program is in it.
    pub(super) config: Option<PathBuf>,
    /// The application data folder of the platform.
    pub(super) app_data: Option<PathBuf>,
}

/// The folder that a variable names.
pub(super) fn folder(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// `XDG_CONFIG_HOME`, which must be absolute.
fn xdg_config() -> Option<PathBuf> {
    folder("XDG_CONFIG_HOME").filter(|path| path.is_absolute())
}
