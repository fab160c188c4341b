//! Shutdown signals, by platform.

#[cfg(unix)]
mod unix;

#[cfg(unix)]
pub(super) use unix::shutdown_signal;
