//! Escape sequences for colours on a terminal, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::enable_escapes;
#[cfg(windows)]
pub(crate) use windows::enable_escapes;
