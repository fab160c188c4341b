//! POST: a message, or on 2025-03-26 several.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use tsugite_core::jsonrpc::{Incoming, Message, Request};
use tsugite_core::revision::{Revision, RpcError};
use tsugite_core::session::http::{
    HttpError, MirrorHeaders, PostDecision, RequestHeaders, check_stateless_headers, decide_post,
    decide_post_request, status_for_code,
};
use tsugite_core::session::request_meta::{RequestMeta, ScannedMeta, parse_with_meta};

use super::http_state::HttpState;
use super::maybe_ready::MaybeReady;
use super::request_head::{NamedSession, RequestHead, SESSION_ID};
use super::response_body::HttpBody;
use super::responses::{empty, http_error, json, parse_error, sse, status_error};
use super::sessions::{HttpSession, OpenSessionError, SessionGuard};
use super::sse_body::{Exchange, FirstOutput, HttpHandlerFuture, Resumable};
use crate::bus::BusEvent;
use crate::server::connection::{
    Caller, ConnectionScope, IncomingRequest, PendingRequest, ServerConnection, Tracking,
};
use crate::server::{DeclaredCapabilities, Headers, ResponseWriter};
use crate::transport::outbound_queue::OutboundQueue;

/// A POST that was dispatched.
pub(super) enum PostOutcome {
    Complete(Response<HttpBody>),
    Pending(PendingResponse),
}

impl PostOutcome {
    /// The response: at once, if the handler has completed and no store must be asked.
    pub(super) fn respond(self, state: &Arc<HttpState>) -> MaybeReady<Response<HttpBody>> {
        let mut pending = match self {
            PostOutcome::Complete(response) => return MaybeReady::Ready(response),
            PostOutcome::Pending(pending) => pending,
        };
        match pending.exchange.try_complete() {
            Some(output) if !(state.store.is_shared() && pending.opens_session()) => {
                MaybeReady::Ready(pending.respond(state, output).0)
            }
            output => {
                let state = state.clone();
                MaybeReady::pending(async move { pending.into_response(&state, output).await })
            }
        }
    }
}

/// A request on its way to an answer.
pub(super) struct PendingResponse {
    exchange: Exchange,
    mode: ResponseMode,
}

enum ResponseMode {
    /// Of the stateless era.
    Stateless,
    /// Of a session that speaks this revision, or of none.
    Handshake(Revision),
    /// It opens a session.
    NewSession(Arc<ServerConnection>),
}

impl ResponseMode {
    /// The status of an answer, or of the error that is the answer.
    fn status(&self, refused: Option<i32>) -> StatusCode {
        match (self, refused) {
            (ResponseMode::Stateless, Some(code)) => {
                StatusCode::from_u16(status_for_code(code.into())).unwrap_or(StatusCode::OK)
            }
            _ => StatusCode::OK,
        }
    }
}

impl PendingResponse {
    fn opens_session(&self) -> bool {
        matches!(self.mode, ResponseMode::NewSession(_))
    }

    /// Waits until there is something to respond with.
    async fn into_response(mut self, hub: &Arc<HttpState>, come: Option<FirstOutput>) -> Response<HttpBody> {
        let come = match come {
            Some(come) => come,
            None => poll_fn(|cx| self.exchange.poll_first_output(cx)).await,
        };
        let (response, opened) = self.respond(hub, come);
        if let Some(opened) = opened
            && hub.store.is_shared()
        {
            hub.persist_session(&opened).wait().await;
        }
        response
    }

    /// The response, and the session that it opens.
    fn respond(
        self,
        hub: &Arc<HttpState>,
        come: FirstOutput,
    ) -> (Response<HttpBody>, Option<Arc<HttpSession>>) {
        let PendingResponse { exchange, mode: kind } = self;
        let mut said = match come {
            FirstOutput::Complete(said) => said,
            FirstOutput::Streaming => {
                let primes = matches!(kind, ResponseMode::Handshake(revision) if revision.primes_streams());
                return (sse(HttpBody::sse(exchange.into_sse_body(primes, hub))), None);
            }
        };
        let lines = memchr::memchr_iter(b'\n', &said).take(2).count();
        if lines != 1 {
            // Nothing at all is what a cancelled request gets.
            let text = if lines == 0 { Bytes::new() } else { exchange.into_events(&said) };
            return (sse(HttpBody::full(text)), None);
        }
        said.pop();
        let refused = exchange.outbox.error_code();
        match kind {
            ResponseMode::NewSession(link) if refused.is_none() && hub.http.sessions => {
                open_session(hub, link, said)
            }
            kind => (json(kind.status(refused), said), None),
        }
    }
}

/// Opens the session that was agreed on.
fn open_session(
    hub: &Arc<HttpState>,
    link: Arc<ServerConnection>,
    said: Vec<u8>,
) -> (Response<HttpBody>, Option<Arc<HttpSession>>) {
    let opened = hub.sessions.open(link, hub.http.max_sessions, hub.http.max_sessions_per_caller);
    let session = match opened {
        Ok(session) => session,
        Err(OpenSessionError::NoRandomness) => {
            tracing::error!("the operating system gave no random bytes for a session");
            return (status_error(StatusCode::INTERNAL_SERVER_ERROR, "No session could be opened"), None);
        }
        Err(OpenSessionError::LimitReached) => {
            let text = "Too many sessions: this server has as many as it takes; try again later";
            return (status_error(StatusCode::SERVICE_UNAVAILABLE, text), None);
        }
        Err(OpenSessionError::CallerLimitReached) => {
            let text = "Too many sessions: end one of yours first (DELETE with its `Mcp-Session-Id`)";
            return (status_error(StatusCode::TOO_MANY_REQUESTS, text), None);
        }
    };
    hub.start_sweeper();
    let mut response = json(StatusCode::OK, said);
    if let Ok(id) = HeaderValue::from_str(session.id().as_str()) {
        response.headers_mut().insert(SESSION_ID, id);
    }
    (response, Some(session))
}

/// A POST whose body was read.
struct IncomingPost<'a> {
    state: &'a Arc<HttpState>,
    headers: RequestHeaders<'a>,
    mirrors: MirrorHeaders<'a>,
    session: Option<SessionGuard>,
    caller: Caller,
}

/// Parses the body of a POST, decides what it is and dispatches it.
pub(super) fn dispatch(
    state: &Arc<HttpState>,
    head: &RequestHead,
    session: NamedSession,
    bytes: &[u8],
) -> PostOutcome {
    let session_revision = session.revision();
    let caller =
        Caller { principal: head.principal.clone(), headers: Headers::from_source(head.headers.clone()) };
    let mut post = IncomingPost {
        state,
        headers: head.mcp.with_session(&session),
        mirrors: head.mcp.mirrors(),
        session: session.into_guard(),
        caller,
    };
    let mut scanned = ScannedMeta::default();
    let body = match parse_with_meta(bytes, &state.config.limits, &mut scanned) {
        Ok(body) => body,
        Err(error) => {
            let revision = session_revision.unwrap_or_else(|| state.config.revisions.error_fallback());
            return PostOutcome::Complete(parse_error(&error, revision));
        }
    };
    if let Incoming::Single(Message::Request(request)) = &body {
        return match &scanned.request_meta(request) {
            Ok(meta) => post.handle_request(request, meta),
            Err(error) => {
                let revision = session_revision.unwrap_or(Revision::NEWEST);
                let error = HttpError::new(400, RpcError::invalid_params(error), revision);
                PostOutcome::Complete(http_error(&error, Some(&request.id), "POST"))
            }
        };
    }
    post.handle_non_request(body, bytes)
}

impl IncomingPost<'_> {
    fn handle_request(&mut self, request: &Request<'_>, peek: &RequestMeta<'_>) -> PostOutcome {
        let deny = |denied: &HttpError| PostOutcome::Complete(http_error(denied, Some(&request.id), "POST"));
        match decide_post_request(&self.state.policy, &self.headers, request, peek) {
            PostDecision::Stateless(revision) => {
                // Whether the method is offered is for the switchboard to say.
                if let Err(denied) = check_stateless_headers(revision, request, peek, &self.mirrors, |_| true)
                {
                    return deny(&denied);
                }
                let reply = self.new_reply(false);
                let work = self
                    .state
                    .stateless
                    .dispatch(self.incoming_request(request, peek, revision, &reply, None));
                self.outcome(reply, work, None, ResponseMode::Stateless)
            }
            PostDecision::Initialize(revision) => {
                let (hub, who) = (self.state, self.caller.principal.clone());
                let link = match hub.http.sessions {
                    true => ServerConnection::with_limits(
                        &hub.server,
                        hub.config.clone(),
                        who,
                        &hub.handler_limits,
                    ),
                    false => ServerConnection::with_scope(
                        ConnectionScope::SingleRequest,
                        &hub.server,
                        hub.config.clone(),
                        who,
                        &hub.handler_limits,
                    ),
                };
                let reply = self.new_reply(false);
                let work = link.dispatch(self.incoming_request(request, peek, revision, &reply, None));
                self.outcome(reply, work, None, ResponseMode::NewSession(link))
            }
            PostDecision::InSession(revision) => {
                let Some(session) = self.session.take() else {
                    return PostOutcome::Complete(empty(StatusCode::NOT_FOUND));
                };
                // Without an id to come back with, what is cut is lost.
                let reply = self.new_reply(revision.primes_streams());
                let work = session.connection.receive_http_request(self.incoming_request(
                    request,
                    peek,
                    revision,
                    &reply,
                    Some(&session),
                ));
                self.outcome(reply, work, Some(session), ResponseMode::Handshake(revision))
            }
            PostDecision::Sessionless(revision) => {
                let reply = self.new_reply(false);
                let work = self
                    .single_request_connection(revision)
                    .receive_http_request(self.incoming_request(request, peek, revision, &reply, None));
                self.outcome(reply, work, None, ResponseMode::Handshake(revision))
            }
            PostDecision::Reject(denied) => deny(&denied),
            // Decisions for bodies that are no single request.
            PostDecision::Batch { .. } | PostDecision::DeliverResponse | PostDecision::Accept => {
                PostOutcome::Complete(empty(StatusCode::BAD_REQUEST))
            }
        }
    }

    /// Where one request is answered.
    fn new_reply(&self, can_be_cut: bool) -> ResponseWriter {
        let most = self.state.config.max_write_buffer_bytes;
        ResponseWriter::single(Arc::new(match can_be_cut {
            true => OutboundQueue::with_closable_stream(most),
            false => OutboundQueue::new(most),
        }))
    }

    fn incoming_request<'a>(
        &'a self,
        request: &'a Request<'a>,
        peek: &'a RequestMeta<'a>,
        revision: Revision,
        reply: &'a ResponseWriter,
        session: Option<&SessionGuard>,
    ) -> IncomingRequest<'a> {
        let tables = if session.is_some() { Tracking::Connection } else { Tracking::Untracked };
        IncomingRequest {
            request,
            meta: peek,
            revision,
            writer: reply,
            caller: &self.caller,
            declared: DeclaredCapabilities::default(),
            tracking: tables,
        }
    }

    /// What was answered at once is a response. What was not goes on in an exchange.
    fn outcome(
        &self,
        reply: ResponseWriter,
        work: Option<PendingRequest>,
        session: Option<SessionGuard>,
        kind: ResponseMode,
    ) -> PostOutcome {
        let ResponseWriter { mut outbox, .. } = reply;
        if work.is_none()
            && !matches!(kind, ResponseMode::NewSession(_))
            && let Some(outbox) = Arc::get_mut(&mut outbox)
            && let Some(answer) = outbox.take_single_message()
        {
            return PostOutcome::Complete(json(kind.status(outbox.error_code()), answer));
        }
        let survival = session.map(|session| Resumable::new(self.state.clone(), session));
        PostOutcome::Pending(PendingResponse {
            exchange: Exchange::new(outbox, work.map(cancellable), survival),
            mode: kind,
        })
    }

    /// A link for one request of the handshake era that belongs to no session.
    fn single_request_connection(&self, revision: Revision) -> Arc<ServerConnection> {
        let hub = self.state;
        let link = ServerConnection::with_scope(
            ConnectionScope::SingleRequest,
            &hub.server,
            hub.config.clone(),
            self.caller.principal.clone(),
            &hub.handler_limits,
        );
        link.complete_handshake(revision);
        link
    }

    /// Notifications, responses, batches.
    fn handle_non_request(self, body: Incoming<'_>, bytes: &[u8]) -> PostOutcome {
        let accepted = || PostOutcome::Complete(empty(StatusCode::ACCEPTED));
        let decision = decide_post(&self.state.policy, &self.headers, &body);
        match (decision, body) {
            (PostDecision::DeliverResponse, Incoming::Single(Message::Response(response))) => {
                self.deliver_response(response, bytes);
                accepted()
            }
            (PostDecision::InSession(_), Incoming::Single(message)) => {
                if let Some(session) = &self.session {
                    // Nothing that is no request is answered.
                    session
                        .connection
                        .receive_notification_or_response(Ok(message), &self.state.discard_reply);
                }
                accepted()
            }
            (PostDecision::Accept | PostDecision::Sessionless(_), _) => accepted(),
            (PostDecision::Batch { revision, in_session }, Incoming::Batch(batch)) => {
                let link = match self.session.as_ref().filter(|_| in_session) {
                    Some(session) => session.connection.clone(),
                    None => self.single_request_connection(revision),
                };
                self.handle_batch(&link, revision, batch.into_messages())
            }
            (PostDecision::Reject(denied), _) => PostOutcome::Complete(http_error(&denied, None, "POST")),
            // Decisions for requests, or for another kind of body.
            (PostDecision::Stateless(_) | PostDecision::Initialize(_), _)
            | (PostDecision::DeliverResponse | PostDecision::InSession(_), _)
            | (PostDecision::Batch { .. }, Incoming::Single(_)) => {
                PostOutcome::Complete(empty(StatusCode::BAD_REQUEST))
            }
        }
    }

    /// An answer to a question of ours, or of another replica.
    fn deliver_response(&self, response: tsugite_core::jsonrpc::Response<'_>, bytes: &[u8]) {
        let Some(session) = &self.session else { return };
        let carrier = &self.state.server.shared.feed.bus;
        if !session.connection.outgoing_requests().receive_response(response) && carrier.is_set() {
            let session = session.id().as_str().to_owned();
            let response = String::from_utf8_lossy(bytes).into_owned();
            carrier.publish(BusEvent::ClientResponse { session, response });
        }
    }

    fn handle_batch(
        mut self,
        link: &Arc<ServerConnection>,
        revision: Revision,
        messages: Vec<Result<Message<'_>, tsugite_core::jsonrpc::ParseError>>,
    ) -> PostOutcome {
        let session = self.session.take();
        let outbox = Arc::new(OutboundQueue::new(self.state.config.max_write_buffer_bytes));
        let together = ResponseWriter::batch(
            outbox.clone(),
            self.state.config.limits.max_message_bytes.saturating_mul(2),
        );
        let mut works = Vec::new();
        let mut asks = false;
        for message in messages {
            let Ok(Message::Request(request)) = &message else {
                asks |= message.is_err();
                link.receive_notification_or_response(message, &together);
                continue;
            };
            asks = true;
            let peek = match RequestMeta::from_params(request.params()) {
                Ok(peek) => peek,
                Err(error) => {
                    together.send_error(Some(&request.id), &RpcError::invalid_params(&error), revision);
                    continue;
                }
            };
            let asked = self.incoming_request(request, &peek, revision, &together, session.as_ref());
            works.extend(link.receive_http_request(asked).map(cancellable));
        }
        drop(together);
        if !asks {
            return PostOutcome::Complete(empty(StatusCode::ACCEPTED));
        }
        let work = (!works.is_empty()).then(|| join_all(works));
        let survival = session.map(|session| Resumable::new(self.state.clone(), session));
        PostOutcome::Pending(PendingResponse {
            exchange: Exchange::new(outbox, work, survival),
            mode: ResponseMode::Handshake(revision),
        })
    }
}

/// Work that ends when it is no longer wanted.
fn cancellable(work: PendingRequest) -> HttpHandlerFuture {
    let PendingRequest { cancellation: cancelled, future, .. } = work;
    Box::pin(async move {
        tokio::select! {
            biased;
            () = cancelled.cancelled() => {}
            () = future => {}
        }
    })
}

/// Runs all of them side by side.
fn join_all(mut works: Vec<HttpHandlerFuture>) -> HttpHandlerFuture {
    Box::pin(poll_fn(move |cx| {
        works.retain_mut(|work| work.as_mut().poll(cx).is_pending());
        if works.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }))
}
