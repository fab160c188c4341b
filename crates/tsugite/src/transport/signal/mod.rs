//! Shutdown signals, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::{second_shutdown_signal, shutdown_signal};
#[cfg(windows)]
pub(super) use windows::{second_shutdown_signal, shutdown_signal};
