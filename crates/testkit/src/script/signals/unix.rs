//! Signals of Unix.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Keeps SIGHUP, SIGINT and SIGTERM from ending this process: they get a handler, which stays until the process ends.
pub(in crate::script) fn ignore() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _context = runtime.enter();
    for kind in [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()] {
        drop(signal(kind)?);
    }
    Ok(())
}
