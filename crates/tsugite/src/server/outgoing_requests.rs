//! Requests sent to a client of the handshake era that have no response yet.
//!
//! A response is accepted only if its id is in this table, and only once.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use tsugite_core::jsonrpc::{ErrorObject, Id, RawJson, Response, write};
use tsugite_core::protocol::cancellation::{Cancelled, CancelledParams};
use tsugite_core::protocol::elicitation::Create;
use tsugite_core::protocol::mrtr::InputRequest;
use tsugite_core::protocol::roots;
use tsugite_core::protocol::sampling::CreateMessage;
use tsugite_core::revision::{Revision, write_notification, write_request};

use super::ask_error::AskError;
use crate::lock::lock;
use crate::replica::{NAME_DIGITS, Replica};
use crate::shared::cancel_reason::CancelReason;
use crate::shared::outbound_queue::OutboundQueue;

/// The requests sent to one client. Ids are never reused.
#[derive(Default)]
pub(crate) struct OutgoingRequests {
    table: Mutex<RequestTable>,
    /// If several replicas serve the client, ids name the replica that asks, and so differ between them.
    replica: Option<Arc<Replica>>,
}

type ResponseResult = Result<RawJson, ErrorObject>;

/// Held with an answer by those who must not lose it. When the last one drops it, the answer needs this process no longer.
pub(crate) struct AnswerGuard {
    _dropped: oneshot::Sender<()>,
}

/// Waits until an answer needs this process no longer: its call has ended, or it is stored that the call goes on.
pub(crate) struct SettledAnswer(oneshot::Receiver<()>);

impl AnswerGuard {
    pub(crate) fn new() -> (Self, SettledAnswer) {
        let (sender, receiver) = oneshot::channel();
        (Self { _dropped: sender }, SettledAnswer(receiver))
    }
}

impl SettledAnswer {
    /// Waits for at most `limit`. Returns whether the answer is settled.
    pub(crate) async fn wait(self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.0).await.is_ok()
    }
}

/// A response with its guard.
type Answer = (ResponseResult, AnswerGuard);

#[derive(Default)]
struct RequestTable {
    last_id: i64,
    waiters: HashMap<i64, oneshot::Sender<Answer>>,
    /// Requests that another replica sent, by their id, whose calls continue here.
    adopted: HashMap<String, oneshot::Sender<Answer>>,
    closed: bool,
}

impl OutgoingRequests {
    /// The requests of one replica to a client that several replicas serve.
    pub(crate) fn of_replica(replica: Option<&Arc<Replica>>) -> Self {
        Self { table: Mutex::default(), replica: replica.cloned() }
    }

    /// The id of a request as the client sees it.
    fn wire_id(&self, id: i64) -> Id<'static> {
        match &self.replica {
            None => Id::from(id),
            Some(replica) => Id::from(format!("{}-{id}", replica.asker())),
        }
    }

    /// The number of a request of this table.
    fn own_id(&self, id: &Id<'_>) -> Option<i64> {
        match &self.replica {
            None => id.as_i64(),
            Some(replica) => {
                let number = id.as_str()?.strip_prefix(replica.asker())?.strip_prefix('-')?;
                number.parse().ok()
            }
        }
    }

    /// Hands a response to the request that waits for it. Returns false and drops the response if none does: it is
    /// late, a duplicate, or a mistake of the client.
    pub(crate) fn receive_response(&self, response: Response<'_>) -> bool {
        self.receive_answer(response).is_some()
    }

    /// The same for an answer that must not be lost with this process. `None` if no request waits for it.
    pub(crate) fn receive_answer(&self, response: Response<'_>) -> Option<SettledAnswer> {
        let id = response.id.as_ref()?;
        let mut table = self.lock();
        let own = self.own_id(id).and_then(|id| table.waiters.remove(&id));
        // This replica may have lost a call to another one, and taken it back.
        let waiter = own.or_else(|| table.adopted.remove(id.as_str()?));
        drop(table);
        let (guard, settled) = AnswerGuard::new();
        // The receiver may be gone already.
        drop(waiter?.send((response.outcome.map(|raw| raw.to_owned()), guard)));
        Some(settled)
    }

    /// Ends a request whose call is continued under another handler. It stays open at the client.
    pub(crate) fn forget(&self, id: &Id<'_>) {
        let mut table = self.lock();
        match (self.own_id(id), id.as_str()) {
            (Some(id), _) => drop(table.waiters.remove(&id)),
            (None, Some(id)) => drop(table.adopted.remove(id)),
            (None, None) => {}
        }
    }

    /// Ends every request: no response will come any more.
    pub(crate) fn close(&self) {
        let mut table = self.lock();
        table.closed = true;
        table.waiters.clear();
        table.adopted.clear();
    }

    /// Registers a request. `None` if the table is closed. The caller keeps the time limit.
    fn begin(&self) -> Option<(i64, oneshot::Receiver<Answer>)> {
        let (sender, receiver) = oneshot::channel();
        let mut table = self.lock();
        if table.closed {
            return None;
        }
        table.last_id = match &self.replica {
            None => table.last_id + 1,
            // Another copy of this session may have asked before.
            Some(replica) => i64::try_from(replica.next_number()).unwrap_or(i64::MAX),
        };
        let id = table.last_id;
        table.waiters.insert(id, sender);
        Some((id, receiver))
    }

    /// Begins a request whose id is known before it is sent, or continues one that another replica sent.
    pub(super) fn open(
        self: &Arc<Self>,
        outbox: &Arc<OutboundQueue>,
        revision: Revision,
        adopted: Option<String>,
    ) -> Option<OpenRequest> {
        let (id, response) = match adopted {
            None => {
                let (id, response) = self.begin()?;
                (RequestId::Own(id), response)
            }
            Some(id) => {
                let (sender, response) = oneshot::channel();
                let mut table = self.lock();
                if table.closed {
                    return None;
                }
                table.adopted.insert(id.clone(), sender);
                (RequestId::Adopted(id), response)
            }
        };
        let (requests, outbox) = (self.clone(), outbox.clone());
        Some(OpenRequest { requests, outbox, revision, id, sent: false, response: Some(response) })
    }

    /// Removes a request. Returns false if it has its response, or the table was closed: there is nothing to cancel.
    fn cancel(&self, id: i64) -> bool {
        self.lock().waiters.remove(&id).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, RequestTable> {
        lock(&self.table)
    }
}

/// The replica that sent the request with this id to the client. A client may have invented it.
pub(crate) fn asking_replica(id: &Id<'_>) -> Option<String> {
    asker(id)?.get(..NAME_DIGITS).map(str::to_owned)
}

/// The replica that sent the request with this id to the client, if a replica with the keys of `replica` made the id.
pub(crate) fn verified_asker(replica: &Replica, id: &Id<'_>) -> Option<String> {
    replica.verify_asker(asker(id)?)
}

/// The part of an id that names the replica.
fn asker<'a>(id: &'a Id<'_>) -> Option<&'a str> {
    let (asker, number) = id.as_str()?.split_once('-')?;
    let is_asker = asker.len() == 2 * NAME_DIGITS && asker.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_asker && number.parse::<u64>().is_ok()).then_some(asker)
}

/// Sends a request whose params are already JSON and waits for the response. `None` if the client is gone. Dropping the
/// future sends `notifications/cancelled`, with the reason if there is one.
pub(crate) async fn send_raw_request(
    requests: &Arc<OutgoingRequests>,
    outbox: &Arc<OutboundQueue>,
    revision: Revision,
    (method, params): (&str, &RawJson),
    cancel_reason: &CancelReason,
) -> Option<Result<RawJson, ErrorObject>> {
    let (id, response) = requests.begin()?;
    let mut guard = OutgoingRequestGuard {
        requests: requests.clone(),
        outbox: outbox.clone(),
        revision,
        id,
        sent: false,
        reason: cancel_reason.clone(),
    };
    outbox.wait_for_capacity().await;
    outbox.push(|out| drop(write::request(out, &requests.wire_id(guard.id), method, Some(params))));
    guard.sent = true;
    response.await.ok().map(|(outcome, _)| outcome)
}

/// Sends a request on the stream of a call and waits for the response. Dropping the future sends
/// `notifications/cancelled`.
pub(super) async fn send_request(
    requests: &Arc<OutgoingRequests>,
    outbox: &Arc<OutboundQueue>,
    revision: Revision,
    request: InputRequest,
    timeout: Duration,
) -> Result<RawJson, AskError> {
    let (id, response) = requests.begin().ok_or(AskError::Closed)?;
    let mut guard = OutgoingRequestGuard {
        requests: requests.clone(),
        outbox: outbox.clone(),
        revision,
        id,
        sent: false,
        reason: CancelReason::default(),
    };
    outbox.wait_for_capacity().await;
    write_input_request(outbox, &requests.wire_id(guard.id), request, revision)?;
    guard.sent = true;
    match tokio::time::timeout(timeout, response).await {
        Err(_) => Err(AskError::TimedOut),
        Ok(Err(_)) => Err(AskError::Closed),
        Ok(Ok((outcome, _))) => outcome.map_err(AskError::ErrorResponse),
    }
}

/// The id of a request without a response.
enum RequestId {
    Own(i64),
    Adopted(String),
}

/// A request to the client that its owner polls. Dropping it cancels the request, if it was sent.
pub(super) struct OpenRequest {
    requests: Arc<OutgoingRequests>,
    outbox: Arc<OutboundQueue>,
    revision: Revision,
    id: RequestId,
    sent: bool,
    /// `None` once the response was returned, or the connection is closed.
    response: Option<oneshot::Receiver<Answer>>,
}

impl OpenRequest {
    /// The id as the client sees it.
    pub(super) fn wire_id(&self) -> Id<'static> {
        match &self.id {
            RequestId::Own(id) => self.requests.wire_id(*id),
            RequestId::Adopted(id) => Id::from(id.clone()),
        }
    }

    /// Sends the request, once. A request of another replica was sent before.
    pub(super) fn send(&mut self, request: InputRequest) -> Result<(), AskError> {
        if std::mem::replace(&mut self.sent, true) || matches!(self.id, RequestId::Adopted(_)) {
            return Ok(());
        }
        let id = self.wire_id();
        write_input_request(&self.outbox, &id, request, self.revision)
    }

    /// Waits for the response; `None` if the connection is closed.
    pub(super) fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Option<ResponseResult>> {
        self.poll_answer(cx).map(|answer| answer.map(|(outcome, _)| outcome))
    }

    /// The same for a caller that stores the answer and keeps the guard until then.
    pub(super) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        let Some(response) = &mut self.response else { return Poll::Ready(None) };
        let Poll::Ready(received) = Pin::new(response).poll(cx) else { return Poll::Pending };
        self.response = None;
        Poll::Ready(received.ok())
    }

    /// Leaves the request open at the client, for another process.
    pub(super) fn leave_open(&mut self) {
        self.sent = false;
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let was_open = match &self.id {
            RequestId::Own(id) => self.requests.cancel(*id),
            RequestId::Adopted(id) => self.requests.lock().adopted.remove(id).is_some(),
        };
        if was_open && self.sent {
            cancel_request(&self.outbox, self.wire_id(), self.revision);
        }
    }
}

/// Tells the client that a request needs no answer any more. This or another process has sent it.
pub(super) fn cancel_request(outbox: &OutboundQueue, id: Id<'static>, revision: Revision) {
    let params = CancelledParams::default().request_id(id);
    outbox.push(|out| drop(write_notification::<Cancelled>(out, params, revision)));
}

/// Writes a question as a request of its revision.
fn write_input_request(
    outbox: &OutboundQueue,
    id: &Id<'_>,
    request: InputRequest,
    revision: Revision,
) -> Result<(), AskError> {
    let mut written = Ok(());
    outbox.push(|out| {
        written = match request {
            InputRequest::Elicit(params) => write_request::<Create>(out, id, params, revision),
            InputRequest::Sample(params) => write_request::<CreateMessage>(out, id, params, revision),
            InputRequest::Roots(params) => write_request::<roots::List>(out, id, params, revision),
            _ => Ok(()),
        };
    });
    written.map_err(AskError::from)
}

/// A request without a response yet; dropping it cancels the request.
struct OutgoingRequestGuard {
    requests: Arc<OutgoingRequests>,
    outbox: Arc<OutboundQueue>,
    revision: Revision,
    id: i64,
    sent: bool,
    /// The reason for which it is cancelled.
    reason: CancelReason,
}

impl Drop for OutgoingRequestGuard {
    fn drop(&mut self) {
        if self.requests.cancel(self.id) && self.sent {
            let mut params = CancelledParams::default().request_id(self.requests.wire_id(self.id));
            params.reason = self.reason.get().map(str::to_owned);
            self.outbox.push(|out| drop(write_notification::<Cancelled>(out, params, self.revision)));
        }
    }
}

#[cfg(test)]
mod tests {
    use tsugite_core::jsonrpc::Raw;

    use super::*;

    fn response(id: impl Into<Id<'static>>) -> Response<'static> {
        Response { id: Some(id.into()), outcome: Ok(Raw::empty_object()) }
    }

    #[test]
    fn response_is_accepted_once_and_ids_are_not_reused() {
        // JRPC-004. JRPC-047: responses come in any order.
        let requests = OutgoingRequests::default();
        let (first, _first_response) = requests.begin().unwrap();
        let (second, mut second_response) = requests.begin().unwrap();
        assert_ne!(first, second);
        assert!(requests.receive_response(response(second)));
        assert!(second_response.try_recv().unwrap().0.is_ok());
        assert!(!requests.receive_response(response(second)));
        assert!(!requests.receive_response(response("1")));
        assert!(requests.receive_response(response(first)));
        let (third, _third_response) = requests.begin().unwrap();
        assert!(third != first && third != second);
    }

    #[test]
    fn only_a_request_without_response_is_cancelled() {
        // CANC-003. CANC-010: a response after the cancellation is dropped.
        let requests = OutgoingRequests::default();
        let (answered, _answered_response) = requests.begin().unwrap();
        let (open, _open_response) = requests.begin().unwrap();
        assert!(requests.receive_response(response(answered)));
        assert!(!requests.cancel(answered));
        assert!(requests.cancel(open));
        assert!(!requests.cancel(open));
        assert!(!requests.receive_response(response(open)));
    }

    #[test]
    fn closed_table_takes_no_requests() {
        let requests = OutgoingRequests::default();
        let (open, mut open_response) = requests.begin().unwrap();
        requests.close();
        assert!(open_response.try_recv().is_err());
        assert!(!requests.cancel(open));
        assert!(requests.begin().is_none());
    }
}
