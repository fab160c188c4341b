//! Stop signals on Windows: Ctrl-C and the end of the console.

use std::io;

use tokio::signal::windows::{ctrl_c, ctrl_close};

/// Completes at the first signal. Signals count from this call on.
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let (mut interrupt, mut close) = (ctrl_c()?, ctrl_close()?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = close.recv() => {}
        }
    })
}
