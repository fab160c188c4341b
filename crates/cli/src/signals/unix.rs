//! Signals on Unix.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::SignalEvent;

/// Completes when a signal asks to stop. Signals count from this call on, not only once the future is awaited.
pub(crate) fn shutdown_requested() -> impl Future<Output = ()> {
    let stop = stop_signal();
    async {
        let _ = stop.await;
    }
}

/// Like [`shutdown_requested`], and says which kind of signal it was.
pub(crate) fn stop_signal() -> impl Future<Output = SignalEvent> {
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
            _ = interrupt.recv() => SignalEvent::Interrupt,
            _ = terminate.recv() => SignalEvent::Terminate,
            _ = hung_up => SignalEvent::Terminate,
        }
    }
}

/// Whether to handle SIGHUP. A process that was started with `nohup` ignores it, and a handler would undo that.
fn handles_hangup() -> bool {
    ignores_no_hangup(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// Whether the status of a process, from `/proc`, shows that it does not ignore SIGHUP.
fn ignores_no_hangup(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Leave the default where the ignored signals are unknown.
    ignored.is_some_and(|mask| mask & 1 == 0)
}

/// Completes `SHUTDOWN_GRACE` after Ctrl-C, or at the second Ctrl-C or SIGTERM. Signals count from this call on.
pub(crate) fn grace_elapsed() -> impl Future<Output = ()> {
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async {
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return std::future::pending().await };
        let was_interrupted = tokio::select! {
            _ = interrupt.recv() => true,
            _ = terminate.recv() => false,
        };
        let second = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        match was_interrupted {
            // Either a second signal or the timeout ends the wait.
            true => drop(tokio::time::timeout(SHUTDOWN_GRACE, second).await),
            // A service manager has a timeout of its own.
            false => second.await,
        }
    }
}

/// How long a graceful shutdown may take after Ctrl-C.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// The signals of an interactive program, which continues after Ctrl-C.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    window_change: Signal,
}

impl Signals {
    /// Starts listening.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            window_change: signal(SignalKind::window_change())?,
        })
    }

    /// Waits for a signal that asks to stop.
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn hangup_is_handled_only_if_it_is_not_ignored() {
        assert!(ignores_no_hangup("Name:\ta\nSigIgn:\t0000000000001000\n"));
        assert!(!ignores_no_hangup("SigIgn:\t0000000000000001\n"));
        // Without /proc, as on macOS.
        assert!(!ignores_no_hangup(""));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn second_signal_ends_the_grace() {
        let mut terminate = signal(SignalKind::terminate()).unwrap();
        let mut ended = tokio::spawn(grace_elapsed());
        for count in 1..=2 {
            tokio::task::yield_now().await;
            assert!(!ended.is_finished(), "before signal {count}");
            let kill = format!("kill -TERM {}", std::process::id());
            assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
            terminate.recv().await;
        }
        tokio::time::timeout(Duration::from_secs(20), &mut ended).await.unwrap().unwrap();
    }
}
