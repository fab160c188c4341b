//! Signals that ask the process to stop, by platform.

#[cfg(unix)]
mod unix;

#[cfg(unix)]
pub(super) use unix::shutdown_signal;
