//! One connection to one server behind the bridge, for one client with a session or for all clients without.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::Method;
use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::subscriptions::Listen;
use tsugite_core::protocol::tasks::Payload;
use tsugite_core::revision::{Revision, RpcError, translate_raw_error};

use super::bridge_errors::{unreachable_error, unsupported_error, upstream_error};
use super::description::CapabilitySet;
use super::in_flight::{InFlightCall, InFlightCalls};
use super::session_state::UpstreamSessionState;
use super::target::Target;
use super::task_questions::TaskQuestions;
use super::upstream_listener::ListenerEntry;
use crate::client::forwarded_request::{ConnectHold, ForwardedRequest};
use crate::client::request_id_observer::RequestIdObserver;
use crate::client::{Client, ClientError, ErrorKind};
use crate::era::Era;
use crate::lock::lock;
use crate::server::connection::ServerConnection;
use crate::shared::log;

/// A connection to a server behind the bridge.
pub(super) struct Upstream {
    pub(super) target: Arc<Target>,
    pub(super) downstream: Downstream,
    /// The capabilities that were declared to the server.
    pub(super) declared: CapabilitySet,
    pub(super) client: OnceLock<Client>,
    pub(super) state: watch::Sender<UpstreamState>,
    pub(super) in_flight: InFlightCalls,
    /// The tasks that clients without core tasks have at the server.
    pub(super) task_questions: TaskQuestions,
    /// Clients without a session that want to hear of changes.
    pub(super) listeners: Mutex<Vec<Weak<ListenerEntry>>>,
    /// The state to set again after a reconnect, for a client with a session.
    pub(super) session_state: Arc<UpstreamSessionState>,
    /// Notifications that wait until a client with a session is ready.
    pub(super) queued_notifications: Mutex<Option<Vec<Vec<u8>>>>,
    /// Keeps the connection closed while the target is paused.
    hold: Mutex<Option<ConnectHold>>,
    /// The log level that was last set at the server.
    log_level: Mutex<Option<Level>>,
    connect_task: OnceLock<AbortHandle>,
    /// When the current attempt to connect began.
    connecting_since: Mutex<Instant>,
    call_timeout: Duration,
}

/// The clients that a connection is for.
pub(super) enum Downstream {
    /// A client with a session.
    Session(Weak<ServerConnection>, Revision),
    /// Any client without one.
    Stateless,
}

/// The state of a connection.
#[derive(Debug, Clone)]
pub(super) enum UpstreamState {
    /// It is being opened, for the first time or again.
    Connecting,
    /// It is open.
    Connected,
    /// It could not be opened, for this reason, and will be tried again.
    Unreachable(String),
}

impl Upstream {
    /// A connection that is not open yet; `reconnect` opens it.
    pub(super) fn new(
        target: &Arc<Target>,
        downstream: Downstream,
        declared: CapabilitySet,
        call_timeout: Duration,
    ) -> Self {
        Self {
            target: Arc::clone(target),
            downstream,
            declared,
            client: OnceLock::new(),
            state: watch::Sender::new(UpstreamState::Connecting),
            in_flight: InFlightCalls::default(),
            task_questions: TaskQuestions::default(),
            listeners: Mutex::default(),
            session_state: Arc::default(),
            queued_notifications: Mutex::default(),
            hold: Mutex::default(),
            log_level: Mutex::default(),
            connect_task: OnceLock::new(),
            connecting_since: Mutex::new(Instant::now()),
            call_timeout,
        }
    }

    /// Sets the task that opens the connection and keeps it open, once. It ends with the connection.
    pub(super) fn set_connect_task(&self, task: AbortHandle) {
        let _ = self.connect_task.set(task);
    }

    /// The client, once the connection is open. Fails if it cannot be opened.
    pub(super) async fn connected_client(&self) -> Result<&Client, RpcError> {
        match self.client_if_connected() {
            Some(client) => Ok(client),
            None => Box::pin(self.wait_for_client()).await,
        }
    }

    async fn wait_for_client(&self) -> Result<&Client, RpcError> {
        // One server among several must not hold up the others for long.
        if self.target.prefix.is_some() {
            self.wait_while_connecting().await;
            if matches!(&*self.state.borrow(), UpstreamState::Connecting) {
                return Err(self.unreachable_error("it does not answer"));
            }
        }
        let mut state = self.state.subscribe();
        loop {
            match &*state.borrow_and_update() {
                UpstreamState::Connected => break,
                UpstreamState::Unreachable(why) => return Err(self.unreachable_error(why)),
                UpstreamState::Connecting => {}
            }
            if state.changed().await.is_err() {
                return Err(self.unreachable_error("the bridge is closed"));
            }
        }
        self.client.get().ok_or_else(|| self.unreachable_error("it is not open"))
    }

    /// The client, if the connection is open now.
    pub(super) fn client_if_connected(&self) -> Option<&Client> {
        match &*self.state.borrow() {
            UpstreamState::Connected => self.client.get(),
            _ => None,
        }
    }

    /// Waits until the connection is open, however long that takes.
    pub(super) async fn wait_connected(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| matches!(state, UpstreamState::Connected)).await;
    }

    /// Waits until the server was reached for the first time.
    pub(super) async fn wait_first_connected(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|_| self.client.get().is_some()).await;
    }

    /// Waits until the connection is open or has failed, but not long for a server that hangs.
    pub(super) async fn wait_while_connecting(&self) {
        let mut state = self.state.subscribe();
        let deadline = *lock(&self.connecting_since) + UPSTREAM_WAIT_TIMEOUT;
        let settled = state.wait_for(|state| !matches!(state, UpstreamState::Connecting));
        // After a timeout the caller goes on without this server.
        let _ = tokio::time::timeout_at(deadline, settled).await;
    }

    /// Runs `work`, and fails if it takes longer than one server among several may take.
    pub(super) async fn with_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, RpcError>>,
    ) -> Result<T, RpcError> {
        match tokio::time::timeout(UPSTREAM_WAIT_TIMEOUT, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(RpcError::internal_with_message(format!(
                "{} does not answer",
                self.target.display_name()
            ))),
        }
    }

    fn unreachable_error(&self, why: &str) -> RpcError {
        unreachable_error(&self.target, why)
    }

    /// Whether the connection is for clients without a session.
    pub(super) fn is_stateless_downstream(&self) -> bool {
        matches!(self.downstream, Downstream::Stateless)
    }

    /// The revision the server speaks; `None` before it was first reached.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.client.get().map(Client::revision)
    }

    /// The era of the server; `None` before it was first reached.
    pub(super) fn era(&self) -> Option<Era> {
        self.revision().map(Era::from)
    }

    /// The era of the server, once it is connected.
    pub(super) async fn connected_era(&self) -> Result<Era, RpcError> {
        Ok(Era::from(self.connected_client().await?.revision()))
    }

    /// Forwards a request. Messages that the server sends before the response go to `flight`.
    pub(super) async fn send(
        self: &Arc<Self>,
        request: ForwardedRequest<'_>,
        flight: &Arc<InFlightCall>,
    ) -> Result<(RawJson, Revision), RpcError> {
        let client = self.connected_client().await?;
        let guard = InFlightGuard::new(Arc::clone(self), Arc::clone(flight));
        let shared = self.is_stateless_downstream();
        let method = request.method;
        let request = request.shared_connection(shared);
        // A listen stream has no timeout: it lasts until one side ends it. A task may take as long as it wants, but the
        // bridge fetches the outcome for a client without a session only when the task has ended.
        let patience = match method {
            Listen::NAME => Duration::MAX,
            Payload::NAME if !shared || flight.waits_for_questions() => Duration::MAX,
            _ => self.call_timeout,
        };
        let outcome = client.forward(&request, patience, guard).await;
        outcome.map_err(|error| {
            if matches!(error.kind(), ErrorKind::TimedOut { .. }) {
                flight.timed_out.store(true, Ordering::Release);
            }
            self.to_rpc_error(error, method, flight.revision)
        })
    }

    /// Translates an error for a client of revision `to`.
    pub(super) fn to_rpc_error(&self, error: ClientError, method: &str, to: Revision) -> RpcError {
        let from = self.revision().unwrap_or(Revision::NEWEST);
        match error.kind() {
            ErrorKind::ErrorResponse { error, .. } => {
                RpcError::Forwarded(translate_raw_error(error.clone(), method, from, to))
            }
            ErrorKind::UnsupportedByRevision(error) => unsupported_error(error, method),
            _ => upstream_error(&self.target, &error),
        }
    }

    /// Whether it has no request in flight, no listener, and no task that its client polls.
    pub(super) fn is_idle(&self) -> bool {
        self.has_no_requests() && !self.task_questions.has_active()
    }

    /// Whether it has no request in flight and no listener.
    pub(super) fn has_no_requests(&self) -> bool {
        self.in_flight.is_empty() && lock(&self.listeners).iter().all(|one| one.strong_count() == 0)
    }

    /// Records the log level that is being set. True if it was another before.
    pub(super) fn replace_log_level(&self, level: Level) -> bool {
        lock(&self.log_level).replace(level) != Some(level)
    }

    pub(super) fn mark_disconnected(&self, seen: &str) {
        // One that we end ourselves is not lost.
        if self.client_if_connected().is_none() {
            return;
        }
        log::warn!(server = self.target.display_name(), seen, "a server behind the bridge is gone");
        self.mark_connecting();
    }

    pub(super) fn mark_connecting(&self) {
        lock(&self.log_level).take();
        *lock(&self.connecting_since) = Instant::now();
        self.state.send_replace(UpstreamState::Connecting);
    }

    /// Registers a client that listens for changes.
    pub(super) fn add_listener(&self, listener: &Arc<ListenerEntry>) {
        let mut all = lock(&self.listeners);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(listener));
    }

    /// Closes the connection until [`Upstream::release`]. It is not reported as lost.
    pub(super) async fn pause(&self) {
        let Some(client) = self.client.get() else { return };
        self.mark_connecting();
        if lock(&self.hold).is_none() {
            let hold = client.hold_closed().await;
            *lock(&self.hold) = Some(hold);
        }
    }

    /// Allows the connection to be opened again. Returns whether it was paused.
    pub(super) fn release(&self) -> bool {
        lock(&self.hold).take().is_some()
    }

    /// Logs that a subscription could not be opened. One that closing the connection interrupted is no fault.
    pub(super) fn not_subscribed(&self, error: &dyn fmt::Display) {
        if self.client.get().is_some_and(Client::is_closed) {
            tracing::debug!(server = self.target.display_name(), %error, "closed while a subscription was opened");
        } else {
            log::warn!(server = self.target.display_name(), %error, "failed to subscribe to the changes of a server");
        }
    }

    /// Closes the connection.
    pub(super) async fn close(&self) {
        if let Some(keeper) = self.connect_task.get() {
            keeper.abort();
        }
        self.release();
        self.state.send_replace(UpstreamState::Unreachable("the bridge is closed".to_owned()));
        if let Some(client) = self.client.get() {
            client.close().await;
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if let Some(keeper) = self.connect_task.get() {
            keeper.abort();
        }
        if let (Some(client), Ok(runtime)) = (self.client.take(), tokio::runtime::Handle::try_current()) {
            self.target.register_closing(runtime.spawn(async move { client.close().await }));
        }
    }
}

/// Registers a call under the id of its latest attempt, and removes it when dropped.
struct InFlightGuard {
    upstream: Arc<Upstream>,
    call: Arc<InFlightCall>,
    id: AtomicI64,
}

impl InFlightGuard {
    fn new(upstream: Arc<Upstream>, call: Arc<InFlightCall>) -> Arc<Self> {
        Arc::new(Self { upstream, call, id: AtomicI64::new(NO_CALL) })
    }
}

impl RequestIdObserver for InFlightGuard {
    fn on_request_id(&self, id: i64) {
        self.upstream.in_flight.replace(self.id.swap(id, Ordering::AcqRel), id, &self.call);
    }

    fn cancel_reason(&self) -> Option<String> {
        self.call.reply_target()?.cancellation.reason().map(str::to_owned)
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.upstream.in_flight.remove(self.id.load(Ordering::Acquire));
    }
}

/// The id of no call.
const NO_CALL: i64 = -1;
/// How long requests wait for one server among several that neither connects nor refuses.
const UPSTREAM_WAIT_TIMEOUT: Duration = Duration::from_secs(10);
