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

use super::far::{Face, Far, Near};
use super::listening::listen_for_session;
use super::relay::Relay;
use crate::client::upstream_observer::BoxFuture;
use crate::client::{Subscription, ChangeFilter};
use crate::lock::lock;
use crate::server::layer::RequestParts;

/// A client with a session.
pub(super) struct Session {
    /// Its connections, in the order of the targets.
    pub(super) fars: Vec<Arc<Far>>,
    level: Mutex<Level>,
    /// Resources that are watched at servers without sessions.
    watched: Mutex<HashMap<(usize, String), Subscription>>,
    /// What keeps servers without sessions telling of their lists.
    lists: Mutex<Vec<Subscription>>,
    /// What the client says that is no request, in its order.
    saying: mpsc::Sender<BoxFuture<()>>,
    /// What is done for it beside its requests; it ends with it, also where a server takes its time.
    tasks: Mutex<JoinSet<()>>,
}

impl Session {
    /// Opens the connections of a client. One that stays away holds nobody up for long, unless it is the only one.
    pub(super) async fn open(relay: &Arc<Relay>, job: &RequestParts, face: Face) -> Result<Arc<Self>, RpcError> {
        let mut fars = Vec::with_capacity(relay.targets.len());
        for target in &relay.targets {
            let near = Near::Session(Arc::downgrade(&job.connection), job.revision);
            let face = Face { info: face.info.clone(), capabilities: face.capabilities.clone() };
            fars.push(relay.admit(|| Far::open(target, near, face, relay.settings.patience))?);
        }
        match fars.as_slice() {
            [only] if relay.is_single() => drop(only.up().await?),
            all => {
                for far in all {
                    far.settled().await;
                }
            }
        }
        let (saying, mut said) = mpsc::channel::<BoxFuture<()>>(SAID);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Some(next) = said.recv().await {
                next.await;
            }
        });
        let session = Arc::new(Self {
            fars,
            level: Mutex::new(Level::Info),
            watched: Mutex::default(),
            lists: Mutex::default(),
            saying,
            tasks: Mutex::new(tasks),
        });
        Ok(session)
    }

    /// Asks servers that tell nothing unasked to tell of changes. One that takes its time over it is not waited for.
    pub(super) async fn listen(self: &Arc<Self>) {
        let mut begun = Vec::new();
        for far in &self.fars {
            let (far, session) = (Arc::clone(far), Arc::downgrade(self));
            let (done, listens) = oneshot::channel();
            // One that is away is asked when it comes, and not waited for.
            if far.up_now().is_some() {
                begun.push(listens);
            }
            lock(&self.tasks).spawn(async move {
                far.there().await;
                let subscription = listen_for_session(&far).await;
                drop(far);
                if let (Some(subscription), Some(session)) = (subscription, session.upgrade()) {
                    lock(&session.lists).push(subscription);
                }
                // Whoever waited may have gone on.
                let _: Result<(), ()> = done.send(());
            });
        }
        let deadline = Instant::now() + ACKNOWLEDGING;
        for one in begun {
            let _ = tokio::time::timeout_at(deadline, one).await;
        }
    }

    /// Does something behind what was done before it. A client that says more than can be sent on is not heard.
    pub(super) fn say(&self, next: BoxFuture<()>) {
        if self.saying.try_send(next).is_err() {
            tracing::debug!("a client says more than can be sent on");
        }
    }

    pub(super) fn level(&self) -> Option<Level> {
        Some(*lock(&self.level))
    }

    pub(super) fn set_level(&self, level: Level) {
        *lock(&self.level) = level;
    }

    /// Subscribes to a resource of a server without sessions.
    pub(super) async fn watch(
        &self,
        far: &Arc<Far>,
        params: &RawJson,
        job: &RequestParts,
    ) -> Result<RawJson, RpcError> {
        let uri = read_params::<Subscribe>(Raw::from(params), job.revision)?.uri;
        let key = (Arc::as_ptr(far) as usize, uri);
        if lock(&self.watched).contains_key(&key) {
            return Ok(RawJson::empty_object());
        }
        if lock(&self.watched).len() >= WATCHED {
            return Err(RpcError::InvalidRequest("Too many subscriptions".into()));
        }
        let subscription = far.up().await?.listen(ChangeFilter::new().resource(key.1.clone())).await;
        let subscription = subscription.map_err(|error| far.refusal(error, Subscribe::NAME, job.revision))?;
        lock(&self.watched).insert(key, subscription);
        Ok(RawJson::empty_object())
    }

    pub(super) fn unwatch(&self, far: &Arc<Far>, params: &RawJson, job: &RequestParts) -> Result<RawJson, RpcError> {
        let uri = read_params::<Unsubscribe>(Raw::from(params), job.revision)?.uri;
        lock(&self.watched).remove(&(Arc::as_ptr(far) as usize, uri));
        Ok(RawJson::empty_object())
    }
}

/// Notifications of a client that may wait to be sent on.
const SAID: usize = 1_024;
/// How long servers are waited for that are to tell of changes.
const ACKNOWLEDGING: Duration = Duration::from_secs(1);
/// Resources one client may watch.
const WATCHED: usize = 1_024;
