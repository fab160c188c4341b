//! Shutdown signals on Unix: SIGTERM and SIGINT.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for a shutdown signal. The signals are registered by the call itself, before the future is awaited.
pub(in crate::transport) fn shutdown_signal() -> impl Future<Output = ()> + Send {
    wait_for_signals(1)
}

/// Waits for the second shutdown signal, which ends the time of grace.
pub(in crate::transport) fn second_shutdown_signal() -> impl Future<Output = ()> + Send {
    wait_for_signals(2)
}

fn wait_for_signals(count: usize) -> impl Future<Output = ()> + Send {
    let signals = ShutdownSignals::register();
    async move {
        let Ok(mut signals) = signals else { return std::future::pending().await };
        for _ in 0..count {
            signals.next().await;
        }
    }
}

struct ShutdownSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl ShutdownSignals {
    fn register() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        poll_fn(|cx| match self.terminate.poll_recv(cx) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => self.interrupt.poll_recv(cx).map(drop),
        })
        .await;
    }
}
