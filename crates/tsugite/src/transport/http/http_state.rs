//! The state that all HTTP connections of a server share: settings, sessions, store and the requests that outlive their
//! connection.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::Instant;
use tsugite_core::jsonrpc::{Incoming, Message, RawJson, parse};
use tsugite_core::protocol::logging::Level;
use tsugite_core::session::http::HttpPolicy;

use super::HttpSettings;
use super::event_stream::EventStream;
use super::http_settings::Http;
use super::http_sse_sessions::HttpSseSessions;
use super::maybe_ready::MaybeReady;
use super::named_session::{NamedSession, SessionIdHeader};
use super::sessions::{HttpSession, SessionId, Sessions};
use crate::bus::BusEvent;
use crate::error::Chain;
use crate::server::connection::{ConnectionScope, ServerConnection};
use crate::server::limits::{CallerKey, LimitError, LimitPermit, Limits, Resource};
use crate::server::principal::Caller;
use crate::server::{Config, Principal, ResponseWriter, Server};
use crate::shared::log;
use crate::shared::principal::is_same_caller;
use crate::store::{
    Committed, Conflict, LogLimits, Precondition, Store, StoreError, StoreFuture, StoreScope, Write,
};

/// The state of a server that is served over HTTP.
pub(crate) struct HttpState {
    pub(super) server: Server,
    pub(super) config: Arc<Config>,
    pub(super) http: Arc<Http>,
    pub(super) policy: HttpPolicy,
    pub(super) limits: Arc<Limits>,
    /// The connection of all requests of the stateless era.
    pub(super) stateless: Arc<ServerConnection>,
    /// For notifications and responses, which are not answered.
    pub(super) discard_reply: ResponseWriter,
    pub(super) sessions: Sessions,
    pub(super) http_sse_sessions: HttpSseSessions,
    /// The configuration for HTTP+SSE, which has no requests of the stateless era.
    pub(super) http_sse_config: Arc<Config>,
    pub(super) store: Arc<dyn Store>,
    /// The address that the listener is bound to, unless it is unspecified.
    pub(super) local_ip: OnceLock<IpAddr>,
    /// The time that the idle times of connections are measured from.
    pub(super) started_at: Instant,
    closing: AtomicBool,
    /// The number of requests that continue without a connection.
    detached_requests: AtomicUsize,
    detached_finished: Notify,
    sweeper_started: AtomicBool,
}

impl HttpState {
    pub(super) fn new(server: &Server) -> Arc<Self> {
        let config = server.shared.config();
        let HttpSettings { http, store } = config.http.get();
        let limits = Limits::new(http.limits());
        let mut policy = HttpPolicy::new(config.revisions);
        policy.sessions = http.sessions;
        policy.allow_delete = http.allow_delete;
        policy.http_sse = http.http_sse_paths.is_some();
        let stateless = ServerConnection::with_scope(
            ConnectionScope::Stateless,
            server,
            config.clone(),
            Caller::default(),
            &limits,
        );
        let http_sse_config =
            Arc::new(Config { revisions: config.revisions.handshake(), ..Config::clone(&config) });
        let state = Arc::new(Self {
            server: server.clone(),
            http_sse_config,
            config,
            http,
            policy,
            limits,
            stateless,
            discard_reply: ResponseWriter::discard(),
            sessions: Sessions::new(),
            http_sse_sessions: HttpSseSessions::default(),
            store,
            local_ip: OnceLock::new(),
            started_at: Instant::now(),
            closing: AtomicBool::new(false),
            detached_requests: AtomicUsize::new(0),
            detached_finished: Notify::new(),
            sweeper_started: AtomicBool::new(false),
        });
        state.subscribe_to_bus();
        state
    }

    /// Whether other replicas see the store.
    pub(super) fn is_shared(&self) -> bool {
        self.store.scope() == StoreScope::Replicas
    }

    pub(super) fn log_limits(&self) -> LogLimits {
        // Finished streams are deleted after their TTL; the store removes those of a replica that crashed.
        let age = self.http.log_ttl.saturating_add(Duration::from_secs(24 * 60 * 60));
        LogLimits {
            max_events: self.http.max_log_events as u64,
            max_bytes: self.http.max_log_bytes,
            ttl: age,
        }
    }

    /// Receives from other replicas: sessions that ended there, responses that arrived there.
    fn subscribe_to_bus(self: &Arc<Self>) {
        let state = Arc::downgrade(self);
        self.server.shared.feed.bus.subscribe(move |event| {
            let Some(state) = state.upgrade() else { return false };
            match event {
                BusEvent::SessionEnded { session } => {
                    if let Some(session) =
                        SessionId::parse(session.as_bytes()).and_then(|id| state.sessions.get(&id))
                    {
                        state.delete_logs(state.sessions.remove(&session));
                    }
                }
                BusEvent::ClientResponse { session, response } => {
                    let session = SessionId::parse(session.as_bytes()).and_then(|id| state.sessions.get(&id));
                    if let (Some(session), Ok(Incoming::Single(Message::Response(response)))) =
                        (session, parse(response.as_bytes(), &state.config.limits))
                    {
                        session.connection.outgoing_requests().receive_response(response);
                    }
                }
                BusEvent::ListsChanged { .. } | BusEvent::ResourceUpdated { .. } => {}
            }
            true
        });
    }

    /// Stores a session for other replicas.
    pub(super) fn persist_session(&self, session: &HttpSession) -> StoreFuture<()> {
        let Some((revision, initialize_params, level)) = session.connection.snapshot() else {
            return StoreFuture::Ready(());
        };
        let principal = session.connection.caller.principal.as_ref();
        let record = SessionRecord {
            revision: revision.as_str().to_owned(),
            initialize_params,
            level,
            principal: principal
                .map(|principal| (principal.issuer().to_owned(), principal.subject().to_owned())),
        };
        let Ok(record) = RawJson::from_value(&record) else { return StoreFuture::Ready(()) };
        let age = self.http.session_idle_timeout.saturating_mul(2);
        let log_error = |stored: Result<Result<Committed, Conflict>, StoreError>| {
            if let Err(error) = stored {
                log::error!(error = %Chain(&*error), "a session could not be stored");
            }
        };
        let (key, value) = (session_key(session.id()), record.text().to_owned().into());
        let (field, precondition) = (SESSION_FIELD, Precondition::None);
        match self.store.commit(&[Write::Set { key: &key, field, value, precondition, ttl: age }]) {
            StoreFuture::Ready(stored) => {
                log_error(stored);
                StoreFuture::Ready(())
            }
            StoreFuture::Pending(stored) => {
                StoreFuture::Pending(Box::pin(async move { log_error(stored.await) }))
            }
        }
    }

    /// Finds the session that a request names. A shared store is asked only if this replica does not have the session.
    pub(super) fn find_session(
        self: &Arc<Self>,
        named: SessionIdHeader,
        caller: Option<&Principal>,
    ) -> MaybeReady<NamedSession> {
        let id = match named {
            SessionIdHeader::Absent => return MaybeReady::Ready(NamedSession::Absent),
            SessionIdHeader::Invalid => return MaybeReady::Ready(NamedSession::Unknown),
            SessionIdHeader::Id(id) => id,
        };
        if !self.is_shared() || self.sessions.contains(&id) {
            return MaybeReady::Ready(self.find_local_session(&id, caller));
        }
        let (state, caller) = (self.clone(), caller.cloned());
        MaybeReady::pending(async move {
            state.restore_session(id, caller.as_ref()).await;
            state.find_local_session(&id, caller.as_ref())
        })
    }

    fn find_local_session(&self, id: &SessionId, caller: Option<&Principal>) -> NamedSession {
        let session = self.sessions.acquire(id, caller);
        let found = session.and_then(|session| session.revision.map(|revision| (session, revision)));
        found.map_or(NamedSession::Unknown, |(session, revision)| NamedSession::Found(session, revision))
    }

    /// Takes over a session that began at another replica, if the store has it and it belongs to the caller.
    async fn restore_session(self: &Arc<Self>, id: SessionId, caller: Option<&Principal>) {
        let record = match self.store.read(&session_key(&id), &[SESSION_FIELD]).await {
            Ok(fields) => fields.and_then(|fields| {
                let field = fields.into_iter().next().flatten()?;
                serde_json::from_str::<SessionRecord>(std::str::from_utf8(&field.value).ok()?).ok()
            }),
            Err(error) => {
                log::error!(error = %Chain(&*error), "a session could not be looked up");
                None
            }
        };
        let Some(record) = record else { return };
        let opener = record.principal.map(|(issuer, subject)| Principal::new(subject).with_issuer(issuer));
        let belongs = is_same_caller(opener.as_ref(), caller);
        let (Ok(revision), true) = (record.revision.parse(), belongs) else { return };
        let connection = ServerConnection::with_limits(
            &self.server,
            self.config.clone(),
            Caller { principal: caller.cloned(), ..Caller::default() },
            &self.limits,
        );
        connection.restore(revision, record.initialize_params, record.level);
        let key = CallerKey::of_caller(&connection.caller);
        match self.limits.acquire(key, Some(Resource::Session), connection.session_bytes()) {
            Ok(permit) => {
                self.sessions.insert_restored(id, connection, permit);
                self.start_sweeper();
            }
            Err(_) => log::warn!("a session of another replica was not taken over: session limit reached"),
        }
    }

    /// Ends a session at all replicas.
    pub(super) async fn end_session(&self, session: &HttpSession) {
        self.delete_logs(self.sessions.remove(session));
        if self.is_shared() {
            drop(self.store.take(&session_key(session.id())).await);
            let session = session.id().as_str().to_owned();
            self.server.shared.feed.bus.publish(BusEvent::SessionEnded { session });
        }
    }

    /// Counts an open stream of a caller.
    pub(super) fn open_stream(&self, caller: Option<CallerKey>) -> Result<LimitPermit, LimitError> {
        self.limits.acquire(caller, Some(Resource::Stream), 0)
    }

    /// Deletes the logs of streams that can no longer be resumed.
    pub(super) fn delete_logs(&self, streams: Vec<Arc<EventStream>>) {
        for stream in streams {
            let deletion = Write::DeleteLog { log: &stream.log_key };
            if let StoreFuture::Pending(deletion) = self.store.commit(&[deletion])
                && let Ok(runtime) = tokio::runtime::Handle::try_current()
            {
                runtime.spawn(deletion);
            }
        }
    }

    /// Runs a request without its connection.
    pub(super) fn spawn_detached(
        self: &Arc<Self>,
        runtime: &tokio::runtime::Handle,
        permit: Option<LimitPermit>,
        request: impl Future<Output = ()> + Send + 'static,
    ) {
        self.detached_requests.fetch_add(1, Ordering::AcqRel);
        let counted = DetachedGuard(self.clone());
        runtime.spawn(boxed(async move {
            request.await;
            drop((counted, permit));
        }));
    }

    /// Starts the task that ends idle sessions, once. It stops when the state is dropped.
    pub(super) fn start_sweeper(self: &Arc<Self>) {
        if self.sweeper_started.swap(true, Ordering::AcqRel) {
            return;
        }
        let every = (self.http.session_idle_timeout.min(self.http.log_ttl) / 4)
            .clamp(Duration::from_millis(10), Duration::from_secs(60));
        let state = Arc::downgrade(self);
        tokio::spawn(boxed(async move {
            loop {
                tokio::time::sleep(every).await;
                let Some(state) = state.upgrade() else { return };
                let expired = state.sessions.remove_idle(state.http.session_idle_timeout, state.http.log_ttl);
                state.delete_logs(expired);
                state.store.purge_expired();
                if state.is_shared() {
                    let (mut writes, now) = (Vec::new(), Instant::now());
                    state.sessions.for_each(|session| {
                        // Used since the last sweep, or since the one before in case that sweep was late.
                        if session.idle_time(now) <= every.saturating_mul(2) {
                            writes.push(state.persist_session(session));
                        }
                    });
                    for write in writes {
                        write.await;
                    }
                }
            }
        }));
    }

    /// Ends the streams that only carry notifications. Requests in progress continue.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.stateless.close();
        self.sessions.for_each(|session| {
            session.connection.close();
            session.connection.wake_push_stream();
        });
        self.http_sse_sessions.close();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Waits for the requests that run without their connection.
    pub(super) async fn wait_for_detached(&self) {
        loop {
            let finished = self.detached_finished.notified();
            if self.detached_requests.load(Ordering::Acquire) == 0 {
                return;
            }
            finished.await;
        }
    }

    /// Ends all streams and sessions.
    pub(super) fn abort(&self) {
        self.close();
        self.sessions.for_each(|session| self.delete_logs(self.sessions.remove(session)));
    }
}

/// A session as it is stored for other replicas.
#[derive(Serialize, Deserialize)]
struct SessionRecord {
    revision: String,
    initialize_params: RawJson,
    level: Level,
    principal: Option<(String, String)>,
}

const SESSION_FIELD: &str = "session";

fn session_key(id: &SessionId) -> String {
    format!("session/{}", id.as_str())
}

/// Boxes a task, so that `tokio::spawn` is compiled once for all of them.
fn boxed(task: impl Future<Output = ()> + Send + 'static) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(task)
}

struct DetachedGuard(Arc<HttpState>);

impl Drop for DetachedGuard {
    fn drop(&mut self) {
        self.0.detached_requests.fetch_sub(1, Ordering::AcqRel);
        self.0.detached_finished.notify_waiters();
    }
}
