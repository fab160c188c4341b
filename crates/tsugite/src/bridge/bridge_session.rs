//! A client with a session: its own connections and subscriptions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::Method;
use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::resources::{Subscribe, Unsubscribe};
use tsugite_core::revision::{RpcError, read_params};

use super::forward::Forwarder;
use super::pairing;
use super::upstream::{ClientIdentity, Downstream, Upstream};
use crate::client::upstream_observer::BoxFuture;
use crate::client::{ChangeFilter, Subscription};
use crate::lock::lock;
use crate::server::layer::RequestParts;

/// A client with a session.
pub(super) struct BridgeSession {
    /// Its connections, in the order of the targets.
    pub(super) upstreams: Vec<Arc<Upstream>>,
    log_level: Mutex<Level>,
    /// The subscriptions to resources of stateless servers.
    resource_subscriptions: Mutex<HashMap<(usize, String), Subscription>>,
    /// The subscriptions to lists of stateless servers.
    list_subscriptions: Mutex<Vec<Subscription>>,
    /// Notifications of the client, forwarded in order.
    notifications: mpsc::Sender<BoxFuture<()>>,
    /// Tasks of the session, which end with it.
    tasks: Mutex<JoinSet<()>>,
}

impl BridgeSession {
    /// Opens the connections of a client. Waits for the only server, but not long for one among several.
    pub(super) async fn open(
        relay: &Arc<Forwarder>,
        job: &RequestParts,
        face: ClientIdentity,
    ) -> Result<Arc<Self>, RpcError> {
        let mut upstreams = Vec::with_capacity(relay.targets.len());
        for target in &relay.targets {
            let near = Downstream::Session(Arc::downgrade(&job.connection), job.revision);
            let face = ClientIdentity { info: face.info.clone(), capabilities: face.capabilities.clone() };
            upstreams.push(
                relay
                    .register_upstream(|| Upstream::open(target, near, face, relay.settings.call_timeout))?,
            );
        }
        match upstreams.as_slice() {
            [only] if relay.is_single() => drop(only.connected_client().await?),
            all => {
                for upstream in all {
                    upstream.wait_while_connecting().await;
                }
            }
        }
        let (saying, mut said) = mpsc::channel::<BoxFuture<()>>(MAX_QUEUED_NOTIFICATIONS);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Some(next) = said.recv().await {
                next.await;
            }
        });
        let session = Arc::new(Self {
            upstreams,
            log_level: Mutex::new(Level::Info),
            resource_subscriptions: Mutex::default(),
            list_subscriptions: Mutex::default(),
            notifications: saying,
            tasks: Mutex::new(tasks),
        });
        Ok(session)
    }

    /// Subscribes to the lists of servers that do not push their changes. Does not wait long for a slow one.
    pub(super) async fn listen(self: &Arc<Self>) {
        let mut begun = Vec::new();
        for upstream in &self.upstreams {
            let (upstream, session) = (Arc::clone(upstream), Arc::downgrade(self));
            let (done, listens) = oneshot::channel();
            // A server that is away is asked when it connects.
            if upstream.client_if_connected().is_some() {
                begun.push(listens);
            }
            lock(&self.tasks).spawn(async move {
                upstream.wait_connected().await;
                let subscription = pairing::listen_for_session(&upstream).await;
                drop(upstream);
                if let (Some(subscription), Some(session)) = (subscription, session.upgrade()) {
                    lock(&session.list_subscriptions).push(subscription);
                }
                // The receiver may have timed out.
                let _: Result<(), ()> = done.send(());
            });
        }
        let deadline = Instant::now() + LISTEN_ACK_TIMEOUT;
        for one in begun {
            let _ = tokio::time::timeout_at(deadline, one).await;
        }
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
        lock(&self.resource_subscriptions).insert(key, subscription);
        Ok(RawJson::empty_object())
    }

    pub(super) fn unsubscribe(
        &self,
        upstream: &Arc<Upstream>,
        params: &RawJson,
        job: &RequestParts,
    ) -> Result<RawJson, RpcError> {
        let uri = read_params::<Unsubscribe>(Raw::from(params), job.revision)?.uri;
        lock(&self.resource_subscriptions).remove(&(Arc::as_ptr(upstream) as usize, uri));
        Ok(RawJson::empty_object())
    }
}

/// Notifications of a client that may be queued.
const MAX_QUEUED_NOTIFICATIONS: usize = 1_024;
/// How long `initialize` waits for subscriptions to be acknowledged.
const LISTEN_ACK_TIMEOUT: Duration = Duration::from_secs(1);
/// Resources one client may subscribe to.
const MAX_SUBSCRIPTIONS: usize = 1_024;
