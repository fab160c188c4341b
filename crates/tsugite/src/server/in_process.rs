//! Connections of clients in the same process.

use std::sync::Arc;

use tsugite_core::jsonrpc::Id;

use super::Server;
use super::connection::ServerConnection;
use crate::shared::failure_causes::FailureCause;
use crate::shared::in_process::{InProcessConnection, InProcessServer};
use crate::shared::outbound_queue::OutboundQueue;
use crate::shared::principal::Principal;

impl InProcessServer for Server {
    fn connect(&self, principal: Option<Principal>) -> crate::Result<Arc<dyn InProcessConnection>> {
        self.check_registrations()?;
        let connection = ServerConnection::new(self, principal);
        connection.failure_causes.get_or_init(Box::default);
        Ok(Arc::new(LocalConnection(connection)))
    }
}

/// The server's side of a connection inside the process.
struct LocalConnection(Arc<ServerConnection>);

impl InProcessConnection for LocalConnection {
    fn receive(&self, message: &[u8]) {
        self.0.spawn(self.0.receive(message));
    }

    fn outbox(&self) -> &OutboundQueue {
        self.0.outbox()
    }

    fn take_failure_cause(&self, id: &Id<'_>) -> Option<FailureCause> {
        self.0.failure_causes.get()?.take(id)
    }

    fn close(&self) {
        self.0.close();
    }

    fn abort_all(&self) {
        self.0.abort_all();
    }
}
