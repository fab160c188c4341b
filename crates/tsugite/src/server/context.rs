//! What a handler may do while it works: tell how far it is, log, and hear that it is no longer wanted.
//!
//! Questions to the client are in `ask`.

use std::cell::OnceCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tsugite_core::jsonrpc::{Id, RawJson};
use tsugite_core::protocol::logging::{Level, Log, LogParams};
use tsugite_core::protocol::progress::{Progress, ProgressParams};
use tsugite_core::protocol::{ClientCapabilities, Implementation};
use tsugite_core::revision::{Revision, write_notification};
use tsugite_core::session::inbound::MonotonicProgress;

use super::ask::{OutgoingRequests, Round};
use super::config::RedactFn;
use super::connection::{IncomingRequest, ServerConnection};
use super::handler::{CallParts, FromCall};
use super::handler_error::InvocationError;
use super::principal::{Headers, Principal};
use super::{Config, Server, ServerShared};
use crate::era::Era;
use crate::lock::lock;
use crate::transport::outbound_queue::OutboundQueue;

/// What a handler may do meanwhile. A parameter of any handler; cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<ContextInner>);

struct ContextInner {
    server: Server,
    outbox: Arc<OutboundQueue>,
    /// Where what comes after the answer goes.
    connection: Weak<ServerConnection>,
    outgoing_requests: Arc<OutgoingRequests>,
    revision: Revision,
    progress: Option<(Id<'static>, Mutex<MonotonicProgress>)>,
    /// From which level on the peer wants logs; `None` is not at all.
    log_level: Option<Level>,
    /// What takes secrets out of logs: the server's, and that of the mounted one the handler belongs to.
    redact: [Option<RedactFn>; 2],
    capabilities: ClientCapabilities,
    client: Option<Implementation>,
    principal: Option<Principal>,
    headers: Headers,
    cancellation: CancellationToken,
    /// Progress and logs end with the request.
    ended: AtomicBool,
    may_ask: bool,
    ask_timeout: Duration,
    round: OnceLock<Arc<Round>>,
    driver: Mutex<Option<Waker>>,
    paused: Mutex<PausedTime>,
}

impl Context {
    /// Tells how far the work has come. Must rise; what does not is not sent. Nothing is sent if the client did not ask.
    ///
    /// Waits while the peer is too far behind to take more.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some((token, rising)) = &self.0.progress else { return };
        let up = lock(rising).advance(progress);
        if !up || self.has_ended() {
            return;
        }
        let mut params = ProgressParams::new(token.clone(), progress);
        params.total = total;
        params.message = message.map(str::to_owned);
        self.0.outbox.wait_for_capacity().await;
        if self.has_ended() {
            return;
        }
        let revision = self.0.revision;
        self.0.outbox.push(|out| drop(write_notification::<Progress>(out, params, revision)));
    }

    /// Sends a log message, if the client wants to hear of that level. Data that has no JSON is not sent.
    ///
    /// Waits while the peer is too far behind to take more.
    pub async fn log<T: Serialize + ?Sized>(&self, level: Level, data: &T) {
        self.log_with_logger(level, None, data).await;
    }

    /// Sends a log message under the name of a part of the server; else as [`Context::log`].
    pub async fn log_with_logger<T: Serialize + ?Sized>(&self, level: Level, logger: Option<&str>, data: &T) {
        let wanted = self.0.log_level.is_some_and(|least| level >= least);
        if !wanted || self.has_ended() {
            return;
        }
        let Ok(mut data) = RawJson::from_value(data) else { return };
        for redact in self.0.redact.iter().flatten() {
            let Ok(mut value) = data.read() else { return };
            redact(&mut value);
            data = RawJson::from(value);
        }
        self.0.outbox.wait_for_capacity().await;
        if self.has_ended() {
            return;
        }
        let (revision, mut params) = (self.0.revision, LogParams::new(level, data));
        params.logger = logger.map(str::to_owned);
        self.0.outbox.push(|out| drop(write_notification::<Log>(out, params, revision)));
    }

    /// The revision the client speaks.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// What the client can do.
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        &self.0.capabilities
    }

    /// Who the client says it is. For display; decide nothing by it.
    pub fn client(&self) -> Option<&Implementation> {
        self.0.client.as_ref()
    }

    /// Who calls, if the transport has authenticated them.
    pub fn principal(&self) -> Option<&Principal> {
        self.0.principal.as_ref()
    }

    /// The headers of the request; empty where there are none.
    pub fn headers(&self) -> &Headers {
        &self.0.headers
    }

    /// The server the handler belongs to, which may be mounted in another: handlers may change what it offers.
    pub fn server(&self) -> &Server {
        &self.0.server
    }

    /// Tells when the client no longer wants the answer. The handler's future is dropped then; work it has started
    /// elsewhere can listen here.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.0.cancellation.clone()
    }

    /// Ends the stream that would carry the answer, and goes on: up to 2025-11-25 a client over HTTP comes back for the
    /// answer later, which spares it a connection that stays open for long. Does nothing where streams cannot be taken up
    /// again.
    pub fn close_stream(&self) {
        self.0.outbox.request_close();
    }

    pub(crate) fn outbox(&self) -> &Arc<OutboundQueue> {
        &self.0.outbox
    }

    /// Where what belongs to no request goes, or to one that is answered; nowhere if the peer is gone or none can follow.
    pub(crate) fn push_queue(&self) -> Option<Arc<OutboundQueue>> {
        let link = self.0.connection.upgrade().filter(|link| link.can_push())?;
        Some(link.outbox().clone()).filter(|outbox| !outbox.is_closed())
    }

    pub(crate) fn outgoing_requests(&self) -> &Arc<OutgoingRequests> {
        &self.0.outgoing_requests
    }

    /// How long a question may take that does not say it itself.
    pub(crate) fn ask_timeout(&self) -> Duration {
        self.0.ask_timeout
    }

    /// How many clones there are.
    pub(crate) fn strong_count(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    pub(crate) fn may_ask(&self) -> bool {
        self.0.may_ask
    }

    /// The request is answered, or nobody wants the answer: nothing more is said or asked about it.
    pub(crate) fn end(&self) {
        self.0.ended.store(true, Ordering::Release);
        if let Some(round) = self.0.round.get() {
            round.close();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::Acquire)
    }

    /// This run of the handler, noted down from its first question on.
    pub(crate) fn round(&self) -> Arc<Round> {
        let round = self.0.round.get_or_init(Arc::default).clone();
        if self.has_ended() {
            round.close();
        }
        round
    }

    pub(crate) fn current_round(&self) -> Option<&Arc<Round>> {
        self.0.round.get()
    }

    /// Whoever runs the handler, for questions asked by tasks of their own.
    pub(crate) fn set_driver(&self, waker: &Waker) {
        let mut driver = lock(&self.0.driver);
        if !driver.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *driver = Some(waker.clone());
        }
    }

    pub(crate) fn is_driver(&self, waker: &Waker) -> bool {
        waker.will_wake(Waker::noop())
            || lock(&self.0.driver).as_ref().is_some_and(|known| known.will_wake(waker))
    }

    pub(crate) fn wake_driver(&self) {
        let driver = lock(&self.0.driver).clone();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Stops the clock of the handler for as long as somebody takes to answer.
    pub(crate) fn pause_timeout(&self) -> PauseGuard {
        let mut paused = lock(&self.0.paused);
        paused.count += 1;
        paused.since.get_or_insert_with(Instant::now);
        PauseGuard(self.clone())
    }

    /// For how long the clock stood so far.
    pub(crate) fn paused_time(&self) -> Duration {
        let paused = lock(&self.0.paused);
        paused.total + paused.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[derive(Default)]
struct PausedTime {
    count: usize,
    since: Option<Instant>,
    total: Duration,
}

/// The clock of a handler stands.
pub(crate) struct PauseGuard(Context);

impl Drop for PauseGuard {
    fn drop(&mut self) {
        let mut paused = lock(&self.0.0.paused);
        paused.count -= 1;
        if paused.count == 0
            && let Some(since) = paused.since.take()
        {
            paused.total += since.elapsed();
        }
    }
}

impl FromCall for Context {
    fn from_call(call: &CallParts<'_>) -> Result<Self, InvocationError> {
        Ok(call.context())
    }
}

impl FromCall for CancellationToken {
    fn from_call(call: &CallParts<'_>) -> Result<Self, InvocationError> {
        Ok(call.context().cancellation_token())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("revision", &self.0.revision).finish_non_exhaustive()
    }
}

/// Ends a request with its future, however that goes: answered, aborted, or out of time.
pub(crate) struct EndGuard(pub(crate) Context);

impl Drop for EndGuard {
    fn drop(&mut self) {
        if !self.0.has_ended() {
            self.0.end();
            // Nobody answered, so nobody wants it any more: what was started elsewhere can stop.
            self.0.0.cancellation.cancel();
        }
    }
}

/// What a call knows of its context before there is one.
pub(crate) trait CallContext {
    fn get(&self) -> Context;
    fn principal(&self) -> Option<&Principal>;
    fn headers(&self) -> &Headers;
    /// Places for handlers that block.
    fn blocking_permits(&self) -> &Arc<Semaphore>;
}

impl CallContext for LazyContext<'_> {
    fn get(&self) -> Context {
        self.built.get_or_init(|| self.build()).clone()
    }

    fn principal(&self) -> Option<&Principal> {
        self.incoming.principal()
    }

    fn headers(&self) -> &Headers {
        &self.incoming.caller.headers
    }

    fn blocking_permits(&self) -> &Arc<Semaphore> {
        self.connection.blocking_permits()
    }
}

/// A context that is made when somebody asks for it: most handlers never do.
pub(crate) struct LazyContext<'a> {
    connection: &'a Arc<ServerConnection>,
    incoming: IncomingRequest<'a>,
    may_ask: bool,
    /// The mounted server the handler belongs to.
    owner: OnceCell<Arc<ServerShared>>,
    built: OnceCell<Context>,
}

impl<'a> LazyContext<'a> {
    pub(crate) fn new(
        connection: &'a Arc<ServerConnection>,
        incoming: IncomingRequest<'a>,
        may_ask: bool,
    ) -> Self {
        Self { connection, incoming, may_ask, owner: OnceCell::new(), built: OnceCell::new() }
    }

    /// The context, if anybody asked for it.
    pub(crate) fn built(&self) -> Option<&Context> {
        self.built.get()
    }

    /// Says to which mounted server the handler belongs, before anybody asks for the context; gives its settings.
    pub(crate) fn set_owner(&self, owner: Option<Arc<ServerShared>>) -> Option<Arc<Config>> {
        let config = owner.as_ref().map(|owner| owner.config());
        if let Some(owner) = owner {
            drop(self.owner.set(owner));
        }
        config
    }

    /// Takes a call up again that has asked before.
    pub(crate) fn resume(&self, round: Round) {
        drop(self.get().0.round.set(Arc::new(round)));
    }

    fn build(&self) -> Context {
        let IncomingRequest { meta: peek, revision, caller, tracking: tables, .. } = self.incoming;
        let sender = Era::from(revision).declared_client(peek);
        let (log_level, capabilities, client) = match sender {
            Some(sender) => {
                let client = sender.info();
                (sender.log_level, sender.capabilities, client)
            }
            None => self.connection.session_info(),
        };
        let owner = self.owner.get();
        let inner_redact = owner.and_then(|owner| owner.config().redact.clone());
        Context(Arc::new(ContextInner {
            server: owner
                .map_or_else(|| self.connection.server.clone(), |owner| Server { shared: owner.clone() }),
            outbox: self.incoming.writer.outbox.clone(),
            connection: Arc::downgrade(self.connection),
            outgoing_requests: self.connection.outgoing_requests().clone(),
            revision,
            progress: peek.progress_token().map(|token| (token, Mutex::new(MonotonicProgress::default()))),
            log_level,
            redact: [self.connection.config.redact.clone(), inner_redact],
            capabilities,
            client,
            principal: caller.principal.clone(),
            headers: caller.headers.clone(),
            cancellation: tables.cancellation_token(),
            ended: AtomicBool::new(false),
            may_ask: self.may_ask,
            ask_timeout: self.connection.config.ask_timeout,
            round: OnceLock::new(),
            driver: Mutex::default(),
            paused: Mutex::default(),
        }))
    }
}

/// The news that a request is no longer wanted.
#[derive(Clone, Default)]
pub struct CancellationToken(Arc<CancellationState>);

#[derive(Default)]
struct CancellationState {
    cancelled: AtomicBool,
    notify: Notify,
}

impl CancellationToken {
    /// Whether it is no longer wanted.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Waits until it is no longer wanted.
    pub async fn cancelled(&self) {
        loop {
            let news = self.0.notify.notified();
            if self.is_cancelled() {
                return;
            }
            news.await;
        }
    }

    pub(crate) fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
        self.0.notify.notify_waiters();
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cancelled({})", self.is_cancelled())
    }
}
