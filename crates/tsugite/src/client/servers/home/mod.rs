//! The variable that names the home folder, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::HOME_VARIABLES;
#[cfg(windows)]
pub(super) use windows::HOME_VARIABLES;
