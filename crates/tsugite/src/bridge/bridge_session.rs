//! A client with a session: its own connections and subscriptions.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::Method;
use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::resources::{Subscribe, Unsubscribe};
use tsugite_core::revision::{RpcError, read_params};

use super::description::ServerDescription;
use super::kept_subscription::keep_listening;
use super::upstream::Upstream;
use crate::client::ChangeFilter;
use crate::client::upstream_observer::BoxFuture;
use crate::lock::lock;
use crate::server::layer::RequestParts;

/// The descriptions that a client was told, in the order of the targets; none for a client without a handshake here.
pub(super) type Announced = Vec<Option<Arc<ServerDescription>>>;

/// A client with a session.
pub(super) struct BridgeSession {
    /// Its connections, in the order of the targets.
    pub(super) upstreams: Vec<Arc<Upstream>>,
    /// How the servers were described to the client.
    pub(super) announced: Announced,
    log_level: Mutex<Level>,
    /// Whether the client has sent a request after the handshake.
    used: AtomicBool,
    /// Whether the connections were waited for, so that requests need not.
    ready: AtomicBool,
    /// The tasks that subscribe to resources of stateless servers.
    resource_subscriptions: Mutex<HashMap<(usize, String), AbortHandle>>,
    /// Notifications of the client, forwarded in order.
    notifications: mpsc::Sender<BoxFuture<()>>,
    /// Tasks of the session, which end with it.
    tasks: Mutex<JoinSet<()>>,
}

impl BridgeSession {
    /// A session with these connections, one per target.
    pub(super) fn new(upstreams: Vec<Arc<Upstream>>, announced: Announced) -> Self {
        let (notifications, mut queued) = mpsc::channel::<BoxFuture<()>>(MAX_QUEUED_NOTIFICATIONS);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Some(next) = queued.recv().await {
                next.await;
            }
        });
        Self {
            upstreams,
            announced,
            log_level: Mutex::new(Level::Info),
            used: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            resource_subscriptions: Mutex::default(),
            notifications,
            tasks: Mutex::new(tasks),
        }
    }

    pub(super) fn mark_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Marks the connections as waited for. True the first time.
    pub(super) fn mark_ready(&self) -> bool {
        !self.ready.swap(true, Ordering::AcqRel)
    }

    /// Starts a task that ends with the session.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        lock(&self.tasks).spawn(task)
    }

    /// Queues a notification behind earlier ones. It is dropped if the queue is full.
    pub(super) fn enqueue(&self, next: BoxFuture<()>) {
        if self.notifications.try_send(next).is_err() {
            tracing::debug!("a notification was dropped: the queue of the session is full");
        }
    }

    pub(super) fn log_level(&self) -> Option<Level> {
        Some(*lock(&self.log_level))
    }

    pub(super) fn set_log_level(&self, level: Level) {
        *lock(&self.log_level) = level;
    }

    /// Subscribes to a resource of a stateless server, with a listen stream.
    pub(super) async fn subscribe(
        &self,
        upstream: &Arc<Upstream>,
        params: &RawJson,
        job: &RequestParts,
    ) -> Result<RawJson, RpcError> {
        let uri = read_params::<Subscribe>(Raw::from(params), job.revision)?.uri;
        let key = (Arc::as_ptr(upstream) as usize, uri);
        if lock(&self.resource_subscriptions).contains_key(&key) {
            return Ok(RawJson::empty_object());
        }
        if lock(&self.resource_subscriptions).len() >= MAX_SUBSCRIPTIONS {
            return Err(RpcError::InvalidRequest("Too many subscriptions".into()));
        }
        let subscription =
            upstream.connected_client().await?.listen(ChangeFilter::new().resource(key.1.clone())).await;
        let subscription =
            subscription.map_err(|error| upstream.to_rpc_error(error, Subscribe::NAME, job.revision))?;
        let filter = ChangeFilter::new().resource(key.1.clone());
        let task = self.spawn(keep_listening(
            Arc::downgrade(upstream),
            Some(subscription),
            move |_, _| filter.clone(),
            |_, _, _| {},
        ));
        if let Some(earlier) = lock(&self.resource_subscriptions).insert(key, task) {
            earlier.abort();
        }
        Ok(RawJson::empty_object())
    }

    pub(super) fn unsubscribe(
        &self,
        upstream: &Arc<Upstream>,
        params: &RawJson,
        job: &RequestParts,
    ) -> Result<RawJson, RpcError> {
        let uri = read_params::<Unsubscribe>(Raw::from(params), job.revision)?.uri;
        let key = (Arc::as_ptr(upstream) as usize, uri);
        if let Some(task) = lock(&self.resource_subscriptions).remove(&key) {
            task.abort();
        }
        Ok(RawJson::empty_object())
    }
}

/// Notifications of a client that may be queued.
const MAX_QUEUED_NOTIFICATIONS: usize = 1_024;
/// Resources one client may subscribe to.
const MAX_SUBSCRIPTIONS: usize = 1_024;
