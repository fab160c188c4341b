//! Environment variables of a server, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::{DEFAULT_ENV, same_name};
#[cfg(windows)]
pub(super) use windows::{DEFAULT_ENV, same_name};
