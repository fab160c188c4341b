//! Connections for clients without sessions.
//!
//! A stateless server needs one connection: each request says who sends it. A server of the handshake era knows one client
//! per connection, so each caller with the same capabilities gets one. Such a server may send a request during a call
//! without saying for which, so no two calls that may be asked share a connection.

use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;
use tsugite_core::jsonrpc::Raw;
use tsugite_core::protocol::{ClientCapabilities, Implementation, Method, prompts, resources, tools};
use tsugite_core::revision::RpcError;
use tsugite_core::session::RequestMeta;

use super::forward::Forwarder;
use super::join_all::join_all;
use super::upstream::{ClientIdentity, Downstream, Upstream};
use crate::era::Era;
use crate::lock::lock;
use crate::server::connection::ServerConnection;
use crate::server::layer::RequestParts;

/// The connections to one server.
#[derive(Default)]
pub(super) struct UpstreamPool {
    entries: Mutex<Vec<PooledUpstream>>,
    freed: Notify,
}

struct PooledUpstream {
    /// The caller it is for, as text to compare.
    caller_key: String,
    /// The client connection it is for, where that is one client, as over stdio.
    peer: Option<Weak<ServerConnection>>,
    upstream: Arc<Upstream>,
    /// Whether a call during which the server may send requests runs on it.
    in_exclusive_use: bool,
}

/// A connection leased for one request.
pub(super) struct UpstreamLease {
    pub(super) upstream: Arc<Upstream>,
    guard: Option<LeaseGuard>,
}

struct LeaseGuard {
    pool: Arc<UpstreamPool>,
    upstream: Arc<Upstream>,
    exclusive: bool,
    /// Whether the next caller may be another client.
    shared: bool,
    completed: bool,
}

/// Leases a connection to one of the servers. Waits if there are too many.
pub(super) async fn acquire(
    relay: &Arc<Forwarder>,
    index: usize,
    method: &str,
    job: &RequestParts,
) -> Result<UpstreamLease, RpcError> {
    let (Some(target), Some(pool)) = (relay.targets.get(index), relay.pools.get(index)) else {
        return Err(RpcError::Internal);
    };
    let (key, face) = caller_identity(job)?;
    let may_ask = allows_input_requests(method) && supports_input_requests(&face.capabilities);
    let peer = job.connection.can_push().then(|| Arc::downgrade(&job.connection));
    let shared = peer.is_none();
    loop {
        let first = lock(&pool.entries).first().map(|entry| Arc::clone(&entry.upstream));
        if let Some(first) = first {
            // The era of the server decides how connections to it are shared.
            first.wait_while_connecting().await;
            if first.era() == Some(Era::Stateless) {
                return Ok(UpstreamLease { upstream: first, guard: None });
            }
        }
        let freed = pool.freed.notified();
        {
            let mut entries = lock(&pool.entries);
            entries.retain(|entry| entry.in_exclusive_use || !entry.is_orphaned());
            let mut theirs = entries.iter_mut().filter(|entry| entry.matches(&key, peer.as_ref()));
            if let Some(entry) = theirs.find(|entry| !(may_ask && entry.in_exclusive_use)) {
                return Ok(pool.lease(entry, may_ask, shared));
            }
            let idle = entries.iter().position(|entry| !entry.in_exclusive_use && entry.upstream.is_idle());
            if let (true, Some(idle)) = (entries.len() >= relay.settings.max_pooled_per_target, idle) {
                entries.remove(idle);
            }
            if entries.len() < relay.settings.max_pooled_per_target {
                let opening = || {
                    Upstream::open(
                        target,
                        Downstream::Stateless,
                        clone_identity(&face),
                        relay.settings.call_timeout,
                    )
                };
                let upstream = relay.register_upstream(opening)?;
                let mut entry = PooledUpstream { caller_key: key, peer, upstream, in_exclusive_use: false };
                let lent = pool.lease(&mut entry, may_ask, shared);
                entries.push(entry);
                return Ok(lent);
            }
        }
        freed.await;
    }
}

/// Leases a connection to each of the servers.
pub(super) async fn acquire_all(
    relay: &Arc<Forwarder>,
    job: &RequestParts,
) -> Result<Vec<UpstreamLease>, RpcError> {
    let lending = (0..relay.targets.len()).map(|index| async move {
        let lent = acquire(relay, index, "", job).await?;
        lent.upstream.wait_while_connecting().await;
        Ok(lent)
    });
    join_all(lending).await.into_iter().collect()
}

impl PooledUpstream {
    fn matches(&self, key: &str, peer: Option<&Weak<ServerConnection>>) -> bool {
        let same = match (&self.peer, peer) {
            (Some(mine), Some(other)) => mine.ptr_eq(other),
            (mine, other) => mine.is_none() && other.is_none(),
        };
        same && self.caller_key == key
    }

    /// Whether the client it was for is gone.
    fn is_orphaned(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.strong_count() == 0)
    }
}

impl UpstreamLease {
    /// Whether the server may send requests during the call.
    pub(super) fn is_exclusive(&self) -> bool {
        self.guard.as_ref().is_some_and(|lease| lease.exclusive)
    }

    /// Marks the call as answered: the server will not send requests about it any more.
    pub(super) fn mark_completed(&mut self) {
        if let Some(lease) = &mut self.guard {
            lease.completed = true;
        }
    }
}

impl UpstreamPool {
    fn lease(self: &Arc<Self>, entry: &mut PooledUpstream, may_ask: bool, shared: bool) -> UpstreamLease {
        let upstream = Arc::clone(&entry.upstream);
        entry.in_exclusive_use |= may_ask;
        let lease = LeaseGuard {
            pool: Arc::clone(self),
            upstream: Arc::clone(&upstream),
            exclusive: may_ask,
            shared,
            completed: false,
        };
        UpstreamLease { upstream, guard: Some(lease) }
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        let mut entries = lock(&self.pool.entries);
        let index = entries.iter().position(|entry| Arc::ptr_eq(&entry.upstream, &self.upstream));
        if let Some(index) = index.filter(|_| self.exclusive) {
            let mut spare = self.shared && !self.completed;
            if let Some(entry) = entries.get_mut(index) {
                entry.in_exclusive_use = false;
                let (key, peer) = (entry.caller_key.clone(), entry.peer.clone());
                // One connection per caller stays; those opened beside it are closed. So is one whose server may still
                // send a request about an abandoned call, which the next caller would get.
                let mut others = entries.iter().enumerate().filter(|(at, _)| *at != index);
                spare |= others
                    .any(|(_, other)| other.matches(&key, peer.as_ref()) && !other.in_exclusive_use)
                    && self.upstream.is_idle();
            }
            if spare {
                entries.remove(index);
            }
        }
        drop(entries);
        // A request may wait for a connection that is idle or free.
        self.pool.freed.notify_waiters();
    }
}

/// The identity of the caller: as text to compare, and as a server is told it.
fn caller_identity(job: &RequestParts) -> Result<(String, ClientIdentity), RpcError> {
    let peek =
        RequestMeta::from_params(Raw::from(&job.params)).map_err(|error| RpcError::invalid_params(&error))?;
    let sender = peek.declared_client()?;
    let info = sender.info().unwrap_or_else(|| Implementation::new("unknown", "0"));
    let caller = job.caller.principal.as_ref().map(|who| (who.issuer(), who.subject()));
    let key =
        serde_json::to_string(&(caller, &info, &sender.capabilities)).map_err(|_| RpcError::Internal)?;
    Ok((key, ClientIdentity { info, capabilities: sender.capabilities }))
}

fn clone_identity(face: &ClientIdentity) -> ClientIdentity {
    ClientIdentity { info: face.info.clone(), capabilities: face.capabilities.clone() }
}

/// Whether a server may send requests before it answers this method.
pub(super) fn allows_input_requests(method: &str) -> bool {
    [tools::Call::NAME, prompts::Get::NAME, resources::Read::NAME].contains(&method)
}

fn supports_input_requests(capabilities: &ClientCapabilities) -> bool {
    capabilities.elicitation.is_some() || capabilities.sampling.is_some() || capabilities.roots.is_some()
}
