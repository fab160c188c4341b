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
use tsugite_core::jsonrpc::{ParseError, Id, Incoming, Message, Raw, RawJson, Request};
use tsugite_core::protocol::cancellation;
use tsugite_core::protocol::lifecycle::{Initialize, Initialized};
use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::mrtr::InputRequired;
use tsugite_core::protocol::{ClientCapabilities, Implementation, Method, NotificationMethod};
use tsugite_core::revision::{RpcError, Revision, Translate, read_initialize_params};
use tsugite_core::session::inbound::{CancelAction, ResponseAction, BeginError};
use tsugite_core::session::request_meta::{ScannedMeta, parse_with_meta};
use tsugite_core::session::stdio::{StdioDecision, decide, decide_request};
use tsugite_core::session::{InboundRequests, RequestMeta, HandshakePhase, ServerHandshake};

use super::ask::{self, Binding, Drive, Driven, Questions};
use super::context::{CallContext, Cancelled, Context, Ending, LazyContext};
use super::failure::Failure;
use super::feed::Listener;
use super::handled::Handled;
use super::handler::Answer;
use super::lifecycle::Declared;
use super::panic::{CatchPanic, Panicked};
use super::principal::{Headers, Principal};
use super::registry::Kind;
use super::reply::Reply;
use super::room::{OpenStream, Room};
use super::{Config, Server, layer, lifecycle, route};
use crate::lock::lock;
use crate::transport::outbox::Outbox;

/// The server's side of one connection.
pub(crate) struct Link {
    pub(crate) server: Server,
    pub(crate) config: Arc<Config>,
    /// What belongs to no request goes here; over stdio everything does. A session over HTTP has none until it opens a
    /// stream.
    outbox: OnceLock<Arc<Outbox>>,
    /// None until somebody asks.
    questions: OnceLock<Arc<Questions>>,
    pub(crate) caller: Caller,
    state: Mutex<LinkState>,
    room: Arc<Room>,
    /// Requests whose answer is not written yet.
    busy: AtomicU32,
    reach: Reach,
    /// What few links need.
    rare: OnceLock<Box<Rare>>,
    /// Streams of changes end gracefully when the link does.
    closing: AtomicBool,
}

/// What a session at rest does without.
#[derive(Default)]
struct Rare {
    /// What somebody keeps for this peer.
    companion: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
    /// The client has said that it is ready, or gone.
    readied: Arc<Notify>,
    closed: Notify,
}

/// Who calls, as far as the transport knows.
#[derive(Clone, Default)]
pub(crate) struct Caller {
    pub(crate) principal: Option<Principal>,
    pub(crate) headers: Headers,
}

struct LinkState {
    handshake: ServerHandshake,
    /// None until something is under way.
    work: Option<Box<UnderWay>>,
    log_level: Level,
    /// The params of `initialize`, as they came: read when a handler wants to know who the client is.
    hello: Option<RawJson>,
    listener: Option<Arc<Listener>>,
    declared: Declared,
}

/// What is under way.
struct UnderWay {
    inbound: InboundRequests,
    running: HashMap<Id<'static>, Running>,
    streams: usize,
    /// Resources that streams of changes name, all together.
    streamed: usize,
    last_serial: u64,
}

impl LinkState {
    fn work(&mut self, config: &Config) -> &mut UnderWay {
        self.work.get_or_insert_with(|| {
            let (inbound, running) = (InboundRequests::new(config.waiting), HashMap::new());
            Box::new(UnderWay { inbound, running, streams: 0, streamed: 0, last_serial: 0 })
        })
    }

    /// Whether anything runs, and whether no more may.
    fn load(&self) -> (bool, bool) {
        match &self.work {
            Some(work) => (!work.running.is_empty(), work.inbound.is_full()),
            None => (false, false),
        }
    }
}

struct Running {
    /// Tells two requests apart that had the same id one after the other.
    serial: u64,
    cancelled: Cancelled,
    task: Option<AbortHandle>,
}

/// A request that is being answered.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) peek: &'a RequestMeta<'a>,
    pub(crate) revision: Revision,
    pub(crate) reply: &'a Reply,
    pub(crate) caller: &'a Caller,
    /// What the session it belongs to was told of.
    pub(crate) declared: Declared,
    pub(crate) tables: Tables<'a>,
}

/// Who knows that a request is under way, and how it hears that it is no longer wanted.
#[derive(Clone, Copy)]
pub(crate) enum Tables<'a> {
    /// The link, by its id.
    Link,
    /// Something around it.
    Around(&'a Cancelled),
    /// Nobody: its future is dropped.
    None,
}

impl Tables<'_> {
    /// The news that the request is no longer wanted.
    pub(crate) fn cancelled(self) -> Cancelled {
        match self {
            Tables::Around(cancelled) => cancelled.clone(),
            Tables::Link | Tables::None => Cancelled::default(),
        }
    }
}

impl<'a> Asked<'a> {
    pub(crate) fn principal(&self) -> Option<&'a Principal> {
        self.caller.principal.as_ref()
    }

    pub(crate) fn refuse(&self, refusal: &RpcError) {
        self.reply.refusal(Some(&self.request.id), refusal, self.revision);
    }
}

/// Whose requests a link serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// One peer's.
    Peer,
    /// One request of the handshake era, which nothing can follow.
    Once,
    /// Those of the stateless era, of every client.
    Everybody,
}

/// Work that was not done at once. The transport runs it; `id` names it.
pub(crate) struct Work {
    pub(crate) id: Id<'static>,
    pub(crate) serial: u64,
    pub(crate) cancelled: Cancelled,
    pub(crate) future: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Link {
    pub(crate) fn new(server: &Server, principal: Option<Principal>) -> Arc<Self> {
        let config = server.shared.config();
        let room = Room::new(config.running, config.subscriptions);
        Self::with(server, config, principal, &room)
    }

    /// With room for handlers that is shared with other links.
    pub(crate) fn with(
        server: &Server,
        config: Arc<Config>,
        principal: Option<Principal>,
        room: &Arc<Room>,
    ) -> Arc<Self> {
        Self::reaching(Reach::Peer, server, config, principal, room)
    }

    /// For other requests than those of one peer.
    pub(crate) fn reaching(
        reach: Reach,
        server: &Server,
        config: Arc<Config>,
        principal: Option<Principal>,
        room: &Arc<Room>,
    ) -> Arc<Self> {
        let state = LinkState {
            handshake: ServerHandshake::new(config.served),
            work: None,
            log_level: Level::Info,
            hello: None,
            listener: None,
            declared: Declared::default(),
        };
        Arc::new(Self {
            server: server.clone(),
            reach,
            room: room.clone(),
            outbox: OnceLock::new(),
            config,
            questions: OnceLock::new(),
            caller: Caller { principal, headers: Headers::default() },
            state: Mutex::new(state),
            busy: AtomicU32::new(0),
            rare: OnceLock::new(),
            closing: AtomicBool::new(false),
        })
    }

    /// Whether it serves one request of the handshake era, which nothing can follow.
    pub(crate) fn is_alone(&self) -> bool {
        self.reach == Reach::Once
    }

    /// Whether something can be said to the client that belongs to no request.
    pub(crate) fn has_sequel(&self) -> bool {
        self.reach == Reach::Peer
    }

    /// Where what belongs to no request goes.
    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        self.outbox.get_or_init(|| Arc::new(Outbox::new(self.config.buffer)))
    }

    /// What was asked of the client.
    pub(crate) fn questions(&self) -> &Arc<Questions> {
        self.questions.get_or_init(|| {
            let questions = Arc::<Questions>::default();
            if self.closing.load(Ordering::Acquire) {
                questions.close();
            }
            questions
        })
    }

    /// Places for handlers that block.
    pub(crate) fn places(&self) -> &Arc<Semaphore> {
        &self.room.places
    }

    /// A line has come. What is not done at once is given back.
    pub(crate) fn receive(self: &Arc<Self>, line: &[u8]) -> Vec<Work> {
        let mut seen = ScannedMeta::default();
        let message = parse_with_meta(line, &self.config.limits, &mut seen);
        let reply = Reply::single(self.outbox().clone());
        match message {
            Ok(Incoming::Single(message)) => self.message(Ok(message), &seen, &reply).into_iter().collect(),
            Err(fault) => self.message(Err(fault), &seen, &reply).into_iter().collect(),
            Ok(Incoming::Batch(_)) => self.batch(message, &reply),
        }
    }

    /// A line was too long to be read.
    pub(crate) fn receive_too_long(&self) {
        Reply::single(self.outbox().clone()).fault(&ParseError::too_long(), self.spoken());
    }

    /// The messages of a batch are served side by side, and their answers leave together as one array.
    fn batch(self: &Arc<Self>, message: Result<Incoming<'_>, ParseError>, reply: &Reply) -> Vec<Work> {
        let decision = decide(self.phase(), self.config.served, &message);
        match (decision, message) {
            (StdioDecision::Batch(_), Ok(Incoming::Batch(batch))) => {
                let most = self.config.limits.max_message_bytes.saturating_mul(2);
                let together = Reply::batch(self.outbox().clone(), most);
                let messages = batch.into_messages().into_iter();
                messages.filter_map(|message| self.message(message, &ScannedMeta::default(), &together)).collect()
            }
            (StdioDecision::Reject(refusal, revision), _) => {
                reply.refusal(None, &refusal, revision);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn message<'a>(
        self: &Arc<Self>,
        message: Result<Message<'a>, ParseError>,
        seen: &ScannedMeta<'a>,
        reply: &Reply,
    ) -> Option<Work> {
        if let Ok(Message::Request(request)) = &message {
            return self.request(request, seen, reply);
        }
        self.hear(message, reply);
        None
    }

    /// What is no request has come.
    pub(crate) fn hear(self: &Arc<Self>, message: Result<Message<'_>, ParseError>, reply: &Reply) {
        if let (Ok(Message::Notification(said)), Some(hearer)) = (&message, &self.config.hearer)
            && ![cancellation::Cancelled::NAME, Initialized::NAME].contains(&&*said.method)
            && self.revision().is_some()
        {
            return hearer.hear(self, &said.method, said.params);
        }
        let message = message.map(Incoming::Single);
        match (decide(self.phase(), self.config.served, &message), message) {
            (StdioDecision::ParseError(spoken), Err(fault)) => reply.fault(&fault, spoken),
            (StdioDecision::Initialized, _) => self.ready(),
            (StdioDecision::Cancel(id), _) => self.cancel(&id),
            (StdioDecision::DeliverResponse, Ok(Incoming::Single(Message::Response(response)))) => {
                self.questions().answer(response);
            }
            // No other notification of a client asks for anything: roots are asked for when they are needed.
            _ => {}
        }
    }

    /// A request of a session that has an exchange of its own: where it is answered, and who asks, comes with it.
    pub(crate) fn post(self: &Arc<Self>, mut asked: Asked<'_>) -> Option<Work> {
        let (phase, (runs, full), declared) = {
            let state = self.lock();
            (state.handshake.phase(), state.load(), state.declared)
        };
        asked.declared = declared;
        if full {
            asked.refuse(&too_many());
        } else if runs && self.is_under_way(&asked.request.id) {
            asked.refuse(&duplicate_id());
        } else {
            return self.serve(phase, asked);
        }
        None
    }

    /// What another replica needs to go on with the session.
    pub(crate) fn record(&self) -> Option<(Revision, RawJson, Level)> {
        let state = self.lock();
        Some((state.handshake.phase().revision()?, state.hello.clone()?, state.log_level))
    }

    /// Goes on with a session that began elsewhere.
    pub(crate) fn restore(&self, revision: Revision, hello: RawJson, level: Level) {
        self.agreed(revision);
        let mut state = self.lock();
        state.hello = Some(hello);
        state.log_level = level;
    }

    /// A handshake that is over: what a session that began elsewhere, or none at all, has agreed on.
    pub(crate) fn agreed(&self, revision: Revision) -> Declared {
        let declared = Declared::of(&lifecycle::capabilities(&self.server.shared, &self.config));
        let mut state = self.lock();
        drop(state.handshake.initialize(revision.as_str()));
        state.handshake.mark_ready();
        state.declared = declared;
        declared
    }

    fn request<'a>(self: &Arc<Self>, request: &Request<'a>, seen: &ScannedMeta<'a>, reply: &Reply) -> Option<Work> {
        let (phase, (runs, full), declared) = {
            let state = self.lock();
            (state.handshake.phase(), state.load(), state.declared)
        };
        let looked = seen.request_meta(request);
        let peek = match &looked {
            Ok(peek) => peek,
            Err(error) => {
                reply.refusal(Some(&request.id), &RpcError::invalid_params(error), self.spoken());
                return None;
            }
        };
        let asked = |revision| Asked {
            request,
            peek,
            revision,
            reply,
            caller: &self.caller,
            declared,
            tables: Tables::Link,
        };
        match decide_request(phase, self.config.served, request, peek) {
            // Before anything is done: a handler that has begun is not refused for lack of room.
            StdioDecision::Serve(revision) if full => asked(revision).refuse(&too_many()),
            StdioDecision::Serve(revision) | StdioDecision::Initialize(revision) if runs && self.is_under_way(&request.id) => {
                asked(revision).refuse(&duplicate_id());
            }
            StdioDecision::Serve(revision) => return self.serve(phase, asked(revision)),
            StdioDecision::Initialize(revision) => return self.through_layers(asked(revision)),
            StdioDecision::Pong => return self.through_layers(asked(Revision::OLDEST)),
            StdioDecision::Reject(refusal, revision) => reply.refusal(Some(&request.id), &refusal, revision),
            _ => {}
        }
        None
    }

    /// Begins a session. A client sends nothing else before it has the answer, so a layer may take its time.
    pub(crate) fn open(&self, asked: Asked<'_>) -> Result<(), RpcError> {
        let params = read_initialize_params(asked.request.params(), asked.revision)?;
        let mut state = self.lock();
        state.handshake.initialize(&params.protocol_version)?;
        state.hello = Some(asked.request.params().to_owned());
        state.log_level = Level::Info;
        let mut answer = lifecycle::initialized(&self.server.shared, &self.config, asked.revision);
        if self.is_alone() {
            lifecycle::without_sequel(&mut answer.capabilities);
        }
        state.declared = Declared::of(&answer.capabilities);
        state.listener = None;
        drop(state);
        // Where there is a stream already, news may come at any time.
        if self.outbox.get().is_some() {
            self.listener();
        }
        self.say::<Initialize>(asked, answer);
        Ok(())
    }

    /// Begins a session that somebody else answers for.
    pub(crate) fn open_elsewhere(&self, params: &RawJson, revision: Revision) -> Result<(), RpcError> {
        let hello = read_initialize_params(Raw::from(params), revision)?;
        let mut state = self.lock();
        state.handshake.initialize(&hello.protocol_version)?;
        state.hello = Some(params.clone());
        Ok(())
    }

    fn rare(&self) -> &Rare {
        let rare = self.rare.get_or_init(Box::default);
        // See `close`.
        fence(Ordering::SeqCst);
        rare
    }

    /// Keeps something for this peer.
    pub(crate) fn accompany(&self, companion: Arc<dyn Any + Send + Sync>) {
        *lock(&self.rare().companion) = Some(companion);
    }

    /// What is kept for this peer.
    pub(crate) fn companion<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        lock(&self.rare.get()?.companion).clone()?.downcast().ok()
    }

    fn ready(&self) {
        let mut state = self.lock();
        state.handshake.mark_ready();
        if let Some(listener) = &state.listener {
            listener.wake();
        }
        drop(state);
        if let Some(rare) = self.rare.get() {
            rare.readied.notify_waiters();
        }
    }

    /// Whether something may be said to the client unasked: it is ready, or nobody hears it any more.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase(), HandshakePhase::Ready(_)) || self.closing.load(Ordering::Acquire)
    }

    /// Waits until something may be said to a client unasked, without keeping its link. `None` if that is gone.
    pub(crate) async fn until_ready(link: &Weak<Self>) -> Option<()> {
        loop {
            let up = link.upgrade()?;
            let readied = Arc::clone(&up.rare().readied);
            let waiting = readied.notified();
            if up.is_ready() {
                return Some(());
            }
            drop(up);
            waiting.await;
        }
    }

    fn serve(self: &Arc<Self>, phase: HandshakePhase, asked: Asked<'_>) -> Option<Work> {
        // Some clients never say that they are ready; their first request does.
        if !asked.revision.is_stateless() && matches!(phase, HandshakePhase::Negotiated(_)) {
            self.ready();
        }
        self.through_layers(asked)
    }

    /// Answers a request, and lets the layers around it have their say.
    pub(crate) fn through_layers(self: &Arc<Self>, asked: Asked<'_>) -> Option<Work> {
        match &self.config.layers {
            Some(layers) => layer::serve(self, layers, asked),
            None => self.answer(asked),
        }
    }

    /// Answers a request, or begins to.
    pub(crate) fn answer(self: &Arc<Self>, asked: Asked<'_>) -> Option<Work> {
        // Handlers, extractors and rules are somebody else's code, and it runs before there is a future to poll.
        let answered = catch_unwind(AssertUnwindSafe(|| route::route(self, asked)));
        let answered = answered.unwrap_or_else(|_| {
            tracing::error!(id = %asked.request.id, "a handler panicked");
            Err(RpcError::Internal)
        });
        answered.unwrap_or_else(|refusal| {
            asked.refuse(&refusal);
            None
        })
    }

    /// The first poll of a handler happens here. One that is done then never enters the tables; only one that is not
    /// becomes work of its own.
    pub(crate) fn run<M: Handled>(
        self: &Arc<Self>,
        asked: Asked<'_>,
        context: &LazyContext<'_>,
        answer: Answer<M::Done>,
    ) -> Option<Work> {
        let mut answer = CatchPanic::new(answer);
        if self.room.permits.available_permits() > 0
            && let Poll::Ready(done) =
                Pin::new(&mut answer).poll(&mut task::Context::from_waker(Waker::noop()))
        {
            if let Some(context) = context.made() {
                context.end();
            }
            self.finish::<M>(asked.revision, &asked.request.id, done, asked.reply);
            return None;
        }
        let answer = Box::pin(async move {
            let done = answer.await;
            let finish: Finish = Box::new(move |link, to, id, reply| link.finish::<M>(to, id, done, reply));
            finish
        });
        let binding = (M::ASKS && asked.revision.is_stateless()).then(|| binding::<M>(asked));
        self.go_on(asked, context.get(), binding, say_back::<M>, answer)
    }

    /// Goes on with a handler that was not done at once: the same for every method, and so built once.
    fn go_on(
        self: &Arc<Self>,
        asked: Asked<'_>,
        context: Context,
        binding: Option<Binding>,
        say_back: SayBack,
        answer: Pin<Box<dyn Future<Output = Finish> + Send>>,
    ) -> Option<Work> {
        // What has begun holds its place from now on.
        let begun = self.room.permits.clone().try_acquire_owned();
        let drive = Drive::new(answer, context.clone(), self.config.patience);
        let (link, outbox) = (self.clone(), asked.reply.outbox.clone());
        let (id, revision, reply) =
            (asked.request.id.clone().into_owned(), asked.revision, asked.reply.clone());
        let (done, ending) = (context.clone(), Ending(context.clone()));
        self.pend(asked, context.cancelled(), async move {
            let ending = ending;
            let permit = match begun {
                Ok(permit) => Ok(permit),
                Err(_) => link.room.permits.clone().acquire_owned().await,
            };
            let driven = drive.await;
            context.end();
            drop(ending);
            // What a peer does not read is not added to without end; its place is taken meanwhile.
            outbox.room().await;
            drop(permit);
            move || {
                let said = match (driven, binding) {
                    (Driven::Done(finish), _) => {
                        finish(&link, revision, &id, &reply);
                        Ok(())
                    }
                    (Driven::Asks(asked, known), Some(binding)) => {
                        ask::ask_back(&link.config, done.principal(), &binding, asked, known)
                            .and_then(|asked| say_back(&link, revision, &id, asked, &reply))
                    }
                    (Driven::Asks(..), None) => Err(RpcError::Internal),
                    (Driven::Refused(refusal), _) => Err(refusal),
                };
                if let Err(refusal) = said {
                    reply.refusal(Some(&id), &refusal, revision);
                }
            }
        })
    }

    /// Makes work of its own of a request that is not done at once. What the future gives says the answer, if it is still
    /// wanted by then.
    pub(crate) fn pend<S: FnOnce() + Send>(
        self: &Arc<Self>,
        asked: Asked<'_>,
        cancelled: Cancelled,
        work: impl Future<Output = S> + Send + 'static,
    ) -> Option<Work> {
        let id = asked.request.id.clone().into_owned();
        if !matches!(asked.tables, Tables::Link) {
            let future = Box::pin(async move { (work.await)() });
            return Some(Work { id, serial: 0, cancelled, future });
        }
        let serial = match self.begin(&id, &asked.request.method, cancelled.clone()) {
            Ok(serial) => serial,
            Err(refusal) => {
                asked.refuse(&refusal);
                return None;
            }
        };
        let (busy, named) = (Busy::new(self), id.clone());
        let future = Box::pin(async move {
            let say = work.await;
            // A batch leaves with its last answer, and must have left before nothing is busy any more.
            match busy.0.end(&id, serial) {
                ResponseAction::Send => say(),
                _ => drop(say),
            }
            drop(busy);
        });
        Some(Work { id: named, serial, cancelled, future })
    }

    /// Says what a handler came to.
    fn finish<M: Handled>(&self, to: Revision, id: &Id<'_>, done: Done<M::Done>, reply: &Reply) {
        let output = match done {
            Ok(Ok(done)) => Ok(M::output(done)),
            Ok(Err(failure)) => M::failed(failure, to),
            Err(Panicked) => {
                tracing::error!(%id, "a handler panicked");
                Err(RpcError::Internal)
            }
        };
        match output {
            Ok(mut output) => reply.result::<M>(id, &mut output, to, &self.config.stamp),
            Err(refusal) => reply.refusal(Some(id), &refusal, to),
        }
    }

    /// Remembers which task does the work, so that a cancellation can stop it.
    pub(crate) fn started(&self, id: &Id<'static>, serial: u64, task: AbortHandle) {
        let mut state = self.lock();
        let running = state.work.as_mut().and_then(|work| work.running.get_mut(id));
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
    pub(crate) fn stop_listening(&self) {
        if let Some(outbox) = self.outbox.get() {
            outbox.nudge();
        }
    }

    /// Whether a request has no answer yet.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) > 0
    }

    /// Nothing more will arrive: streams of changes end, and whoever waits for an answer of the client gives up.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        // Whoever begins to wait looks whether it is closing after it has made what it waits for.
        fence(Ordering::SeqCst);
        if let Some(rare) = self.rare.get() {
            rare.closed.notify_waiters();
            rare.readied.notify_waiters();
        }
        if let Some(questions) = self.questions.get() {
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
            let closed = self.rare().closed.notified();
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            closed.await;
        }
    }

    /// Stops everything that still runs: nobody will read the answers.
    pub(crate) fn abandon(&self) {
        self.close();
        let mut state = self.lock();
        state.listener = None;
        let running = state.work.as_mut().map(|work| std::mem::take(&mut work.running));
        drop(state);
        for (_, running) in running.into_iter().flatten() {
            running.stop();
        }
        if let Some(outbox) = self.outbox.get() {
            outbox.close();
        }
    }

    /// What the handshake has agreed on.
    pub(crate) fn session(&self) -> (Option<Level>, ClientCapabilities, Option<Implementation>) {
        let (level, phase, hello) = {
            let state = self.lock();
            ((!self.is_alone()).then_some(state.log_level), state.handshake.phase(), state.hello.clone())
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
    pub(crate) fn listener(&self) -> Option<Arc<Listener>> {
        if !self.has_sequel() {
            return None;
        }
        let mut state = self.lock();
        if state.listener.is_none() {
            let phase = state.handshake.phase();
            let lists = Kind::ALL.into_iter().filter(|kind| state.declared.has(*kind)).collect();
            let (outbox, who) = (self.outbox().clone(), self.caller.principal.clone());
            let listener = Arc::new(Listener::session(outbox, phase.revision()?, who, lists));
            if matches!(phase, HandshakePhase::Ready(_)) {
                listener.wake();
            }
            self.server.shared.feed.listen(&listener);
            state.listener = Some(listener);
        }
        state.listener.clone()
    }

    /// Whether a kind of thing is offered: what the session was told of, or what there is.
    pub(crate) fn offers(&self, asked: Asked<'_>, kind: Kind) -> bool {
        match asked.revision.is_stateless() {
            true => self.config.offers_later || self.server.shared.registry().has(kind),
            false => asked.declared.has(kind),
        }
    }

    /// Whether arguments are completed, likewise.
    pub(crate) fn completes(&self, asked: Asked<'_>) -> bool {
        match asked.revision.is_stateless() {
            true => self.server.shared.registry().completes(),
            false => asked.declared.completions,
        }
    }

    /// Counts a stream of changes with the resources it names; none if there are too many. Where requests belong to no
    /// session, an authenticated caller has as many as a session.
    pub(crate) fn open_stream(
        self: &Arc<Self>,
        who: Option<&Principal>,
        resources: usize,
    ) -> Option<OpenStream> {
        let most = self.config.subscriptions;
        let mut open = self.room.open()?;
        if self.reach == Reach::Everybody {
            return match who {
                Some(who) => open.counted_for(who, most),
                None => Some(open),
            };
        }
        let mut state = self.lock();
        let work = state.work(&self.config);
        if work.streams >= most || work.streamed + resources > most {
            return None;
        }
        work.streams += 1;
        work.streamed += resources;
        drop(state);
        open.belongs_to(self, resources);
        Some(open)
    }

    /// A stream of changes has ended.
    pub(super) fn close_stream(&self, resources: usize) {
        if let Some(work) = &mut self.lock().work {
            work.streams = work.streams.saturating_sub(1);
            work.streamed = work.streamed.saturating_sub(resources);
        }
    }

    fn is_under_way(&self, id: &Id<'_>) -> bool {
        let state = self.lock();
        state.work.as_ref().is_some_and(|work| work.running.contains_key(&id.clone().into_owned()))
    }

    /// Writes a request down that is not done at once.
    fn begin(&self, id: &Id<'static>, method: &str, cancelled: Cancelled) -> Result<u64, RpcError> {
        let mut state = self.lock();
        let state = state.work(&self.config);
        state.inbound.begin(id, method).map_err(|not_taken| match not_taken {
            BeginError::DuplicateId => duplicate_id(),
            _ => too_many(),
        })?;
        state.last_serial += 1;
        let serial = state.last_serial;
        state.running.insert(id.clone(), Running { serial, cancelled, task: None });
        Ok(serial)
    }

    fn end(&self, id: &Id<'static>, serial: u64) -> ResponseAction {
        let mut state = self.lock();
        let Some(state) = &mut state.work else { return ResponseAction::Drop };
        // An id may have been cancelled and used again: the entry is then somebody else's.
        if state.running.get(id).is_none_or(|running| running.serial != serial) {
            return ResponseAction::Drop;
        }
        state.running.remove(id);
        state.inbound.complete(id)
    }

    fn cancel(&self, id: &Id<'static>) {
        let mut state = self.lock();
        let Some(work) = &mut state.work else { return };
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
    pub(crate) fn say<M: Method>(&self, asked: Asked<'_>, mut output: M::Output)
    where
        M::Output: Translate,
    {
        asked.reply.result::<M>(&asked.request.id, &mut output, asked.revision, &self.config.stamp);
    }

    /// The revision to write errors in that belong to no request.
    fn spoken(&self) -> Revision {
        self.phase().revision().unwrap_or_else(|| self.config.served.error_fallback())
    }

    fn phase(&self) -> HandshakePhase {
        self.lock().handshake.phase()
    }

    fn lock(&self) -> MutexGuard<'_, LinkState> {
        lock(&self.state)
    }
}

/// How a handler ended.
type Done<O> = Result<Result<O, Failure>, Panicked>;

/// Says what a handler came to.
type Finish = Box<dyn FnOnce(&Link, Revision, &Id<'_>, &Reply) + Send>;

/// Answers with questions, where that can be.
type SayBack = fn(&Link, Revision, &Id<'_>, InputRequired, &Reply) -> Result<(), RpcError>;

fn say_back<M: Handled>(
    link: &Link,
    to: Revision,
    id: &Id<'_>,
    asked: InputRequired,
    reply: &Reply,
) -> Result<(), RpcError> {
    let mut output = M::ask_back(asked).ok_or(RpcError::Internal)?;
    reply.result::<M>(id, &mut output, to, &link.config.stamp);
    Ok(())
}

/// What the state of a call that asks back is bound to.
pub(crate) fn binding<M: Method>(asked: Asked<'_>) -> Binding {
    let name = asked.peek.mcp_name(M::NAME).flatten().unwrap_or_default().to_owned();
    let arguments = asked.peek.arguments().map(|raw| raw.text().to_owned()).unwrap_or_default();
    Binding { method: M::NAME.into(), name, arguments }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Whoever waits for the client to be ready waits in vain.
        if let Some(rare) = self.rare.get() {
            rare.readied.notify_waiters();
        }
    }
}

impl Running {
    fn stop(self) {
        self.cancelled.cancel();
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

/// Counts a request as under way until its answer is written, or its future is dropped.
struct Busy(Arc<Link>);

impl Busy {
    fn new(link: &Arc<Link>) -> Self {
        link.busy.fetch_add(1, Ordering::AcqRel);
        Self(link.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
        if let Some(outbox) = self.0.outbox.get() {
            outbox.spoken();
        }
    }
}

fn too_many() -> RpcError {
    RpcError::InvalidRequest("Too many requests are waiting".into())
}

fn duplicate_id() -> RpcError {
    RpcError::InvalidRequest("Invalid request: the id is already in use".into())
}
