//! Which files are programs, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{candidates, is_executable, is_path, search_folder};
#[cfg(windows)]
pub(crate) use windows::{candidates, is_executable, is_path, search_folder};
