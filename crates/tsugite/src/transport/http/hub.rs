//! What all connections of a server share.

use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tsugite_core::session::http::Policy;

use super::session::Sessions;
use super::settings::Http;
use super::sse::OldSessions;
use super::track::Track;
use crate::server::link::{Link, Room};
use crate::server::{Config, Server};
use crate::store::{LogBounds, Soon, Store};

pub(crate) struct Hub {
    pub(super) server: Server,
    pub(super) config: Arc<Config>,
    pub(super) http: Arc<Http>,
    pub(super) policy: Policy,
    pub(super) room: Room,
    /// For requests that belong to no session.
    pub(super) lone: Arc<Link>,
    pub(super) sessions: Sessions,
    pub(super) old: OldSessions,
    pub(super) store: Arc<dyn Store>,
    /// The address that is listened on, if it is one of its own.
    pub(super) own: OnceLock<IpAddr>,
    closing: AtomicBool,
    streams: AtomicUsize,
    /// Requests that go on without a connection.
    orphans: AtomicUsize,
    quiet: Notify,
    sweeps: AtomicBool,
}

impl Hub {
    pub(super) fn new(server: &Server) -> Arc<Self> {
        let config = server.shared.config();
        let http = config.http.http.clone();
        let room = Room::new(http.most_running);
        let mut policy = Policy::new(config.served);
        policy.sessions = http.sessions;
        policy.delete = http.delete;
        policy.http_sse = http.sse.is_some();
        let lone = Link::with(server, config.clone(), None, &room);
        let store = config.http.store.clone();
        Arc::new(Self {
            server: server.clone(),
            config,
            http,
            policy,
            room,
            lone,
            sessions: Sessions::new(),
            old: OldSessions::default(),
            store,
            own: OnceLock::new(),
            closing: AtomicBool::new(false),
            streams: AtomicUsize::new(0),
            orphans: AtomicUsize::new(0),
            quiet: Notify::new(),
            sweeps: AtomicBool::new(false),
        })
    }

    pub(super) fn bounds(&self) -> LogBounds {
        LogBounds { events: self.http.log_events, bytes: self.http.log_bytes, age: self.http.log_age }
    }

    /// Counts a stream that stays open; none if there are too many.
    pub(super) fn open(self: &Arc<Self>) -> Option<Open> {
        if self.streams.fetch_add(1, Ordering::AcqRel) >= self.http.most_streams {
            self.streams.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        Some(Open(self.clone()))
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
        runtime.spawn(async move {
            orphan.await;
            drop(counted);
        });
    }

    /// Looks after sessions that nobody uses any more, for as long as the server is there.
    pub(super) fn begin_to_sweep(self: &Arc<Self>) {
        if self.sweeps.swap(true, Ordering::AcqRel) {
            return;
        }
        let every = (self.http.session_idle.min(self.http.log_age) / 4)
            .clamp(Duration::from_millis(10), Duration::from_secs(60));
        let idle = self.http.session_idle.as_millis() / every.as_millis().max(1);
        let idle = u64::try_from(idle).unwrap_or(u64::MAX);
        let hub = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                let Some(hub) = hub.upgrade() else { return };
                let forgotten = hub.sessions.sweep(idle, hub.http.log_age);
                hub.forget(forgotten);
                hub.store.sweep();
            }
        });
    }

    /// No more is said on streams that only tell of changes; what is being answered goes on.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.lone.close();
        self.sessions.each(|session| {
            session.link.close();
            session.link.stop_listening();
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

/// Counts an open stream for as long as it is there.
pub(super) struct Open(Arc<Hub>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Orphaned(Arc<Hub>);

impl Drop for Orphaned {
    fn drop(&mut self) {
        self.0.orphans.fetch_sub(1, Ordering::AcqRel);
        self.0.quiet.notify_waiters();
    }
}
