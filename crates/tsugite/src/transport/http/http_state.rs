//! The state that all HTTP connections of a server share: settings, sessions, store and the requests that outlive their
//! connection.

use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tsugite_core::session::http::HttpPolicy;

use super::HttpSettings;
use super::authorization::{Authorization, ResourceUrl};
use super::event_logs::EventLogs;
use super::event_stream::EventStream;
use super::http_settings::Http;
use super::http_sse_sessions::HttpSseSessions;
use super::sessions::Sessions;
use super::waiting_record::ClaimedCalls;
use crate::lock::lock;
use crate::replica::Replica;
use crate::server::connection::{ConnectionScope, ServerConnection};
use crate::server::limits::{CallerKey, LimitError, LimitPermit, Limits, Resource};
use crate::server::principal::Caller;
use crate::server::serving::ServingGuard;
use crate::server::tasks;
use crate::server::{Config, ResponseWriter, Server};
use crate::shared::boxed::boxed;
use crate::shared::log;
use crate::store::{Store, StoreFuture, Write};

/// The state of a server that is served over HTTP.
pub(crate) struct HttpState {
    pub(super) server: Server,
    pub(super) config: Arc<Config>,
    pub(super) http: Arc<Http>,
    /// Set if requests need a token.
    pub(super) authorization: Option<Arc<Authorization>>,
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
    /// Set if the store outlives the process.
    pub(super) replica: Option<Arc<Replica>>,
    pub(super) logs: Arc<EventLogs>,
    /// The address that the listener is bound to, unless it is unspecified.
    pub(super) local_ip: OnceLock<IpAddr>,
    /// The time that the idle times of connections are measured from.
    pub(super) started_at: Instant,
    /// Until the tasks of this process are ended with this transport.
    serving: Mutex<Option<ServingGuard>>,
    closing: AtomicBool,
    aborting: AtomicBool,
    /// The number of requests that continue without a connection.
    detached_requests: AtomicUsize,
    detached_finished: Notify,
    sweeper_started: AtomicBool,
    pub(super) claiming_started: AtomicBool,
    pub(super) claimed: ClaimedCalls,
}

impl HttpState {
    pub(super) fn new(server: &Server) -> Arc<Self> {
        let config = server.shared.config();
        let HttpSettings { http, verifier } = config.http.get();
        let url = ResourceUrl::new(http.public_url.clone(), &http.path, http.tls.is_some());
        let authorization =
            verifier.map(|verifier| Arc::new(Authorization::new(verifier, url, config.clone())));
        let (store, replica) = (config.store.clone(), server.shared.replica().cloned());
        let logs = EventLogs::new(store.clone(), replica.clone(), &http);
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
            authorization,
            policy,
            limits,
            stateless,
            discard_reply: ResponseWriter::discard(),
            sessions: Sessions::new(),
            http_sse_sessions: HttpSseSessions::default(),
            store,
            replica,
            logs,
            local_ip: OnceLock::new(),
            started_at: Instant::now(),
            serving: Mutex::new(Some(ServingGuard::new(server))),
            closing: AtomicBool::new(false),
            aborting: AtomicBool::new(false),
            detached_requests: AtomicUsize::new(0),
            detached_finished: Notify::new(),
            sweeper_started: AtomicBool::new(false),
            claiming_started: AtomicBool::new(false),
            claimed: ClaimedCalls::default(),
        });
        state.receive_replica_messages();
        state
    }

    /// Whether sessions are in a store that outlives the process.
    pub(super) fn is_shared(&self) -> bool {
        self.replica.is_some()
    }

    /// The time to live of a session's record. It is refreshed once in a quarter of it, so that a session lives at least for
    /// its idle timeout.
    pub(super) fn session_ttl(&self) -> Duration {
        self.http.session_idle_timeout.saturating_mul(4) / 3
    }

    /// Reserves the id of a stream, if other replicas may see it.
    pub(super) fn reserve_stream(&self) -> Option<u128> {
        let replica = self.replica.as_ref()?;
        Some(u128::from(replica.id()) << 64 | u128::from(replica.next_number()))
    }

    /// Counts an open stream of a caller.
    pub(super) fn open_stream(&self, caller: Option<CallerKey>) -> Result<LimitPermit, LimitError> {
        self.limits.acquire(caller, Some(Resource::Stream), 0)
    }

    /// Deletes the logs of streams that can no longer be resumed.
    pub(super) fn delete_logs(&self, streams: Vec<Arc<EventStream>>) {
        // Other replicas may need them. They expire by themselves.
        if self.is_shared() {
            return;
        }
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
                state.refresh_active_sessions();
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
        self.wait_for_detached_requests().await;
        self.server.shared.keys().detached.wait_until_ended().await;
    }

    async fn wait_for_detached_requests(&self) {
        loop {
            let finished = self.detached_finished.notified();
            if self.detached_requests.load(Ordering::Acquire) == 0 {
                return;
            }
            finished.await;
        }
    }

    /// Cancels the calls with a key that run without their connection, and waits until that is stored.
    async fn cancel_detached(&self) {
        let keyed = &self.server.shared.keys().detached;
        keyed.cancel();
        self.wait_for_detached_requests().await;
        // A request that ended just now may have left one.
        keyed.cancel();
        keyed.wait_until_ended().await;
    }

    /// Ends all streams and sessions of this process. Sessions in a store continue at other replicas, and the streams of
    /// requests that are cut off end with an error there.
    pub(super) async fn abort(&self) {
        self.begin_abort();
        self.close();
        self.sessions.for_each(|session| self.delete_logs(self.sessions.remove(session)));
        self.stop_tasks().await;
        if let Some(replica) = &self.replica {
            if tokio::time::timeout(STORE_GRACE, self.cancel_detached()).await.is_err() {
                log::warn!("the store did not take the end of all requests in time");
            }
            replica.stop().await;
        }
    }

    /// Ends the tasks of this process, unless another transport serves them.
    pub(super) async fn stop_tasks(&self) {
        let serving = lock(&self.serving).take();
        if let Some(serving) = serving {
            tasks::stop(serving).await;
        }
    }

    /// Lets the requests that end from now on count as cut off.
    pub(super) fn begin_abort(&self) {
        self.aborting.store(true, Ordering::Release);
    }

    /// Whether requests are cut off.
    pub(super) fn is_aborting(&self) -> bool {
        self.aborting.load(Ordering::Acquire)
    }
}

/// How long the store may take at the end.
const STORE_GRACE: Duration = Duration::from_secs(3);

struct DetachedGuard(Arc<HttpState>);

impl Drop for DetachedGuard {
    fn drop(&mut self) {
        self.0.detached_requests.fetch_sub(1, Ordering::AcqRel);
        self.0.detached_finished.notify_waiters();
    }
}
