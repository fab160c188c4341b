//! One connection to one server behind the bridge: kept up with back-off, for one client or for all that have no session.

use std::collections::VecDeque;
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
use tsugite_core::revision::{RpcError, Revision, translate_raw_error};

use super::listening::Listening;
use super::parked::Parking;
use super::tap::{FarTap, progress};
use super::target::Target;
use super::told::Told;
use crate::client::forwarded_request::{ForwardedRequest, RequestIdObserver};
use crate::client::{Client, ClientError, ErrorKind, ConnectStep};
use crate::int_map::IntMap;
use crate::lock::lock;
use crate::server::connection::ServerConnection;
use crate::transport::outbound_queue::OutboundQueue;

/// A connection to a server behind the bridge.
pub(super) struct Far {
    pub(super) target: Arc<Target>,
    pub(super) near: Near,
    client: OnceLock<Client>,
    state: watch::Sender<State>,
    calls: Mutex<IntMap<Arc<InFlight>>>,
    /// Clients without a session that want to hear of changes.
    pub(super) listening: Mutex<Vec<Weak<Listening>>>,
    /// What the server was told for a client with a session.
    pub(super) told: Arc<Told>,
    /// What a client with a session is told when it is ready.
    pub(super) early: Mutex<Option<Vec<Vec<u8>>>>,
    /// The logs the server was last asked for.
    level: Mutex<Option<Level>>,
    keeper: OnceLock<AbortHandle>,
    /// When it was last begun to be opened.
    begun: Mutex<Instant>,
    patience: Duration,
}

/// For whom the connection is.
pub(super) enum Near {
    /// A client with a session.
    Session(Weak<ServerConnection>, Revision),
    /// Any client without one.
    Everybody,
}

#[derive(Debug, Clone)]
enum State {
    /// It is being opened, for the first time or again.
    Opening,
    Up,
    /// It could not be opened, and will be tried again.
    Down(String),
}

/// A request that was sent on and has no answer yet.
pub(super) struct InFlight {
    /// The revision of whoever asked.
    pub(super) revision: Revision,
    /// Where what is said before the answer goes; nowhere while nobody waits for the answer.
    pub(super) place: Mutex<Option<Place>>,
    /// Progress that came while nobody waited, and the revision it was said in.
    missed: Mutex<VecDeque<(Revision, RawJson)>>,
    /// Takes questions, where the client cannot be asked directly.
    pub(super) parking: Option<Arc<Parking>>,
    /// Whether it was given up before there was an answer.
    pub(super) given_up: AtomicBool,
    /// Whether it is a subscription, beside which others go on.
    listens: bool,
}

/// Where what belongs to a request goes.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) id: Id<'static>,
    pub(super) outbox: Arc<OutboundQueue>,
    /// The token under which the client wants progress.
    pub(super) token: Option<Id<'static>>,
    /// Which logs it wants, where each request says so.
    pub(super) logs: Option<Level>,
}

impl InFlight {
    pub(super) fn new(revision: Revision, place: Place) -> Arc<Self> {
        Self::with(revision, place, None, false)
    }

    /// A call that may be asked something.
    pub(super) fn parking(revision: Revision, place: Place, parking: Option<Arc<Parking>>) -> Arc<Self> {
        Self::with(revision, place, parking, false)
    }

    /// A subscription.
    pub(super) fn listening(revision: Revision, place: Place) -> Arc<Self> {
        Self::with(revision, place, None, true)
    }

    fn with(revision: Revision, place: Place, parking: Option<Arc<Parking>>, listens: bool) -> Arc<Self> {
        let (place, given_up) = (Mutex::new(Some(place)), AtomicBool::new(false));
        Arc::new(Self { revision, place, missed: Mutex::default(), parking, given_up, listens })
    }

    pub(super) fn place(&self) -> Option<Place> {
        lock(&self.place).clone()
    }

    /// Where progress goes. A client that is away to answer a question hears it when it is back: the last of it.
    pub(super) fn place_for_progress(&self, from: Revision, params: Raw<'_>) -> Option<Place> {
        let place = lock(&self.place);
        if place.is_none() && self.parking.is_some() {
            let mut missed = lock(&self.missed);
            missed.push_back((from, params.to_owned()));
            while missed.iter().map(|(_, params)| params.text().len()).sum::<usize>() > MISSED {
                missed.pop_front();
            }
        }
        place.clone()
    }

    /// The client is back, and waits there.
    pub(super) fn goes_on(&self, place: Place) {
        let mut here = lock(&self.place);
        for (from, params) in std::mem::take(&mut *lock(&self.missed)) {
            if let Some(bytes) = progress(&place, from, self.revision, Raw::from(&params)) {
                place.outbox.push(|out| out.extend_from_slice(&bytes));
            }
        }
        *here = Some(place);
    }
}

/// What a connection is opened with.
pub(super) struct Face {
    pub(super) info: Implementation,
    pub(super) capabilities: ClientCapabilities,
}

impl Far {
    /// Begins to open a connection, and keeps it open.
    pub(super) fn open(target: &Arc<Target>, near: Near, face: Face, patience: Duration) -> Arc<Self> {
        let far = Arc::new(Self {
            target: Arc::clone(target),
            near,
            client: OnceLock::new(),
            state: watch::Sender::new(State::Opening),
            calls: Mutex::default(),
            listening: Mutex::default(),
            told: Arc::default(),
            early: Mutex::default(),
            level: Mutex::default(),
            keeper: OnceLock::new(),
            begun: Mutex::new(Instant::now()),
            patience,
        });
        let keeper = tokio::spawn(keep(Arc::downgrade(&far), Arc::clone(target), face));
        let _ = far.keeper.set(keeper.abort_handle());
        far
    }

    /// The client, when the connection is there; why it is not, when it cannot be opened.
    pub(super) async fn up(&self) -> Result<&Client, RpcError> {
        match self.up_now() {
            Some(client) => Ok(client),
            None => Box::pin(self.until_up()).await,
        }
    }

    async fn until_up(&self) -> Result<&Client, RpcError> {
        // Where there are others, nobody is held up for long by one.
        if self.target.prefix.is_some() {
            self.settled().await;
            if matches!(&*self.state.borrow(), State::Opening) {
                return Err(self.absent("it does not answer"));
            }
        }
        let mut state = self.state.subscribe();
        loop {
            match &*state.borrow_and_update() {
                State::Up => break,
                State::Down(why) => return Err(self.absent(why)),
                State::Opening => {}
            }
            if state.changed().await.is_err() {
                return Err(self.absent("the bridge is closed"));
            }
        }
        self.client.get().ok_or_else(|| self.absent("it is not open"))
    }

    /// The client, if the connection is there right now.
    pub(super) fn up_now(&self) -> Option<&Client> {
        match &*self.state.borrow() {
            State::Up => self.client.get(),
            _ => None,
        }
    }

    /// Waits until there is a connection, however long that takes.
    pub(super) async fn there(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| matches!(state, State::Up)).await;
    }

    /// Waits until the server was reached for the first time.
    pub(super) async fn greeted(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|_| self.client.get().is_some()).await;
    }

    /// Waits until it is known whether there is a connection; but nobody waits for long for one that hangs.
    pub(super) async fn settled(&self) {
        let mut state = self.state.subscribe();
        let deadline = *lock(&self.begun) + HANGING;
        let settled = state.wait_for(|state| !matches!(state, State::Opening));
        // Whoever waits in vain goes on without.
        let _ = tokio::time::timeout_at(deadline, settled).await;
    }

    /// What came of something, unless that takes longer than anybody waits for one server among several.
    pub(super) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, RpcError>>,
    ) -> Result<T, RpcError> {
        match tokio::time::timeout(HANGING, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(RpcError::internal_with_message(format!("{} does not answer", self.target.shown()))),
        }
    }

    fn absent(&self, why: &str) -> RpcError {
        RpcError::internal_with_message(format!("{} cannot be reached: {why}", self.target.shown()))
    }

    /// The revision the server speaks; nothing is known before it was reached.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.client.get().map(Client::revision)
    }

    /// Sends a request on. What is said before its answer goes to `flight`.
    pub(super) async fn send(
        self: &Arc<Self>,
        request: ForwardedRequest<'_>,
        flight: &Arc<InFlight>,
    ) -> Result<(RawJson, Revision), RpcError> {
        let client = self.up().await?;
        let (far, id) = (Arc::clone(self), AtomicI64::new(NOBODY));
        let noted = Arc::new(Noted { far, flight: Arc::clone(flight), id });
        let shared = matches!(self.near, Near::Everybody);
        let method = request.method;
        let request = request.shared_connection(shared);
        // A stream of changes is no call: it lasts until somebody ends it.
        let patience = if method == Listen::NAME { Duration::MAX } else { self.patience };
        let outcome = client.forward(&request, patience, noted).await;
        outcome.map_err(|error| {
            if matches!(error.kind(), ErrorKind::TimedOut { .. }) {
                flight.given_up.store(true, Ordering::Release);
            }
            self.refusal(error, method, flight.revision)
        })
    }

    /// What a client of `to` is told about a failure.
    pub(super) fn refusal(&self, error: ClientError, method: &str, to: Revision) -> RpcError {
        let from = self.revision().unwrap_or(Revision::NEWEST);
        match error.into_kind() {
            ErrorKind::ErrorResponse { error, .. } => RpcError::Forwarded(translate_raw_error(error, method, from, to)),
            ErrorKind::UnsupportedByRevision(unsayable) => unsaid(&unsayable, method),
            other => RpcError::internal_with_message(format!("{}: {}", self.target.shown(), told(&other.into()))),
        }
    }

    /// The request a message belongs to: the one it names, or the only one there is.
    pub(super) fn flight(&self, call: Option<i64>) -> Option<Arc<InFlight>> {
        let calls = lock(&self.calls);
        match call {
            Some(call) => calls.get(&call).cloned(),
            None => None,
        }
    }

    /// The only request under way that `fits`, subscriptions aside.
    pub(super) fn only_flight(&self, fits: impl Fn(&InFlight) -> bool) -> Option<Arc<InFlight>> {
        let calls = lock(&self.calls);
        let mut fitting = calls.values().filter(|flight| !flight.listens && fits(flight));
        match (fitting.next(), fitting.next()) {
            (Some(flight), None) => Some(Arc::clone(flight)),
            _ => None,
        }
    }

    /// Where something under way would be told more, and can take no more.
    pub(super) fn full_place(&self) -> Option<Arc<OutboundQueue>> {
        let calls = lock(&self.calls);
        calls.values().find_map(|flight| {
            let place = lock(&flight.place);
            place.as_ref().map(|place| &place.outbox).filter(|outbox| outbox.is_full()).cloned()
        })
    }

    /// Whether nobody uses it.
    pub(super) fn is_idle(&self) -> bool {
        lock(&self.calls).is_empty() && lock(&self.listening).iter().all(|one| one.strong_count() == 0)
    }

    /// Whether the server was asked for other logs than these; from now on for these.
    pub(super) fn wants_level(&self, level: Level) -> bool {
        lock(&self.level).replace(level) != Some(level)
    }

    pub(super) fn lost(&self, seen: &str) {
        // One that we end ourselves is not lost.
        if self.up_now().is_none() {
            return;
        }
        tracing::warn!(server = self.target.shown(), seen, "a server behind the bridge is gone");
        lock(&self.level).take();
        *lock(&self.begun) = Instant::now();
        self.state.send_replace(State::Opening);
    }

    /// Logs that a subscription could not be opened. One that closing the connection interrupted is no fault.
    pub(super) fn not_subscribed(&self, error: &dyn fmt::Display) {
        if self.client.get().is_some_and(Client::is_closed) {
            tracing::debug!(server = self.target.shown(), %error, "closed while a subscription was opened");
        } else {
            tracing::warn!(server = self.target.shown(), %error, "a server tells no changes");
        }
    }

    /// Ends the connection politely.
    pub(super) async fn close(&self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.abort();
        }
        self.state.send_replace(State::Down("the bridge is closed".to_owned()));
        if let Some(client) = self.client.get() {
            client.close().await;
        }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.abort();
        }
        if let (Some(client), Ok(runtime)) = (self.client.take(), tokio::runtime::Handle::try_current()) {
            self.target.leaves(runtime.spawn(async move { client.close().await }));
        }
    }
}

/// A client that is told why something cannot be said to the server, or back.
pub(super) fn unsaid(unsayable: &tsugite_core::revision::UnsupportedByRevisionError, method: &str) -> RpcError {
    use tsugite_core::revision::UnsupportedByRevisionError;
    match unsayable {
        UnsupportedByRevisionError::Method(_) => RpcError::MethodNotFound { method: method.to_owned() },
        other => RpcError::InvalidParams(format!("this cannot cross the bridge: {other}").into()),
    }
}

/// The id a request has with the server, another with each attempt. It is forgotten with it.
struct Noted {
    far: Arc<Far>,
    flight: Arc<InFlight>,
    id: AtomicI64,
}

impl RequestIdObserver for Noted {
    fn on_request_id(&self, id: i64) {
        let mut calls = lock(&self.far.calls);
        calls.remove(&self.id.swap(id, Ordering::AcqRel));
        calls.insert(id, Arc::clone(&self.flight));
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        lock(&self.far.calls).remove(&self.id.load(Ordering::Acquire));
    }
}

/// Opens the connection, and opens it again whenever it is lost: at once after a long life, later after a short one.
async fn keep(far: Weak<Far>, target: Arc<Target>, face: Face) {
    let tap = Arc::new(FarTap(Weak::clone(&far)));
    let mut failures = 0;
    let client = loop {
        let connecting = target.dial().with_observer(tap.clone(), face.info.clone(), face.capabilities.clone());
        match connecting.await {
            Ok(client) => {
                target.learn(client.probe_record());
                break client;
            }
            Err(error) => {
                target.learn(None);
                let Some(up) = far.upgrade() else { return };
                up.down(&error, &far);
            }
        }
        failures += 1;
        tokio::time::sleep(pause(failures)).await;
        if let Some(far) = far.upgrade() {
            tracing::debug!(server = far.target.shown(), failures, "a server is tried again");
        }
    };
    let Some(mut state) = far.upgrade().map(|far| {
        let _ = far.client.set(client.clone());
        let state = far.state.subscribe();
        far.is_up();
        far.look_again(&client);
        if failures > 0 {
            FarTap(Arc::downgrade(&far)).everything_changed();
        }
        state
    }) else {
        return;
    };
    let mut since = Instant::now();
    loop {
        if state.wait_for(|state| matches!(state, State::Opening)).await.is_err() {
            return;
        }
        failures = if since.elapsed() > LONG_LIFE { 0 } else { failures + 1 };
        loop {
            tokio::time::sleep(pause(failures)).await;
            let outcome = client.reconnect().await;
            let Some(up) = far.upgrade() else { return };
            match outcome {
                Ok(()) => {
                    since = Instant::now();
                    up.is_up();
                    up.look_again(&client);
                    break;
                }
                Err(error) if matches!(error.kind(), ErrorKind::Closed) => return,
                Err(error) => up.down(&error, &far),
            }
            failures += 1;
        }
    }
}

impl Far {
    pub(super) fn is_up(&self) {
        self.target.is_up();
        self.state.send_replace(State::Up);
    }

    /// It may have been lost before it was noted to be there.
    fn look_again(&self, client: &Client) {
        if !client.is_connected() {
            self.lost("the connection was lost");
        }
    }

    fn down(&self, error: &ClientError, weak: &Weak<Self>) {
        tracing::warn!(server = self.target.shown(), %error, "a server behind the bridge cannot be reached");
        let why = told(error);
        self.target.is_down(&why);
        let before = self.state.send_replace(State::Down(why));
        // What it offered is in no list any more, where there are others.
        if matches!(before, State::Opening) && self.target.prefix.is_some() && self.client.get().is_some() {
            FarTap(Weak::clone(weak)).everything_changed();
        }
    }
}

/// What clients are told of a failure. What a server wrote to its standard error, and where it is, stays here.
fn told(error: &ClientError) -> String {
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
fn pause(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        _ => Duration::from_millis(250).saturating_mul(1 << failures.min(8)).min(Duration::from_secs(60)),
    }
}

/// The id of no call.
const NOBODY: i64 = -1;
/// How many bytes of progress are kept for a client that is away.
const MISSED: usize = 16 << 10;
/// How long a connection that is neither there nor refused is waited for by those who can do without.
const HANGING: Duration = Duration::from_secs(10);
/// A connection that lasted this long is opened again at once.
const LONG_LIFE: Duration = Duration::from_secs(30);
