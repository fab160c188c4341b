//! What all connections of a server share.

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

use super::event_stream::EventStream;
use super::http_settings::Http;
use super::http_sse_endpoints::HttpSseSessions;
use super::maybe_ready::MaybeReady;
use super::request_head::{NamedSession, RequestHead, SessionIdHeader};
use super::sessions::{HttpSession, SessionId, Sessions};
use crate::bus::BusEvent;
use crate::error::Chain;
use crate::server::connection::{ConnectionScope, ServerConnection};
use crate::server::handler_limits::{HandlerLimits, StreamPermit};
use crate::server::{Config, Principal, ResponseWriter, Server};
use crate::store::{LogLimits, Precondition, Store, StoreError, StoreFuture};

pub(crate) struct HttpState {
    pub(super) server: Server,
    pub(super) config: Arc<Config>,
    pub(super) http: Arc<Http>,
    pub(super) policy: HttpPolicy,
    pub(super) handler_limits: Arc<HandlerLimits>,
    /// For requests that belong to no session.
    pub(super) stateless: Arc<ServerConnection>,
    /// For what is no request and gets no answer.
    pub(super) discard_reply: ResponseWriter,
    pub(super) sessions: Sessions,
    pub(super) http_sse_sessions: HttpSseSessions,
    /// For the transport of 2024-11-05, which knows no requests of the stateless era.
    pub(super) http_sse_config: Arc<Config>,
    pub(super) store: Arc<dyn Store>,
    /// The address that is listened on, if it is one of its own.
    pub(super) local_ip: OnceLock<IpAddr>,
    /// What the silence of connections is measured from.
    pub(super) started_at: Instant,
    closing: AtomicBool,
    /// Requests that go on without a connection.
    detached_requests: AtomicUsize,
    detached_finished: Notify,
    sweeper_started: AtomicBool,
}

impl HttpState {
    pub(super) fn new(server: &Server) -> Arc<Self> {
        let config = server.shared.config();
        let http = config.http.http.clone();
        let room = HandlerLimits::new(http.max_concurrent_handlers, http.max_streams);
        let mut policy = HttpPolicy::new(config.revisions);
        policy.sessions = http.sessions;
        policy.allow_delete = http.allow_delete;
        policy.http_sse = http.http_sse_paths.is_some();
        let lone =
            ServerConnection::with_scope(ConnectionScope::Stateless, server, config.clone(), None, &room);
        let store = config.http.store.clone();
        let old_config =
            Arc::new(Config { revisions: config.revisions.handshake(), ..Config::clone(&config) });
        let hub = Arc::new(Self {
            server: server.clone(),
            http_sse_config: old_config,
            config,
            http,
            policy,
            handler_limits: room,
            stateless: lone,
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
        hub.subscribe_to_bus();
        hub
    }

    pub(super) fn log_limits(&self) -> LogLimits {
        // Streams that are done are forgotten after their time; this is for what a replica that died has left behind.
        let age = self.http.log_ttl.saturating_add(Duration::from_secs(24 * 60 * 60));
        LogLimits { max_events: self.http.max_log_events, max_bytes: self.http.max_log_bytes, ttl: age }
    }

    /// Listens to other replicas: sessions that ended there, answers that arrived there.
    fn subscribe_to_bus(self: &Arc<Self>) {
        let hub = Arc::downgrade(self);
        self.server.shared.feed.bus.subscribe(move |news| {
            let Some(hub) = hub.upgrade() else { return false };
            match news {
                BusEvent::SessionEnded { session } => {
                    if let Some(session) =
                        SessionId::parse(session.as_bytes()).and_then(|id| hub.sessions.get(&id))
                    {
                        hub.delete_logs(hub.sessions.remove(&session));
                    }
                }
                BusEvent::ClientResponse { session, response } => {
                    let session = SessionId::parse(session.as_bytes()).and_then(|id| hub.sessions.get(&id));
                    if let (Some(session), Ok(Incoming::Single(Message::Response(response)))) =
                        (session, parse(response.as_bytes(), &hub.config.limits))
                    {
                        session.connection.outgoing_requests().receive_response(response);
                    }
                }
                BusEvent::ListsChanged { .. } | BusEvent::ResourceUpdated { .. } => {}
            }
            true
        });
    }

    /// Keeps a session where other replicas find it.
    pub(super) fn persist_session(&self, session: &HttpSession) -> StoreFuture<()> {
        let Some((revision, hello, level)) = session.connection.snapshot() else {
            return StoreFuture::Ready(());
        };
        let who = session.connection.caller.principal.as_ref();
        let kept = SessionRecord {
            revision: revision.as_str().to_owned(),
            initialize_params: hello,
            level,
            principal: who.map(|who| (who.issuer().to_owned(), who.subject().to_owned())),
        };
        let Ok(kept) = RawJson::from_value(&kept) else { return StoreFuture::Ready(()) };
        let age = self.http.session_idle_timeout.saturating_mul(2);
        let noted = |kept: Result<Option<u64>, StoreError>| {
            if let Err(error) = kept {
                tracing::error!(error = %Chain(&*error), "a session could not be kept");
            }
        };
        match self.store.put(
            &session_key(session.id()),
            kept.text().to_owned().into(),
            Precondition::Any,
            age,
        ) {
            StoreFuture::Ready(kept) => {
                noted(kept);
                StoreFuture::Ready(())
            }
            StoreFuture::Pending(kept) => StoreFuture::Pending(Box::pin(async move { noted(kept.await) })),
        }
    }

    /// Finds the session that a request names. A shared store is asked only if this replica does not have the session.
    pub(super) fn find_session(self: &Arc<Self>, head: &RequestHead) -> MaybeReady<NamedSession> {
        let id = match head.mcp.session_id {
            SessionIdHeader::Absent => return MaybeReady::Ready(NamedSession::Absent),
            SessionIdHeader::Invalid => return MaybeReady::Ready(NamedSession::Unknown),
            SessionIdHeader::Id(id) => id,
        };
        let caller = head.principal.as_ref();
        if !self.store.is_shared() || self.sessions.contains(&id) {
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
        let record = match self.store.get(&session_key(&id)).wait().await {
            Ok(Some(entry)) => std::str::from_utf8(&entry.value)
                .ok()
                .and_then(|text| serde_json::from_str::<SessionRecord>(text).ok()),
            Ok(None) => None,
            Err(error) => {
                tracing::error!(error = %Chain(&*error), "a session could not be looked up");
                None
            }
        };
        let Some(record) = record else { return };
        let is_same_caller = match (&record.principal, caller) {
            (None, None) => true,
            (Some((issuer, subject)), Some(caller)) => {
                caller.issuer() == issuer && caller.subject() == subject
            }
            (None, Some(_)) | (Some(_), None) => false,
        };
        let (Ok(revision), true) = (record.revision.parse(), is_same_caller) else { return };
        let connection = ServerConnection::with_limits(
            &self.server,
            self.config.clone(),
            caller.cloned(),
            &self.handler_limits,
        );
        connection.restore(revision, record.initialize_params, record.level);
        match self.sessions.insert_restored(id, connection, self.http.max_sessions) {
            true => self.start_sweeper(),
            false => tracing::warn!("a session of another replica was not taken over: session limit reached"),
        }
    }

    /// Ends a session everywhere.
    pub(super) async fn end_session(&self, session: &HttpSession) {
        self.delete_logs(self.sessions.remove(session));
        if self.store.is_shared() {
            drop(self.store.take(&session_key(session.id())).wait().await);
            let session = session.id().as_str().to_owned();
            self.server.shared.feed.bus.publish(BusEvent::SessionEnded { session });
        }
    }

    /// Counts a stream that stays open; none if there are too many.
    pub(super) fn open_stream(&self) -> Option<StreamPermit> {
        self.handler_limits.open_stream()
    }

    /// Forgets streams that nobody will ask for.
    pub(super) fn delete_logs(&self, tracks: Vec<Arc<EventStream>>) {
        for track in tracks {
            if let StoreFuture::Pending(forgotten) = self.store.delete_log(&track.log_key)
                && let Ok(runtime) = tokio::runtime::Handle::try_current()
            {
                runtime.spawn(forgotten);
            }
        }
    }

    /// Lets a request go on without its connection.
    pub(super) fn spawn_detached(
        self: &Arc<Self>,
        runtime: &tokio::runtime::Handle,
        orphan: impl Future<Output = ()> + Send + 'static,
    ) {
        self.detached_requests.fetch_add(1, Ordering::AcqRel);
        let counted = DetachedGuard(self.clone());
        runtime.spawn(boxed(async move {
            orphan.await;
            drop(counted);
        }));
    }

    /// Starts the task that ends idle sessions, once. It stops when the state is dropped.
    pub(super) fn start_sweeper(self: &Arc<Self>) {
        if self.sweeper_started.swap(true, Ordering::AcqRel) {
            return;
        }
        let every = (self.http.session_idle_timeout.min(self.http.log_ttl) / 4)
            .clamp(Duration::from_millis(10), Duration::from_secs(60));
        let hub = Arc::downgrade(self);
        tokio::spawn(boxed(async move {
            loop {
                tokio::time::sleep(every).await;
                let Some(hub) = hub.upgrade() else { return };
                let expired = hub.sessions.remove_idle(hub.http.session_idle_timeout, hub.http.log_ttl);
                hub.delete_logs(expired);
                hub.store.purge_expired();
                if hub.store.is_shared() {
                    let (mut kept, now) = (Vec::new(), Instant::now());
                    hub.sessions.for_each(|session| {
                        // Used since the last sweep, or since the one before in case that sweep was late.
                        if session.idle_time(now) <= every.saturating_mul(2) {
                            kept.push(hub.persist_session(session));
                        }
                    });
                    for kept in kept {
                        kept.wait().await;
                    }
                }
            }
        }));
    }

    /// No more is said on streams that only tell of changes; what is being answered goes on.
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

    /// Waits until nothing goes on without its connection.
    pub(super) async fn wait_for_detached(&self) {
        loop {
            let quiet = self.detached_finished.notified();
            if self.detached_requests.load(Ordering::Acquire) == 0 {
                return;
            }
            quiet.await;
        }
    }

    /// Stops everything.
    pub(super) fn abort(&self) {
        self.close();
        self.sessions.for_each(|session| self.delete_logs(self.sessions.remove(session)));
    }
}

/// What another replica needs to go on with a session.
#[derive(Serialize, Deserialize)]
struct SessionRecord {
    revision: String,
    initialize_params: RawJson,
    level: Level,
    principal: Option<(String, String)>,
}

fn session_key(id: &SessionId) -> String {
    format!("session/{}", id.as_str())
}

/// What runs for long is one kind of task, whatever it does, since each kind is built anew.
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
