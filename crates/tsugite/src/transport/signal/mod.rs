//! Shutdown signals, by platform.

#[cfg(unix)]
mod unix;

#[cfg(unix)]
pub(super) use unix::{second_shutdown_signal, shutdown_signal};
