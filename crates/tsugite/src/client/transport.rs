//! Transports: a child's pipes, other byte streams, a server in this process, Streamable HTTP and HTTP+SSE.

use std::sync::Arc;

use tsugite_core::jsonrpc::{ErrorObject, RawJson};

use super::call_error::CallError;
use super::client_error::ErrorKind;
use super::http::{HttpSse, StreamableHttp};
use super::pending_calls::CallOutcome;
use crate::shared::in_process::InProcessConnection;
use crate::shared::outbound_queue::OutboundQueue;
use crate::transport::child::Child;

/// The transport of one connection.
pub(super) enum Transport {
    /// A child's pipes.
    Child(ChildPipe),
    /// Any pair of byte streams.
    Streams(Arc<OutboundQueue>),
    /// A server in this process.
    InProcess(Arc<dyn InProcessConnection>),
    /// Streamable HTTP.
    StreamableHttp(Box<StreamableHttp>),
    /// HTTP+SSE of 2024-11-05.
    HttpSse(Box<HttpSse>),
}

/// The result or the error in a response.
pub(super) type ServerReply = Result<RawJson, ErrorObject>;

impl Transport {
    /// Ends the transport at once.
    pub(super) fn kill(&self) {
        match self {
            Transport::Child(pipe) => {
                pipe.outbox.close();
                pipe.child.kill();
            }
            Transport::Streams(outbox) => outbox.close(),
            Transport::InProcess(server) => server.abort_all(),
            Transport::StreamableHttp(http) => http.kill(),
            Transport::HttpSse(_) => {}
        }
    }
}

/// Converts the outcome of a call.
pub(super) fn into_rpc_result(outcome: CallOutcome) -> Result<ServerReply, CallError> {
    match outcome {
        CallOutcome::Response(answer) => Ok(answer),
        CallOutcome::Disconnected(reason) => Err(CallError::disconnected(reason)),
        CallOutcome::TooLarge(limit) => Err(ErrorKind::TooLarge(format!(
            "the response is larger than {limit} bytes (`max_message_bytes`)"
        ))
        .into()),
    }
}

/// Queues a message when the queue has capacity.
pub(super) async fn send_line(outbox: &OutboundQueue, bytes: &[u8]) {
    outbox.wait_for_capacity().await;
    outbox.push(|out| out.extend_from_slice(bytes));
}

/// The pipes of a child.
pub(super) struct ChildPipe {
    pub(super) outbox: Arc<OutboundQueue>,
    pub(super) child: Child,
}

impl ChildPipe {
    /// Closes the queue and waits until the child has exited.
    pub(super) async fn close(&self) {
        // The child's input is closed after its descendants were looked up: the child may exit at once.
        self.child.close(CloseOnDrop(&self.outbox)).await;
    }
}

/// Closes the queue when dropped, upon which the writer closes the child's input.
struct CloseOnDrop<'a>(&'a OutboundQueue);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
