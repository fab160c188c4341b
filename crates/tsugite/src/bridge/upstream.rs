//! One connection to one server behind the bridge: kept up with back-off, for one client or for all that have no session.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tsugite_core::jsonrpc::{Id, Raw, RawJson};
use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::subscriptions::Listen;
use tsugite_core::protocol::{ClientCapabilities, Implementation, Method};
use tsugite_core::revision::{Revision, RpcError, translate_raw_error};

use super::listen::UpstreamListener;
use super::session_state::UpstreamSessionState;
use super::suspended_calls::SuspendableCall;
use super::target::Target;
use super::upstream_events::{UpstreamEvents, encode_progress};
use crate::client::forwarded_request::{ForwardedRequest, RequestIdObserver};
use crate::client::{Client, ClientError, ConnectStep, ErrorKind};
use crate::lock::lock;
use crate::server::connection::ServerConnection;
use crate::shared::outbound_queue::OutboundQueue;

/// A connection to a server behind the bridge.
pub(super) struct Upstream {
    pub(super) target: Arc<Target>,
    pub(super) downstream: Downstream,
    client: OnceLock<Client>,
    state: watch::Sender<UpstreamState>,
    in_flight: Mutex<HashMap<i64, Arc<InFlightCall>, foldhash::fast::RandomState>>,
    /// Clients without a session that want to hear of changes.
    pub(super) listeners: Mutex<Vec<Weak<UpstreamListener>>>,
    /// What the server was told for a client with a session.
    pub(super) session_state: Arc<UpstreamSessionState>,
    /// What a client with a session is told when it is ready.
    pub(super) queued_notifications: Mutex<Option<Vec<Vec<u8>>>>,
    /// The logs the server was last asked for.
    log_level: Mutex<Option<Level>>,
    connect_task: OnceLock<AbortHandle>,
    /// When it was last begun to be opened.
    connecting_since: Mutex<Instant>,
    call_timeout: Duration,
}

/// For whom the connection is.
pub(super) enum Downstream {
    /// A client with a session.
    Session(Weak<ServerConnection>, Revision),
    /// Any client without one.
    Stateless,
}

#[derive(Debug, Clone)]
enum UpstreamState {
    /// It is being opened, for the first time or again.
    Connecting,
    Connected,
    /// It could not be opened, and will be tried again.
    Unreachable(String),
}

/// A request that was sent on and has no answer yet.
pub(super) struct InFlightCall {
    /// The revision of whoever asked.
    pub(super) revision: Revision,
    /// Where what is said before the answer goes; nowhere while nobody waits for the answer.
    pub(super) reply_target: Mutex<Option<ReplyTarget>>,
    /// Progress that came while nobody waited, and the revision it was said in.
    missed_progress: Mutex<VecDeque<(Revision, RawJson)>>,
    /// Takes questions, where the client cannot be asked directly.
    pub(super) suspendable: Option<Arc<SuspendableCall>>,
    /// Whether it was given up before there was an answer.
    pub(super) timed_out: AtomicBool,
    /// Whether it is a subscription, beside which others go on.
    is_subscription: bool,
}

/// Where what belongs to a request goes.
#[derive(Clone)]
pub(super) struct ReplyTarget {
    pub(super) id: Id<'static>,
    pub(super) outbox: Arc<OutboundQueue>,
    /// The token under which the client wants progress.
    pub(super) progress_token: Option<Id<'static>>,
    /// Which logs it wants, where each request says so.
    pub(super) log_level: Option<Level>,
}

impl InFlightCall {
    pub(super) fn new(revision: Revision, place: ReplyTarget) -> Arc<Self> {
        Self::build(revision, place, None, false)
    }

    /// A call that may be asked something.
    pub(super) fn suspendable(
        revision: Revision,
        place: ReplyTarget,
        parking: Option<Arc<SuspendableCall>>,
    ) -> Arc<Self> {
        Self::build(revision, place, parking, false)
    }

    /// A subscription.
    pub(super) fn subscription(revision: Revision, place: ReplyTarget) -> Arc<Self> {
        Self::build(revision, place, None, true)
    }

    fn build(
        revision: Revision,
        place: ReplyTarget,
        parking: Option<Arc<SuspendableCall>>,
        listens: bool,
    ) -> Arc<Self> {
        let (place, given_up) = (Mutex::new(Some(place)), AtomicBool::new(false));
        Arc::new(Self {
            revision,
            reply_target: place,
            missed_progress: Mutex::default(),
            suspendable: parking,
            timed_out: given_up,
            is_subscription: listens,
        })
    }

    pub(super) fn reply_target(&self) -> Option<ReplyTarget> {
        lock(&self.reply_target).clone()
    }

    /// Where progress goes. A client that is away to answer a question hears it when it is back: the last of it.
    pub(super) fn progress_target(&self, from: Revision, params: Raw<'_>) -> Option<ReplyTarget> {
        let place = lock(&self.reply_target);
        if place.is_none() && self.suspendable.is_some() {
            let mut missed = lock(&self.missed_progress);
            missed.push_back((from, params.to_owned()));
            while missed.iter().map(|(_, params)| params.text().len()).sum::<usize>()
                > MAX_MISSED_PROGRESS_BYTES
            {
                missed.pop_front();
            }
        }
        place.clone()
    }

    /// The client is back, and waits there.
    pub(super) fn reattach(&self, place: ReplyTarget) {
        let mut here = lock(&self.reply_target);
        for (from, params) in std::mem::take(&mut *lock(&self.missed_progress)) {
            if let Some(bytes) = encode_progress(&place, from, self.revision, Raw::from(&params)) {
                place.outbox.push(|out| out.extend_from_slice(&bytes));
            }
        }
        *here = Some(place);
    }
}

/// What a connection is opened with.
pub(super) struct ClientIdentity {
    pub(super) info: Implementation,
    pub(super) capabilities: ClientCapabilities,
}

impl Upstream {
    /// Begins to open a connection, and keeps it open.
    pub(super) fn open(
        target: &Arc<Target>,
        near: Downstream,
        face: ClientIdentity,
        patience: Duration,
    ) -> Arc<Self> {
        let far = Arc::new(Self {
            target: Arc::clone(target),
            downstream: near,
            client: OnceLock::new(),
            state: watch::Sender::new(UpstreamState::Connecting),
            in_flight: Mutex::default(),
            listeners: Mutex::default(),
            session_state: Arc::default(),
            queued_notifications: Mutex::default(),
            log_level: Mutex::default(),
            connect_task: OnceLock::new(),
            connecting_since: Mutex::new(Instant::now()),
            call_timeout: patience,
        });
        let keeper = tokio::spawn(maintain_connection(Arc::downgrade(&far), Arc::clone(target), face));
        let _ = far.connect_task.set(keeper.abort_handle());
        far
    }

    /// The client, when the connection is there; why it is not, when it cannot be opened.
    pub(super) async fn connected_client(&self) -> Result<&Client, RpcError> {
        match self.client_if_connected() {
            Some(client) => Ok(client),
            None => Box::pin(self.wait_for_client()).await,
        }
    }

    async fn wait_for_client(&self) -> Result<&Client, RpcError> {
        // Where there are others, nobody is held up for long by one.
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

    /// The client, if the connection is there right now.
    pub(super) fn client_if_connected(&self) -> Option<&Client> {
        match &*self.state.borrow() {
            UpstreamState::Connected => self.client.get(),
            _ => None,
        }
    }

    /// Waits until there is a connection, however long that takes.
    pub(super) async fn wait_connected(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| matches!(state, UpstreamState::Connected)).await;
    }

    /// Waits until the server was reached for the first time.
    pub(super) async fn wait_first_connected(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|_| self.client.get().is_some()).await;
    }

    /// Waits until it is known whether there is a connection; but nobody waits for long for one that hangs.
    pub(super) async fn wait_while_connecting(&self) {
        let mut state = self.state.subscribe();
        let deadline = *lock(&self.connecting_since) + UPSTREAM_WAIT_TIMEOUT;
        let settled = state.wait_for(|state| !matches!(state, UpstreamState::Connecting));
        // Whoever waits in vain goes on without.
        let _ = tokio::time::timeout_at(deadline, settled).await;
    }

    /// What came of something, unless that takes longer than anybody waits for one server among several.
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

    /// The revision the server speaks; nothing is known before it was reached.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.client.get().map(Client::revision)
    }

    /// Sends a request on. What is said before its answer goes to `flight`.
    pub(super) async fn send(
        self: &Arc<Self>,
        request: ForwardedRequest<'_>,
        flight: &Arc<InFlightCall>,
    ) -> Result<(RawJson, Revision), RpcError> {
        let client = self.connected_client().await?;
        let (far, id) = (Arc::clone(self), AtomicI64::new(NO_CALL));
        let noted = Arc::new(UpstreamCallGuard { upstream: far, call: Arc::clone(flight), id });
        let shared = matches!(self.downstream, Downstream::Stateless);
        let method = request.method;
        let request = request.shared_connection(shared);
        // A stream of changes is no call: it lasts until somebody ends it.
        let patience = if method == Listen::NAME { Duration::MAX } else { self.call_timeout };
        let outcome = client.forward(&request, patience, noted).await;
        outcome.map_err(|error| {
            if matches!(error.kind(), ErrorKind::TimedOut { .. }) {
                flight.timed_out.store(true, Ordering::Release);
            }
            self.to_rpc_error(error, method, flight.revision)
        })
    }

    /// What a client of `to` is told about a failure.
    pub(super) fn to_rpc_error(&self, error: ClientError, method: &str, to: Revision) -> RpcError {
        let from = self.revision().unwrap_or(Revision::NEWEST);
        match error.into_kind() {
            ErrorKind::ErrorResponse { error, .. } => {
                RpcError::Forwarded(translate_raw_error(error, method, from, to))
            }
            ErrorKind::UnsupportedByRevision(unsayable) => unsupported_error(&unsayable, method),
            other => RpcError::internal_with_message(format!(
                "{}: {}",
                self.target.display_name(),
                public_reason(&other.into())
            )),
        }
    }

    /// The request a message belongs to: the one it names, or the only one there is.
    pub(super) fn in_flight(&self, call: Option<i64>) -> Option<Arc<InFlightCall>> {
        let calls = lock(&self.in_flight);
        match call {
            Some(call) => calls.get(&call).cloned(),
            None => None,
        }
    }

    /// The only request under way that `fits`, subscriptions aside.
    pub(super) fn only_in_flight(&self, fits: impl Fn(&InFlightCall) -> bool) -> Option<Arc<InFlightCall>> {
        let calls = lock(&self.in_flight);
        let mut fitting = calls.values().filter(|flight| !flight.is_subscription && fits(flight));
        match (fitting.next(), fitting.next()) {
            (Some(flight), None) => Some(Arc::clone(flight)),
            _ => None,
        }
    }

    /// Where something under way would be told more, and can take no more.
    pub(super) fn full_queue(&self) -> Option<Arc<OutboundQueue>> {
        let calls = lock(&self.in_flight);
        calls.values().find_map(|flight| {
            let place = lock(&flight.reply_target);
            place.as_ref().map(|place| &place.outbox).filter(|outbox| outbox.is_full()).cloned()
        })
    }

    /// Whether nobody uses it.
    pub(super) fn is_idle(&self) -> bool {
        lock(&self.in_flight).is_empty() && lock(&self.listeners).iter().all(|one| one.strong_count() == 0)
    }

    /// Whether the server was asked for other logs than these; from now on for these.
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
            tracing::warn!(server = self.target.display_name(), %error, "a server tells no changes");
        }
    }

    /// Ends the connection politely.
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

/// A client that is told why something cannot be said to the server, or back.
pub(super) fn unsupported_error(
    unsayable: &tsugite_core::revision::UnsupportedByRevisionError,
    method: &str,
) -> RpcError {
    use tsugite_core::revision::UnsupportedByRevisionError;
    match unsayable {
        UnsupportedByRevisionError::Method(_) => RpcError::MethodNotFound { method: method.to_owned() },
        other => RpcError::InvalidParams(format!("this cannot cross the bridge: {other}").into()),
    }
}

/// The id a request has with the server, another with each attempt. It is forgotten with it.
struct UpstreamCallGuard {
    upstream: Arc<Upstream>,
    call: Arc<InFlightCall>,
    id: AtomicI64,
}

impl RequestIdObserver for UpstreamCallGuard {
    fn on_request_id(&self, id: i64) {
        let mut calls = lock(&self.upstream.in_flight);
        calls.remove(&self.id.swap(id, Ordering::AcqRel));
        calls.insert(id, Arc::clone(&self.call));
    }
}

impl Drop for UpstreamCallGuard {
    fn drop(&mut self) {
        lock(&self.upstream.in_flight).remove(&self.id.load(Ordering::Acquire));
    }
}

/// Opens the connection, and opens it again whenever it is lost: at once after a long life, later after a short one.
async fn maintain_connection(far: Weak<Upstream>, target: Arc<Target>, face: ClientIdentity) {
    let tap = Arc::new(UpstreamEvents(Weak::clone(&far)));
    let mut failures = 0;
    let client = loop {
        let connecting =
            target.builder().with_observer(tap.clone(), face.info.clone(), face.capabilities.clone());
        match connecting.await {
            Ok(client) => {
                target.set_probe_record(client.probe_record());
                break client;
            }
            Err(error) => {
                target.set_probe_record(None);
                let Some(up) = far.upgrade() else { return };
                up.mark_unreachable(&error, &far);
            }
        }
        failures += 1;
        tokio::time::sleep(reconnect_backoff(failures)).await;
        if let Some(far) = far.upgrade() {
            tracing::debug!(server = far.target.display_name(), failures, "a server is tried again");
        }
    };
    let Some(mut state) = far.upgrade().map(|far| {
        let _ = far.client.set(client.clone());
        let state = far.state.subscribe();
        far.mark_connected();
        far.recheck_connection(&client);
        if failures > 0 {
            UpstreamEvents(Arc::downgrade(&far)).notify_all_changed();
        }
        state
    }) else {
        return;
    };
    let mut since = Instant::now();
    loop {
        if state.wait_for(|state| matches!(state, UpstreamState::Connecting)).await.is_err() {
            return;
        }
        failures = if since.elapsed() > STABLE_CONNECTION_AGE { 0 } else { failures + 1 };
        loop {
            tokio::time::sleep(reconnect_backoff(failures)).await;
            let outcome = client.reconnect().await;
            let Some(up) = far.upgrade() else { return };
            match outcome {
                Ok(()) => {
                    since = Instant::now();
                    up.mark_connected();
                    up.recheck_connection(&client);
                    break;
                }
                Err(error) if matches!(error.kind(), ErrorKind::Closed) => return,
                Err(error) => up.mark_unreachable(&error, &far),
            }
            failures += 1;
        }
    }
}

impl Upstream {
    pub(super) fn mark_connected(&self) {
        self.target.clear_error();
        self.state.send_replace(UpstreamState::Connected);
    }

    /// It may have been lost before it was noted to be there.
    fn recheck_connection(&self, client: &Client) {
        if !client.is_connected() {
            self.mark_disconnected("the connection was lost");
        }
    }

    fn mark_unreachable(&self, error: &ClientError, weak: &Weak<Self>) {
        tracing::warn!(server = self.target.display_name(), %error, "a server behind the bridge cannot be reached");
        let why = public_reason(error);
        self.target.set_error(&why);
        let before = self.state.send_replace(UpstreamState::Unreachable(why));
        // What it offered is in no list any more, where there are others.
        if matches!(before, UpstreamState::Connecting)
            && self.target.prefix.is_some()
            && self.client.get().is_some()
        {
            UpstreamEvents(Weak::clone(weak)).notify_all_changed();
        }
    }
}

/// What clients are told of a failure. What a server wrote to its standard error, and where it is, stays here.
fn public_reason(error: &ClientError) -> String {
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

/// Longer with each failure, and never longer than a minute.
fn reconnect_backoff(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        _ => Duration::from_millis(250).saturating_mul(1 << failures.min(8)).min(Duration::from_secs(60)),
    }
}

/// The id of no call.
const NO_CALL: i64 = -1;
/// How many bytes of progress are kept for a client that is away.
const MAX_MISSED_PROGRESS_BYTES: usize = 16 << 10;
/// How long a connection that is neither there nor refused is waited for by those who can do without.
const UPSTREAM_WAIT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that lasted this long is opened again at once.
const STABLE_CONNECTION_AGE: Duration = Duration::from_secs(30);
