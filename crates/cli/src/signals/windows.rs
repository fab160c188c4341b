//! Signals on Windows: Ctrl-C, Ctrl-Break, and the end of the console, the session or the system.

use std::time::Duration;

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_logoff,
    ctrl_shutdown,
};
use winapi_util::HandleRef;
use winapi_util::console::screen_buffer_info;

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
    let signals = StopSignals::listen();
    async {
        match signals {
            Ok(mut signals) => signals.next().await,
            Err(_) => std::future::pending().await,
        }
    }
}

/// Completes `SHUTDOWN_GRACE` after Ctrl-C, or at the second signal. Signals count from this call on. The system ends a process
/// some seconds after its console was closed.
pub(crate) fn grace_elapsed() -> impl Future<Output = ()> {
    let signals = StopSignals::listen();
    async {
        let Ok(mut signals) = signals else { return std::future::pending().await };
        match signals.next().await {
            SignalEvent::Interrupt => drop(tokio::time::timeout(SHUTDOWN_GRACE, signals.next()).await),
            _ => drop(signals.next().await),
        }
    }
}

/// How long a graceful shutdown may take after Ctrl-C.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// The signals that ask to stop.
struct StopSignals {
    interrupt: CtrlC,
    stop: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl StopSignals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: ctrl_c()?,
            stop: ctrl_break()?,
            close: ctrl_close()?,
            logoff: ctrl_logoff()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    async fn next(&mut self) -> SignalEvent {
        tokio::select! {
            _ = self.interrupt.recv() => SignalEvent::Interrupt,
            _ = self.stop.recv() => SignalEvent::Terminate,
            _ = self.close.recv() => SignalEvent::Terminate,
            _ = self.logoff.recv() => SignalEvent::Terminate,
            _ = self.shutdown.recv() => SignalEvent::Terminate,
        }
    }
}

/// The signals of an interactive program, which continues after Ctrl-C.
pub(crate) struct Signals {
    stop: StopSignals,
    width: Option<i16>,
}

impl Signals {
    /// Starts listening.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self { stop: StopSignals::listen()?, width: console_width() })
    }

    /// Waits for a signal that asks to stop.
    pub(crate) async fn stop_requested(&mut self) {
        self.stop.next().await;
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> SignalEvent {
        loop {
            let event = tokio::time::timeout(RESIZE_INTERVAL, self.stop.next()).await;
            // The system sends no signal when the console is resized.
            let width = console_width();
            match event {
                Ok(event) => return event,
                Err(_) if width != self.width => {
                    self.width = width;
                    return SignalEvent::Resize;
                }
                Err(_) => {}
            }
        }
    }
}

fn console_width() -> Option<i16> {
    screen_buffer_info(HandleRef::stderr()).ok().map(|info| info.size().0)
}

/// How often the width of the console is looked at.
const RESIZE_INTERVAL: Duration = Duration::from_millis(500);
