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

use super::HttpSettings;
use super::event_stream::EventStream;
use super::http_settings::Http;
use super::http_sse_endpoints::HttpSseSessions;
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
        let HttpSettings { http, store } = config.http.get();
        let room = HandlerLimits::new(http.max_concurrent_handlers, http.max_streams);
        let mut policy = HttpPolicy::new(config.revisions);
        policy.sessions = http.sessions;
        policy.allow_delete = http.allow_delete;
        policy.http_sse = http.http_sse_paths.is_some();
        let lone =
            ServerConnection::with_scope(ConnectionScope::Stateless, server, config.clone(), None, &room);
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

    /// Goes on with a session that began at another replica, if that is what is named.
    pub(super) async fn restore_session(self: &Arc<Self>, id: SessionId, who: Option<&Principal>) {
        if self.sessions.contains(&id) {
            return;
        }
        let kept = match self.store.get(&session_key(&id)).await {
            Ok(Some(entry)) => std::str::from_utf8(&entry.value)
                .ok()
                .and_then(|kept| serde_json::from_str::<SessionRecord>(kept).ok()),
            Ok(None) => None,
            Err(error) => {
                tracing::error!(
                    error = %Chain(&*error),
                    "a session could not be looked up"
                );
                None
            }
        };
        let Some(kept) = kept else { return };
        let same = match (&kept.principal, who) {
            (None, None) => true,
            (Some((issuer, subject)), Some(who)) => who.issuer() == issuer && who.subject() == subject,
            _ => false,
        };
        let (Ok(revision), true) = (kept.revision.parse(), same) else { return };
        let link = ServerConnection::with_limits(
            &self.server,
            self.config.clone(),
            who.cloned(),
            &self.handler_limits,
        );
        link.restore(revision, kept.initialize_params, kept.level);
        match self.sessions.insert_restored(id, link, self.http.max_sessions) {
            true => self.start_sweeper(),
            false => tracing::warn!("a session of another replica was not taken on: there are too many here"),
        }
    }

    /// Ends a session everywhere.
    pub(super) async fn end_session(&self, session: &HttpSession) {
        self.delete_logs(self.sessions.remove(session));
        if self.store.is_shared() {
            drop(self.store.take(&session_key(session.id())).await);
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

    /// Looks after sessions that nobody uses any more, for as long as the server is there.
    pub(super) fn start_sweeper(self: &Arc<Self>) {
        if self.sweeper_started.swap(true, Ordering::AcqRel) {
            return;
        }
        let every = (self.http.session_idle_timeout.min(self.http.log_ttl) / 4)
            .clamp(Duration::from_millis(10), Duration::from_secs(60));
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let idle = millis(self.http.session_idle_timeout) / millis(every).max(1);
        let hub = Arc::downgrade(self);
        tokio::spawn(boxed(async move {
            loop {
                tokio::time::sleep(every).await;
                let Some(hub) = hub.upgrade() else { return };
                let forgotten = hub.sessions.remove_idle(idle, hub.http.log_ttl);
                hub.delete_logs(forgotten);
                hub.store.purge_expired();
                if hub.store.is_shared() {
                    let mut kept = Vec::new();
                    hub.sessions.for_each(|session| {
                        if hub.sessions.is_recently_used(session) {
                            kept.push(hub.persist_session(session));
                        }
                    });
                    for kept in kept {
                        kept.await;
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
