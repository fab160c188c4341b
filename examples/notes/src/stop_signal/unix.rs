//! Stop signals on Unix: SIGINT and SIGTERM.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Completes at the first signal. Signals count from this call on.
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
