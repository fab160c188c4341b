//! Signals on Unix.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for a signal that asks to stop. Listens from the call on, not only once it is awaited.
pub(crate) fn shutdown_requested() -> impl Future<Output = ()> {
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let mut hangup = handles_hangup().then(|| signal(SignalKind::hangup()).ok()).flatten();
    async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return std::future::pending().await };
        let hung_up = async {
            match &mut hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hung_up => {}
        }
    }
}

/// Whether to stop when the terminal closes. A process started by `nohup` ignores SIGHUP; listening would undo that.
fn handles_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Without /proc the ignored signals are unknown, so SIGHUP is left as it is.
    ignored.is_some_and(|mask| mask & 1 == 0)
}

/// Waits for Ctrl-C and then half a second, in which an orderly shutdown may finish, or until it is pressed again. Listens
/// from the call on.
pub(crate) fn interrupt_grace_elapsed() -> impl Future<Output = ()> {
    let interrupt = signal(SignalKind::interrupt());
    async {
        let Ok(mut interrupt) = interrupt else { return std::future::pending().await };
        interrupt.recv().await;
        // A second Ctrl-C need not come.
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, interrupt.recv()).await;
    }
}

/// How long an orderly shutdown may take after Ctrl-C.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// Signals for a program that continues after Ctrl-C.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    window_change: Signal,
}

/// A signal, by its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalEvent {
    /// Ctrl-C: stop the current command.
    Interrupt,
    /// End the program.
    Terminate,
    /// The terminal has another size.
    Resize,
}

impl Signals {
    /// Starts to listen.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            window_change: signal(SignalKind::window_change())?,
        })
    }

    /// Waits for any signal that asks to stop.
    pub(crate) async fn stop_requested(&mut self) {
        while self.next().await == SignalEvent::Resize {}
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> SignalEvent {
        tokio::select! {
            _ = self.interrupt.recv() => SignalEvent::Interrupt,
            _ = self.terminate.recv() => SignalEvent::Terminate,
            _ = self.hangup.recv() => SignalEvent::Terminate,
            _ = self.window_change.recv() => SignalEvent::Resize,
        }
    }
}
