//! Creation of a file for its owner alone, whose name survives a loss of power, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::{create_private, sync_folder};
#[cfg(windows)]
pub(super) use windows::{create_private, sync_folder};
