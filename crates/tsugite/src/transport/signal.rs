//! Signals that ask a process to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Waits until somebody asks the process to stop.
pub(super) async fn asked_to_stop() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
