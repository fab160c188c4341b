//! Programs that end with those they started, files that are programs, and files of their owner alone, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{kill_group, make_executable, open_private, start_in_group, terminate};
#[cfg(windows)]
pub(crate) use windows::{kill_group, make_executable, open_private, start_in_group, terminate};
