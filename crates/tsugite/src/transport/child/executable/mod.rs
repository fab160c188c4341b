//! Executable files, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::{can_enter, candidates, is_executable, is_path, search_folder, start_error};
#[cfg(windows)]
pub(super) use windows::{can_enter, candidates, is_executable, is_path, search_folder, start_error};
