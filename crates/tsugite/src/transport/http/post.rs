//! POST: a message, or on 2025-03-26 several.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Body;
use tsugite_core::jsonrpc::{Incoming, Message, Request};
use tsugite_core::revision::{Revision, RpcError};
use tsugite_core::session::http::{
    HttpError, MirrorHeaders, OptionalHeader, PostDecision, RequestHeaders, SessionHeader,
    check_stateless_headers, decide_post, decide_post_request, status_for_code,
};
use tsugite_core::session::request_meta::{RequestMeta, parse_with_meta};

use super::access::{SingleHeader, add_single_value};
use super::http_state::HttpState;
use super::response_body::{HttpBody, RequestBodyError, RequestBodyReader};
use super::responses::{StatusError, empty, http_error, json, parse_error, sse, status_error};
use super::service::BoxHttpResponseFuture;
use super::sessions::{HttpSession, OpenSessionError, SessionGuard, SessionId};
use super::sse_body::{Exchange, FirstOutput, HttpHandlerFuture, Resumable};
use crate::bus::BusEvent;
use crate::server::connection::{
    Caller, ConnectionScope, IncomingRequest, PendingRequest, ServerConnection, Tracking,
};
use crate::server::{DeclaredCapabilities, HeaderSource, Headers, Principal, ResponseWriter};
use crate::transport::outbound_queue::OutboundQueue;

const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");

/// Reads a POST and answers it, as far as that can be done at once.
pub(super) fn handle<B>(
    hub: &Arc<HttpState>,
    who: Option<Principal>,
    headers: &Arc<HeaderMap>,
    said: &McpHeaders<'_>,
    mut body: B,
    cx: &mut Context<'_>,
) -> Result<Response<HttpBody>, BoxHttpResponseFuture>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    let read = RequestBodyReader::new(&body, hub.config.limits.max_message_bytes);
    let mut reading = match read {
        Ok(reading) => reading,
        Err(unread) => return Ok(body_status_error(unread).into()),
    };
    match reading.poll(Pin::new(&mut body), cx) {
        Poll::Ready(Ok(bytes)) => match dispatch_body(hub, who, headers, said, &bytes) {
            PostOutcome::Complete(response) => Ok(response),
            PostOutcome::Pending(mut way) => match way.exchange.try_complete() {
                Some(come) if !(hub.store.is_shared() && way.opens_session()) => Ok(way.respond(hub, come).0),
                come => {
                    let hub = hub.clone();
                    Err(Box::pin(async move { way.into_response(&hub, come).await }))
                }
            },
        },
        Poll::Ready(Err(unread)) => Ok(body_status_error(unread).into()),
        Poll::Pending => {
            let (hub, headers) = (hub.clone(), headers.clone());
            Err(Box::pin(async move {
                let bytes = match reading.read_to_end(body, hub.http.body_read_timeout).await {
                    Ok(bytes) => bytes,
                    Err(unread) => return body_status_error(unread).into(),
                };
                match dispatch_body(&hub, who, &headers, &McpHeaders::parse(&headers), &bytes) {
                    PostOutcome::Complete(response) => response,
                    PostOutcome::Pending(way) => {
                        drop(bytes);
                        way.into_response(&hub, None).await
                    }
                }
            }))
        }
    }
}

/// Reads a body within its limits.
pub(super) async fn read_body<B: Body + Unpin>(hub: &HttpState, body: B) -> Result<Bytes, StatusError> {
    let reading =
        RequestBodyReader::new(&body, hub.config.limits.max_message_bytes).map_err(body_status_error)?;
    reading.read_to_end(body, hub.http.body_read_timeout).await.map_err(body_status_error)
}

fn body_status_error(unread: RequestBodyError) -> StatusError {
    match unread {
        RequestBodyError::TooLarge => StatusError(
            StatusCode::PAYLOAD_TOO_LARGE,
            "Content too large: the body is over the limit of this server",
        ),
        RequestBodyError::Timeout => {
            StatusError(StatusCode::REQUEST_TIMEOUT, "The body took too long to arrive")
        }
        RequestBodyError::Incomplete => {
            StatusError(StatusCode::BAD_REQUEST, "The body ended before it was whole")
        }
    }
}

enum PostOutcome {
    Complete(Response<HttpBody>),
    Pending(PendingResponse),
}

/// A request on its way to an answer.
struct PendingResponse {
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
        response.headers_mut().insert(SESSION_HEADER, id);
    }
    (response, Some(session))
}

/// The headers of the protocol.
pub(super) struct McpHeaders<'h> {
    session_id: SingleHeader<'h>,
    protocol_version: OptionalHeader<'h>,
    method: OptionalHeader<'h>,
    name: OptionalHeader<'h>,
    pub(super) last_event_id: OptionalHeader<'h>,
}

impl Default for McpHeaders<'_> {
    fn default() -> Self {
        let [version, method, name, last_event] = [OptionalHeader::Absent; 4];
        Self {
            session_id: SingleHeader::Absent,
            protocol_version: version,
            method,
            name,
            last_event_id: last_event,
        }
    }
}

impl<'h> McpHeaders<'h> {
    pub(super) fn parse(headers: &'h HeaderMap) -> Self {
        let mut said = Self::default();
        headers.iter().for_each(|(name, value)| said.add(name.as_str(), value));
        said
    }

    /// Takes a header, if it is one of these.
    pub(super) fn add(&mut self, name: &str, value: &'h HeaderValue) {
        match name {
            "mcp-session-id" => self.session_id.add(value),
            "mcp-protocol-version" => add_single_value(&mut self.protocol_version, value),
            "mcp-method" => add_single_value(&mut self.method, value),
            "mcp-name" => add_single_value(&mut self.name, value),
            "last-event-id" => add_single_value(&mut self.last_event_id, value),
            _ => {}
        }
    }

    /// The session that is named, if it is there; and what decisions look at.
    pub(super) fn resolve_session(
        &self,
        hub: &HttpState,
        who: Option<&Principal>,
    ) -> (Option<SessionGuard>, RequestHeaders<'h>) {
        let (session, known) = match self.session_id {
            SingleHeader::Absent => (None, SessionHeader::Absent),
            SingleHeader::Repeated => (None, SessionHeader::Unknown),
            SingleHeader::Once(id) => {
                let id = SessionId::parse(id.trim_ascii());
                let session = id.and_then(|id| hub.sessions.acquire(&id, who));
                let revision = session.as_ref().and_then(|session| session.revision);
                (session, revision.map_or(SessionHeader::Unknown, SessionHeader::Known))
            }
        };
        (session, RequestHeaders { version: self.protocol_version, session: known })
    }
}

/// What arrived, as far as it is needed to decide.
struct IncomingPost<'a> {
    state: &'a Arc<HttpState>,
    head: RequestHeaders<'a>,
    session: Option<SessionGuard>,
    caller: Caller,
    mcp_headers: &'a McpHeaders<'a>,
}

fn dispatch_body(
    hub: &Arc<HttpState>,
    who: Option<Principal>,
    headers: &Arc<HeaderMap>,
    said: &McpHeaders<'_>,
    bytes: &[u8],
) -> PostOutcome {
    let (session, head) = said.resolve_session(hub, who.as_ref());
    let known = head.session;
    let caller = Caller { principal: who, headers: Headers::from_source(headers.clone()) };
    let mut arrived = IncomingPost { state: hub, head, session, caller, mcp_headers: said };
    let mut seen = RequestMeta::default();
    let body = match parse_with_meta(bytes, &hub.config.limits, &mut seen) {
        Ok(body) => body,
        Err(wrong) => {
            let spoken = session_revision(known).unwrap_or_else(|| hub.config.revisions.error_fallback());
            return PostOutcome::Complete(parse_error(&wrong, spoken));
        }
    };
    if let Incoming::Single(Message::Request(request)) = &body {
        return match &seen.checked(request) {
            Ok(peek) => arrived.handle_request(request, peek),
            Err(error) => {
                let spoken = session_revision(known).unwrap_or(Revision::NEWEST);
                let denied = HttpError::new(400, RpcError::invalid_params(error), spoken);
                PostOutcome::Complete(http_error(&denied, Some(&request.id), "POST"))
            }
        };
    }
    arrived.handle_non_request(body, bytes)
}

impl IncomingPost<'_> {
    fn handle_request(&mut self, request: &Request<'_>, peek: &RequestMeta<'_>) -> PostOutcome {
        let deny = |denied: &HttpError| PostOutcome::Complete(http_error(denied, Some(&request.id), "POST"));
        match decide_post_request(&self.state.policy, &self.head, request, peek) {
            PostDecision::Stateless(revision) => {
                let mirrors = MirrorHeaders { method: self.mcp_headers.method, name: self.mcp_headers.name };
                // Whether the method is offered is for the switchboard to say.
                if let Err(denied) = check_stateless_headers(revision, request, peek, &mirrors, |_| true) {
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
            // Not decisions about a request.
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
        let decision = decide_post(&self.state.policy, &self.head, &body);
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
            // Not decisions about a notification, a response or a batch.
            (
                PostDecision::Stateless(_)
                | PostDecision::Initialize(_)
                | PostDecision::InSession(_)
                | PostDecision::DeliverResponse
                | PostDecision::Batch { .. },
                _,
            ) => PostOutcome::Complete(empty(StatusCode::BAD_REQUEST)),
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

/// The session that a request names.
pub(super) fn session_id(headers: &HeaderMap) -> Option<SessionId> {
    SessionId::parse(headers.get(SESSION_HEADER)?.to_str().ok()?.trim_ascii().as_bytes())
}

fn session_revision(session: SessionHeader) -> Option<Revision> {
    match session {
        SessionHeader::Known(revision) => Some(revision),
        _ => None,
    }
}

impl HeaderSource for HeaderMap {
    fn single(&self, name: &str) -> OptionalHeader<'_> {
        let mut header = OptionalHeader::Absent;
        self.get_all(name).iter().for_each(|value| add_single_value(&mut header, value));
        header
    }

    fn values(&self, name: &str) -> Vec<&str> {
        self.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        self.iter()
            .filter_map(|(name, value)| value.to_str().ok().map(|value| (name.as_str(), value)))
            .collect()
    }
}
