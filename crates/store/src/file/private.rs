//! Creation of a file for its owner alone, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::create_private;
#[cfg(windows)]
pub(super) use windows::create_private;
