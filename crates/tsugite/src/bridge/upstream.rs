//! One connection to one server behind the bridge, for one client with a session or for all clients without.

use std::fmt;
use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::subscriptions::Listen;
use tsugite_core::protocol::{ClientCapabilities, Implementation, Method};
use tsugite_core::revision::{Revision, RpcError, UnsupportedByRevisionError, translate_raw_error};

use super::in_flight::{InFlightCall, InFlightCalls, InFlightGuard};
use super::listen::UpstreamListener;
use super::reconnect::maintain_connection;
use super::session_state::UpstreamSessionState;
use super::target::Target;
use crate::client::forwarded_request::ForwardedRequest;
use crate::client::{Client, ClientError, ConnectStep, ErrorKind};
use crate::era::Era;
use crate::lock::lock;
use crate::server::connection::ServerConnection;

/// A connection to a server behind the bridge.
pub(super) struct Upstream {
    pub(super) target: Arc<Target>,
    pub(super) downstream: Downstream,
    pub(super) client: OnceLock<Client>,
    pub(super) state: watch::Sender<UpstreamState>,
    pub(super) in_flight: InFlightCalls,
    /// Clients without a session that want to hear of changes.
    pub(super) listeners: Mutex<Vec<Weak<UpstreamListener>>>,
    /// The state to set again after a reconnect, for a client with a session.
    pub(super) session_state: Arc<UpstreamSessionState>,
    /// Notifications that wait until a client with a session is ready.
    pub(super) queued_notifications: Mutex<Option<Vec<Vec<u8>>>>,
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

/// The name and capabilities with which a connection is opened.
pub(super) struct ClientIdentity {
    pub(super) info: Implementation,
    pub(super) capabilities: ClientCapabilities,
}

impl Upstream {
    /// Starts a task that opens the connection and keeps it open.
    pub(super) fn open(
        target: &Arc<Target>,
        near: Downstream,
        face: ClientIdentity,
        patience: Duration,
    ) -> Arc<Self> {
        let upstream = Arc::new(Self {
            target: Arc::clone(target),
            downstream: near,
            client: OnceLock::new(),
            state: watch::Sender::new(UpstreamState::Connecting),
            in_flight: InFlightCalls::default(),
            listeners: Mutex::default(),
            session_state: Arc::default(),
            queued_notifications: Mutex::default(),
            log_level: Mutex::default(),
            connect_task: OnceLock::new(),
            connecting_since: Mutex::new(Instant::now()),
            call_timeout: patience,
        });
        let keeper = tokio::spawn(maintain_connection(Arc::downgrade(&upstream), Arc::clone(target), face));
        let _ = upstream.connect_task.set(keeper.abort_handle());
        upstream
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
        RpcError::internal_with_message(format!("{} cannot be reached: {why}", self.target.display_name()))
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
        let shared = matches!(self.downstream, Downstream::Stateless);
        let method = request.method;
        let request = request.shared_connection(shared);
        // A listen stream has no timeout: it lasts until one side ends it.
        let patience = if method == Listen::NAME { Duration::MAX } else { self.call_timeout };
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
        match error.into_kind() {
            ErrorKind::ErrorResponse { error, .. } => {
                RpcError::Forwarded(translate_raw_error(error, method, from, to))
            }
            ErrorKind::UnsupportedByRevision(error) => unsupported_error(&error, method),
            other => RpcError::internal_with_message(format!(
                "{}: {}",
                self.target.display_name(),
                public_reason(&other.into())
            )),
        }
    }

    /// Whether it has no request in flight and no listener.
    pub(super) fn is_idle(&self) -> bool {
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
        tracing::warn!(server = self.target.display_name(), seen, "a server behind the bridge is gone");
        lock(&self.log_level).take();
        *lock(&self.connecting_since) = Instant::now();
        self.state.send_replace(UpstreamState::Connecting);
    }

    /// Logs that a subscription could not be opened. One that closing the connection interrupted is no fault.
    pub(super) fn not_subscribed(&self, error: &dyn fmt::Display) {
        if self.client.get().is_some_and(Client::is_closed) {
            tracing::debug!(server = self.target.display_name(), %error, "closed while a subscription was opened");
        } else {
            tracing::warn!(server = self.target.display_name(), %error, "failed to subscribe to the changes of a server");
        }
    }

    /// Closes the connection.
    pub(super) async fn close(&self) {
        if let Some(keeper) = self.connect_task.get() {
            keeper.abort();
        }
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

/// The error for a message that the other side's revision cannot express.
pub(super) fn unsupported_error(error: &UnsupportedByRevisionError, method: &str) -> RpcError {
    match error {
        UnsupportedByRevisionError::Method(_) => RpcError::MethodNotFound { method: method.to_owned() },
        other => RpcError::InvalidParams(format!("this cannot cross the bridge: {other}").into()),
    }
}

/// The reason of a failure as clients are told it, without the server's address and standard error.
pub(super) fn public_reason(error: &ClientError) -> String {
    match error.kind() {
        ErrorKind::Connect { step, .. } => match step {
            ConnectStep::Dns => "its name is not known",
            ConnectStep::Tcp => "nothing answers at its address",
            ConnectStep::Tls => "no encryption could be agreed on",
            ConnectStep::Http => "it does not speak HTTP",
            ConnectStep::Spawn => "it could not be started",
            ConnectStep::Revision => "no common revision was found",
            ConnectStep::Handshake => "the handshake failed",
            ConnectStep::FirstResponse => "it does not answer",
        }
        .to_owned(),
        ErrorKind::Unauthorized(_) => "it wants other credentials than the bridge has".to_owned(),
        ErrorKind::Status { status, .. } => format!("it answered with HTTP status {status}"),
        ErrorKind::Config(_) => "the bridge is not set up to reach it".to_owned(),
        ErrorKind::ConnectionLost { may_have_run: true, .. } => {
            "the connection was lost, and the call may have been done".to_owned()
        }
        ErrorKind::ConnectionLost { .. } => "the connection was lost".to_owned(),
        _ => error.to_string(),
    }
}

/// How long requests wait for one server among several that neither connects nor refuses.
const UPSTREAM_WAIT_TIMEOUT: Duration = Duration::from_secs(10);
