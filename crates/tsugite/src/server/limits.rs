//! Limits on what clients use: pending requests, running handlers, sessions, streams, and the bytes held for them.
//!
//! Limits nest. A session has its own limits (`in_flight`, `push_channel`); all sessions and requests of one caller
//! together have a share of each total, and all callers together have the total. What is refused is refused before its
//! handler starts: a handler that has started waits instead.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use foldhash::fast::RandomState as FoldHash;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use super::caller_key::CallerKey;
use super::principal::Caller;
use crate::lock::lock;

/// The totals, and the share of them that one caller may use.
#[derive(Debug, Clone)]
pub(crate) struct LimitSettings {
    /// Handlers that run at the same time.
    pub(crate) handlers: usize,
    /// Requests whose handler has not finished in its first poll: running, waiting for a permit or for an answer.
    pub(crate) pending: usize,
    pub(crate) sessions: usize,
    pub(crate) streams: usize,
    /// Requests that continue without their connection.
    pub(crate) detached: usize,
    pub(crate) connections: usize,
    /// The bytes of incomplete bodies, pending requests, session records and subscriptions together.
    pub(crate) bytes: usize,
    /// The part of each total that one caller may use, in percent.
    pub(crate) caller_percent: usize,
    /// The sessions of one caller, if that is not its share.
    pub(crate) sessions_per_caller: Option<usize>,
}

impl LimitSettings {
    /// The limits of a connection that serves a single client.
    pub(crate) fn single_client(handlers: usize, pending: usize, streams: usize, bytes: usize) -> Self {
        let (detached, connections) = (0, 1);
        Self {
            handlers,
            pending,
            sessions: 1,
            streams,
            detached,
            connections,
            bytes,
            caller_percent: 100,
            sessions_per_caller: None,
        }
    }

    fn total(&self, resource: Resource) -> usize {
        match resource {
            Resource::PendingRequest => self.pending,
            Resource::Session => self.sessions,
            Resource::Stream => self.streams,
            Resource::DetachedRequest => self.detached,
            Resource::Connection => self.connections,
        }
    }

    /// The part of a total that one caller may use, at least 1.
    fn share(&self, total: usize) -> usize {
        match self.caller_percent >= 100 {
            true => total,
            // Divides first where the product could overflow.
            false if total > usize::MAX / 100 => total / 100 * self.caller_percent,
            false => (total * self.caller_percent / 100).max(total.min(1)),
        }
    }

    fn caller_limit(&self, resource: Resource) -> usize {
        match (resource, self.sessions_per_caller) {
            (Resource::Session, Some(sessions)) => sessions,
            _ => self.share(self.total(resource)),
        }
    }
}

/// A thing that is counted. Each may hold bytes, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    PendingRequest,
    Session,
    Stream,
    DetachedRequest,
    Connection,
}

/// Which limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitError {
    /// That of the caller.
    Caller,
    /// That of all callers together.
    Total,
}

/// The limits of one client, or of all clients of a server, and what they use.
pub(crate) struct Limits {
    settings: LimitSettings,
    total: Usage,
    /// The callers that use something.
    callers: Mutex<HashMap<CallerKey, Weak<CallerUsage>, FoldHash>>,
    handler_permits: Arc<Semaphore>,
    blocking_permits: Arc<Semaphore>,
}

/// The amounts in use.
#[derive(Default)]
struct Usage {
    pending: AtomicUsize,
    sessions: AtomicUsize,
    streams: AtomicUsize,
    detached: AtomicUsize,
    connections: AtomicUsize,
    bytes: AtomicUsize,
}

impl Usage {
    fn counter(&self, resource: Resource) -> &AtomicUsize {
        match resource {
            Resource::PendingRequest => &self.pending,
            Resource::Session => &self.sessions,
            Resource::Stream => &self.streams,
            Resource::DetachedRequest => &self.detached,
            Resource::Connection => &self.connections,
        }
    }
}

/// The amounts that one caller uses.
pub(crate) struct CallerUsage {
    key: CallerKey,
    usage: Usage,
    handler_permits: Arc<Semaphore>,
    blocking_permits: Arc<Semaphore>,
}

impl Limits {
    pub(crate) fn new(settings: LimitSettings) -> Arc<Self> {
        let permits = || Arc::new(Semaphore::new(settings.handlers.min(Semaphore::MAX_PERMITS)));
        Arc::new(Self {
            handler_permits: permits(),
            blocking_permits: permits(),
            settings,
            total: Usage::default(),
            callers: Mutex::default(),
        })
    }

    /// The usage of a caller, if it is known.
    pub(crate) fn caller(&self, key: Option<CallerKey>) -> Option<Arc<CallerUsage>> {
        let key = key?;
        let mut callers = lock(&self.callers);
        if let Some(usage) = callers.get(&key).and_then(Weak::upgrade) {
            return Some(usage);
        }
        if callers.len() >= callers.capacity() {
            callers.retain(|_, usage| usage.strong_count() > 0);
        }
        let share = self.settings.share(self.settings.handlers).min(Semaphore::MAX_PERMITS);
        let permits = || Arc::new(Semaphore::new(share));
        let usage = Arc::new(CallerUsage {
            key: key.clone(),
            usage: Usage::default(),
            handler_permits: permits(),
            blocking_permits: permits(),
        });
        callers.insert(key, Arc::downgrade(&usage));
        Some(usage)
    }

    /// Counts a resource and its bytes until the permit is dropped. `resource` is `None` for bytes alone.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        caller: Option<CallerKey>,
        resource: Option<Resource>,
        bytes: usize,
    ) -> Result<LimitPermit, LimitError> {
        let mut permit = self.empty_permit(caller);
        permit.count(resource)?;
        permit.grow(bytes)?;
        Ok(permit)
    }

    /// Checks that a request could become pending, before its handler starts.
    pub(crate) fn check_pending(&self, caller: &Caller, bytes: usize) -> Result<(), LimitError> {
        let pending = self.total.pending.load(Ordering::Relaxed);
        let held = self.total.bytes.load(Ordering::Relaxed).saturating_add(bytes);
        let (max_pending, max_bytes) = (self.settings.pending, self.settings.bytes);
        // One caller uses at most what all use together, so in most cases its own usage need not be looked up.
        if pending < self.settings.share(max_pending) && held <= self.settings.share(max_bytes) {
            return Ok(());
        }
        if pending >= max_pending || held > max_bytes {
            return Err(LimitError::Total);
        }
        if let Some(caller) = self.caller(CallerKey::of_caller(caller)) {
            let pending = caller.usage.pending.load(Ordering::Relaxed);
            let held = caller.usage.bytes.load(Ordering::Relaxed).saturating_add(bytes);
            if pending >= self.settings.share(max_pending) || held > self.settings.share(max_bytes) {
                return Err(LimitError::Caller);
            }
        }
        Ok(())
    }

    /// Counts a request whose handler is still pending after its first poll. It is not refused: the handler has started.
    pub(crate) fn begin_pending(self: &Arc<Self>, caller: &Caller, bytes: usize) -> LimitPermit {
        let mut permit = self.empty_permit(CallerKey::of_caller(caller));
        permit.add_unchecked(Resource::PendingRequest, bytes);
        permit
    }

    /// The permits of the handlers of a caller.
    pub(crate) fn handler_permits(&self, caller: Option<&CallerUsage>) -> NestedPermits {
        let caller = caller.map(|caller| caller.handler_permits.clone());
        NestedPermits { caller, total: self.handler_permits.clone() }
    }

    /// The permits of handlers that block a thread. A thread keeps its permit until it has finished, also if its call was
    /// cancelled.
    pub(crate) fn blocking_permits(&self, caller: &Caller) -> NestedPermits {
        let caller = self.caller(CallerKey::of_caller(caller));
        let caller = caller.map(|caller| caller.blocking_permits.clone());
        NestedPermits { caller, total: self.blocking_permits.clone() }
    }

    fn empty_permit(self: &Arc<Self>, caller: Option<CallerKey>) -> LimitPermit {
        LimitPermit { limits: self.clone(), caller: self.caller(caller), resource: None, bytes: 0 }
    }
}

/// A resource in use. Dropping it releases the resource and its bytes.
pub(crate) struct LimitPermit {
    limits: Arc<Limits>,
    caller: Option<Arc<CallerUsage>>,
    resource: Option<Resource>,
    bytes: usize,
}

impl LimitPermit {
    /// Lowers the limit of one caller for this kind of resource: fails if it uses more than `max` now.
    pub(crate) fn check_caller_limit(&self, max: usize) -> Result<(), LimitError> {
        let used = self.resource.zip(self.caller.as_ref());
        match used
            .is_some_and(|(resource, caller)| caller.usage.counter(resource).load(Ordering::Acquire) > max)
        {
            true => Err(LimitError::Caller),
            false => Ok(()),
        }
    }

    /// Counts more bytes.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), LimitError> {
        let settings = &self.limits.settings;
        add(&self.limits.total.bytes, bytes, settings.bytes).ok_or(LimitError::Total)?;
        if let Some(caller) = &self.caller
            && add(&caller.usage.bytes, bytes, settings.share(settings.bytes)).is_none()
        {
            self.limits.total.bytes.fetch_sub(bytes, Ordering::AcqRel);
            return Err(LimitError::Caller);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Counts fewer bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.limits.total.bytes.fetch_sub(bytes, Ordering::AcqRel);
        if let Some(caller) = &self.caller {
            caller.usage.bytes.fetch_sub(bytes, Ordering::AcqRel);
        }
    }

    fn count(&mut self, resource: Option<Resource>) -> Result<(), LimitError> {
        let Some(resource) = resource else { return Ok(()) };
        let settings = &self.limits.settings;
        let total = self.limits.total.counter(resource);
        add(total, 1, settings.total(resource)).ok_or(LimitError::Total)?;
        if let Some(caller) = &self.caller
            && add(caller.usage.counter(resource), 1, settings.caller_limit(resource)).is_none()
        {
            total.fetch_sub(1, Ordering::AcqRel);
            return Err(LimitError::Caller);
        }
        self.resource = Some(resource);
        Ok(())
    }

    fn add_unchecked(&mut self, resource: Resource, bytes: usize) {
        (self.resource, self.bytes) = (Some(resource), bytes);
        let callers = self.caller.as_ref().map(|caller| &caller.usage);
        for usage in callers.into_iter().chain([&self.limits.total]) {
            usage.counter(resource).fetch_add(1, Ordering::AcqRel);
            usage.bytes.fetch_add(bytes, Ordering::AcqRel);
        }
    }
}

impl Drop for LimitPermit {
    fn drop(&mut self) {
        let callers = self.caller.as_ref().map(|caller| &caller.usage);
        for usage in callers.into_iter().chain([&self.limits.total]) {
            if let Some(resource) = self.resource {
                usage.counter(resource).fetch_sub(1, Ordering::AcqRel);
            }
            usage.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        }
        // The last permit of a caller removes its entry.
        if let Some(caller) = self.caller.take()
            && Arc::strong_count(&caller) == 1
        {
            let mut callers = lock(&self.limits.callers);
            if callers.get(&caller.key).is_some_and(|usage| usage.strong_count() <= 1) {
                callers.remove(&caller.key);
            }
        }
    }
}

/// Adds to a counter, unless that exceeds `max`.
fn add(counter: &AtomicUsize, amount: usize, max: usize) -> Option<()> {
    let added = counter.fetch_add(amount, Ordering::AcqRel).saturating_add(amount);
    if added > max {
        counter.fetch_sub(amount, Ordering::AcqRel);
        return None;
    }
    Some(())
}

/// Permits of a caller within permits of all callers.
#[derive(Debug, Clone)]
pub(crate) struct NestedPermits {
    caller: Option<Arc<Semaphore>>,
    total: Arc<Semaphore>,
}

/// One permit of a caller, and one of all callers.
pub(crate) struct NestedPermit {
    _caller: Option<OwnedSemaphorePermit>,
    _total: Option<OwnedSemaphorePermit>,
}

impl NestedPermits {
    /// Waits for a permit. The permit of the caller comes first, so that a caller above its share takes no place in the
    /// queue of all callers.
    pub(crate) async fn acquire(self) -> NestedPermit {
        let caller = match self.caller {
            Some(caller) => caller.acquire_owned().await.ok(),
            None => None,
        };
        NestedPermit { _caller: caller, _total: self.total.acquire_owned().await.ok() }
    }

    /// A permit that is free now.
    pub(crate) fn try_acquire(&self) -> Option<NestedPermit> {
        let caller = match &self.caller {
            Some(caller) => Some(caller.clone().try_acquire_owned().ok()?),
            None => None,
        };
        let total = Some(self.total.clone().try_acquire_owned().ok()?);
        Some(NestedPermit { _caller: caller, _total: total })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn settings(total: usize) -> LimitSettings {
        LimitSettings {
            handlers: total,
            pending: total,
            sessions: total,
            streams: total,
            detached: total,
            connections: total,
            bytes: total,
            caller_percent: 50,
            sessions_per_caller: None,
        }
    }

    fn key(last: u8) -> Option<CallerKey> {
        CallerKey::new(None, Some(IpAddr::from([127, 0, 0, last])))
    }

    #[test]
    fn caller_gets_its_share_and_all_get_the_total() {
        let limits = Limits::new(settings(4));
        let acquire = |last| limits.acquire(key(last), Some(Resource::Stream), 1);
        let held: Vec<_> = [acquire(1), acquire(1), acquire(2)].into_iter().map(Result::unwrap).collect();
        assert_eq!(acquire(1).err(), Some(LimitError::Caller));
        let fourth = acquire(3).unwrap();
        assert_eq!(acquire(3).err(), Some(LimitError::Total));
        drop(fourth);
        drop(held);
        assert!(lock(&limits.callers).is_empty());
        assert_eq!(limits.total.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(limits.total.streams.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn bytes_grow_until_the_limit_and_are_released() {
        let limits = Limits::new(settings(100));
        let mut permit = limits.acquire(key(1), None, 40).unwrap();
        assert_eq!(permit.grow(11), Err(LimitError::Caller));
        permit.grow(10).unwrap();
        let other = limits.acquire(key(2), None, 50).unwrap();
        assert_eq!(limits.acquire(None, None, 1).err(), Some(LimitError::Total));
        permit.shrink(20);
        assert!(limits.acquire(None, None, 20).is_ok());
        drop((permit, other));
        assert_eq!(limits.total.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn pending_requests_are_checked_before_they_begin() {
        let limits = Limits::new(settings(4));
        let caller = |last: u8| Caller { address: Some(IpAddr::from([10, 0, 0, last])), ..Caller::default() };
        let held: Vec<_> = (0..2).map(|_| limits.begin_pending(&caller(1), 0)).collect();
        assert_eq!(limits.check_pending(&caller(1), 0), Err(LimitError::Caller));
        assert_eq!(limits.check_pending(&caller(2), 0), Ok(()));
        let more: Vec<_> = (2..4).map(|last| limits.begin_pending(&caller(last), 0)).collect();
        assert_eq!(limits.check_pending(&caller(5), 0), Err(LimitError::Total));
        drop((held, more));
        assert_eq!(limits.check_pending(&caller(1), 2), Ok(()));
        assert_eq!(limits.check_pending(&caller(1), 3), Err(LimitError::Caller));
    }

    #[test]
    fn ipv6_network_is_one_caller() {
        let key = |text: &str| CallerKey::new(None, Some(text.parse().unwrap()));
        assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:1"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_eq!(key("::ffff:10.0.0.1"), key("10.0.0.1"));
    }

    #[test]
    fn share_of_a_caller_is_at_least_one() {
        let one = settings(1);
        assert_eq!((one.share(1), one.share(0), one.share(usize::MAX)), (1, 0, usize::MAX / 100 * 50));
    }
}
