//! The means of a request to go on without its connection: its stream, whose events are stored, and its record in the
//! store, for other replicas.

use std::sync::Arc;

use bytes::Bytes;
use tsugite_core::jsonrpc::{Id, write};
use tsugite_core::revision::{Revision, RpcError};

use super::event_stream::EventStream;
use super::forwarding::SessionChange;
use super::http_state::HttpState;
use super::in_flight_record::{InFlightRecord, NOT_STORED, RegisterError};
use super::log_writer::{AppendError, AppendFuture, end_after_failure};
use super::sessions::SessionGuard;
use super::waiting_calls::HttpCallKeeper;
use crate::server::{CancellationToken, ResponseWriter};

/// A request that other replicas must know.
pub(super) struct TrackedRequest {
    pub(super) id: Id<'static>,
    /// Ends the handler of one request of a batch, and answers it.
    in_batch: Option<(CancellationToken, ResponseWriter)>,
}

impl TrackedRequest {
    pub(super) fn new(id: Id<'static>) -> Self {
        Self { id, in_batch: None }
    }

    /// A request of a batch, with the token that ends its handler and the writer of its response.
    pub(super) fn in_batch(id: Id<'static>, handler: CancellationToken, writer: ResponseWriter) -> Self {
        Self { id, in_batch: Some((handler, writer)) }
    }
}

/// The means to continue without a connection.
pub(super) struct Resumable {
    pub(super) state: Arc<HttpState>,
    pub(super) session: SessionGuard,
    pub(super) stream: Option<Arc<EventStream>>,
    pub(super) pending_append: Option<AppendFuture>,
    /// The requests in the store, for other replicas.
    records: Vec<InFlightRecord>,
    /// The id that is reserved for the stream.
    reserved_stream: Option<u128>,
    /// Whether the log was told that it has ended.
    log_ended: bool,
    /// Whether the store has failed to take events for too long.
    append_failed: bool,
    /// The requests, if other replicas must know them.
    pub(super) requests: Vec<TrackedRequest>,
    /// The scopes of the items that the requests name.
    needed_scopes: Vec<String>,
    /// The changes of the session that the requests make.
    pub(super) changes: Vec<SessionChange>,
    /// Stores the call while it waits, once it is registered.
    keeper: Option<Arc<HttpCallKeeper>>,
}

impl Resumable {
    pub(super) fn new(state: Arc<HttpState>, session: SessionGuard) -> Self {
        Self {
            state,
            session,
            stream: None,
            pending_append: None,
            records: Vec::new(),
            reserved_stream: None,
            log_ended: false,
            append_failed: false,
            requests: Vec::new(),
            needed_scopes: Vec::new(),
            changes: Vec::new(),
            keeper: None,
        }
    }

    /// Continues a request that another replica began.
    pub(super) fn adopted(
        state: Arc<HttpState>,
        session: SessionGuard,
        stream: Arc<EventStream>,
        record: InFlightRecord,
        id: Id<'static>,
    ) -> Self {
        let mut resumable = Self::new(state, session);
        (resumable.stream, resumable.records) = (Some(stream), vec![record]);
        resumable.requests = vec![TrackedRequest::new(id)];
        resumable
    }

    /// Sets the scopes that a caller needs to resume the stream of the requests.
    pub(super) fn set_needed_scopes(&mut self, scopes: Vec<String>) {
        self.needed_scopes = scopes;
    }

    /// Sets what other replicas must know.
    pub(super) fn set_requests(
        &mut self,
        requests: Vec<TrackedRequest>,
        changes: Vec<SessionChange>,
        keeper: Option<Arc<HttpCallKeeper>>,
    ) {
        (self.requests, self.changes, self.keeper) = (requests, changes, keeper);
    }

    /// Registers the requests in the store. Other replicas refuse their ids then, and find them when the client cancels
    /// one. A request of a batch that must not go on ends alone.
    pub(super) async fn register(&mut self, revision: Revision) -> Result<(), RegisterError> {
        let keeper = self.keeper.take();
        self.reserved_stream = self.state.reserve_stream();
        let Some(stream) = self.reserved_stream else { return Ok(()) };
        let mut is_available = true;
        for TrackedRequest { id, in_batch } in &mut self.requests {
            let (in_batch, request) = (in_batch.take(), (&*id, stream));
            let registered = match is_available {
                true => InFlightRecord::register(&self.state, &self.session, request, keeper.clone()).await,
                false => Err(RegisterError::Unavailable),
            };
            match (registered, in_batch) {
                (Ok(record), _) => self.records.extend(record),
                (Err(error @ RegisterError::SessionEnded), _) | (Err(error), None) => return Err(error),
                (Err(error), Some((handler, writer))) => {
                    is_available &= !matches!(error, RegisterError::Unavailable);
                    handler.cancel();
                    if let Some(error) = error.to_rpc_error(id) {
                        writer.send_error(Some(id), &error, revision);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn stream(&mut self) -> Arc<EventStream> {
        let (session, state) = (&self.session, &self.state);
        let reserved = || self.reserved_stream.or_else(|| state.reserve_stream());
        let needed_scopes = &mut self.needed_scopes;
        self.stream
            .get_or_insert_with(|| {
                let stream = session.with_streams(|streams, id| streams.create(id, reserved()));
                stream.set_needed_scopes(std::mem::take(needed_scopes));
                stream
            })
            .clone()
    }

    /// Makes events of messages and appends them to the log.
    pub(super) fn append_messages(&mut self, lines: Vec<u8>, ends: bool) -> Bytes {
        let (events, append) = self.stream().append_messages(lines, ends, &self.state.logs);
        self.pending_append = append;
        self.log_ended = ends;
        events.text
    }

    /// Ends the log of a request that gets no response. One that this process cuts off, or whose events could not be stored,
    /// gets an error.
    fn end_log(&self, stream: &EventStream) -> Option<AppendFuture> {
        let logs = &self.state.logs;
        match self.requests.is_empty() {
            false if self.append_failed => {
                let (target, lines) = (stream.log_target(), self.error_lines(NOT_STORED));
                Some(Box::pin(end_after_failure(logs.clone(), target, stream.last_event(), lines)))
            }
            false if self.state.is_aborting() => {
                stream.append_messages(self.error_lines(CUT_OFF), true, logs).1
            }
            _ => stream.end_log(logs),
        }
    }

    /// An error for each request, one per line.
    fn error_lines(&self, message: &'static str) -> Vec<u8> {
        let revision = self.session.revision.unwrap_or(Revision::NEWEST);
        let error = RpcError::internal_with_message(message).to_error_object(revision);
        let mut lines = Vec::new();
        for TrackedRequest { id, .. } in &self.requests {
            write::error(&mut lines, Some(id), revision.writes_null_id(), &error);
            lines.push(b'\n');
        }
        lines
    }

    /// Notes that events could not be stored. The log belongs to another replica then, or is ended when the store heals.
    pub(super) fn note_append_error(&mut self, error: AppendError) {
        self.log_ended = error == AppendError::TakenOver;
        self.append_failed = error == AppendError::Unavailable;
    }

    /// Marks the stream as finished. A call that waits ends with it, unless this process stops: another one continues the
    /// call in the same log then.
    pub(super) fn finish(&mut self) {
        let waiting = self.records.iter().position(InFlightRecord::is_waiting);
        let waiting = waiting.map(|at| self.records.swap_remove(at));
        let stream = self.stream.take();
        if waiting.is_none() || !self.state.is_aborting() {
            let end = stream.as_ref().filter(|_| !self.log_ended).and_then(|stream| self.end_log(stream));
            self.end(waiting, end);
        }
        if let Some(stream) = stream {
            stream.set_finished();
            let max_logs = self.state.http.max_logs_per_session;
            let expired = self.session.with_streams(|streams, _| streams.finish(stream.id(), max_logs));
            self.state.delete_logs(expired);
        }
    }

    /// Withdraws a call that waits, and ends the log then.
    fn end(&mut self, waiting: Option<InFlightRecord>, end: Option<AppendFuture>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if waiting.is_none() && end.is_none() {
            return;
        }
        let (state, appending) = (self.state.clone(), self.pending_append.take());
        self.state.spawn_detached(&runtime, None, async move {
            if let Some(appending) = appending {
                let _ = appending.await;
            }
            if let Some(call) = &waiting
                && !call.withdraw(&state).await
            {
                return;
            }
            if let Some(end) = end {
                let _ = end.await;
            }
        });
    }
}

/// The message of the error for a request that is cut off.
const CUT_OFF: &str =
    "Internal error: the server was stopped while the request ran; the request may have run";
