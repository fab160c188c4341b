//! Signals that ask to stop.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for them from now on, not only once it is awaited; done when one has come.
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

/// Whether the end of the terminal is to be heard of. Whoever was started to outlive it, by `nohup` for one, was told not
/// to; to listen would undo that.
fn handles_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Where nobody says what is ignored, nothing is changed.
    ignored.is_some_and(|mask| mask & 1 == 0)
}

/// Listens from now on for Ctrl-C; done a moment after it, or when it is pressed once more: whoever presses it has had
/// enough, and what can end in good order has had its time.
pub(crate) fn interrupt_grace_elapsed() -> impl Future<Output = ()> {
    let interrupt = signal(SignalKind::interrupt());
    async {
        let Ok(mut interrupt) = interrupt else { return std::future::pending().await };
        interrupt.recv().await;
        // The second is waited for; that it does not come is no failure.
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, interrupt.recv()).await;
    }
}

/// How long what ends in good order may take after Ctrl-C.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// For whoever goes on after Ctrl-C.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    window_change: Signal,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalEvent {
    /// Ctrl-C: to leave off.
    Interrupt,
    /// To end.
    Terminate,
    /// To look at the size of the terminal again.
    Resize,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            window_change: signal(SignalKind::window_change())?,
        })
    }

    /// Waits for one that asks to stop, in whichever way.
    pub(crate) async fn stop_requested(&mut self) {
        while self.next().await == SignalEvent::Resize {}
    }

    /// Waits for the next.
    pub(crate) async fn next(&mut self) -> SignalEvent {
        tokio::select! {
            _ = self.interrupt.recv() => SignalEvent::Interrupt,
            _ = self.terminate.recv() => SignalEvent::Terminate,
            _ = self.hangup.recv() => SignalEvent::Terminate,
            _ = self.window_change.recv() => SignalEvent::Resize,
        }
    }
}
