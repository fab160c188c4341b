//! Signals that ask to stop, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{Signals, grace_elapsed, shutdown_requested, stop_signal};
#[cfg(windows)]
pub(crate) use windows::{Signals, grace_elapsed, shutdown_requested, stop_signal};

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalEvent {
    /// Ctrl-C: cancel the current command.
    Interrupt,
    /// End the process.
    Terminate,
    /// The terminal was resized.
    Resize,
}
