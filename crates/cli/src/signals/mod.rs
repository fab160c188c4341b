//! Signals that ask to stop, by platform.

#[cfg(unix)]
mod unix;

#[cfg(unix)]
pub(crate) use unix::{SignalEvent, Signals, grace_elapsed, shutdown_requested};
