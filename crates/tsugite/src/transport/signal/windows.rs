//! Shutdown signals on Windows: Ctrl-C, Ctrl-Break, and the end of the console, the session or the system.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_logoff,
    ctrl_shutdown,
};

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
    interrupt: CtrlC,
    stop: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl ShutdownSignals {
    fn register() -> io::Result<Self> {
        Ok(Self {
            interrupt: ctrl_c()?,
            stop: ctrl_break()?,
            close: ctrl_close()?,
            logoff: ctrl_logoff()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    async fn next(&mut self) {
        poll_fn(|cx| {
            let arrived = [
                self.interrupt.poll_recv(cx).is_ready(),
                self.stop.poll_recv(cx).is_ready(),
                self.close.poll_recv(cx).is_ready(),
                self.logoff.poll_recv(cx).is_ready(),
                self.shutdown.poll_recv(cx).is_ready(),
            ];
            if arrived.contains(&true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
