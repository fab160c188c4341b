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

use super::session::{Session, SessionId, Sessions};
use super::settings::Http;
use super::sse::OldSessions;
use super::track::Track;
use crate::bus::News;
use crate::error::Chain;
use crate::server::connection::{ServerConnection, ConnectionScope};
use crate::server::handler_limits::{StreamPermit, HandlerLimits};
use crate::server::{Config, Principal, ResponseWriter, Server};
use crate::store::{Expect, LogBounds, Soon, Store, StoreError};

pub(crate) struct Hub {
    pub(super) server: Server,
    pub(super) config: Arc<Config>,
    pub(super) http: Arc<Http>,
    pub(super) policy: HttpPolicy,
    pub(super) room: Arc<HandlerLimits>,
    /// For requests that belong to no session.
    pub(super) lone: Arc<ServerConnection>,
    /// For what is no request and gets no answer.
    pub(super) nobody: ResponseWriter,
    pub(super) sessions: Sessions,
    pub(super) old: OldSessions,
    /// For the transport of 2024-11-05, which knows no requests of the stateless era.
    pub(super) old_config: Arc<Config>,
    pub(super) store: Arc<dyn Store>,
    /// The address that is listened on, if it is one of its own.
    pub(super) own: OnceLock<IpAddr>,
    /// What the silence of connections is measured from.
    pub(super) opened: Instant,
    closing: AtomicBool,
    /// Requests that go on without a connection.
    orphans: AtomicUsize,
    quiet: Notify,
    sweeps: AtomicBool,
}

impl Hub {
    pub(super) fn new(server: &Server) -> Arc<Self> {
        let config = server.shared.config();
        let http = config.http.http.clone();
        let room = HandlerLimits::new(http.most_running, http.most_streams);
        let mut policy = HttpPolicy::new(config.revisions);
        policy.sessions = http.sessions;
        policy.allow_delete = http.delete;
        policy.http_sse = http.sse.is_some();
        let lone = ServerConnection::with_scope(ConnectionScope::Stateless, server, config.clone(), None, &room);
        let store = config.http.store.clone();
        let old_config = Arc::new(Config { revisions: config.revisions.handshake(), ..Config::clone(&config) });
        let hub = Arc::new(Self {
            server: server.clone(),
            old_config,
            config,
            http,
            policy,
            room,
            lone,
            nobody: ResponseWriter::discard(),
            sessions: Sessions::new(),
            old: OldSessions::default(),
            store,
            own: OnceLock::new(),
            opened: Instant::now(),
            closing: AtomicBool::new(false),
            orphans: AtomicUsize::new(0),
            quiet: Notify::new(),
            sweeps: AtomicBool::new(false),
        });
        hub.hear();
        hub
    }

    pub(super) fn bounds(&self) -> LogBounds {
        // Streams that are done are forgotten after their time; this is for what a replica that died has left behind.
        let age = self.http.log_age.saturating_add(Duration::from_secs(24 * 60 * 60));
        LogBounds { events: self.http.log_events, bytes: self.http.log_bytes, age }
    }

    /// Listens to other replicas: sessions that ended there, answers that arrived there.
    fn hear(self: &Arc<Self>) {
        let hub = Arc::downgrade(self);
        self.server.shared.feed.bus.hear(move |news| {
            let Some(hub) = hub.upgrade() else { return false };
            match news {
                News::Ended { session } => {
                    if let Some(session) =
                        SessionId::parse(session.as_bytes()).and_then(|id| hub.sessions.known(&id))
                    {
                        hub.forget(hub.sessions.end(&session));
                    }
                }
                News::Answered { session, response } => {
                    let session = SessionId::parse(session.as_bytes()).and_then(|id| hub.sessions.known(&id));
                    if let (Some(session), Ok(Incoming::Single(Message::Response(response)))) =
                        (session, parse(response.as_bytes(), &hub.config.limits))
                    {
                        session.link.outgoing_requests().receive_response(response);
                    }
                }
                News::Changed { .. } | News::Updated { .. } => {}
            }
            true
        });
    }

    /// Keeps a session where other replicas find it.
    pub(super) fn remember(&self, session: &Session) -> Soon<()> {
        let Some((revision, hello, level)) = session.link.snapshot() else { return Soon::Now(()) };
        let who = session.link.caller.principal.as_ref();
        let kept = Kept {
            revision: revision.as_str().to_owned(),
            hello,
            level,
            who: who.map(|who| (who.issuer().to_owned(), who.subject().to_owned())),
        };
        let Ok(kept) = RawJson::from_value(&kept) else { return Soon::Now(()) };
        let age = self.http.session_idle.saturating_mul(2);
        let noted = |kept: Result<Option<u64>, StoreError>| {
            if let Err(error) = kept {
                tracing::error!(error = %Chain(&*error), "a session could not be kept");
            }
        };
        match self.store.put(&key(session.id()), kept.text().to_owned().into(), Expect::Any, age) {
            Soon::Now(kept) => {
                noted(kept);
                Soon::Now(())
            }
            Soon::Later(kept) => Soon::Later(Box::pin(async move { noted(kept.await) })),
        }
    }

    /// Goes on with a session that began at another replica, if that is what is named.
    pub(super) async fn recall(self: &Arc<Self>, id: SessionId, who: Option<&Principal>) {
        if self.sessions.has(&id) {
            return;
        }
        let kept = match self.store.get(&key(&id)).wait().await {
            Ok(Some(entry)) => std::str::from_utf8(&entry.value)
                .ok()
                .and_then(|kept| serde_json::from_str::<Kept>(kept).ok()),
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
        let same = match (&kept.who, who) {
            (None, None) => true,
            (Some((issuer, subject)), Some(who)) => who.issuer() == issuer && who.subject() == subject,
            _ => false,
        };
        let (Ok(revision), true) = (kept.revision.parse(), same) else { return };
        let link = ServerConnection::with_limits(&self.server, self.config.clone(), who.cloned(), &self.room);
        link.restore(revision, kept.hello, kept.level);
        match self.sessions.adopt(id, link, self.http.most_sessions) {
            true => self.begin_to_sweep(),
            false => tracing::warn!("a session of another replica was not taken on: there are too many here"),
        }
    }

    /// Ends a session everywhere.
    pub(super) async fn end(&self, session: &Session) {
        self.forget(self.sessions.end(session));
        if self.store.is_shared() {
            drop(self.store.take(&key(session.id())).wait().await);
            let session = session.id().as_str().to_owned();
            self.server.shared.feed.bus.tell(News::Ended { session });
        }
    }

    /// Counts a stream that stays open; none if there are too many.
    pub(super) fn open(&self) -> Option<StreamPermit> {
        self.room.open_stream()
    }

    /// Forgets streams that nobody will ask for.
    pub(super) fn forget(&self, tracks: Vec<Arc<Track>>) {
        for track in tracks {
            if let Soon::Later(forgotten) = self.store.forget(&track.log)
                && let Ok(runtime) = tokio::runtime::Handle::try_current()
            {
                runtime.spawn(forgotten);
            }
        }
    }

    /// Lets a request go on without its connection.
    pub(super) fn adopt(
        self: &Arc<Self>,
        runtime: &tokio::runtime::Handle,
        orphan: impl Future<Output = ()> + Send + 'static,
    ) {
        self.orphans.fetch_add(1, Ordering::AcqRel);
        let counted = Orphaned(self.clone());
        runtime.spawn(boxed(async move {
            orphan.await;
            drop(counted);
        }));
    }

    /// Looks after sessions that nobody uses any more, for as long as the server is there.
    pub(super) fn begin_to_sweep(self: &Arc<Self>) {
        if self.sweeps.swap(true, Ordering::AcqRel) {
            return;
        }
        let every = (self.http.session_idle.min(self.http.log_age) / 4)
            .clamp(Duration::from_millis(10), Duration::from_secs(60));
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let idle = millis(self.http.session_idle) / millis(every).max(1);
        let hub = Arc::downgrade(self);
        tokio::spawn(boxed(async move {
            loop {
                tokio::time::sleep(every).await;
                let Some(hub) = hub.upgrade() else { return };
                let forgotten = hub.sessions.sweep(idle, hub.http.log_age);
                hub.forget(forgotten);
                hub.store.sweep();
                if hub.store.is_shared() {
                    let mut kept = Vec::new();
                    hub.sessions.each(|session| {
                        if hub.sessions.is_fresh(session) {
                            kept.push(hub.remember(session));
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
        self.lone.close();
        self.sessions.each(|session| {
            session.link.close();
            session.link.wake_push_stream();
        });
        self.old.close();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Waits until nothing goes on without its connection.
    pub(super) async fn settled(&self) {
        loop {
            let quiet = self.quiet.notified();
            if self.orphans.load(Ordering::Acquire) == 0 {
                return;
            }
            quiet.await;
        }
    }

    /// Stops everything.
    pub(super) fn abandon(&self) {
        self.close();
        self.sessions.each(|session| self.forget(self.sessions.end(session)));
    }
}

/// What another replica needs to go on with a session.
#[derive(Serialize, Deserialize)]
struct Kept {
    revision: String,
    hello: RawJson,
    level: Level,
    who: Option<(String, String)>,
}

fn key(id: &SessionId) -> String {
    format!("session/{}", id.as_str())
}

/// What runs for long is one kind of task, whatever it does, since each kind is built anew.
fn boxed(task: impl Future<Output = ()> + Send + 'static) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(task)
}

struct Orphaned(Arc<Hub>);

impl Drop for Orphaned {
    fn drop(&mut self) {
        self.0.orphans.fetch_sub(1, Ordering::AcqRel);
        self.0.quiet.notify_waiters();
    }
}
