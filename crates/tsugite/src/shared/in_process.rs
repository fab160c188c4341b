//! A server in the same process, as the client sees it: lines in, a queue of lines out.
//!
//! The server implements these traits, so that the client need not know it.

use std::sync::Arc;

use tsugite_core::jsonrpc::Id;

use super::failure_causes::FailureCause;
use super::outbound_queue::OutboundQueue;
use super::principal::Principal;

/// A server to which clients of the same process connect.
pub(crate) trait InProcessServer: Send + Sync {
    /// Opens a connection for `principal`. Fails if a registration of the server is invalid.
    fn connect(&self, principal: Option<Principal>) -> crate::Result<Arc<dyn InProcessConnection>>;
}

/// One connection to a server in the same process.
pub(crate) trait InProcessConnection: Send + Sync {
    /// Delivers one message. Must be called inside a tokio runtime: a request that is still pending after its first
    /// poll continues there.
    fn receive(&self, message: &[u8]);

    /// The queue of the messages for the client.
    fn outbox(&self) -> &OutboundQueue;

    /// Takes the cause of a failed request, which no message contains.
    fn take_failure_cause(&self, id: &Id<'_>) -> Option<FailureCause>;

    /// Ends subscription streams and requests to the client; running requests may finish.
    fn close(&self);

    /// Aborts all running requests.
    fn abort_all(&self);
}
