//! Requests sent to a handshake-era client, and the callers that wait for their responses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tsugite_core::jsonrpc::{ErrorObject, Id, RawJson, Response, write};
use tsugite_core::protocol::cancellation::{Cancelled, CancelledParams};
use tsugite_core::protocol::elicitation::Create;
use tsugite_core::protocol::mrtr::InputRequest;
use tsugite_core::protocol::roots;
use tsugite_core::protocol::sampling::CreateMessage;
use tsugite_core::revision::{Revision, write_notification, write_request};
use tsugite_core::session::outbound::{Correlation, OutboundRequests, Timeouts};

use super::AskError;
use crate::lock::lock;
use crate::server::context::Context;
use crate::shared::outbound_queue::OutboundQueue;

/// The requests sent to one client. A response is accepted only if its id is in this table.
#[derive(Default)]
pub(crate) struct OutgoingRequests(Mutex<RequestTable>);

#[derive(Default)]
struct RequestTable {
    outbound: OutboundRequests,
    waiters: HashMap<Id<'static>, oneshot::Sender<Result<RawJson, ErrorObject>>>,
    closed: bool,
}

impl OutgoingRequests {
    /// Delivers a response. Returns false for a response that no request waits for, which is dropped.
    pub(crate) fn receive_response(&self, response: Response<'_>) -> bool {
        let Some(id) = response.id else { return false };
        let id = id.into_owned();
        let mut table = self.lock();
        if table.outbound.receive_response(&id) == Correlation::Unmatched {
            return false;
        }
        let Some(waiting) = table.waiters.remove(&id) else { return false };
        drop(table);
        // The waiting caller may be gone.
        drop(waiting.send(response.outcome.map(|raw| raw.to_owned())));
        true
    }

    /// Closes the table: no response will arrive any more.
    pub(crate) fn close(&self) {
        let mut table = self.lock();
        table.closed = true;
        table.outbound.drain();
        table.waiters.clear();
    }

    /// Registers a request; `None` if the table is closed.
    fn begin(&self, method: &str) -> Option<(Id<'static>, oneshot::Receiver<Result<RawJson, ErrorObject>>)> {
        let (sender, answer) = oneshot::channel();
        let mut table = self.lock();
        if table.closed {
            return None;
        }
        // The caller enforces the timeout with the runtime's clock; the table only tracks ids.
        let id = table.outbound.begin(Instant::now(), method, Timeouts::new(Duration::MAX));
        table.waiters.insert(id.clone(), sender);
        Some((id, answer))
    }

    fn lock(&self) -> MutexGuard<'_, RequestTable> {
        lock(&self.0)
    }
}

/// Sends a raw request on behalf of the bridge. Returns `None` if the client is gone. Dropping the future cancels the
/// request.
pub(crate) async fn send_raw_request(
    questions: &Arc<OutgoingRequests>,
    outbox: &Arc<OutboundQueue>,
    revision: Revision,
    method: &str,
    params: &RawJson,
) -> Option<Result<RawJson, ErrorObject>> {
    let (id, answer) = questions.begin(method)?;
    let mut open = OutgoingRequestGuard {
        requests: questions.clone(),
        outbox: outbox.clone(),
        revision,
        id,
        sent: false,
    };
    outbox.wait_for_capacity().await;
    outbox.push(|out| drop(write::request(out, &open.id, method, Some(params))));
    open.sent = true;
    answer.await.ok()
}

/// Sends a request on the stream of the call and waits for its response. Dropping the future cancels the request.
pub(in crate::server) async fn send_request(
    context: &Context,
    request: InputRequest,
    within: Option<Duration>,
) -> Result<RawJson, AskError> {
    let (questions, outbox, revision) = (context.outgoing_requests(), context.outbox(), context.revision());
    let (id, answer) = questions.begin(request.method()).ok_or(AskError::Closed)?;
    let mut open = OutgoingRequestGuard {
        requests: questions.clone(),
        outbox: outbox.clone(),
        revision,
        id,
        sent: false,
    };
    outbox.wait_for_capacity().await;
    let mut written = Ok(());
    outbox.push(|out| {
        written = match request {
            InputRequest::Elicit(params) => write_request::<Create>(out, &open.id, params, revision),
            InputRequest::Sample(params) => write_request::<CreateMessage>(out, &open.id, params, revision),
            InputRequest::Roots(params) => write_request::<roots::List>(out, &open.id, params, revision),
            _ => Ok(()),
        };
    });
    written?;
    open.sent = true;
    match tokio::time::timeout(within.unwrap_or_else(|| context.ask_timeout()), answer).await {
        Err(_) => Err(AskError::TimedOut),
        Ok(Err(_)) => Err(AskError::Closed),
        Ok(Ok(Err(error))) => Err(AskError::ErrorResponse(error)),
        Ok(Ok(Ok(result))) => Ok(result),
    }
}

/// A request without a response yet; dropping it cancels the request.
struct OutgoingRequestGuard {
    requests: Arc<OutgoingRequests>,
    outbox: Arc<OutboundQueue>,
    revision: Revision,
    id: Id<'static>,
    sent: bool,
}

impl Drop for OutgoingRequestGuard {
    fn drop(&mut self) {
        let mut table = self.requests.lock();
        table.waiters.remove(&self.id);
        let open = table.outbound.cancel(&self.id);
        drop(table);
        if open && self.sent {
            let params = CancelledParams::default().request_id(self.id.clone());
            self.outbox.push(|out| drop(write_notification::<Cancelled>(out, params, self.revision)));
        }
    }
}
