//! Connections for clients without sessions.
//!
//! A stateless server needs one connection: each request says who sends it. A server of the handshake era knows one client
//! per connection, so each caller with the same capabilities gets one. Such a server may send a request during a call
//! without saying for which, so no two calls that may be asked share a connection.
//!
//! One caller uses at most half of the connections, and suspended calls at most three quarters, so that other calls find
//! one. A call that finds none waits for a limited time.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tsugite_core::protocol::{ClientCapabilities, Implementation, Method, prompts, resources, tools};
use tsugite_core::revision::RpcError;

use super::client_identity::ClientIdentity;
use super::client_request::parse_request_meta;
use super::suspension_slots::{self, SuspensionClaim, SuspensionSlots};
use super::upstream::Upstream;
use crate::era::Era;
use crate::lock::lock;
use crate::server::connection::ServerConnection;
use crate::server::layer::RequestParts;
use crate::server::limits::CallerKey;

/// The connections to one server.
pub(super) struct UpstreamPool {
    entries: Mutex<Vec<PooledUpstream>>,
    freed: Notify,
    max_upstreams: usize,
    wait_timeout: Duration,
    suspension_slots: Arc<SuspensionSlots>,
}

struct PooledUpstream {
    /// The caller it is for and its capabilities, as text to compare.
    caller_key: String,
    /// The caller it counts for.
    caller: Option<CallerKey>,
    /// The client connection it is for, where that is one client, as over stdio.
    peer: Option<Weak<ServerConnection>>,
    upstream: Arc<Upstream>,
    /// Whether a call during which the server may send requests runs on it.
    in_exclusive_use: bool,
    /// Until when the server may still send requests about an abandoned call.
    set_aside_until: Option<Instant>,
}

/// A connection leased for one request.
pub(super) struct UpstreamLease {
    pub(super) upstream: Arc<Upstream>,
    guard: Option<LeaseGuard>,
}

struct LeaseGuard {
    pool: Arc<UpstreamPool>,
    upstream: Arc<Upstream>,
    caller: Option<CallerKey>,
    exclusive: bool,
    /// Whether the next caller may be another client.
    shared: bool,
    completed: bool,
}

impl UpstreamPool {
    /// A pool of at most `max_upstreams` connections, for one of which a request waits for at most `wait_timeout`.
    pub(super) fn new(max_upstreams: usize, wait_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            entries: Mutex::default(),
            freed: Notify::new(),
            max_upstreams,
            wait_timeout,
            suspension_slots: SuspensionSlots::new(max_upstreams, caller_share(max_upstreams)),
        })
    }

    /// Leases a connection, which `open` opens if no other fits. Waits if there are too many and none is free.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        method: &str,
        job: &RequestParts,
        open: impl Fn(ClientIdentity) -> Result<Arc<Upstream>, RpcError>,
    ) -> Result<UpstreamLease, RpcError> {
        let caller = CallerKey::of_caller(&job.caller);
        let (key, face) = caller_identity(job, caller.as_ref())?;
        let begun = Instant::now();
        let may_ask = allows_input_requests(method) && supports_input_requests(&face.capabilities);
        let peer = job.connection.can_push().then(|| Arc::downgrade(&job.connection));
        let shared = peer.is_none();
        loop {
            let first = lock(&self.entries).first().map(|entry| Arc::clone(&entry.upstream));
            if let Some(first) = first {
                // The era of the server decides how connections to it are shared.
                first.wait_while_connecting().await;
                if first.era() == Some(Era::Stateless) {
                    return Ok(UpstreamLease { upstream: first, guard: None });
                }
            }
            let freed = self.freed.notified();
            {
                let mut entries = lock(&self.entries);
                entries.retain(|entry| entry.in_exclusive_use || !entry.is_orphaned());
                let now = Instant::now();
                remove_spare(&mut entries, &key, peer.as_ref(), now);
                let mut theirs = entries.iter_mut().filter(|entry| entry.matches(&key, peer.as_ref()));
                if let Some(entry) = theirs.find(|entry| !may_ask || entry.may_be_asked(now)) {
                    return Ok(self.lease(entry, may_ask, shared));
                }
                if self.make_room(&mut entries, caller.as_ref()) {
                    let upstream = open(face.clone())?;
                    let mut entry = PooledUpstream::new(key, caller, peer, upstream);
                    let lent = self.lease(&mut entry, may_ask, shared);
                    entries.push(entry);
                    return Ok(lent);
                }
            }
            let left = self.wait_timeout.saturating_sub(begun.elapsed());
            if tokio::time::timeout(left, freed).await.is_err() {
                return Err(self.wait_error(caller.as_ref()));
            }
        }
    }

    /// Whether a caller may open one more connection, for which an idle one may have to be closed.
    fn make_room(&self, entries: &mut Vec<PooledUpstream>, caller: Option<&CallerKey>) -> bool {
        let is_own = |entry: &PooledUpstream| caller.is_some() && entry.caller.as_ref() == caller;
        let own = entries.iter().filter(|entry| is_own(entry)).count();
        let has_used_share = caller.is_some() && own >= caller_share(self.max_upstreams);
        if !has_used_share && entries.len() < self.max_upstreams {
            return true;
        }
        let counts = |entry: &&PooledUpstream| !has_used_share || is_own(entry);
        let is_unused = |entry: &PooledUpstream| {
            !entry.in_exclusive_use && entry.upstream.has_no_requests() && counts(&entry)
        };
        let is_idle = |entry: &PooledUpstream| is_unused(entry) && entry.upstream.is_idle();
        let idle = entries.iter().position(is_idle).or_else(|| {
            // Tasks hold at most as many connections as suspended calls, so that other calls still find one.
            let held = entries.iter().filter(|entry| is_unused(entry)).count();
            let limit = entries.iter().filter(counts).count();
            (held > suspension_slots::held_part(limit)).then(|| entries.iter().position(is_unused)).flatten()
        });
        match idle {
            Some(idle) => {
                entries.remove(idle);
                true
            }
            None => false,
        }
    }

    fn wait_error(&self, caller: Option<&CallerKey>) -> RpcError {
        let entries = lock(&self.entries);
        let own = entries.iter().filter(|entry| caller.is_some() && entry.caller.as_ref() == caller).count();
        let used = match entries.len() >= self.max_upstreams {
            true => format!("all {} connections to the server", entries.len()),
            false => format!("all {own} connections to the server that one caller may use"),
        };
        RpcError::internal_with_message(format!(
            "{used} are in use, and none became free within {} s; try again later",
            self.wait_timeout.as_secs_f64()
        ))
    }

    fn lease(self: &Arc<Self>, entry: &mut PooledUpstream, may_ask: bool, shared: bool) -> UpstreamLease {
        let upstream = Arc::clone(&entry.upstream);
        entry.in_exclusive_use |= may_ask;
        let lease = LeaseGuard {
            pool: Arc::clone(self),
            upstream: Arc::clone(&upstream),
            caller: entry.caller.clone(),
            exclusive: may_ask,
            shared,
            completed: false,
        };
        UpstreamLease { upstream, guard: Some(lease) }
    }
}

/// Closes connections that were set aside long enough, if their caller has an earlier one.
fn remove_spare(
    entries: &mut Vec<PooledUpstream>,
    key: &str,
    peer: Option<&Weak<ServerConnection>>,
    now: Instant,
) {
    let mut has_earlier = false;
    entries.retain(|entry| {
        let theirs = entry.matches(key, peer);
        let spare = has_earlier
            && entry.set_aside_until.is_some_and(|until| until <= now)
            && !entry.in_exclusive_use
            && entry.upstream.is_idle();
        has_earlier |= theirs;
        !(theirs && spare)
    });
}

/// Closes the connections that were opened beside another one of the same caller, after a call on one of them: the first
/// that can take any call stays. One that is set aside cannot, so the connection in its place stays too, with its state.
fn close_beside(entries: &mut Vec<PooledUpstream>, index: usize, now: Instant) {
    let Some(entry) = entries.get(index) else { return };
    let (key, peer) = (entry.caller_key.clone(), entry.peer.clone());
    let mut kept = false;
    entries.retain(|entry| {
        let free = entry.matches(&key, peer.as_ref()) && entry.may_be_asked(now);
        let closes = free && kept && entry.upstream.is_idle();
        kept |= free;
        !closes
    });
}

impl PooledUpstream {
    fn new(
        caller_key: String,
        caller: Option<CallerKey>,
        peer: Option<Weak<ServerConnection>>,
        upstream: Arc<Upstream>,
    ) -> Self {
        Self { caller_key, caller, peer, upstream, in_exclusive_use: false, set_aside_until: None }
    }

    /// Whether a call during which the server may send requests can use it.
    fn may_be_asked(&self, now: Instant) -> bool {
        !self.in_exclusive_use && self.set_aside_until.is_none_or(|until| until <= now)
    }

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

    /// Allows the call to be suspended while it holds the connection.
    pub(super) fn suspension_claim(&self) -> Option<SuspensionClaim> {
        let lease = self.guard.as_ref()?;
        Some(SuspensionClaim {
            slots: Arc::clone(&lease.pool.suspension_slots),
            caller: lease.caller.clone(),
        })
    }

    /// Marks the call as answered: the server will not send requests about it any more.
    pub(super) fn mark_completed(&mut self) {
        if let Some(lease) = &mut self.guard {
            lease.completed = true;
        }
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        let mut entries = lock(&self.pool.entries);
        let index = entries.iter().position(|entry| Arc::ptr_eq(&entry.upstream, &self.upstream));
        if let Some(index) = index.filter(|_| self.exclusive) {
            let (abandoned, now) = (self.shared && !self.completed, Instant::now());
            if let Some(entry) = entries.get_mut(index) {
                entry.in_exclusive_use = false;
                // The server may still send a request about an abandoned call, which the next caller would get. Closing
                // the connection instead would end the server and its state.
                entry.set_aside_until = abandoned.then(|| now + SET_ASIDE_TIME);
            }
            if !abandoned {
                close_beside(&mut entries, index, now);
            }
        }
        drop(entries);
        // A request may wait for a connection that is idle or free.
        self.pool.freed.notify_waiters();
    }
}

/// The identity of the caller: as text to compare, and as a server is told it.
fn caller_identity(
    job: &RequestParts,
    caller: Option<&CallerKey>,
) -> Result<(String, ClientIdentity), RpcError> {
    let sender = parse_request_meta(&job.params)?.declared_client()?;
    let info = sender.info().unwrap_or_else(|| Implementation::new("unknown", "0"));
    let (principal, address) = match caller {
        Some(CallerKey::Principal(identity)) => (Some(identity), None),
        Some(CallerKey::Address(address)) => (None, Some(address)),
        None => (None, None),
    };
    // Without a principal a client could open any number of connections with names that it makes up.
    let name = principal.and(Some(&info));
    let key = serde_json::to_string(&(principal, address, name, &sender.capabilities))
        .map_err(|_| RpcError::Internal)?;
    Ok((key, ClientIdentity { info, capabilities: sender.capabilities }))
}

/// The part of a number of connections that one caller may use.
pub(super) fn caller_share(connections: usize) -> usize {
    connections.div_ceil(2)
}

/// Whether a server may send requests before it answers this method.
pub(super) fn allows_input_requests(method: &str) -> bool {
    [tools::Call::NAME, prompts::Get::NAME, resources::Read::NAME].contains(&method)
}

fn supports_input_requests(capabilities: &ClientCapabilities) -> bool {
    capabilities.elicitation.is_some() || capabilities.sampling.is_some() || capabilities.roots.is_some()
}

/// How long no further call that may be asked uses the connection of an abandoned one.
const SET_ASIDE_TIME: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use tsugite_core::revision::Revision;

    use super::*;
    use crate::Server;
    use crate::bridge::suspendable_call::SuspendableCall;
    use crate::bridge::target::Target;
    use crate::bridge::task_use::TaskUse;
    use crate::bridge::upstream::Downstream;
    use crate::client::Client;

    fn upstream() -> Arc<Upstream> {
        let target = Target::new(None, Client::in_process(&Server::new("s", "1")));
        let declared = (&ClientCapabilities::new()).into();
        Arc::new(Upstream::new(&Arc::new(target), Downstream::Stateless, declared, Duration::MAX))
    }

    /// A pool with one connection, on which a call was abandoned or completed.
    fn pool_after_call(completed: bool) -> Arc<UpstreamPool> {
        let pool = UpstreamPool::new(32, Duration::from_secs(30));
        let mut entry = PooledUpstream::new("caller".to_owned(), None, None, upstream());
        let mut lease = pool.lease(&mut entry, true, true);
        lock(&pool.entries).push(entry);
        if completed {
            lease.mark_completed();
        }
        drop(lease);
        pool
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_call_sets_its_connection_aside_for_a_while() {
        assert!(lock(&pool_after_call(true).entries)[0].may_be_asked(Instant::now()));
        let pool = pool_after_call(false);
        assert!(!lock(&pool.entries)[0].may_be_asked(Instant::now()));
        tokio::time::advance(SET_ASIDE_TIME).await;
        assert!(lock(&pool.entries)[0].may_be_asked(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn connection_in_place_of_one_set_aside_stays() {
        let pool = pool_after_call(false);
        let (first, second) = (Arc::clone(&lock(&pool.entries)[0].upstream), upstream());
        lock(&pool.entries).push(PooledUpstream::new("caller".to_owned(), None, None, Arc::clone(&second)));
        let call = |index: usize| {
            let mut lease = pool.lease(&mut lock(&pool.entries)[index], true, true);
            lease.mark_completed();
        };
        call(1);
        call(1);
        assert!(Arc::ptr_eq(&lock(&pool.entries)[1].upstream, &second));
        // The first can be asked again, so one of the two is enough.
        tokio::time::advance(SET_ASIDE_TIME).await;
        call(0);
        let entries = lock(&pool.entries);
        assert!(entries.len() == 1 && Arc::ptr_eq(&entries[0].upstream, &first));
    }

    /// Adds a connection with a task to a pool.
    fn add_with_task(pool: &UpstreamPool) -> (Arc<SuspendableCall>, Arc<TaskUse>) {
        let questions = Arc::new(SuspendableCall::new(ClientCapabilities::new(), Revision::NEWEST));
        let (upstream, used) = (upstream(), Arc::new(TaskUse::new(Duration::from_secs(60))));
        upstream.task_questions.register("1", &questions, &used);
        lock(&pool.entries).push(PooledUpstream::new("caller".to_owned(), None, None, upstream));
        (questions, used)
    }

    #[tokio::test(start_paused = true)]
    async fn connection_of_a_task_stays_beside_another() {
        let pool = pool_after_call(true);
        let (_questions, task) = add_with_task(&pool);
        let call = || {
            let mut lease = pool.lease(&mut lock(&pool.entries)[0], true, true);
            lease.mark_completed();
        };
        call();
        assert_eq!(lock(&pool.entries).len(), 2);
        task.end();
        call();
        assert_eq!(lock(&pool.entries).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_hold_three_quarters_of_the_connections() {
        let pool = UpstreamPool::new(4, Duration::from_secs(30));
        let tasks: Vec<_> = (0..3).map(|_| add_with_task(&pool)).collect();
        let mut entries = pool.entries.lock().unwrap();
        let mut busy = PooledUpstream::new("busy".to_owned(), None, None, upstream());
        busy.in_exclusive_use = true;
        entries.push(busy);
        assert!(!pool.make_room(&mut entries, None));
        entries.pop();
        drop(entries);
        let fourth = add_with_task(&pool);
        let mut entries = pool.entries.lock().unwrap();
        assert!(pool.make_room(&mut entries, None));
        assert_eq!(entries.len(), 3);
        drop((tasks, fourth));
    }

    #[tokio::test(start_paused = true)]
    async fn one_connection_per_caller_stays() {
        let pool = pool_after_call(false);
        let mut entries = lock(&pool.entries);
        let mut other = PooledUpstream::new("caller".to_owned(), None, None, upstream());
        other.set_aside_until = Some(Instant::now() + SET_ASIDE_TIME);
        entries.push(other);
        remove_spare(&mut entries, "caller", None, Instant::now());
        assert_eq!(entries.len(), 2);
        remove_spare(&mut entries, "another", None, Instant::now() + SET_ASIDE_TIME);
        assert_eq!(entries.len(), 2);
        remove_spare(&mut entries, "caller", None, Instant::now() + SET_ASIDE_TIME);
        assert_eq!(entries.len(), 1);
    }
}
