//! A client with a session: the connections that are its own, and what it has asked to hear.

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
    /// Resources that are watched at servers without sessions.
    resource_subscriptions: Mutex<HashMap<(usize, String), Subscription>>,
    /// What keeps servers without sessions telling of their lists.
    list_subscriptions: Mutex<Vec<Subscription>>,
    /// What the client says that is no request, in its order.
    notifications: mpsc::Sender<BoxFuture<()>>,
    /// What is done for it beside its requests; it ends with it, also where a server takes its time.
    tasks: Mutex<JoinSet<()>>,
}

impl BridgeSession {
    /// Opens the connections of a client. One that stays away holds nobody up for long, unless it is the only one.
    pub(super) async fn open(
        relay: &Arc<Forwarder>,
        job: &RequestParts,
        face: ClientIdentity,
    ) -> Result<Arc<Self>, RpcError> {
        let mut fars = Vec::with_capacity(relay.targets.len());
        for target in &relay.targets {
            let near = Downstream::Session(Arc::downgrade(&job.connection), job.revision);
            let face = ClientIdentity { info: face.info.clone(), capabilities: face.capabilities.clone() };
            fars.push(
                relay
                    .register_upstream(|| Upstream::open(target, near, face, relay.settings.call_timeout))?,
            );
        }
        match fars.as_slice() {
            [only] if relay.is_single() => drop(only.connected_client().await?),
            all => {
                for far in all {
                    far.wait_while_connecting().await;
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
            upstreams: fars,
            log_level: Mutex::new(Level::Info),
            resource_subscriptions: Mutex::default(),
            list_subscriptions: Mutex::default(),
            notifications: saying,
            tasks: Mutex::new(tasks),
        });
        Ok(session)
    }

    /// Asks servers that tell nothing unasked to tell of changes. One that takes its time over it is not waited for.
    pub(super) async fn listen(self: &Arc<Self>) {
        let mut begun = Vec::new();
        for far in &self.upstreams {
            let (far, session) = (Arc::clone(far), Arc::downgrade(self));
            let (done, listens) = oneshot::channel();
            // One that is away is asked when it comes, and not waited for.
            if far.client_if_connected().is_some() {
                begun.push(listens);
            }
            lock(&self.tasks).spawn(async move {
                far.wait_connected().await;
                let subscription = pairing::listen_for_session(&far).await;
                drop(far);
                if let (Some(subscription), Some(session)) = (subscription, session.upgrade()) {
                    lock(&session.list_subscriptions).push(subscription);
                }
                // Whoever waited may have gone on.
                let _: Result<(), ()> = done.send(());
            });
        }
        let deadline = Instant::now() + LISTEN_ACK_TIMEOUT;
        for one in begun {
            let _ = tokio::time::timeout_at(deadline, one).await;
        }
    }

    /// Does something behind what was done before it. A client that says more than can be sent on is not heard.
    pub(super) fn enqueue(&self, next: BoxFuture<()>) {
        if self.notifications.try_send(next).is_err() {
            tracing::debug!("a client says more than can be sent on");
        }
    }

    pub(super) fn log_level(&self) -> Option<Level> {
        Some(*lock(&self.log_level))
    }

    pub(super) fn set_log_level(&self, level: Level) {
        *lock(&self.log_level) = level;
    }

    /// Subscribes to a resource of a server without sessions.
    pub(super) async fn subscribe(
        &self,
        far: &Arc<Upstream>,
        params: &RawJson,
        job: &RequestParts,
    ) -> Result<RawJson, RpcError> {
        let uri = read_params::<Subscribe>(Raw::from(params), job.revision)?.uri;
        let key = (Arc::as_ptr(far) as usize, uri);
        if lock(&self.resource_subscriptions).contains_key(&key) {
            return Ok(RawJson::empty_object());
        }
        if lock(&self.resource_subscriptions).len() >= MAX_SUBSCRIPTIONS {
            return Err(RpcError::InvalidRequest("Too many subscriptions".into()));
        }
        let subscription =
            far.connected_client().await?.listen(ChangeFilter::new().resource(key.1.clone())).await;
        let subscription =
            subscription.map_err(|error| far.to_rpc_error(error, Subscribe::NAME, job.revision))?;
        lock(&self.resource_subscriptions).insert(key, subscription);
        Ok(RawJson::empty_object())
    }

    pub(super) fn unsubscribe(
        &self,
        far: &Arc<Upstream>,
        params: &RawJson,
        job: &RequestParts,
    ) -> Result<RawJson, RpcError> {
        let uri = read_params::<Unsubscribe>(Raw::from(params), job.revision)?.uri;
        lock(&self.resource_subscriptions).remove(&(Arc::as_ptr(far) as usize, uri));
        Ok(RawJson::empty_object())
    }
}

/// Notifications of a client that may wait to be sent on.
const MAX_QUEUED_NOTIFICATIONS: usize = 1_024;
/// How long servers are waited for that are to tell of changes.
const LISTEN_ACK_TIMEOUT: Duration = Duration::from_secs(1);
/// Resources one client may watch.
const MAX_SUBSCRIPTIONS: usize = 1_024;
