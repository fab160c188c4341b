//! Signals on Unix: SIGTERM and SIGINT.

use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for a signal that asks the process to stop.
pub(in crate::transport) async fn shutdown_signal() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    poll_fn(|cx| match terminate.poll_recv(cx) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => interrupt.poll_recv(cx).map(drop),
    })
    .await;
}
