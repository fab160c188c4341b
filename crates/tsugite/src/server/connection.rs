//! One peer: what arrives is decided here, and answers leave from here.
//!
//! A request that can be answered at once is; a handler that is not done after its first poll is handed to the
//! transport as a future of its own. Both eras share one link: a process has one table of ids.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::{Notify, Semaphore};
use tsugite_core::jsonrpc::{Incoming, Message, ParseError, Raw, RawJson, Request};
use tsugite_core::protocol::cancellation;
use tsugite_core::protocol::lifecycle::{Initialize, Initialized};
use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::{ClientCapabilities, Implementation, Method, NotificationMethod};
use tsugite_core::revision::{Revision, RpcError, Translate, read_initialize_params};
use tsugite_core::session::request_meta::{ScannedMeta, parse_with_meta};
use tsugite_core::session::stdio::{StdioDecision, decide, decide_request};
use tsugite_core::session::{HandshakePhase, RequestMeta, ServerHandshake};

use super::ask::StateBinding;
use super::context::CancellationToken;
use super::handler_limits::HandlerLimits;
use super::in_flight::{Admission, InFlightRequests};
use super::lifecycle::DeclaredCapabilities;
use super::pending::PendingRequest;
use super::principal::{Headers, Principal};
use super::push::PushChannel;
use super::registry::ListKind;
use super::response_writer::ResponseWriter;
use super::{Config, Server, layer, lifecycle, route};
use crate::lock::lock;

/// The server's side of one connection.
pub(crate) struct ServerConnection {
    pub(crate) id: ConnectionId,
    pub(crate) server: Server,
    pub(crate) config: Arc<Config>,
    pub(crate) caller: Caller,
    pub(super) scope: ConnectionScope,
    pub(super) handler_limits: Arc<HandlerLimits>,
    pub(super) in_flight: InFlightRequests,
    pub(super) push: PushChannel,
    state: ConnectionState,
}

/// Identifies a connection within this process. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId(u64);

impl ConnectionId {
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// How far a connection has come, from the handshake to its end.
struct ConnectionState {
    handshake: Mutex<HandshakeState>,
    closing: AtomicBool,
    /// Notified when the client becomes ready and when the connection closes or is dropped.
    changed: Arc<Notify>,
}

struct HandshakeState {
    handshake: ServerHandshake,
    /// The params of `initialize` as received, parsed again when a handler asks for the client's name or capabilities.
    initialize_params: Option<RawJson>,
    declared: DeclaredCapabilities,
}

/// Who calls, as far as the transport knows.
#[derive(Clone, Default)]
pub(crate) struct Caller {
    pub(crate) principal: Option<Principal>,
    pub(crate) headers: Headers,
}

/// A request that is being answered.
#[derive(Clone, Copy)]
pub(crate) struct IncomingRequest<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) meta: &'a RequestMeta<'a>,
    pub(crate) revision: Revision,
    pub(crate) writer: &'a ResponseWriter,
    pub(crate) caller: &'a Caller,
    /// What the session it belongs to was told of.
    pub(crate) declared: DeclaredCapabilities,
    pub(crate) tracking: Tracking<'a>,
}

/// Who knows that a request is under way, and how it hears that it is no longer wanted.
#[derive(Clone, Copy)]
pub(crate) enum Tracking<'a> {
    /// The link, by its id.
    Connection,
    /// Something around it.
    Layer(&'a CancellationToken),
    /// Nobody: its future is dropped.
    Untracked,
}

impl Tracking<'_> {
    /// The news that the request is no longer wanted.
    pub(crate) fn cancellation_token(self) -> CancellationToken {
        match self {
            Tracking::Layer(cancelled) => cancelled.clone(),
            Tracking::Connection | Tracking::Untracked => CancellationToken::default(),
        }
    }
}

impl<'a> IncomingRequest<'a> {
    pub(crate) fn principal(&self) -> Option<&'a Principal> {
        self.caller.principal.as_ref()
    }

    pub(crate) fn send_error(&self, refusal: &RpcError) {
        self.writer.send_error(Some(&self.request.id), refusal, self.revision);
    }
}

/// Whose requests a link serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionScope {
    /// One peer's.
    Session,
    /// One request of the handshake era, which nothing can follow.
    SingleRequest,
    /// Those of the stateless era, of every client.
    Stateless,
}

impl ServerConnection {
    pub(crate) fn new(server: &Server, principal: Option<Principal>) -> Arc<Self> {
        let config = server.shared.config();
        let room = HandlerLimits::new(config.max_concurrent_handlers, config.max_subscriptions);
        Self::with_limits(server, config, principal, &room)
    }

    /// With room for handlers that is shared with other links.
    pub(crate) fn with_limits(
        server: &Server,
        config: Arc<Config>,
        principal: Option<Principal>,
        handler_limits: &Arc<HandlerLimits>,
    ) -> Arc<Self> {
        Self::with_scope(ConnectionScope::Session, server, config, principal, handler_limits)
    }

    /// For other requests than those of one peer.
    pub(crate) fn with_scope(
        scope: ConnectionScope,
        server: &Server,
        config: Arc<Config>,
        principal: Option<Principal>,
        handler_limits: &Arc<HandlerLimits>,
    ) -> Arc<Self> {
        let handshake = HandshakeState {
            handshake: ServerHandshake::new(config.revisions),
            initialize_params: None,
            declared: DeclaredCapabilities::default(),
        };
        Arc::new(Self {
            id: ConnectionId::next(),
            server: server.clone(),
            caller: Caller { principal, headers: Headers::default() },
            scope,
            handler_limits: handler_limits.clone(),
            in_flight: InFlightRequests::new(config.max_pending_requests),
            push: PushChannel::default(),
            state: ConnectionState {
                handshake: Mutex::new(handshake),
                closing: AtomicBool::new(false),
                changed: Arc::default(),
            },
            config,
        })
    }

    /// Whether it serves one request of the handshake era, which nothing can follow.
    pub(crate) fn is_single_request(&self) -> bool {
        self.scope == ConnectionScope::SingleRequest
    }

    /// Places for handlers that block.
    pub(crate) fn blocking_permits(&self) -> &Arc<Semaphore> {
        &self.handler_limits.blocking_permits
    }

    /// A line has come. What is not done at once is given back.
    pub(crate) fn receive(self: &Arc<Self>, line: &[u8]) -> Vec<PendingRequest> {
        let mut seen = ScannedMeta::default();
        let message = parse_with_meta(line, &self.config.limits, &mut seen);
        let reply = ResponseWriter::single(self.outbox().clone());
        match message {
            Ok(Incoming::Single(message)) => {
                self.receive_message(Ok(message), &seen, &reply).into_iter().collect()
            }
            Err(fault) => self.receive_message(Err(fault), &seen, &reply).into_iter().collect(),
            Ok(Incoming::Batch(_)) => self.receive_batch(message, &reply),
        }
    }

    /// A line was too long to be read.
    pub(crate) fn reject_oversized_message(&self) {
        ResponseWriter::single(self.outbox().clone())
            .send_parse_error(&ParseError::too_long(), self.error_revision());
    }

    /// The messages of a batch are served side by side, and their answers leave together as one array.
    fn receive_batch(
        self: &Arc<Self>,
        message: Result<Incoming<'_>, ParseError>,
        reply: &ResponseWriter,
    ) -> Vec<PendingRequest> {
        let decision = decide(self.phase(), self.config.revisions, &message);
        match (decision, message) {
            (StdioDecision::Batch(_), Ok(Incoming::Batch(batch))) => {
                let most = self.config.limits.max_message_bytes.saturating_mul(2);
                let together = ResponseWriter::batch(self.outbox().clone(), most);
                let messages = batch.into_messages().into_iter();
                messages
                    .filter_map(|message| self.receive_message(message, &ScannedMeta::default(), &together))
                    .collect()
            }
            (StdioDecision::Reject(refusal, revision), _) => {
                reply.send_error(None, &refusal, revision);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn receive_message<'a>(
        self: &Arc<Self>,
        message: Result<Message<'a>, ParseError>,
        seen: &ScannedMeta<'a>,
        reply: &ResponseWriter,
    ) -> Option<PendingRequest> {
        if let Ok(Message::Request(request)) = &message {
            return self.receive_request(request, seen, reply);
        }
        self.receive_notification_or_response(message, reply);
        None
    }

    /// What is no request has come.
    pub(crate) fn receive_notification_or_response(
        self: &Arc<Self>,
        message: Result<Message<'_>, ParseError>,
        reply: &ResponseWriter,
    ) {
        if let (Ok(Message::Notification(said)), Some(hearer)) = (&message, &self.config.notification_handler)
            && ![cancellation::Cancelled::NAME, Initialized::NAME].contains(&&*said.method)
            && self.revision().is_some()
        {
            return hearer.handle_notification(self, &said.method, said.params);
        }
        let message = message.map(Incoming::Single);
        match (decide(self.phase(), self.config.revisions, &message), message) {
            (StdioDecision::ParseError(spoken), Err(fault)) => reply.send_parse_error(&fault, spoken),
            (StdioDecision::Initialized, _) => self.mark_ready(),
            (StdioDecision::Cancel(id), _) => self.in_flight.cancel(&id),
            (StdioDecision::DeliverResponse, Ok(Incoming::Single(Message::Response(response)))) => {
                self.outgoing_requests().receive_response(response);
            }
            // No other notification of a client asks for anything: roots are asked for when they are needed.
            _ => {}
        }
    }

    /// A request of a session that has an exchange of its own: where it is answered, and who asks, comes with it.
    pub(crate) fn receive_http_request(
        self: &Arc<Self>,
        mut asked: IncomingRequest<'_>,
    ) -> Option<PendingRequest> {
        let (phase, declared) = self.negotiated();
        asked.declared = declared;
        if let Err(refusal) = self.in_flight.check(&asked.request.id, Admission::IfRoom) {
            asked.send_error(&refusal);
            return None;
        }
        self.serve(phase, asked)
    }

    /// The data that another replica needs to continue the session.
    pub(crate) fn snapshot(&self) -> Option<(Revision, RawJson, Level)> {
        let (revision, params) = {
            let state = self.lock();
            (state.handshake.phase().revision()?, state.initialize_params.clone()?)
        };
        Some((revision, params, self.push.log_level()))
    }

    /// Continues a session that another replica began.
    pub(crate) fn restore(&self, revision: Revision, initialize_params: RawJson, level: Level) {
        self.complete_handshake(revision);
        self.lock().initialize_params = Some(initialize_params);
        self.set_log_level(level);
    }

    /// A handshake that is over: what a session that began elsewhere, or none at all, has agreed on.
    pub(crate) fn complete_handshake(&self, revision: Revision) -> DeclaredCapabilities {
        let declared = DeclaredCapabilities::from_capabilities(&lifecycle::capabilities(
            &self.server.shared,
            &self.config,
        ));
        let mut state = self.lock();
        drop(state.handshake.initialize(revision.as_str()));
        state.handshake.mark_ready();
        state.declared = declared;
        declared
    }

    fn receive_request<'a>(
        self: &Arc<Self>,
        request: &Request<'a>,
        seen: &ScannedMeta<'a>,
        reply: &ResponseWriter,
    ) -> Option<PendingRequest> {
        let (phase, declared) = self.negotiated();
        let looked = seen.request_meta(request);
        let peek = match &looked {
            Ok(peek) => peek,
            Err(error) => {
                reply.send_error(Some(&request.id), &RpcError::invalid_params(error), self.error_revision());
                return None;
            }
        };
        let asked = |revision| IncomingRequest {
            request,
            meta: peek,
            revision,
            writer: reply,
            caller: &self.caller,
            declared,
            tracking: Tracking::Connection,
        };
        match decide_request(phase, self.config.revisions, request, peek) {
            StdioDecision::Serve(revision) => match self.in_flight.check(&request.id, Admission::IfRoom) {
                Ok(()) => return self.serve(phase, asked(revision)),
                Err(refusal) => asked(revision).send_error(&refusal),
            },
            StdioDecision::Initialize(revision) => {
                match self.in_flight.check(&request.id, Admission::IfIdUnused) {
                    Ok(()) => return self.dispatch(asked(revision)),
                    Err(refusal) => asked(revision).send_error(&refusal),
                }
            }
            StdioDecision::Pong => return self.dispatch(asked(Revision::OLDEST)),
            StdioDecision::Reject(refusal, revision) => {
                reply.send_error(Some(&request.id), &refusal, revision)
            }
            _ => {}
        }
        None
    }

    /// Begins a session. A client sends nothing else before it has the answer, so a layer may take its time.
    pub(crate) fn initialize(&self, asked: IncomingRequest<'_>) -> Result<(), RpcError> {
        let params = read_initialize_params(asked.request.params(), asked.revision)?;
        let mut state = self.lock();
        state.handshake.initialize(&params.protocol_version)?;
        state.initialize_params = Some(asked.request.params().to_owned());
        let mut answer = lifecycle::initialize_result(&self.server.shared, &self.config, asked.revision);
        if self.is_single_request() {
            lifecycle::strip_push_capabilities(&mut answer.capabilities);
        }
        state.declared = DeclaredCapabilities::from_capabilities(&answer.capabilities);
        drop(state);
        self.push.reset();
        // Where there is a stream already, changes may be announced at any time.
        if self.push.has_queue() {
            self.listener();
        }
        self.send_result::<Initialize>(asked, answer);
        Ok(())
    }

    /// Begins a session that somebody else answers for.
    pub(crate) fn initialize_forwarded(&self, params: &RawJson, revision: Revision) -> Result<(), RpcError> {
        let hello = read_initialize_params(Raw::from(params), revision)?;
        let mut state = self.lock();
        state.handshake.initialize(&hello.protocol_version)?;
        state.initialize_params = Some(params.clone());
        Ok(())
    }

    fn mark_ready(&self) {
        self.lock().handshake.mark_ready();
        self.push.activate_listener();
        self.state.changed.notify_waiters();
    }

    /// Whether the client accepts messages that answer no request. True also for a closed connection, where they are lost.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase(), HandshakePhase::Ready(_)) || self.is_closing()
    }

    /// Waits until the client is ready, without keeping the connection alive. `None` if it was dropped.
    pub(crate) async fn wait_until_ready(connection: &Weak<Self>) -> Option<()> {
        loop {
            let upgraded = connection.upgrade()?;
            let changed = Arc::clone(&upgraded.state.changed);
            let notified = changed.notified();
            if upgraded.is_ready() {
                return Some(());
            }
            drop(upgraded);
            notified.await;
        }
    }

    fn serve(self: &Arc<Self>, phase: HandshakePhase, asked: IncomingRequest<'_>) -> Option<PendingRequest> {
        // Some clients never say that they are ready; their first request does.
        if !asked.revision.is_stateless() && matches!(phase, HandshakePhase::Negotiated(_)) {
            self.mark_ready();
        }
        self.dispatch(asked)
    }

    /// Answers a request, and lets the layers around it have their say.
    pub(crate) fn dispatch(self: &Arc<Self>, asked: IncomingRequest<'_>) -> Option<PendingRequest> {
        match &self.config.layers {
            Some(layers) => layer::serve(self, layers, asked),
            None => self.route_request(asked),
        }
    }

    /// Answers a request, or begins to.
    pub(crate) fn route_request(self: &Arc<Self>, asked: IncomingRequest<'_>) -> Option<PendingRequest> {
        // Handlers, extractors and rules are somebody else's code, and it runs before there is a future to poll.
        let answered = catch_unwind(AssertUnwindSafe(|| route::route(self, asked)));
        let answered = answered.unwrap_or_else(|_| {
            tracing::error!(id = %asked.request.id, "a handler panicked");
            Err(RpcError::Internal)
        });
        answered.unwrap_or_else(|refusal| {
            asked.send_error(&refusal);
            None
        })
    }

    /// The revision that was agreed on.
    pub(crate) fn revision(&self) -> Option<Revision> {
        self.phase().revision()
    }

    /// Whether a request has no answer yet.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.in_flight.has_unanswered()
    }

    /// Closes the receiving side: change streams end, and handlers that wait for the client's response give up.
    pub(crate) fn close(&self) {
        self.state.closing.store(true, Ordering::Release);
        self.state.changed.notify_waiters();
        self.outgoing_requests().close();
    }

    /// Whether the receiving side is closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.state.closing.load(Ordering::Acquire)
    }

    /// Waits until the receiving side is closed.
    pub(crate) async fn closed(&self) {
        loop {
            let changed = self.state.changed.notified();
            if self.is_closing() {
                return;
            }
            changed.await;
        }
    }

    /// Closes the connection and stops all requests: the client is gone.
    pub(crate) fn abort_all(&self) {
        self.close();
        self.in_flight.stop_all();
        self.push.close();
    }

    /// What the handshake has agreed on.
    pub(crate) fn session_info(&self) -> (Option<Level>, ClientCapabilities, Option<Implementation>) {
        let level = (!self.is_single_request()).then(|| self.push.log_level());
        let (phase, hello) = {
            let state = self.lock();
            (state.handshake.phase(), state.initialize_params.clone())
        };
        let hello = hello.zip(phase.revision()).and_then(|(hello, revision)| {
            // It was read before.
            read_initialize_params(Raw::from(&hello), revision).ok()
        });
        match hello {
            Some(hello) => (level, hello.capabilities, Some(hello.client_info)),
            None => (level, ClientCapabilities::new(), None),
        }
    }

    /// Whether a kind of thing is offered: what the session was told of, or what there is.
    pub(crate) fn supports_kind(&self, asked: IncomingRequest<'_>, kind: ListKind) -> bool {
        match asked.revision.is_stateless() {
            true => self.config.declare_all_capabilities || self.server.shared.registry().has(kind),
            false => asked.declared.has(kind),
        }
    }

    /// Whether arguments are completed, likewise.
    pub(crate) fn supports_completion(&self, asked: IncomingRequest<'_>) -> bool {
        match asked.revision.is_stateless() {
            true => self.server.shared.registry().has_completers(),
            false => asked.declared.completions,
        }
    }

    /// Answers at once.
    pub(crate) fn send_result<M: Method>(&self, asked: IncomingRequest<'_>, mut output: M::Output)
    where
        M::Output: Translate,
    {
        asked.writer.send_result::<M>(&asked.request.id, &mut output, asked.revision, &self.config.stamp);
    }

    /// The revision to write errors in that belong to no request.
    fn error_revision(&self) -> Revision {
        self.phase().revision().unwrap_or_else(|| self.config.revisions.error_fallback())
    }

    fn phase(&self) -> HandshakePhase {
        self.lock().handshake.phase()
    }

    /// The phase of the handshake and the capabilities that were declared in it.
    pub(super) fn negotiated(&self) -> (HandshakePhase, DeclaredCapabilities) {
        let state = self.lock();
        (state.handshake.phase(), state.declared)
    }

    fn lock(&self) -> MutexGuard<'_, HandshakeState> {
        lock(&self.state.handshake)
    }
}

/// What the state of a call that asks back is bound to.
pub(crate) fn state_binding<M: Method>(asked: IncomingRequest<'_>) -> StateBinding {
    let name = asked.meta.mcp_name(M::NAME).flatten().unwrap_or_default().to_owned();
    let arguments = asked.meta.arguments().map(|raw| raw.text().to_owned()).unwrap_or_default();
    StateBinding { method: M::NAME.into(), name, arguments }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        // Wakes the tasks in `wait_until_ready`, which hold no reference to the connection.
        self.state.changed.notify_waiters();
        if let Some(handler) = &self.config.notification_handler {
            handler.connection_dropped(self.id);
        }
    }
}
