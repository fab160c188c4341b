//! Connections for clients without sessions.
//!
//! To a server without sessions one connection is enough: each request says who sends it. A server with sessions knows one
//! client per connection, so there is one for each caller that can do the same. And it may ask in the middle of a call
//! without saying which: so no two calls that may ask share one.

use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;
use tsugite_core::jsonrpc::Raw;
use tsugite_core::protocol::{ClientCapabilities, Implementation, Method, prompts, resources, tools};
use tsugite_core::revision::RpcError;
use tsugite_core::session::RequestMeta;

use super::far::{Face, Far, Near};
use super::relay::Relay;
use super::together::together;
use crate::lock::lock;
use crate::server::layer::RequestParts;
use crate::server::connection::ServerConnection;

/// The connections to one server.
#[derive(Default)]
pub(super) struct Pool {
    entries: Mutex<Vec<Entry>>,
    freed: Notify,
}

struct Entry {
    /// Who it is for.
    key: String,
    /// The peer it is for, where that is one client, as over stdio.
    peer: Option<Weak<ServerConnection>>,
    far: Arc<Far>,
    /// Whether a call that may ask runs on it.
    taken: bool,
}

/// A connection for one request.
pub(super) struct Lent {
    pub(super) far: Arc<Far>,
    lease: Option<Lease>,
}

struct Lease {
    pool: Arc<Pool>,
    far: Arc<Far>,
    may_ask: bool,
    /// Whether the next caller may be somebody else.
    shared: bool,
    answered: bool,
}

/// A connection to one of the servers.
pub(super) async fn one(relay: &Arc<Relay>, index: usize, method: &str, job: &RequestParts) -> Result<Lent, RpcError> {
    let (Some(target), Some(pool)) = (relay.targets.get(index), relay.pools.get(index)) else {
        return Err(RpcError::Internal);
    };
    let (key, face) = who(job)?;
    let may_ask = may_be_asked_in(method) && can_be_asked(&face.capabilities);
    let peer = job.connection.can_push().then(|| Arc::downgrade(&job.connection));
    let shared = peer.is_none();
    loop {
        let first = lock(&pool.entries).first().map(|entry| Arc::clone(&entry.far));
        if let Some(first) = first {
            // What kind of server it is decides how it is shared.
            first.settled().await;
            if first.revision().is_some_and(|revision| revision.is_stateless()) {
                return Ok(Lent { far: first, lease: None });
            }
        }
        let freed = pool.freed.notified();
        {
            let mut entries = lock(&pool.entries);
            entries.retain(|entry| entry.taken || !entry.is_orphaned());
            let mut theirs = entries.iter_mut().filter(|entry| entry.is_for(&key, peer.as_ref()));
            if let Some(entry) = theirs.find(|entry| !(may_ask && entry.taken)) {
                return Ok(pool.lend(entry, may_ask, shared));
            }
            let idle = entries.iter().position(|entry| !entry.taken && entry.far.is_idle());
            if let (true, Some(idle)) = (entries.len() >= relay.settings.lent, idle) {
                entries.remove(idle);
            }
            if entries.len() < relay.settings.lent {
                let opening = || Far::open(target, Near::Everybody, copy(&face), relay.settings.patience);
                let far = relay.admit(opening)?;
                let mut entry = Entry { key, peer, far, taken: false };
                let lent = pool.lend(&mut entry, may_ask, shared);
                entries.push(entry);
                return Ok(lent);
            }
        }
        freed.await;
    }
}

/// A connection to each of the servers that are there.
pub(super) async fn all(relay: &Arc<Relay>, job: &RequestParts) -> Result<Vec<Lent>, RpcError> {
    let lending = (0..relay.targets.len()).map(|index| async move {
        let lent = one(relay, index, "", job).await?;
        lent.far.settled().await;
        Ok(lent)
    });
    together(lending).await.into_iter().collect()
}

impl Entry {
    fn is_for(&self, key: &str, peer: Option<&Weak<ServerConnection>>) -> bool {
        let same = match (&self.peer, peer) {
            (Some(mine), Some(other)) => mine.ptr_eq(other),
            (mine, other) => mine.is_none() && other.is_none(),
        };
        same && self.key == key
    }

    /// Whether the peer it was for is gone.
    fn is_orphaned(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.strong_count() == 0)
    }
}

impl Lent {
    /// Whether it is lent to a call that may be asked something.
    pub(super) fn may_be_asked(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.may_ask)
    }

    /// The server has answered: whatever it says from now on is about something else.
    pub(super) fn answered(&mut self) {
        if let Some(lease) = &mut self.lease {
            lease.answered = true;
        }
    }
}

impl Pool {
    fn lend(self: &Arc<Self>, entry: &mut Entry, may_ask: bool, shared: bool) -> Lent {
        let far = Arc::clone(&entry.far);
        entry.taken |= may_ask;
        let lease = Lease { pool: Arc::clone(self), far: Arc::clone(&far), may_ask, shared, answered: false };
        Lent { far, lease: Some(lease) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut entries = lock(&self.pool.entries);
        let index = entries.iter().position(|entry| Arc::ptr_eq(&entry.far, &self.far));
        if let Some(index) = index.filter(|_| self.may_ask) {
            let mut spare = self.shared && !self.answered;
            if let Some(entry) = entries.get_mut(index) {
                entry.taken = false;
                let (key, peer) = (entry.key.clone(), entry.peer.clone());
                // One of its kind stays; what was opened beside it for a while goes. So does one whose server may still
                // ask about a call that was given up: the next caller, who may be another, would be asked.
                let mut others = entries.iter().enumerate().filter(|(at, _)| *at != index);
                spare |= others.any(|(_, other)| other.is_for(&key, peer.as_ref()) && !other.taken)
                    && self.far.is_idle();
            }
            if spare {
                entries.remove(index);
            }
        }
        drop(entries);
        // Whether it has become idle or free, somebody may wait for it.
        self.pool.freed.notify_waiters();
    }
}

/// Who calls and what it can do: as text to compare, and as what a server is told.
fn who(job: &RequestParts) -> Result<(String, Face), RpcError> {
    let peek = RequestMeta::from_params(Raw::from(&job.params)).map_err(|error| RpcError::invalid_params(&error))?;
    let sender = peek.declared_client()?;
    let info = sender.info().unwrap_or_else(|| Implementation::new("unknown", "0"));
    let caller = job.caller.principal.as_ref().map(|who| (who.issuer(), who.subject()));
    let key = serde_json::to_string(&(caller, &info, &sender.capabilities)).map_err(|_| RpcError::Internal)?;
    Ok((key, Face { info, capabilities: sender.capabilities }))
}

fn copy(face: &Face) -> Face {
    Face { info: face.info.clone(), capabilities: face.capabilities.clone() }
}

/// Whether a server may ask something before it answers this.
pub(super) fn may_be_asked_in(method: &str) -> bool {
    [tools::Call::NAME, prompts::Get::NAME, resources::Read::NAME].contains(&method)
}

fn can_be_asked(capabilities: &ClientCapabilities) -> bool {
    capabilities.elicitation.is_some() || capabilities.sampling.is_some() || capabilities.roots.is_some()
}
