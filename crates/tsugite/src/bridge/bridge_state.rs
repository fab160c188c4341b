//! The state of a bridge: its servers, the connections to them, and the sessions of its clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tsugite_core::revision::RpcError;

use super::bridge_session::BridgeSession;
use super::client_identity::ClientIdentity;
use super::join_all::join_all;
use super::suspended_calls::SuspendedCalls;
use super::target::Target;
use super::upstream::{Downstream, Upstream};
use super::upstream_pool::{UpstreamLease, UpstreamPool};
use super::{BridgeSettings, reconnect};
use crate::lock::lock;
use crate::server::connection::{ConnectionId, ServerConnection};
use crate::server::layer::RequestParts;

/// The state of a bridge: its servers, and the connections to them.
pub(super) struct BridgeState {
    pub(super) targets: Vec<Arc<Target>>,
    pub(super) settings: BridgeSettings,
    pools: Vec<Arc<UpstreamPool>>,
    pub(super) suspended: Arc<SuspendedCalls>,
    /// The sessions of connected clients, each until its connection is dropped.
    sessions: Mutex<HashMap<ConnectionId, Arc<BridgeSession>>>,
    /// Every open connection; `None` when the bridge is closed.
    upstreams: Mutex<Option<Vec<Weak<Upstream>>>>,
}

impl BridgeState {
    pub(super) fn new(targets: Vec<Arc<Target>>, settings: BridgeSettings) -> Arc<Self> {
        let (max_pooled, wait_timeout) = (settings.max_pooled_per_target, settings.connection_wait_timeout);
        let pools = targets.iter().map(|_| UpstreamPool::new(max_pooled, wait_timeout)).collect();
        let suspended =
            Arc::new(SuspendedCalls::new(settings.max_suspended_calls, settings.suspended_call_ttl));
        Arc::new(Self {
            targets,
            settings,
            pools,
            suspended,
            sessions: Mutex::default(),
            upstreams: Mutex::new(Some(Vec::new())),
        })
    }

    /// Whether there is one server, without a name prefix.
    pub(super) fn is_single(&self) -> bool {
        matches!(self.targets.as_slice(), [target] if target.prefix.is_none())
    }

    /// Opens a connection for clients. Fails if there are too many.
    pub(super) fn open_upstream(
        &self,
        target: &Arc<Target>,
        downstream: Downstream,
        identity: ClientIdentity,
    ) -> Result<Arc<Upstream>, RpcError> {
        let timeout = self.settings.call_timeout;
        self.register_upstream(|| reconnect::open_upstream(target, downstream, identity, timeout))
    }

    /// Leases a connection to one of the servers, for a client without a session. Waits if there are too many.
    pub(super) async fn acquire(
        &self,
        index: usize,
        method: &str,
        job: &RequestParts,
    ) -> Result<UpstreamLease, RpcError> {
        let (Some(target), Some(pool)) = (self.targets.get(index), self.pools.get(index)) else {
            return Err(RpcError::Internal);
        };
        let open = |identity| self.open_upstream(target, Downstream::Stateless, identity);
        pool.acquire(method, job, open).await
    }

    /// Leases a connection to each of the servers.
    pub(super) async fn acquire_all(&self, job: &RequestParts) -> Result<Vec<UpstreamLease>, RpcError> {
        let leasing = (0..self.targets.len()).map(|index| async move {
            let lease = self.acquire(index, "", job).await?;
            lease.upstream.wait_while_connecting().await;
            Ok(lease)
        });
        join_all(leasing).await.into_iter().collect()
    }

    /// Opens a connection and registers it, so that [`BridgeState::close`] closes it. Fails if there are too many.
    fn register_upstream(&self, opening: impl FnOnce() -> Arc<Upstream>) -> Result<Arc<Upstream>, RpcError> {
        let mut open = lock(&self.upstreams);
        let Some(open) = &mut *open else {
            return Err(RpcError::internal_with_message("the bridge is closed"));
        };
        open.retain(|upstream| upstream.strong_count() > 0);
        if open.len() >= self.settings.max_connections {
            return Err(RpcError::internal_with_message(format!(
                "connection limit of the bridge reached ({}); try again later",
                open.len()
            )));
        }
        let upstream = opening();
        open.push(Arc::downgrade(&upstream));
        Ok(upstream)
    }

    /// Closes every connection until its target opens again, and waits until that is done.
    pub(super) async fn pause(&self) {
        let open: Vec<_> = lock(&self.upstreams).iter().flatten().filter_map(Weak::upgrade).collect();
        join_all(open.iter().map(|upstream| upstream.pause())).await;
    }

    /// Closes every connection, and waits until that is done.
    pub(super) async fn close(&self) {
        let open = lock(&self.upstreams).take();
        self.suspended.clear();
        let open = open.into_iter().flatten().filter_map(|upstream| upstream.upgrade());
        let closing: Vec<_> =
            open.map(|upstream| tokio::spawn(async move { upstream.close().await })).collect();
        for upstream in closing {
            let _ = upstream.await;
        }
        for target in &self.targets {
            target.wait_closed().await;
        }
    }

    /// The session of a client, if it has one yet: a request that stands alone has had no handshake.
    pub(super) fn session(&self, link: &Arc<ServerConnection>) -> Option<Arc<BridgeSession>> {
        lock(&self.sessions).get(&link.id).cloned()
    }

    /// Keeps the session of a client until its connection is dropped.
    pub(super) fn insert_session(&self, link: &ServerConnection, session: &Arc<BridgeSession>) {
        let replaced = lock(&self.sessions).insert(link.id, Arc::clone(session));
        drop(replaced);
    }

    /// Removes the session of a client whose connection was dropped.
    pub(super) fn remove_session(&self, id: ConnectionId) -> Option<Arc<BridgeSession>> {
        lock(&self.sessions).remove(&id)
    }
}
