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
use tsugite_core::revision::{RpcError, Revision};
use tsugite_core::session::http::{
    HttpError, RequestHeaders, OptionalHeader, MirrorHeaders, PostDecision, SessionHeader, check_stateless_headers, decide_post, decide_post_request,
    status_for_code,
};
use tsugite_core::session::request_meta::{RequestMeta, ScannedMeta, parse_with_meta};

use super::answer::{Refused, bare, denial, events, fault, json, refuse};
use super::body::{HttpBody, Reading, Unread};
use super::door::{Mention, add};
use super::events::{Come, Exchange, Running, Survival};
use super::hub::Hub;
use super::service::Rest;
use super::session::{InUse, NoSession, Session, SessionId};
use crate::bus::News;
use crate::server::connection::{IncomingRequest, Caller, ServerConnection, ConnectionScope, Tracking, PendingRequest};
use crate::server::{DeclaredCapabilities, Headers, HeaderSource, Principal, ResponseWriter};
use crate::transport::outbox::Outbox;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Reads a POST and answers it, as far as that can be done at once.
pub(super) fn begin<B>(
    hub: &Arc<Hub>,
    who: Option<Principal>,
    headers: &Arc<HeaderMap>,
    said: &Said<'_>,
    mut body: B,
    cx: &mut Context<'_>,
) -> Result<Response<HttpBody>, Rest>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    let read = Reading::begin(&body, hub.config.limits.max_message_bytes);
    let mut reading = match read {
        Ok(reading) => reading,
        Err(unread) => return Ok(refused(unread).into()),
    };
    match reading.poll(Pin::new(&mut body), cx) {
        Poll::Ready(Ok(bytes)) => match decide(hub, who, headers, said, &bytes) {
            Begun::Answered(response) => Ok(response),
            Begun::Under(mut way) => match way.exchange.poll_now() {
                Some(come) if !(hub.store.is_shared() && way.opens()) => Ok(way.respond(hub, come).0),
                come => {
                    let hub = hub.clone();
                    Err(Box::pin(async move { way.wait(&hub, come).await }))
                }
            },
        },
        Poll::Ready(Err(unread)) => Ok(refused(unread).into()),
        Poll::Pending => {
            let (hub, headers) = (hub.clone(), headers.clone());
            Err(Box::pin(async move {
                let bytes = match reading.rest(body, hub.http.body_time).await {
                    Ok(bytes) => bytes,
                    Err(unread) => return refused(unread).into(),
                };
                match decide(&hub, who, &headers, &Said::read(&headers), &bytes) {
                    Begun::Answered(response) => response,
                    Begun::Under(way) => {
                        drop(bytes);
                        way.wait(&hub, None).await
                    }
                }
            }))
        }
    }
}

/// Reads a body within its limits.
pub(super) async fn body_of<B: Body + Unpin>(hub: &Hub, body: B) -> Result<Bytes, Refused> {
    let reading = Reading::begin(&body, hub.config.limits.max_message_bytes).map_err(refused)?;
    reading.rest(body, hub.http.body_time).await.map_err(refused)
}

fn refused(unread: Unread) -> Refused {
    match unread {
        Unread::TooLarge => Refused(
            StatusCode::PAYLOAD_TOO_LARGE,
            "Content too large: the body is over the limit of this server",
        ),
        Unread::TooSlow => Refused(StatusCode::REQUEST_TIMEOUT, "The body took too long to arrive"),
        Unread::Broken => Refused(StatusCode::BAD_REQUEST, "The body ended before it was whole"),
    }
}

enum Begun {
    Answered(Response<HttpBody>),
    Under(Way),
}

/// A request on its way to an answer.
struct Way {
    exchange: Exchange,
    kind: Kind,
}

enum Kind {
    /// Of the stateless era.
    Stateless,
    /// Of a session that speaks this revision, or of none.
    Handshake(Revision),
    /// It opens a session.
    Opens(Arc<ServerConnection>),
}

impl Kind {
    /// The status of an answer, or of the error that is the answer.
    fn status(&self, refused: Option<i32>) -> StatusCode {
        match (self, refused) {
            (Kind::Stateless, Some(code)) => {
                StatusCode::from_u16(status_for_code(code.into())).unwrap_or(StatusCode::OK)
            }
            _ => StatusCode::OK,
        }
    }
}

impl Way {
    fn opens(&self) -> bool {
        matches!(self.kind, Kind::Opens(_))
    }

    /// Waits until there is something to respond with.
    async fn wait(mut self, hub: &Arc<Hub>, come: Option<Come>) -> Response<HttpBody> {
        let come = match come {
            Some(come) => come,
            None => poll_fn(|cx| self.exchange.poll_come(cx)).await,
        };
        let (response, opened) = self.respond(hub, come);
        if let Some(opened) = opened
            && hub.store.is_shared()
        {
            hub.remember(&opened).wait().await;
        }
        response
    }

    /// The response, and the session that it opens.
    fn respond(self, hub: &Arc<Hub>, come: Come) -> (Response<HttpBody>, Option<Arc<Session>>) {
        let Way { exchange, kind } = self;
        let mut said = match come {
            Come::Done(said) => said,
            Come::Speaks => {
                let primes = matches!(kind, Kind::Handshake(revision) if revision.primes_streams());
                return (events(HttpBody::events(exchange.stream(primes, hub))), None);
            }
        };
        let lines = memchr::memchr_iter(b'\n', &said).take(2).count();
        if lines != 1 {
            // Nothing at all is what a cancelled request gets.
            let text = if lines == 0 { Bytes::new() } else { exchange.events_of(&said) };
            return (events(HttpBody::whole(text)), None);
        }
        said.pop();
        let refused = exchange.outbox.refused();
        match kind {
            Kind::Opens(link) if refused.is_none() && hub.http.sessions => opened(hub, link, said),
            kind => (json(kind.status(refused), said), None),
        }
    }
}

/// Opens the session that was agreed on.
fn opened(hub: &Arc<Hub>, link: Arc<ServerConnection>, said: Vec<u8>) -> (Response<HttpBody>, Option<Arc<Session>>) {
    let opened = hub.sessions.open(link, hub.http.most_sessions, hub.http.most_sessions_each);
    let session = match opened {
        Ok(session) => session,
        Err(NoSession::NoRandomness) => {
            tracing::error!("the operating system gave no random bytes for a session");
            return (refuse(StatusCode::INTERNAL_SERVER_ERROR, "No session could be opened"), None);
        }
        Err(NoSession::TooMany) => {
            let text = "Too many sessions: this server has as many as it takes; try again later";
            return (refuse(StatusCode::SERVICE_UNAVAILABLE, text), None);
        }
        Err(NoSession::TooManyOfOne) => {
            let text = "Too many sessions: end one of yours first (DELETE with its `Mcp-Session-Id`)";
            return (refuse(StatusCode::TOO_MANY_REQUESTS, text), None);
        }
    };
    hub.begin_to_sweep();
    let mut response = json(StatusCode::OK, said);
    if let Ok(id) = HeaderValue::from_str(session.id().as_str()) {
        response.headers_mut().insert(SESSION, id);
    }
    (response, Some(session))
}

/// The headers of the protocol.
pub(super) struct Said<'h> {
    session: Mention<'h>,
    version: OptionalHeader<'h>,
    method: OptionalHeader<'h>,
    name: OptionalHeader<'h>,
    pub(super) last_event: OptionalHeader<'h>,
}

impl Default for Said<'_> {
    fn default() -> Self {
        let [version, method, name, last_event] = [OptionalHeader::Absent; 4];
        Self { session: Mention::Absent, version, method, name, last_event }
    }
}

impl<'h> Said<'h> {
    pub(super) fn read(headers: &'h HeaderMap) -> Self {
        let mut said = Self::default();
        headers.iter().for_each(|(name, value)| said.add(name.as_str(), value));
        said
    }

    /// Takes a header, if it is one of these.
    pub(super) fn add(&mut self, name: &str, value: &'h HeaderValue) {
        match name {
            "mcp-session-id" => self.session.add(value),
            "mcp-protocol-version" => add(&mut self.version, value),
            "mcp-method" => add(&mut self.method, value),
            "mcp-name" => add(&mut self.name, value),
            "last-event-id" => add(&mut self.last_event, value),
            _ => {}
        }
    }

    /// The session that is named, if it is there; and what decisions look at.
    pub(super) fn session(&self, hub: &Hub, who: Option<&Principal>) -> (Option<InUse>, RequestHeaders<'h>) {
        let (session, known) = match self.session {
            Mention::Absent => (None, SessionHeader::Absent),
            Mention::Twice => (None, SessionHeader::Unknown),
            Mention::Once(id) => {
                let id = SessionId::parse(id.trim_ascii());
                let session = id.and_then(|id| hub.sessions.find(&id, who));
                let revision = session.as_ref().and_then(|session| session.revision);
                (session, revision.map_or(SessionHeader::Unknown, SessionHeader::Known))
            }
        };
        (session, RequestHeaders { version: self.version, session: known })
    }
}

/// What arrived, as far as it is needed to decide.
struct Arrived<'a> {
    hub: &'a Arc<Hub>,
    head: RequestHeaders<'a>,
    session: Option<InUse>,
    caller: Caller,
    said: &'a Said<'a>,
}

fn decide(
    hub: &Arc<Hub>,
    who: Option<Principal>,
    headers: &Arc<HeaderMap>,
    said: &Said<'_>,
    bytes: &[u8],
) -> Begun {
    let (session, head) = said.session(hub, who.as_ref());
    let known = head.session;
    let caller = Caller { principal: who, headers: Headers::from_source(headers.clone()) };
    let mut arrived = Arrived { hub, head, session, caller, said };
    let mut seen = ScannedMeta::default();
    let body = match parse_with_meta(bytes, &hub.config.limits, &mut seen) {
        Ok(body) => body,
        Err(wrong) => {
            let spoken = known_revision(known).unwrap_or_else(|| hub.config.revisions.error_fallback());
            return Begun::Answered(fault(&wrong, spoken));
        }
    };
    if let Incoming::Single(Message::Request(request)) = &body {
        return match &seen.request_meta(request) {
            Ok(peek) => arrived.request(request, peek),
            Err(error) => {
                let spoken = known_revision(known).unwrap_or(Revision::NEWEST);
                let denied = HttpError::new(400, RpcError::invalid_params(error), spoken);
                Begun::Answered(denial(&denied, Some(&request.id), "POST"))
            }
        };
    }
    arrived.other(body, bytes)
}

impl Arrived<'_> {
    fn request(&mut self, request: &Request<'_>, peek: &RequestMeta<'_>) -> Begun {
        let deny = |denied: &HttpError| Begun::Answered(denial(denied, Some(&request.id), "POST"));
        match decide_post_request(&self.hub.policy, &self.head, request, peek) {
            PostDecision::Stateless(revision) => {
                let mirrors = MirrorHeaders { method: self.said.method, name: self.said.name };
                // Whether the method is offered is for the switchboard to say.
                if let Err(denied) = check_stateless_headers(revision, request, peek, &mirrors, |_| true) {
                    return deny(&denied);
                }
                let reply = self.reply(false);
                let work = self.hub.lone.dispatch(self.asked(request, peek, revision, &reply, None));
                self.under_way(reply, work, None, Kind::Stateless)
            }
            PostDecision::Initialize(revision) => {
                let (hub, who) = (self.hub, self.caller.principal.clone());
                let link = match hub.http.sessions {
                    true => ServerConnection::with_limits(&hub.server, hub.config.clone(), who, &hub.room),
                    false => ServerConnection::with_scope(ConnectionScope::SingleRequest, &hub.server, hub.config.clone(), who, &hub.room),
                };
                let reply = self.reply(false);
                let work = link.dispatch(self.asked(request, peek, revision, &reply, None));
                self.under_way(reply, work, None, Kind::Opens(link))
            }
            PostDecision::InSession(revision) => {
                let Some(session) = self.session.take() else {
                    return Begun::Answered(bare(StatusCode::NOT_FOUND));
                };
                // Without an id to come back with, what is cut is lost.
                let reply = self.reply(revision.primes_streams());
                let work = session.link.receive_http_request(self.asked(request, peek, revision, &reply, Some(&session)));
                self.under_way(reply, work, Some(session), Kind::Handshake(revision))
            }
            PostDecision::Sessionless(revision) => {
                let reply = self.reply(false);
                let work = self.alone(revision).receive_http_request(self.asked(request, peek, revision, &reply, None));
                self.under_way(reply, work, None, Kind::Handshake(revision))
            }
            PostDecision::Reject(denied) => deny(&denied),
            _ => Begun::Answered(bare(StatusCode::BAD_REQUEST)),
        }
    }

    /// Where one request is answered.
    fn reply(&self, can_be_cut: bool) -> ResponseWriter {
        let most = self.hub.config.max_write_buffer_bytes;
        ResponseWriter::single(Arc::new(match can_be_cut {
            true => Outbox::that_can_be_cut(most),
            false => Outbox::new(most),
        }))
    }

    fn asked<'a>(
        &'a self,
        request: &'a Request<'a>,
        peek: &'a RequestMeta<'a>,
        revision: Revision,
        reply: &'a ResponseWriter,
        session: Option<&InUse>,
    ) -> IncomingRequest<'a> {
        let tables = if session.is_some() { Tracking::Connection } else { Tracking::Untracked };
        IncomingRequest { request, meta: peek, revision, writer: reply, caller: &self.caller, declared: DeclaredCapabilities::default(), tracking: tables }
    }

    /// What was answered at once is a response. What was not goes on in an exchange.
    fn under_way(&self, reply: ResponseWriter, work: Option<PendingRequest>, session: Option<InUse>, kind: Kind) -> Begun {
        let ResponseWriter { mut outbox, .. } = reply;
        if work.is_none()
            && !matches!(kind, Kind::Opens(_))
            && let Some(outbox) = Arc::get_mut(&mut outbox)
            && let Some(answer) = outbox.take_message()
        {
            return Begun::Answered(json(kind.status(outbox.refused()), answer));
        }
        let survival = session.map(|session| Survival::new(self.hub.clone(), session));
        Begun::Under(Way { exchange: Exchange::new(outbox, work.map(cancellable), survival), kind })
    }

    /// A link for one request of the handshake era that belongs to no session.
    fn alone(&self, revision: Revision) -> Arc<ServerConnection> {
        let hub = self.hub;
        let link = ServerConnection::with_scope(
            ConnectionScope::SingleRequest,
            &hub.server,
            hub.config.clone(),
            self.caller.principal.clone(),
            &hub.room,
        );
        link.complete_handshake(revision);
        link
    }

    /// Notifications, responses, batches.
    fn other(self, body: Incoming<'_>, bytes: &[u8]) -> Begun {
        let accepted = || Begun::Answered(bare(StatusCode::ACCEPTED));
        let decision = decide_post(&self.hub.policy, &self.head, &body);
        match (decision, body) {
            (PostDecision::DeliverResponse, Incoming::Single(Message::Response(response))) => {
                self.deliver(response, bytes);
                accepted()
            }
            (PostDecision::InSession(_), Incoming::Single(message)) => {
                if let Some(session) = &self.session {
                    // Nothing that is no request is answered.
                    session.link.receive_notification_or_response(Ok(message), &self.hub.nobody);
                }
                accepted()
            }
            (PostDecision::Accept | PostDecision::Sessionless(_), _) => accepted(),
            (PostDecision::Batch { revision, in_session }, Incoming::Batch(batch)) => {
                let link = match self.session.as_ref().filter(|_| in_session) {
                    Some(session) => session.link.clone(),
                    None => self.alone(revision),
                };
                self.batch(&link, revision, batch.into_messages())
            }
            (PostDecision::Reject(denied), _) => Begun::Answered(denial(&denied, None, "POST")),
            _ => Begun::Answered(bare(StatusCode::BAD_REQUEST)),
        }
    }

    /// An answer to a question of ours, or of another replica.
    fn deliver(&self, response: tsugite_core::jsonrpc::Response<'_>, bytes: &[u8]) {
        let Some(session) = &self.session else { return };
        let carrier = &self.hub.server.shared.feed.bus;
        if !session.link.outgoing_requests().receive_response(response) && carrier.is_there() {
            let session = session.id().as_str().to_owned();
            let response = String::from_utf8_lossy(bytes).into_owned();
            carrier.tell(News::Answered { session, response });
        }
    }

    fn batch(
        mut self,
        link: &Arc<ServerConnection>,
        revision: Revision,
        messages: Vec<Result<Message<'_>, tsugite_core::jsonrpc::ParseError>>,
    ) -> Begun {
        let session = self.session.take();
        let outbox = Arc::new(Outbox::new(self.hub.config.max_write_buffer_bytes));
        let together = ResponseWriter::batch(outbox.clone(), self.hub.config.limits.max_message_bytes.saturating_mul(2));
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
            let asked = self.asked(request, &peek, revision, &together, session.as_ref());
            works.extend(link.receive_http_request(asked).map(cancellable));
        }
        drop(together);
        if !asks {
            return Begun::Answered(bare(StatusCode::ACCEPTED));
        }
        let work = (!works.is_empty()).then(|| all(works));
        let survival = session.map(|session| Survival::new(self.hub.clone(), session));
        Begun::Under(Way { exchange: Exchange::new(outbox, work, survival), kind: Kind::Handshake(revision) })
    }
}

/// Work that ends when it is no longer wanted.
fn cancellable(work: PendingRequest) -> Running {
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
fn all(mut works: Vec<Running>) -> Running {
    Box::pin(poll_fn(move |cx| {
        works.retain_mut(|work| work.as_mut().poll(cx).is_pending());
        if works.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }))
}

/// The session that a request names.
pub(super) fn session_id(headers: &HeaderMap) -> Option<SessionId> {
    SessionId::parse(headers.get(SESSION)?.to_str().ok()?.trim_ascii().as_bytes())
}

fn known_revision(session: SessionHeader) -> Option<Revision> {
    match session {
        SessionHeader::Known(revision) => Some(revision),
        _ => None,
    }
}

impl HeaderSource for HeaderMap {
    fn single(&self, name: &str) -> OptionalHeader<'_> {
        let mut header = OptionalHeader::Absent;
        self.get_all(name).iter().for_each(|value| add(&mut header, value));
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
