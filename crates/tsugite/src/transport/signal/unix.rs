//! Shutdown signals on Unix: SIGTERM and SIGINT.

use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for a shutdown signal. The signals are registered by the call itself, before the future is awaited.
pub(in crate::transport) fn shutdown_signal() -> impl Future<Output = ()> + Send {
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async {
        let (Ok(mut terminate), Ok(mut interrupt)) = signals else { return std::future::pending().await };
        poll_fn(|cx| match terminate.poll_recv(cx) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => interrupt.poll_recv(cx).map(drop),
        })
        .await;
    }
}
