//! Names of environment variables, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{HOME_VARIABLES, same_name};
#[cfg(windows)]
pub(crate) use windows::{HOME_VARIABLES, same_name};
