//! Counts the transports that serve a server: what belongs to none of them ends with the last one.

use std::sync::atomic::Ordering;

use super::Server;

/// A transport that serves a server. Dropping it counts the transport as ended.
pub(crate) struct ServingGuard(Option<Server>);

impl ServingGuard {
    pub(crate) fn new(server: &Server) -> Self {
        server.shared.transports.fetch_add(1, Ordering::AcqRel);
        // The last transport before may have stopped the tasks.
        if let Some(table) = server.shared.tasks.get() {
            table.end_stopping();
        }
        Self(Some(server.clone()))
    }

    /// Ends the transport. Returns the server if it was the last one.
    pub(crate) fn end(mut self) -> Option<Server> {
        let server = self.0.take()?;
        (server.shared.transports.fetch_sub(1, Ordering::AcqRel) == 1).then_some(server)
    }
}

impl Drop for ServingGuard {
    fn drop(&mut self) {
        if let Some(server) = &self.0 {
            server.shared.transports.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
