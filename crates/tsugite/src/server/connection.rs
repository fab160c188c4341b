//! One peer: what arrives is decided here, and answers leave from here.
//!
//! A request that can be answered at once is; a handler that is not done after its first poll is handed to the
//! transport as a future of its own. Both eras share one link: a process has one table of ids.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{self, Poll, Waker};

use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::{Id, Incoming, Message, ParseError, Raw, RawJson, Request};
use tsugite_core::protocol::cancellation;
use tsugite_core::protocol::lifecycle::{Initialize, Initialized};
use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::mrtr::InputRequired;
use tsugite_core::protocol::{ClientCapabilities, Implementation, Method, NotificationMethod};
use tsugite_core::revision::{Revision, RpcError, Translate, read_initialize_params};
use tsugite_core::session::inbound::{BeginError, CancelAction, ResponseAction};
use tsugite_core::session::request_meta::parse_with_meta;
use tsugite_core::session::stdio::{StdioDecision, decide, decide_request};
use tsugite_core::session::{HandshakePhase, InboundRequests, RequestMeta, ServerHandshake};

use super::ask::{self, DriveOutcome, HandlerDriver, OutgoingRequests, StateBinding};
use super::change_feed::ChangeListener;
use super::context::{CallContext, CancellationToken, Context, EndGuard, LazyContext};
use super::handler::HandlerFuture;
use super::handler_error::InvocationError;
use super::handler_limits::{HandlerLimits, StreamPermit};
use super::handler_method::HandlerMethod;
use super::lifecycle::DeclaredCapabilities;
use super::panic::{CatchPanic, PanicError};
use super::principal::{Headers, Principal};
use super::registry::ListKind;
use super::response_writer::ResponseWriter;
use super::{Config, Server, layer, lifecycle, route};
use crate::lock::lock;
use crate::transport::outbound_queue::OutboundQueue;

/// The server's side of one connection.
pub(crate) struct ServerConnection {
    pub(crate) server: Server,
    pub(crate) config: Arc<Config>,
    /// What belongs to no request goes here; over stdio everything does. A session over HTTP has none until it opens a
    /// stream.
    outbox: OnceLock<Arc<OutboundQueue>>,
    /// None until somebody asks.
    outgoing_requests: OnceLock<Arc<OutgoingRequests>>,
    pub(crate) caller: Caller,
    state: Mutex<ServerConnectionState>,
    handler_limits: Arc<HandlerLimits>,
    /// Requests whose answer is not written yet.
    in_flight_count: AtomicU32,
    scope: ConnectionScope,
    /// What few links need.
    lazy: OnceLock<Box<LazyConnectionState>>,
    /// Streams of changes end gracefully when the link does.
    closing: AtomicBool,
}

/// What a session at rest does without.
#[derive(Default)]
struct LazyConnectionState {
    /// What somebody keeps for this peer.
    extension: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
    /// The client has said that it is ready, or gone.
    ready_notify: Arc<Notify>,
    closed_notify: Notify,
}

/// Who calls, as far as the transport knows.
#[derive(Clone, Default)]
pub(crate) struct Caller {
    pub(crate) principal: Option<Principal>,
    pub(crate) headers: Headers,
}

struct ServerConnectionState {
    handshake: ServerHandshake,
    /// None until something is under way.
    in_flight: Option<Box<InFlightRequests>>,
    log_level: Level,
    /// The params of `initialize`, as they came: read when a handler wants to know who the client is.
    initialize_params: Option<RawJson>,
    listener: Option<Arc<ChangeListener>>,
    declared: DeclaredCapabilities,
}

/// What is under way.
struct InFlightRequests {
    inbound: InboundRequests,
    running: HashMap<Id<'static>, RunningRequest>,
    open_streams: usize,
    /// Resources that streams of changes name, all together.
    subscribed_resources: usize,
    last_serial: u64,
}

impl ServerConnectionState {
    fn in_flight_mut(&mut self, config: &Config) -> &mut InFlightRequests {
        self.in_flight.get_or_insert_with(|| {
            let (inbound, running) = (InboundRequests::new(config.max_pending_requests), HashMap::new());
            Box::new(InFlightRequests {
                inbound,
                running,
                open_streams: 0,
                subscribed_resources: 0,
                last_serial: 0,
            })
        })
    }

    /// Whether anything runs, and whether no more may.
    fn load(&self) -> (bool, bool) {
        match &self.in_flight {
            Some(work) => (!work.running.is_empty(), work.inbound.is_full()),
            None => (false, false),
        }
    }
}

struct RunningRequest {
    /// Tells two requests apart that had the same id one after the other.
    serial: u64,
    cancellation: CancellationToken,
    task: Option<AbortHandle>,
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

/// Work that was not done at once. The transport runs it; `id` names it.
pub(crate) struct PendingRequest {
    pub(crate) id: Id<'static>,
    pub(crate) serial: u64,
    pub(crate) cancellation: CancellationToken,
    pub(crate) future: Pin<Box<dyn Future<Output = ()> + Send>>,
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
        room: &Arc<HandlerLimits>,
    ) -> Arc<Self> {
        Self::with_scope(ConnectionScope::Session, server, config, principal, room)
    }

    /// For other requests than those of one peer.
    pub(crate) fn with_scope(
        reach: ConnectionScope,
        server: &Server,
        config: Arc<Config>,
        principal: Option<Principal>,
        room: &Arc<HandlerLimits>,
    ) -> Arc<Self> {
        let state = ServerConnectionState {
            handshake: ServerHandshake::new(config.revisions),
            in_flight: None,
            log_level: Level::Info,
            initialize_params: None,
            listener: None,
            declared: DeclaredCapabilities::default(),
        };
        Arc::new(Self {
            server: server.clone(),
            scope: reach,
            handler_limits: room.clone(),
            outbox: OnceLock::new(),
            config,
            outgoing_requests: OnceLock::new(),
            caller: Caller { principal, headers: Headers::default() },
            state: Mutex::new(state),
            in_flight_count: AtomicU32::new(0),
            lazy: OnceLock::new(),
            closing: AtomicBool::new(false),
        })
    }

    /// Whether it serves one request of the handshake era, which nothing can follow.
    pub(crate) fn is_single_request(&self) -> bool {
        self.scope == ConnectionScope::SingleRequest
    }

    /// Whether something can be said to the client that belongs to no request.
    pub(crate) fn can_push(&self) -> bool {
        self.scope == ConnectionScope::Session
    }

    /// Where what belongs to no request goes.
    pub(crate) fn outbox(&self) -> &Arc<OutboundQueue> {
        self.outbox.get_or_init(|| Arc::new(OutboundQueue::new(self.config.max_write_buffer_bytes)))
    }

    /// What was asked of the client.
    pub(crate) fn outgoing_requests(&self) -> &Arc<OutgoingRequests> {
        self.outgoing_requests.get_or_init(|| {
            let questions = Arc::<OutgoingRequests>::default();
            if self.closing.load(Ordering::Acquire) {
                questions.close();
            }
            questions
        })
    }

    /// Places for handlers that block.
    pub(crate) fn blocking_permits(&self) -> &Arc<Semaphore> {
        &self.handler_limits.blocking_permits
    }

    /// A line has come. What is not done at once is given back.
    pub(crate) fn receive(self: &Arc<Self>, line: &[u8]) -> Vec<PendingRequest> {
        let mut seen = RequestMeta::default();
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
                    .filter_map(|message| self.receive_message(message, &RequestMeta::default(), &together))
                    .collect()
            }
            (StdioDecision::Reject(refusal, revision), _) => {
                reply.send_error(None, &refusal, revision);
                Vec::new()
            }
            // Not decisions about a batch.
            (StdioDecision::Batch(_), Ok(Incoming::Single(_)) | Err(_))
            | (
                StdioDecision::Serve(_)
                | StdioDecision::Initialize(_)
                | StdioDecision::Pong
                | StdioDecision::Notification(_)
                | StdioDecision::Initialized
                | StdioDecision::Cancel(_)
                | StdioDecision::DeliverResponse
                | StdioDecision::Ignore
                | StdioDecision::ParseError(_),
                _,
            ) => Vec::new(),
        }
    }

    fn receive_message<'a>(
        self: &Arc<Self>,
        message: Result<Message<'a>, ParseError>,
        seen: &RequestMeta<'a>,
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
            (StdioDecision::Cancel(id), _) => self.cancel(&id),
            (StdioDecision::DeliverResponse, Ok(Incoming::Single(Message::Response(response)))) => {
                self.outgoing_requests().receive_response(response);
            }
            // No other notification of a client needs an action: roots are requested when they are needed.
            (StdioDecision::Notification(_) | StdioDecision::Ignore | StdioDecision::Reject(..), _) => {}
            // Not decisions about a notification, a response or a parse error.
            (
                StdioDecision::Serve(_)
                | StdioDecision::Initialize(_)
                | StdioDecision::Pong
                | StdioDecision::Batch(_)
                | StdioDecision::DeliverResponse
                | StdioDecision::ParseError(_),
                _,
            ) => {}
        }
    }

    /// A request of a session that has an exchange of its own: where it is answered, and who asks, comes with it.
    pub(crate) fn receive_http_request(
        self: &Arc<Self>,
        mut asked: IncomingRequest<'_>,
    ) -> Option<PendingRequest> {
        let (phase, (runs, full), declared) = {
            let state = self.lock();
            (state.handshake.phase(), state.load(), state.declared)
        };
        asked.declared = declared;
        if full {
            asked.send_error(&too_many_requests());
        } else if runs && self.is_in_flight(&asked.request.id) {
            asked.send_error(&duplicate_id());
        } else {
            return self.serve(phase, asked);
        }
        None
    }

    /// What another replica needs to go on with the session.
    pub(crate) fn snapshot(&self) -> Option<(Revision, RawJson, Level)> {
        let state = self.lock();
        Some((state.handshake.phase().revision()?, state.initialize_params.clone()?, state.log_level))
    }

    /// Goes on with a session that began elsewhere.
    pub(crate) fn restore(&self, revision: Revision, hello: RawJson, level: Level) {
        self.complete_handshake(revision);
        let mut state = self.lock();
        state.initialize_params = Some(hello);
        state.log_level = level;
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
        seen: &RequestMeta<'a>,
        reply: &ResponseWriter,
    ) -> Option<PendingRequest> {
        let (phase, (runs, full), declared) = {
            let state = self.lock();
            (state.handshake.phase(), state.load(), state.declared)
        };
        let looked = seen.checked(request);
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
            // Before anything is done: a handler that has begun is not refused for lack of room.
            StdioDecision::Serve(revision) if full => asked(revision).send_error(&too_many_requests()),
            StdioDecision::Serve(revision) | StdioDecision::Initialize(revision)
                if runs && self.is_in_flight(&request.id) =>
            {
                asked(revision).send_error(&duplicate_id());
            }
            StdioDecision::Serve(revision) => return self.serve(phase, asked(revision)),
            StdioDecision::Initialize(revision) => return self.dispatch(asked(revision)),
            StdioDecision::Pong => return self.dispatch(asked(Revision::OLDEST)),
            StdioDecision::Reject(refusal, revision) => {
                reply.send_error(Some(&request.id), &refusal, revision)
            }
            // Not decisions about a request.
            StdioDecision::Notification(_)
            | StdioDecision::Initialized
            | StdioDecision::Cancel(_)
            | StdioDecision::Batch(_)
            | StdioDecision::DeliverResponse
            | StdioDecision::Ignore
            | StdioDecision::ParseError(_) => {}
        }
        None
    }

    /// Begins a session. A client sends nothing else before it has the answer, so a layer may take its time.
    pub(crate) fn initialize(&self, asked: IncomingRequest<'_>) -> Result<(), RpcError> {
        let params = read_initialize_params(asked.request.params(), asked.revision)?;
        let mut state = self.lock();
        state.handshake.initialize(&params.protocol_version)?;
        state.initialize_params = Some(asked.request.params().to_owned());
        state.log_level = Level::Info;
        let mut answer = lifecycle::initialize_result(&self.server.shared, &self.config, asked.revision);
        if self.is_single_request() {
            lifecycle::strip_push_capabilities(&mut answer.capabilities);
        }
        state.declared = DeclaredCapabilities::from_capabilities(&answer.capabilities);
        state.listener = None;
        drop(state);
        // Where there is a stream already, news may come at any time.
        if self.outbox.get().is_some() {
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

    fn lazy(&self) -> &LazyConnectionState {
        let rare = self.lazy.get_or_init(Box::default);
        // See `close`.
        fence(Ordering::SeqCst);
        rare
    }

    /// Keeps something for this peer.
    pub(crate) fn set_extension(&self, companion: Arc<dyn Any + Send + Sync>) {
        *lock(&self.lazy().extension) = Some(companion);
    }

    /// What is kept for this peer.
    pub(crate) fn extension<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        lock(&self.lazy.get()?.extension).clone()?.downcast().ok()
    }

    fn mark_ready(&self) {
        let mut state = self.lock();
        state.handshake.mark_ready();
        if let Some(listener) = &state.listener {
            listener.activate();
        }
        drop(state);
        if let Some(rare) = self.lazy.get() {
            rare.ready_notify.notify_waiters();
        }
    }

    /// Whether something may be said to the client unasked: it is ready, or nobody hears it any more.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase(), HandshakePhase::Ready(_)) || self.closing.load(Ordering::Acquire)
    }

    /// Waits until something may be said to a client unasked, without keeping its link. `None` if that is gone.
    pub(crate) async fn wait_until_ready(link: &Weak<Self>) -> Option<()> {
        loop {
            let up = link.upgrade()?;
            let readied = Arc::clone(&up.lazy().ready_notify);
            let waiting = readied.notified();
            if up.is_ready() {
                return Some(());
            }
            drop(up);
            waiting.await;
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

    /// The first poll of a handler happens here. One that is done then never enters the tables; only one that is not
    /// becomes work of its own.
    pub(crate) fn run_handler<M: HandlerMethod>(
        self: &Arc<Self>,
        asked: IncomingRequest<'_>,
        context: &LazyContext<'_>,
        answer: HandlerFuture<M::HandlerOutput>,
    ) -> Option<PendingRequest> {
        let mut answer = CatchPanic::new(answer);
        if self.handler_limits.handler_permits.available_permits() > 0
            && let Poll::Ready(done) =
                Pin::new(&mut answer).poll(&mut task::Context::from_waker(Waker::noop()))
        {
            if let Some(context) = context.built() {
                context.end();
            }
            self.send_handler_result::<M>(asked.revision, &asked.request.id, done, asked.writer);
            return None;
        }
        let answer = Box::pin(async move {
            let done = answer.await;
            let finish: SendOutcomeFn =
                Box::new(move |link, to, id, reply| link.send_handler_result::<M>(to, id, done, reply));
            finish
        });
        let binding =
            (M::MAY_REQUEST_INPUT && asked.revision.is_stateless()).then(|| state_binding::<M>(asked));
        self.continue_pending(asked, context.get(), binding, send_input_required::<M>, answer)
    }

    /// Goes on with a handler that was not done at once: the same for every method, and so built once.
    fn continue_pending(
        self: &Arc<Self>,
        asked: IncomingRequest<'_>,
        context: Context,
        binding: Option<StateBinding>,
        say_back: SendInputRequiredFn,
        answer: Pin<Box<dyn Future<Output = SendOutcomeFn> + Send>>,
    ) -> Option<PendingRequest> {
        // What has begun holds its place from now on.
        let begun = self.handler_limits.handler_permits.clone().try_acquire_owned();
        let drive = HandlerDriver::new(answer, context.clone(), self.config.round_timeout);
        let (link, outbox) = (self.clone(), asked.writer.outbox.clone());
        let (id, revision, reply) =
            (asked.request.id.clone().into_owned(), asked.revision, asked.writer.clone());
        let (done, ending) = (context.clone(), EndGuard(context.clone()));
        self.register_pending(asked, context.cancellation_token(), async move {
            let ending = ending;
            let permit = match begun {
                Ok(permit) => Ok(permit),
                Err(_) => link.handler_limits.handler_permits.clone().acquire_owned().await,
            };
            let driven = drive.await;
            context.end();
            drop(ending);
            // What a peer does not read is not added to without end; its place is taken meanwhile.
            outbox.wait_for_capacity().await;
            drop(permit);
            move || {
                let said = match (driven, binding) {
                    (DriveOutcome::Complete(finish), _) => {
                        finish(&link, revision, &id, &reply);
                        Ok(())
                    }
                    (DriveOutcome::InputRequired(asked, known), Some(binding)) => {
                        ask::build_input_required(&link.config, done.principal(), &binding, asked, known)
                            .and_then(|asked| say_back(&link, revision, &id, asked, &reply))
                    }
                    (DriveOutcome::InputRequired(..), None) => Err(RpcError::Internal),
                    (DriveOutcome::Error(refusal), _) => Err(refusal),
                };
                if let Err(refusal) = said {
                    reply.send_error(Some(&id), &refusal, revision);
                }
            }
        })
    }

    /// Makes work of its own of a request that is not done at once. What the future gives says the answer, if it is still
    /// wanted by then.
    pub(crate) fn register_pending<S: FnOnce() + Send>(
        self: &Arc<Self>,
        asked: IncomingRequest<'_>,
        cancelled: CancellationToken,
        work: impl Future<Output = S> + Send + 'static,
    ) -> Option<PendingRequest> {
        let id = asked.request.id.clone().into_owned();
        if !matches!(asked.tracking, Tracking::Connection) {
            let future = Box::pin(async move { (work.await)() });
            return Some(PendingRequest { id, serial: 0, cancellation: cancelled, future });
        }
        let serial = match self.begin_request(&id, &asked.request.method, cancelled.clone()) {
            Ok(serial) => serial,
            Err(refusal) => {
                asked.send_error(&refusal);
                return None;
            }
        };
        let (busy, named) = (InFlightGuard::new(self), id.clone());
        let future = Box::pin(async move {
            let say = work.await;
            // A batch leaves with its last answer, and must have left before nothing is busy any more.
            match busy.0.end_request(&id, serial) {
                ResponseAction::Send => say(),
                _ => drop(say),
            }
            drop(busy);
        });
        Some(PendingRequest { id: named, serial, cancellation: cancelled, future })
    }

    /// Says what a handler came to.
    fn send_handler_result<M: HandlerMethod>(
        &self,
        to: Revision,
        id: &Id<'_>,
        done: HandlerOutcome<M::HandlerOutput>,
        reply: &ResponseWriter,
    ) {
        let output = match done {
            Ok(Ok(done)) => Ok(M::output(done)),
            Ok(Err(failure)) => M::error_output(failure, to),
            Err(PanicError) => {
                tracing::error!(%id, "a handler panicked");
                Err(RpcError::Internal)
            }
        };
        match output {
            Ok(mut output) => reply.send_result::<M>(id, &mut output, to, &self.config.stamp),
            Err(refusal) => reply.send_error(Some(id), &refusal, to),
        }
    }

    /// Remembers which task does the work, so that a cancellation can stop it.
    pub(crate) fn register_task(&self, id: &Id<'static>, serial: u64, task: AbortHandle) {
        let mut state = self.lock();
        let running = state.in_flight.as_mut().and_then(|work| work.running.get_mut(id));
        if let Some(running) = running.filter(|running| running.serial == serial) {
            running.task = Some(task);
            return;
        }
        // It was cancelled, or is done, before its task was known.
        drop(state);
        task.abort();
    }

    /// The revision that was agreed on.
    pub(crate) fn revision(&self) -> Option<Revision> {
        self.phase().revision()
    }

    /// Lets whoever carries what belongs to no request look whether that should end.
    pub(crate) fn wake_push_stream(&self) {
        if let Some(outbox) = self.outbox.get() {
            outbox.wake();
        }
    }

    /// Whether a request has no answer yet.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.in_flight_count.load(Ordering::Acquire) > 0
    }

    /// Nothing more will arrive: streams of changes end, and whoever waits for an answer of the client gives up.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        // Whoever begins to wait looks whether it is closing after it has made what it waits for.
        fence(Ordering::SeqCst);
        if let Some(rare) = self.lazy.get() {
            rare.closed_notify.notify_waiters();
            rare.ready_notify.notify_waiters();
        }
        if let Some(questions) = self.outgoing_requests.get() {
            questions.close();
        }
    }

    /// Whether nothing more is to be received.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Waits until the link is closed.
    pub(crate) async fn closed(&self) {
        loop {
            let closed = self.lazy().closed_notify.notified();
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            closed.await;
        }
    }

    /// Stops everything that still runs: nobody will read the answers.
    pub(crate) fn abort_all(&self) {
        self.close();
        let mut state = self.lock();
        state.listener = None;
        let running = state.in_flight.as_mut().map(|work| std::mem::take(&mut work.running));
        drop(state);
        for (_, running) in running.into_iter().flatten() {
            running.stop();
        }
        if let Some(outbox) = self.outbox.get() {
            outbox.close();
        }
    }

    /// What the handshake has agreed on.
    pub(crate) fn session_info(&self) -> (Option<Level>, ClientCapabilities, Option<Implementation>) {
        let (level, phase, hello) = {
            let state = self.lock();
            (
                (!self.is_single_request()).then_some(state.log_level),
                state.handshake.phase(),
                state.initialize_params.clone(),
            )
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

    /// The session, as somebody who hears of changes; nobody before the handshake.
    pub(crate) fn listener(&self) -> Option<Arc<ChangeListener>> {
        if !self.can_push() {
            return None;
        }
        let mut state = self.lock();
        if state.listener.is_none() {
            let phase = state.handshake.phase();
            let lists = ListKind::ALL.into_iter().filter(|kind| state.declared.has(*kind)).collect();
            let (outbox, who) = (self.outbox().clone(), self.caller.principal.clone());
            let listener = Arc::new(ChangeListener::for_session(outbox, phase.revision()?, who, lists));
            if matches!(phase, HandshakePhase::Ready(_)) {
                listener.activate();
            }
            self.server.shared.feed.add_listener(&listener);
            state.listener = Some(listener);
        }
        state.listener.clone()
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

    /// Counts a stream of changes with the resources it names; none if there are too many. Where requests belong to no
    /// session, an authenticated caller has as many as a session.
    pub(crate) fn open_stream(
        self: &Arc<Self>,
        who: Option<&Principal>,
        resources: usize,
    ) -> Option<StreamPermit> {
        let most = self.config.max_subscriptions;
        let mut open = self.handler_limits.open_stream()?;
        if self.scope == ConnectionScope::Stateless {
            return match who {
                Some(who) => open.count_for_principal(who, most),
                None => Some(open),
            };
        }
        let mut state = self.lock();
        let work = state.in_flight_mut(&self.config);
        if work.open_streams >= most || work.subscribed_resources + resources > most {
            return None;
        }
        work.open_streams += 1;
        work.subscribed_resources += resources;
        drop(state);
        open.attach_connection(self, resources);
        Some(open)
    }

    /// A stream of changes has ended.
    pub(super) fn close_stream(&self, resources: usize) {
        if let Some(work) = &mut self.lock().in_flight {
            work.open_streams = work.open_streams.saturating_sub(1);
            work.subscribed_resources = work.subscribed_resources.saturating_sub(resources);
        }
    }

    fn is_in_flight(&self, id: &Id<'_>) -> bool {
        let state = self.lock();
        state.in_flight.as_ref().is_some_and(|work| work.running.contains_key(&id.clone().into_owned()))
    }

    /// Writes a request down that is not done at once.
    fn begin_request(
        &self,
        id: &Id<'static>,
        method: &str,
        cancelled: CancellationToken,
    ) -> Result<u64, RpcError> {
        let mut state = self.lock();
        let state = state.in_flight_mut(&self.config);
        state.inbound.begin(id, method).map_err(|not_taken| match not_taken {
            BeginError::DuplicateId => duplicate_id(),
            BeginError::TooMany => too_many_requests(),
        })?;
        state.last_serial += 1;
        let serial = state.last_serial;
        state.running.insert(id.clone(), RunningRequest { serial, cancellation: cancelled, task: None });
        Ok(serial)
    }

    fn end_request(&self, id: &Id<'static>, serial: u64) -> ResponseAction {
        let mut state = self.lock();
        let Some(state) = &mut state.in_flight else { return ResponseAction::Drop };
        // An id may have been cancelled and used again: the entry is then somebody else's.
        if state.running.get(id).is_none_or(|running| running.serial != serial) {
            return ResponseAction::Drop;
        }
        state.running.remove(id);
        state.inbound.complete(id)
    }

    fn cancel(&self, id: &Id<'static>) {
        let mut state = self.lock();
        let Some(work) = &mut state.in_flight else { return };
        if work.inbound.cancel(id) == CancelAction::Ignore {
            return;
        }
        let Some(running) = work.running.remove(id) else { return };
        // Its future is dropped with the task, so nothing else will close its entry.
        work.inbound.complete(id);
        drop(state);
        running.stop();
    }

    pub(crate) fn set_log_level(&self, level: Level) {
        self.lock().log_level = level;
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

    fn lock(&self) -> MutexGuard<'_, ServerConnectionState> {
        lock(&self.state)
    }
}

/// How a handler ended.
type HandlerOutcome<O> = Result<Result<O, InvocationError>, PanicError>;

/// Says what a handler came to.
type SendOutcomeFn = Box<dyn FnOnce(&ServerConnection, Revision, &Id<'_>, &ResponseWriter) + Send>;

/// Answers with questions, where that can be.
type SendInputRequiredFn =
    fn(&ServerConnection, Revision, &Id<'_>, InputRequired, &ResponseWriter) -> Result<(), RpcError>;

fn send_input_required<M: HandlerMethod>(
    link: &ServerConnection,
    to: Revision,
    id: &Id<'_>,
    asked: InputRequired,
    reply: &ResponseWriter,
) -> Result<(), RpcError> {
    let mut output = M::input_required(asked).ok_or(RpcError::Internal)?;
    reply.send_result::<M>(id, &mut output, to, &link.config.stamp);
    Ok(())
}

/// What the state of a call that asks back is bound to.
pub(crate) fn state_binding<M: Method>(asked: IncomingRequest<'_>) -> StateBinding {
    let name = asked.meta.mcp_name(M::NAME).flatten().unwrap_or_default().to_owned();
    let arguments = asked.meta.arguments().map(|raw| raw.text().to_owned()).unwrap_or_default();
    StateBinding { method: M::NAME.into(), name, arguments }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        // Whoever waits for the client to be ready waits in vain.
        if let Some(rare) = self.lazy.get() {
            rare.ready_notify.notify_waiters();
        }
    }
}

impl RunningRequest {
    fn stop(self) {
        self.cancellation.cancel();
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

/// Counts a request as under way until its answer is written, or its future is dropped.
struct InFlightGuard(Arc<ServerConnection>);

impl InFlightGuard {
    fn new(link: &Arc<ServerConnection>) -> Self {
        link.in_flight_count.fetch_add(1, Ordering::AcqRel);
        Self(link.clone())
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.in_flight_count.fetch_sub(1, Ordering::AcqRel);
        if let Some(outbox) = self.0.outbox.get() {
            outbox.notify_idle();
        }
    }
}

fn too_many_requests() -> RpcError {
    RpcError::InvalidRequest("Too many requests are waiting".into())
}

fn duplicate_id() -> RpcError {
    RpcError::InvalidRequest("Invalid request: the id is already in use".into())
}
