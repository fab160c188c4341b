//! Signals that ask to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Listens for them from now on, not only once it is awaited; done when one has come.
pub(crate) fn asked_to_stop() -> impl Future<Output = ()> {
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async {
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return std::future::pending().await };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
