//! POST: parses the body, decides what it is and dispatches it. A body is one message, or on 2025-03-26 a batch.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use http::StatusCode;
use tsugite_core::jsonrpc::{Id, Incoming, Message, ParseError, Request, Response};
use tsugite_core::protocol::Method;
use tsugite_core::protocol::subscriptions::Listen;
use tsugite_core::revision::{Revision, RpcError};
use tsugite_core::session::http::{
    HttpError, MirrorHeaders, PostDecision, RequestHeaders, check_stateless_headers, decide_post,
    decide_post_request,
};
use tsugite_core::session::request_meta::{RequestMeta, parse_with_meta};

use super::exchange::{Exchange, HttpHandlerFuture, Output};
use super::forwarding::{self, Cancellation, Delivery, ForwardedMessage, SessionChange, response_text};
use super::http_state::HttpState;
use super::post_response::{Dispatched, ResponseMode};
use super::request_head::RequestHead;
use super::responses::{StatusError, empty, http_error, parse_error, status_error, store_unavailable};
use super::resumable::{Resumable, TrackedRequest};
use super::sessions::SessionGuard;
use super::shared_session::{KnownRecords, RequestRecord};
use super::shared_sessions::FoundSession;
use super::waiting_calls::HttpCallKeeper;
use crate::error::Chain;
use crate::server::connection::{ConnectionScope, ServerConnection};
use crate::server::dispatch::ReceivedRequest;
use crate::server::in_flight::duplicate_id;
use crate::server::incoming_request::{IncomingRequest, Tracking};
use crate::server::kept_call::KeptRequest;
use crate::server::outgoing_requests::{asking_replica, verified_asker};
use crate::server::pending::{PendingRequest, pending_bytes};
use crate::server::principal::Caller;
use crate::server::{DeclaredCapabilities, Headers, ResponseWriter};
use crate::shared::log;
use crate::shared::outbound_queue::OutboundQueue;

/// Parses the body of a POST, decides what it is and dispatches it.
pub(super) fn dispatch(
    state: &Arc<HttpState>,
    head: &RequestHead,
    FoundSession { session, known }: FoundSession,
    bytes: &[u8],
) -> Dispatched {
    let session_revision = session.revision();
    let caller = head.caller();
    let mut post = IncomingPost {
        state,
        accepts_events: head.accepts_events(),
        headers: head.mcp.with_session(&session),
        mirrors: head.mcp.mirrors(),
        session: session.into_guard(),
        known,
        caller,
    };
    let mut scanned = RequestMeta::default();
    let body = match parse_with_meta(bytes, &state.config.limits, &mut scanned) {
        Ok(body) => body,
        Err(error) => {
            let revision = session_revision.unwrap_or_else(|| state.config.revisions.error_fallback());
            return Dispatched::Response(parse_error(&error, revision));
        }
    };
    if let Incoming::Single(Message::Request(request)) = &body {
        return match &scanned.checked(request) {
            Ok(meta) => post.handle_request(request, meta),
            Err(error) => {
                let revision = session_revision.unwrap_or(Revision::NEWEST);
                let error = HttpError::new(400, RpcError::invalid_params(error), revision);
                Dispatched::Response(http_error(&error, Some(&request.id), "POST"))
            }
        };
    }
    post.handle_non_request(body, bytes)
}

/// A POST whose body was read.
struct IncomingPost<'a> {
    state: &'a Arc<HttpState>,
    /// Whether the response may be an event stream. If not, only results are sent.
    accepts_events: bool,
    headers: RequestHeaders<'a>,
    mirrors: MirrorHeaders<'a>,
    session: Option<SessionGuard>,
    /// The records that other replicas may have of the requests that are sent, cancelled or answered.
    known: KnownRecords,
    caller: Caller,
}

impl IncomingPost<'_> {
    fn handle_request(&mut self, request: &Request<'_>, meta: &RequestMeta<'_>) -> Dispatched {
        if let Err(error) = self.state.limits.check_pending(&self.caller, pending_bytes(request)) {
            return Dispatched::Response(StatusError::from(error).into());
        }
        let reject = |error: &HttpError| Dispatched::Response(http_error(error, Some(&request.id), "POST"));
        match decide_post_request(&self.state.policy, &self.headers, request, meta) {
            PostDecision::Stateless(revision) => {
                // The router rejects methods that are not offered.
                if let Err(error) = check_stateless_headers(revision, request, meta, &self.mirrors, |_| true)
                {
                    return reject(&error);
                }
                if !self.accepts_events && request.method == Listen::NAME {
                    let text = "Not acceptable: `subscriptions/listen` is an event stream, and `Accept` must take one";
                    return Dispatched::Response(status_error(StatusCode::NOT_ACCEPTABLE, text));
                }
                let (output, writer) = self.new_output(false);
                let incoming = self.received_request(request, meta, revision, &writer, None);
                let pending = self.state.stateless.handle_request(incoming);
                self.exchange(output, pending, None, ResponseMode::Stateless)
            }
            PostDecision::BareDiscover(revision) => {
                let (output, writer) = self.new_output(false);
                let incoming = self.received_request(request, meta, revision, &writer, None);
                let pending = self.state.stateless.handle_request(incoming);
                self.exchange(output, pending, None, ResponseMode::Stateless)
            }
            PostDecision::Initialize(revision) => {
                let connection = self.new_connection(match self.state.http.sessions {
                    true => ConnectionScope::UnorderedSession,
                    false => ConnectionScope::SingleRequest,
                });
                let (output, writer) = self.new_output(false);
                let incoming = self.received_request(request, meta, revision, &writer, None);
                let pending = connection.handle_request(incoming);
                self.exchange(output, pending, None, ResponseMode::NewSession(connection))
            }
            PostDecision::InSession(revision) => {
                let Some(session) = self.session.take() else {
                    return Dispatched::Response(empty(StatusCode::NOT_FOUND));
                };
                // A stream is closed early only if the client has an event id to resume with.
                let (output, writer) = self.new_output(revision.primes_streams());
                if self.is_in_flight_elsewhere(&session, &request.id) {
                    writer.send_error(Some(&request.id), &duplicate_id(&request.id), revision);
                    return self.exchange(output, None, Some(session), ResponseMode::Handshake(revision));
                }
                let changes = SessionChange::of_request(self.state, request, revision);
                let keeper = self.keeper(&session, revision);
                self.caller.kept = keeper.clone().map(|keeper| KeptRequest::new(keeper, None));
                let incoming = self.received_request(request, meta, revision, &writer, Some(&session));
                let pending = session.connection.handle_request(incoming);
                // A response without a message before it has no stream.
                let needed = match pending.is_some() || !output.queue.is_empty() {
                    true => self.needed_scopes(request, meta),
                    false => Vec::new(),
                };
                let mut resumable = Resumable::new(self.state.clone(), session);
                resumable.set_needed_scopes(needed);
                if self.state.is_shared() {
                    let tracked = TrackedRequest::new(request.id.clone().into_owned());
                    resumable.set_requests(vec![tracked], changes.into_iter().collect(), keeper);
                }
                let exchange = Exchange::new(output, pending.map(cancellable), Some(resumable));
                Dispatched::Request(exchange, ResponseMode::Handshake(revision))
            }
            PostDecision::Sessionless(revision) => {
                let (output, writer) = self.new_output(false);
                let incoming = self.received_request(request, meta, revision, &writer, None);
                let pending = self.single_request_connection(revision).handle_request(incoming);
                self.exchange(output, pending, None, ResponseMode::Handshake(revision))
            }
            PostDecision::Reject(error) => reject(&error),
            // Decisions for bodies that are no single request.
            PostDecision::Batch { .. } | PostDecision::DeliverResponse | PostDecision::Accept => {
                Dispatched::Response(empty(StatusCode::BAD_REQUEST))
            }
        }
    }

    /// The scopes of the item that a request names.
    fn needed_scopes(&self, request: &Request<'_>, meta: &RequestMeta<'_>) -> Vec<String> {
        let (state, principal) = (self.state, self.caller.principal.as_ref());
        let shared = &state.server.shared;
        match shared.has_scoped_items() {
            true => shared.needed_scopes(&state.config, principal, &request.method, meta),
            false => Vec::new(),
        }
    }

    /// A queue and a slot for the messages of one request.
    fn new_output(&self, can_close_stream: bool) -> (Output, ResponseWriter) {
        let max_bytes = self.state.config.max_write_buffer_bytes;
        let output = Output::new(match (self.accepts_events, can_close_stream) {
            (true, true) => OutboundQueue::with_closable_stream(max_bytes),
            (true, false) => OutboundQueue::new(max_bytes),
            (false, _) => OutboundQueue::discarding(),
        });
        let writer = ResponseWriter::with_slot(output.queue.clone(), output.response.clone());
        (output, writer)
    }

    fn received_request<'a>(
        &'a self,
        request: &'a Request<'a>,
        meta: &'a RequestMeta<'a>,
        revision: Revision,
        writer: &'a ResponseWriter,
        session: Option<&SessionGuard>,
    ) -> ReceivedRequest<'a> {
        let tracking = if session.is_some() { Tracking::Connection } else { Tracking::Untracked };
        let declared = DeclaredCapabilities::default();
        let caller = &self.caller;
        ReceivedRequest::Post(IncomingRequest { request, meta, revision, writer, caller, declared, tracking })
    }

    /// A request that was dispatched, with what is needed to respond to it.
    fn exchange(
        &self,
        output: Output,
        pending: Option<PendingRequest>,
        session: Option<SessionGuard>,
        mode: ResponseMode,
    ) -> Dispatched {
        let resumable = session.map(|session| Resumable::new(self.state.clone(), session));
        Dispatched::Request(Exchange::new(output, pending.map(cancellable), resumable), mode)
    }

    /// A connection for one request of the handshake era that belongs to no session.
    fn single_request_connection(&self, revision: Revision) -> Arc<ServerConnection> {
        let connection = self.new_connection(ConnectionScope::SingleRequest);
        connection.complete_handshake(revision);
        connection
    }

    fn new_connection(&self, scope: ConnectionScope) -> Arc<ServerConnection> {
        let state = self.state;
        let caller = Caller { headers: Headers::default(), ..self.caller.clone() };
        ServerConnection::with_scope(scope, &state.server, state.config.clone(), caller, &state.limits)
    }

    /// Handles notifications, responses and batches.
    fn handle_non_request(self, body: Incoming<'_>, bytes: &[u8]) -> Dispatched {
        let accepted = || Dispatched::Response(empty(StatusCode::ACCEPTED));
        let decision = decide_post(&self.state.policy, &self.headers, &body);
        match (decision, body) {
            (PostDecision::DeliverResponse, Incoming::Single(Message::Response(response))) => {
                self.deliver_response(response, bytes)
            }
            (PostDecision::InSession(_), Incoming::Single(message)) => {
                let Some(session) = &self.session else { return accepted() };
                if let Some(cancellation) = Cancellation::of_message(&message)
                    && self.concerns_others(session, &cancellation)
                {
                    return self.forward_cancellation(cancellation);
                }
                let connection = &session.connection;
                connection.receive_notification_or_response(Ok(message), &self.state.discard_reply);
                accepted()
            }
            (PostDecision::Accept | PostDecision::Sessionless(_), _) => accepted(),
            (PostDecision::Batch { revision, in_session }, Incoming::Batch(batch)) => {
                let connection = match self.session.as_ref().filter(|_| in_session) {
                    Some(session) => session.connection.clone(),
                    None => self.single_request_connection(revision),
                };
                self.handle_batch(&connection, revision, batch.into_messages(), bytes.len())
            }
            (PostDecision::Reject(error), _) => Dispatched::Response(http_error(&error, None, "POST")),
            // Decisions for requests, or for another kind of body.
            (PostDecision::Stateless(_) | PostDecision::BareDiscover(_) | PostDecision::Initialize(_), _)
            | (PostDecision::DeliverResponse | PostDecision::InSession(_), _)
            | (PostDecision::Batch { .. }, Incoming::Single(_)) => {
                Dispatched::Response(empty(StatusCode::BAD_REQUEST))
            }
        }
    }

    /// Delivers a response to the request of ours that waits for it, here or at another replica.
    fn deliver_response(self, response: Response<'_>, bytes: &[u8]) -> Dispatched {
        let accepted = Dispatched::Response(empty(StatusCode::ACCEPTED));
        let Some(session) = &self.session else { return accepted };
        let text = || String::from_utf8_lossy(bytes).into_owned();
        match self.deliver_locally(session, response, bytes) {
            Delivery::Done => accepted,
            delivery => Dispatched::store_response(self.state, session, delivery, text()),
        }
    }

    /// Hands a response to the request of ours that waits for it here.
    fn deliver_locally(&self, session: &SessionGuard, response: Response<'_>, bytes: &[u8]) -> Delivery {
        let moved_to =
            response.id.as_ref().and_then(asking_replica).and_then(|asker| self.known.moved_to(&asker));
        let response_id = response.id.clone();
        let delivered = session.connection.outgoing_requests().receive_answer(response);
        let Some(replica) = &self.state.replica else { return Delivery::Done };
        let delivered = delivered.or_else(|| self.state.answer_claimed_text(session.log_name(), bytes));
        // A call that was claimed may still wait at the replica that asked, if that was only stopped for a while: it gets the
        // answer, too, and finds that the call is no longer its own. Later questions of that replica are not claimed.
        if let (Some(settled), None) = (delivered, &moved_to) {
            return Delivery::Here(settled);
        }
        let asker = response_id.and_then(|id| verified_asker(replica, &id));
        let mut recipients: Vec<String> = [moved_to, asker].into_iter().flatten().collect();
        recipients.retain(|name| self.is_other_replica(name));
        recipients.dedup();
        if recipients.is_empty() { Delivery::Done } else { Delivery::Elsewhere(recipients) }
    }

    /// Whether another replica runs a request with this id. A cancellation that came before the request counts from now on.
    fn is_in_flight_elsewhere(&self, session: &SessionGuard, id: &Id<'_>) -> bool {
        match self.known.request(id) {
            Some(RequestRecord::Running(running)) => self.is_other_replica(&running.replica),
            Some(RequestRecord::Unreadable) => true,
            Some(RequestRecord::Cancelled { reason, .. }) => {
                session.connection.cancel_request(&id.clone().into_owned(), reason);
                false
            }
            None => false,
        }
    }

    /// Whether a cancellation concerns another replica: no request with this id runs here, or this replica has lost it.
    fn concerns_others(&self, session: &SessionGuard, cancellation: &Cancellation) -> bool {
        let runs_elsewhere = || match self.known.request(&cancellation.id) {
            Some(RequestRecord::Running(running)) => self.is_other_replica(&running.replica),
            _ => false,
        };
        self.state.is_shared() && (!session.connection.is_in_flight(&cancellation.id) || runs_elsewhere())
    }

    /// Cancels a request that another replica runs, or that is still to come.
    fn forward_cancellation(self, cancellation: Cancellation) -> Dispatched {
        let (state, known) = (self.state.clone(), self.known.request(&cancellation.id));
        match self.session {
            Some(session) => Dispatched::Later(Box::pin(async move {
                match cancellation.store(&state, &session, known).await {
                    Ok(()) => empty(StatusCode::ACCEPTED),
                    Err(error) => store_unavailable(&*error),
                }
            })),
            None => Dispatched::Response(empty(StatusCode::ACCEPTED)),
        }
    }

    /// Stores the call while its handler waits, if the client takes the events of a stream.
    fn keeper(&self, session: &SessionGuard, revision: Revision) -> Option<Arc<HttpCallKeeper>> {
        self.state.replica.as_ref().filter(|_| self.accepts_events)?;
        Some(HttpCallKeeper::new(self.state, session, revision, self.caller.principal.clone()))
    }

    fn is_other_replica(&self, name: &str) -> bool {
        self.state.replica.as_ref().is_some_and(|own| own.name() != name)
    }

    fn handle_batch(
        mut self,
        connection: &Arc<ServerConnection>,
        revision: Revision,
        messages: Vec<Result<Message<'_>, ParseError>>,
        bytes: usize,
    ) -> Dispatched {
        if let Err(error) = self.state.limits.check_pending(&self.caller, bytes) {
            return Dispatched::Response(StatusError::from(error).into());
        }
        let session = self.session.take();
        let (output, writer) = self.new_output(false);
        let max_bytes = self.state.config.limits.max_message_bytes.saturating_mul(2);
        let writer = ResponseWriter::batch_into(writer, max_bytes);
        let (mut handlers, mut tracked, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut wants_response, mut forwarded, mut needed_scopes) = (false, Vec::new(), Vec::new());
        for message in messages {
            let Ok(Message::Request(request)) = &message else {
                wants_response |= message.is_err();
                match session.as_ref() {
                    Some(session) => forwarded.extend(self.receive_in_batch(session, message, &writer)),
                    None => connection.receive_notification_or_response(message, &writer),
                }
                continue;
            };
            wants_response = true;
            let meta = match RequestMeta::from_params(request.params()) {
                Ok(meta) => meta,
                Err(error) => {
                    writer.send_error(Some(&request.id), &RpcError::invalid_params(&error), revision);
                    continue;
                }
            };
            if session.as_ref().is_some_and(|session| self.is_in_flight_elsewhere(session, &request.id)) {
                writer.send_error(Some(&request.id), &duplicate_id(&request.id), revision);
                continue;
            }
            let incoming = self.received_request(request, &meta, revision, &writer, session.as_ref());
            let pending = connection.handle_request(incoming);
            let change = SessionChange::of_request(self.state, request, revision);
            // The response does not tell, since the whole batch has one.
            changes.extend(change.filter(|change| pending.is_some() || change.was_made(connection)));
            needed_scopes.extend(self.needed_scopes(request, &meta));
            if let Some(pending) = pending {
                let id = request.id.clone().into_owned();
                tracked.push(TrackedRequest::in_batch(id, pending.cancellation.clone(), writer.clone()));
                handlers.push(cancellable(pending));
            }
        }
        // The array is sent when the last writer is dropped.
        drop(writer);
        if !wants_response {
            return match session.filter(|_| !forwarded.is_empty()) {
                Some(session) => Dispatched::store_for_others(self.state, session, forwarded),
                None => Dispatched::Response(empty(StatusCode::ACCEPTED)),
            };
        }
        if let Some(session) = session.as_ref().filter(|_| !forwarded.is_empty()) {
            let stored = forwarding::store_all(self.state.clone(), (**session).clone(), forwarded);
            // The responses of the batch say nothing about it.
            handlers.push(Box::pin(async move {
                if let Err(error) = stored.await {
                    log::warn!(error = %Chain(&*error), "messages of a batch did not reach another replica");
                }
            }));
        }
        let handler = (!handlers.is_empty()).then(|| join_all(handlers));
        let resumable = session.map(|session| {
            let mut resumable = Resumable::new(self.state.clone(), session);
            resumable.set_needed_scopes(needed_scopes);
            match self.state.is_shared() {
                true => resumable.set_requests(tracked, changes, None),
                // Without other replicas the writers in it would hold the response back.
                false => drop(tracked),
            }
            resumable
        });
        Dispatched::Request(Exchange::new(output, handler, resumable), ResponseMode::Handshake(revision))
    }

    /// Handles a message of a batch that is no request. Returns it if it concerns another replica.
    fn receive_in_batch(
        &self,
        session: &SessionGuard,
        message: Result<Message<'_>, ParseError>,
        writer: &ResponseWriter,
    ) -> Option<ForwardedMessage> {
        match message {
            Ok(Message::Response(response)) => {
                let text = response_text(&response);
                match self.deliver_locally(session, response, text.as_bytes()) {
                    Delivery::Done => None,
                    delivery => Some(ForwardedMessage::Response { delivery, response: text }),
                }
            }
            Ok(message) => {
                let cancellation = Cancellation::of_message(&message)
                    .filter(|cancellation| self.concerns_others(session, cancellation));
                match cancellation {
                    Some(cancellation) => {
                        let known = self.known.request(&cancellation.id);
                        Some(ForwardedMessage::Cancellation(cancellation, known))
                    }
                    None => {
                        session.connection.receive_notification_or_response(Ok(message), writer);
                        None
                    }
                }
            }
            Err(error) => {
                session.connection.receive_notification_or_response(Err(error), writer);
                None
            }
        }
    }
}

/// A handler that ends when its request is cancelled.
pub(super) fn cancellable(pending: PendingRequest) -> HttpHandlerFuture {
    let PendingRequest { cancellation, future, .. } = pending;
    Box::pin(async move {
        tokio::select! {
            biased;
            () = cancellation.cancelled() => {}
            () = future => {}
        }
    })
}

/// Runs the handlers of a batch concurrently.
fn join_all(mut handlers: Vec<HttpHandlerFuture>) -> HttpHandlerFuture {
    Box::pin(poll_fn(move |cx| {
        handlers.retain_mut(|handler| handler.as_mut().poll(cx).is_pending());
        if handlers.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }))
}
