//! The signal that stops the program, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::stop_signal;
#[cfg(windows)]
pub(crate) use windows::stop_signal;
