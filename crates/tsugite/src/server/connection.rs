//! One connection of a server: its identity, configuration, handshake and end.
//!
//! Other files handle the messages of a connection: `dispatch` (the pipeline of a request), `in_flight` and `pending`
//! (requests that are not answered at once), `push` (messages the server sends without a request).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use tokio::sync::Notify;
use tsugite_core::jsonrpc::{Id, Raw, RawJson};
use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::{ClientCapabilities, Implementation};
use tsugite_core::revision::{Revision, RpcError, read_initialize_params};
use tsugite_core::session::{HandshakePhase, ServerHandshake};

use super::declared_capabilities::DeclaredCapabilities;
use super::in_flight::InFlightRequests;
use super::limits::{LimitSettings, Limits};
use super::principal::{Caller, Principal};
use super::push_channel::PushChannel;
use super::{Config, Server};
use crate::lock::lock;
use crate::shared::failure_causes::{FailureCause, FailureCauses};

/// The server's side of one connection.
pub(crate) struct ServerConnection {
    pub(crate) id: ConnectionId,
    pub(crate) server: Server,
    pub(crate) config: Arc<Config>,
    pub(crate) caller: Caller,
    pub(super) scope: ConnectionScope,
    pub(crate) limits: Arc<Limits>,
    pub(super) in_flight: InFlightRequests,
    pub(super) push: PushChannel,
    /// The causes of failures, if the client is in this process.
    pub(super) failure_causes: OnceLock<Box<FailureCauses>>,
    state: ConnectionState,
}

/// The id of a connection, unique within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId(u64);

impl ConnectionId {
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// The progress of a connection from the handshake to its end.
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

/// The requests that a connection serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionScope {
    /// Those of one session, in the order in which the client sent them.
    Session,
    /// Those of one session over HTTP, which arrive on several connections and so in any order.
    UnorderedSession,
    /// One request of the handshake era without a session; nothing can follow it.
    SingleRequest,
    /// Those of the stateless era, from all clients.
    Stateless,
}

impl ServerConnection {
    /// A connection for one session, with limits of its own.
    pub(crate) fn new(server: &Server, principal: Option<Principal>) -> Arc<Self> {
        let config = server.shared.config();
        let limits = Limits::new(LimitSettings::single_client(
            config.max_concurrent_handlers,
            config.max_pending_requests,
            config.max_subscriptions,
            config.max_pending_bytes,
        ));
        let caller = Caller { principal, ..Caller::default() };
        Self::with_scope(ConnectionScope::Session, server, config, caller, &limits)
    }

    /// A connection for one session over HTTP, with limits that it shares with other connections.
    pub(crate) fn with_limits(
        server: &Server,
        config: Arc<Config>,
        caller: Caller,
        limits: &Arc<Limits>,
    ) -> Arc<Self> {
        Self::with_scope(ConnectionScope::UnorderedSession, server, config, caller, limits)
    }

    /// A connection for the requests that `scope` names.
    pub(crate) fn with_scope(
        scope: ConnectionScope,
        server: &Server,
        config: Arc<Config>,
        caller: Caller,
        limits: &Arc<Limits>,
    ) -> Arc<Self> {
        let handshake = HandshakeState {
            handshake: ServerHandshake::new(config.revisions),
            initialize_params: None,
            declared: DeclaredCapabilities::default(),
        };
        Arc::new(Self {
            id: ConnectionId::next(),
            server: server.clone(),
            caller,
            scope,
            limits: limits.clone(),
            in_flight: InFlightRequests::new(
                config.max_pending_requests,
                scope == ConnectionScope::UnorderedSession,
            ),
            push: PushChannel::default(),
            failure_causes: OnceLock::new(),
            state: ConnectionState {
                handshake: Mutex::new(handshake),
                closing: AtomicBool::new(false),
                changed: Arc::default(),
            },
            config,
        })
    }

    /// Whether it serves one request of the handshake era, without a session.
    pub(crate) fn is_single_request(&self) -> bool {
        self.scope == ConnectionScope::SingleRequest
    }

    /// The data that another replica needs to continue the session.
    pub(crate) fn snapshot(&self) -> Option<(Revision, RawJson, Level)> {
        let (revision, params) = {
            let state = self.lock();
            (state.handshake.phase().revision()?, state.initialize_params.clone()?)
        };
        Some((revision, params, self.push.log_level()))
    }

    /// The bytes that the session is counted with.
    pub(crate) fn session_bytes(&self) -> usize {
        let state = self.lock();
        state.initialize_params.as_ref().map_or(0, |params| params.text().len()) + SESSION_STATE_BYTES
    }

    /// Continues a session that another replica began.
    pub(crate) fn restore(&self, revision: Revision, initialize_params: RawJson, level: Level) {
        self.complete_handshake(revision);
        self.lock().initialize_params = Some(initialize_params);
        self.set_log_level(level);
    }

    /// Begins a session whose `initialize` the bridge answers.
    pub(crate) fn initialize_forwarded(&self, params: &RawJson, revision: Revision) -> Result<(), RpcError> {
        let read = read_initialize_params(Raw::from(params), revision)?;
        let mut state = self.lock();
        state.handshake.initialize(&read.protocol_version)?;
        state.initialize_params = Some(params.clone());
        Ok(())
    }

    /// Records the client's `initialize` and what the response declares.
    pub(super) fn begin_session(
        &self,
        requested_version: &str,
        params: RawJson,
        declared: DeclaredCapabilities,
    ) -> Result<(), RpcError> {
        let mut state = self.lock();
        state.handshake.initialize(requested_version)?;
        state.initialize_params = Some(params);
        state.declared = declared;
        Ok(())
    }

    /// Records a handshake without messages.
    pub(super) fn set_handshake_complete(&self, revision: Revision, declared: DeclaredCapabilities) {
        let mut state = self.lock();
        drop(state.handshake.initialize(revision.as_str()));
        state.handshake.mark_ready();
        state.declared = declared;
    }

    pub(super) fn mark_ready(&self) {
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

    /// The revision that the handshake agreed on.
    pub(crate) fn revision(&self) -> Option<Revision> {
        self.phase().revision()
    }

    /// Whether a request with this id is in flight here.
    pub(crate) fn is_in_flight(&self, id: &Id<'_>) -> bool {
        self.in_flight.contains(id)
    }

    /// Stops a request that its client has cancelled, now or when it arrives.
    pub(crate) fn cancel_request(&self, id: &Id<'static>, reason: Option<String>) {
        self.in_flight.cancel(id, reason);
    }

    /// Whether the response to a request is not written yet.
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

    /// Keeps the cause of a failure for a client in this process.
    pub(super) fn keep_failure_cause(&self, id: &Id<'_>, cause: Option<FailureCause>) {
        if let (Some(cause), Some(causes)) = (cause, self.failure_causes.get()) {
            causes.insert(id, cause);
        }
    }

    /// The log level, and what the client said about itself in the handshake.
    pub(crate) fn session_info(&self) -> (Option<Level>, ClientCapabilities, Option<Implementation>) {
        let level = (!self.is_single_request()).then(|| self.push.log_level());
        let (phase, params) = {
            let state = self.lock();
            (state.handshake.phase(), state.initialize_params.clone())
        };
        // `initialize` would have failed with params that cannot be read.
        let params = params.zip(phase.revision());
        let params =
            params.and_then(|(raw, revision)| read_initialize_params(Raw::from(&raw), revision).ok());
        match params {
            Some(params) => (level, params.capabilities, Some(params.client_info)),
            None => (level, ClientCapabilities::new(), None),
        }
    }

    /// The revision of error responses that belong to no request.
    pub(super) fn error_revision(&self) -> Revision {
        self.phase().revision().unwrap_or_else(|| self.config.revisions.error_fallback())
    }

    pub(super) fn phase(&self) -> HandshakePhase {
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

/// The bytes of an idle session besides what its client said about itself.
const SESSION_STATE_BYTES: usize = 1 << 10;

impl Drop for ServerConnection {
    fn drop(&mut self) {
        // Wakes the tasks in `wait_until_ready`, which hold no reference to the connection.
        self.state.changed.notify_waiters();
        if let Some(handler) = &self.config.notification_handler {
            handler.connection_dropped(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_session_takes_little_memory() {
        // A server keeps one connection for each session over HTTP, and most sessions are idle.
        assert!(size_of::<ServerConnection>() <= 352, "{}", size_of::<ServerConnection>());
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_a_closing_connection_end() {
        let connection = ServerConnection::new(&Server::new("s", "1"), None);
        let (weak, closed) = (Arc::downgrade(&connection), Arc::clone(&connection));
        let ready = tokio::spawn(async move { ServerConnection::wait_until_ready(&weak).await });
        let closed = tokio::spawn(async move { closed.closed().await });
        tokio::task::yield_now().await;
        assert!(!ready.is_finished() && !closed.is_finished());
        connection.close();
        assert_eq!(ready.await.unwrap(), Some(()));
        closed.await.unwrap();
        connection.closed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_connection_is_not_waited_for() {
        let connection = ServerConnection::new(&Server::new("s", "1"), None);
        let weak = Arc::downgrade(&connection);
        let ready = tokio::spawn(async move { ServerConnection::wait_until_ready(&weak).await });
        tokio::task::yield_now().await;
        drop(connection);
        assert_eq!(ready.await.unwrap(), None);
    }
}
