//! Signals that would end a process, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::ignore;
#[cfg(windows)]
pub(super) use windows::ignore;
