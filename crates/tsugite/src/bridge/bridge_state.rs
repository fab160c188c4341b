//! The state of a bridge: its servers, the connections to them, and the sessions of its clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tsugite_core::revision::RpcError;

use super::bridge_errors::limit_error;
use super::bridge_session::{Announced, BridgeSession};
use super::bridged_tasks::BridgedTasks;
use super::client_identity::ClientIdentity;
use super::describe_lock::DescribeLocks;
use super::description::CapabilitySet;
use super::join_all::join_all;
use super::start_rate::StartRate;
use super::suspended_calls::SuspendedCalls;
use super::target::Target;
use super::upstream::{Downstream, Upstream};
use super::upstream_pool::{UpstreamLease, UpstreamPool, caller_share};
use super::{BridgeSettings, reconnect};
use crate::lock::lock;
use crate::server::connection::{ConnectionId, ServerConnection};
use crate::server::layer::RequestParts;
use crate::server::limits::CallerKey;

/// The state of a bridge: its servers, and the connections to them.
pub(super) struct BridgeState {
    pub(super) targets: Vec<Arc<Target>>,
    pub(super) settings: BridgeSettings,
    pools: Vec<Arc<UpstreamPool>>,
    pub(super) suspended: Arc<SuspendedCalls>,
    /// The tasks that cross between the two forms.
    pub(super) tasks: Arc<BridgedTasks>,
    /// The sessions of connected clients, each until its connection is dropped.
    sessions: Mutex<HashMap<ConnectionId, SessionEntry>>,
    /// Every open connection; `None` when the bridge is closed.
    upstreams: Mutex<Option<Vec<RegisteredUpstream>>>,
    start_rate: Arc<StartRate>,
    pub(super) describe_locks: DescribeLocks,
    this: Weak<Self>,
}

enum SessionEntry {
    Connected(Arc<BridgeSession>),
    /// It was not used. Its first request connects it. The client was told this about the servers.
    Disconnected(Announced),
}

struct RegisteredUpstream {
    upstream: Weak<Upstream>,
    /// The caller that opened it.
    caller: Option<CallerKey>,
}

impl BridgeState {
    pub(super) fn new(targets: Vec<Arc<Target>>, settings: BridgeSettings) -> Arc<Self> {
        let (max_pooled, wait_timeout) = (settings.max_pooled_per_target, settings.connection_wait_timeout);
        let pools = targets.iter().map(|_| UpstreamPool::new(max_pooled, wait_timeout)).collect();
        let suspended =
            Arc::new(SuspendedCalls::new(settings.max_suspended_calls, settings.suspended_call_ttl));
        let start_rate = Arc::new(StartRate::new(wait_timeout));
        Arc::new_cyclic(|this| Self {
            targets,
            settings,
            pools,
            suspended,
            tasks: Arc::default(),
            sessions: Mutex::default(),
            upstreams: Mutex::new(Some(Vec::new())),
            start_rate,
            describe_locks: DescribeLocks::default(),
            this: Weak::clone(this),
        })
    }

    /// Whether there is one server, without a name prefix.
    pub(super) fn is_single(&self) -> bool {
        matches!(self.targets.as_slice(), [target] if target.prefix.is_none())
    }

    /// How the servers describe themselves to clients with these capabilities; `None` if one was not asked yet.
    pub(super) fn descriptions(&self, declared: CapabilitySet) -> Option<Announced> {
        self.targets.iter().map(|target| target.description(declared)).collect()
    }

    /// Fails if the bridge is closed.
    pub(super) fn check_open(&self) -> Result<(), RpcError> {
        match &*lock(&self.upstreams) {
            Some(_) => Ok(()),
            None => Err(closed_error()),
        }
    }

    /// Opens a connection for clients. Fails if there are too many, in all or of this caller.
    pub(super) fn open_upstream(
        &self,
        target: &Arc<Target>,
        downstream: Downstream,
        identity: ClientIdentity,
        caller: Option<CallerKey>,
    ) -> Result<Arc<Upstream>, RpcError> {
        let (timeout, rate) = (self.settings.call_timeout, Arc::clone(&self.start_rate));
        self.register_upstream(caller, || {
            reconnect::open_upstream(target, downstream, identity, timeout, rate)
        })
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
        let caller = CallerKey::of_caller(&job.caller);
        let open = |identity| self.open_upstream(target, Downstream::Stateless, identity, caller.clone());
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
    fn register_upstream(
        &self,
        caller: Option<CallerKey>,
        opening: impl FnOnce() -> Arc<Upstream>,
    ) -> Result<Arc<Upstream>, RpcError> {
        let mut open = lock(&self.upstreams);
        let Some(open) = &mut *open else {
            return Err(closed_error());
        };
        open.retain(|open| open.upstream.strong_count() > 0);
        if open.len() >= self.settings.max_connections {
            let limit = self.settings.max_connections;
            let text = format!("connection limit of the bridge reached ({limit}); try again later");
            return Err(limit_error(text, limit));
        }
        let own = open.iter().filter(|open| caller.is_some() && open.caller == caller).count();
        if own >= caller_share(self.settings.max_connections) {
            return Err(RpcError::internal_with_message(format!(
                "connection limit of one caller reached ({own}); end a session or try again later"
            )));
        }
        let upstream = opening();
        open.push(RegisteredUpstream { upstream: Arc::downgrade(&upstream), caller });
        Ok(upstream)
    }

    /// Closes every connection until its target opens again, and waits until that is done.
    pub(super) async fn pause(&self) {
        let open: Vec<_> =
            lock(&self.upstreams).iter().flatten().filter_map(|open| open.upstream.upgrade()).collect();
        join_all(open.iter().map(|upstream| upstream.pause())).await;
    }

    /// Closes every connection, and waits until that is done.
    pub(super) async fn close(&self) {
        let open = lock(&self.upstreams).take();
        self.suspended.clear();
        self.tasks.clear();
        let open = open.into_iter().flatten().filter_map(|open| open.upstream.upgrade());
        let closing: Vec<_> =
            open.map(|upstream| tokio::spawn(async move { upstream.close().await })).collect();
        for upstream in closing {
            let _ = upstream.await;
        }
        for target in &self.targets {
            target.wait_closed().await;
        }
    }

    /// The session of a client, if it is connected: a request that stands alone has had no handshake.
    pub(super) fn session(&self, link: &ServerConnection) -> Option<Arc<BridgeSession>> {
        match lock(&self.sessions).get(&link.id)? {
            SessionEntry::Connected(session) => Some(Arc::clone(session)),
            SessionEntry::Disconnected(_) => None,
        }
    }

    /// The session of a client that sends a request: from now on it stays connected.
    pub(super) fn use_session(&self, link: &ServerConnection) -> Option<Arc<BridgeSession>> {
        match lock(&self.sessions).get(&link.id)? {
            SessionEntry::Connected(session) => {
                session.mark_used();
                Some(Arc::clone(session))
            }
            SessionEntry::Disconnected(_) => None,
        }
    }

    /// The session of a client that sends a request. If it is not connected, it gets the connections that `open` opens.
    pub(super) fn connect_session(
        &self,
        link: &ServerConnection,
        open: impl FnOnce() -> Result<Vec<Arc<Upstream>>, RpcError>,
    ) -> Result<Arc<BridgeSession>, RpcError> {
        let mut sessions = lock(&self.sessions);
        let announced = match sessions.get(&link.id) {
            Some(SessionEntry::Connected(session)) => {
                session.mark_used();
                return Ok(Arc::clone(session));
            }
            Some(SessionEntry::Disconnected(announced)) => announced.clone(),
            None => Announced::new(),
        };
        let session = Arc::new(BridgeSession::new(open()?, announced));
        session.mark_used();
        sessions.insert(link.id, SessionEntry::Connected(Arc::clone(&session)));
        Ok(session)
    }

    /// Disconnects a session whose server could not be reached. Its next request connects it again.
    pub(super) fn disconnect_session(&self, link: &ServerConnection, session: &Arc<BridgeSession>) {
        self.disconnect_if(link.id, |connected| Arc::ptr_eq(connected, session));
    }

    /// Keeps the session of a client that needs no connection yet.
    pub(super) fn insert_disconnected_session(&self, link: &ServerConnection, announced: Announced) {
        let replaced = lock(&self.sessions).insert(link.id, SessionEntry::Disconnected(announced));
        drop(replaced);
    }

    /// Keeps the session of a client until its connection is dropped.
    pub(super) fn insert_session(&self, link: &ServerConnection, session: &Arc<BridgeSession>) {
        let entry = SessionEntry::Connected(Arc::clone(session));
        let replaced = lock(&self.sessions).insert(link.id, entry);
        drop(replaced);
    }

    /// Disconnects the session of a client later, unless it is used: a process for each of them would idle.
    pub(super) fn disconnect_if_unused(&self, link: &Arc<ServerConnection>, session: &BridgeSession) {
        let (bridge, link) = (Weak::clone(&self.this), Arc::downgrade(link));
        let timeout = self.settings.unused_session_timeout;
        session.spawn(async move {
            loop {
                tokio::time::sleep(timeout).await;
                let (Some(bridge), Some(link)) = (bridge.upgrade(), link.upgrade()) else { return };
                // A client with an open stream waits for notifications.
                if !link.has_push_reader() {
                    return bridge.disconnect_if(link.id, |session| !session.is_used());
                }
            }
        });
    }

    fn disconnect_if(&self, id: ConnectionId, condition: impl FnOnce(&Arc<BridgeSession>) -> bool) {
        let mut sessions = lock(&self.sessions);
        let Some(entry) = sessions.get_mut(&id) else { return };
        let announced = match entry {
            SessionEntry::Connected(session) if condition(session) => session.announced.clone(),
            _ => return,
        };
        let disconnected = std::mem::replace(entry, SessionEntry::Disconnected(announced));
        drop(sessions);
        // A session closes its connections.
        drop(disconnected);
    }

    /// Removes the session of a client whose connection was dropped. It ends when the returned value is dropped.
    pub(super) fn remove_session(&self, id: ConnectionId) -> impl Sized + use<> {
        lock(&self.sessions).remove(&id)
    }
}

fn closed_error() -> RpcError {
    RpcError::internal_with_message("the bridge is closed")
}
