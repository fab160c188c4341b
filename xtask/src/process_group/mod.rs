//! Programs that end with those they started, and files that are programs, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{kill_group, make_executable, start_in_group, terminate};
#[cfg(windows)]
pub(crate) use windows::{kill_group, make_executable, start_in_group, terminate};
