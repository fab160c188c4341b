//! A store in the memory of this process.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::{EventBatch, LogLimits, Precondition, Store, StoreFuture, StoreResult, VersionedValue};

/// A store in the memory of this process.
pub struct MemoryStore {
    shards: [Mutex<StoreShard>; 16],
    hasher: RandomState,
    /// The bytes of all logs.
    logged_bytes: AtomicUsize,
    max_log_bytes: usize,
    shared: bool,
}

#[derive(Default)]
struct StoreShard {
    values: HashMap<String, ExpiringValue>,
    logs: HashMap<String, EventLog>,
    last_version: u64,
}

struct ExpiringValue {
    entry: VersionedValue,
    expires_at: Option<Instant>,
}

struct EventLog {
    events: VecDeque<EventBatch>,
    count: usize,
    bytes: usize,
    /// The number of the last event that was dropped; 0 if none was.
    last_dropped: u64,
    expires_at: Option<Instant>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// A store for one server. All logs together hold at most 256 MiB; a stream that would exceed that is not kept.
    pub fn new() -> Self {
        Self {
            shards: Default::default(),
            hasher: RandomState::new(),
            logged_bytes: AtomicUsize::new(0),
            max_log_bytes: 256 << 20,
            shared: false,
        }
    }

    /// Marks the store as shared by several servers in this process, as replicas of each other.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Sets the limit in bytes for all logs together; 256 MiB by default.
    #[must_use]
    pub fn max_log_bytes(mut self, bytes: usize) -> Self {
        self.max_log_bytes = bytes;
        self
    }

    fn shard(&self, key: &str) -> MutexGuard<'_, StoreShard> {
        let [first, ..] = &self.shards;
        let at = usize::try_from(self.hasher.hash_one(key) % 16).unwrap_or_default();
        let shard = self.shards.get(at).unwrap_or(first);
        shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Store for MemoryStore {
    fn is_shared(&self) -> bool {
        self.shared
    }

    fn get(&self, key: &str) -> StoreResult<Option<VersionedValue>> {
        let mut shard = self.shard(key);
        if shard.values.get(key).is_some_and(|value| is_expired(value.expires_at)) {
            shard.values.remove(key);
        }
        StoreFuture::Ready(Ok(shard.values.get(key).map(|value| value.entry.clone())))
    }

    fn put(
        &self,
        key: &str,
        value: Bytes,
        precondition: Precondition,
        ttl: Duration,
    ) -> StoreResult<Option<u64>> {
        let mut shard = self.shard(key);
        let current = shard.values.get(key).filter(|value| !is_expired(value.expires_at));
        let version = current.map(|value| value.entry.version);
        let holds = match precondition {
            Precondition::Any => true,
            Precondition::Absent => version.is_none(),
            Precondition::Version(expected) => version == Some(expected),
        };
        if !holds {
            return StoreFuture::Ready(Ok(None));
        }
        shard.last_version += 1;
        let version = shard.last_version;
        let value = ExpiringValue {
            entry: VersionedValue { value, version },
            expires_at: Instant::now().checked_add(ttl),
        };
        shard.values.insert(key.to_owned(), value);
        StoreFuture::Ready(Ok(Some(version)))
    }

    fn take(&self, key: &str) -> StoreResult<Option<Bytes>> {
        let taken = self.shard(key).values.remove(key).filter(|value| !is_expired(value.expires_at));
        StoreFuture::Ready(Ok(taken.map(|value| value.entry.value)))
    }

    fn append(&self, log: &str, events: EventBatch, limits: LogLimits) -> StoreResult<()> {
        let mut shard = self.shard(log);
        if !shard.logs.contains_key(log) {
            // A log that expired starts again, without its earlier events.
            let last_dropped = events.first.saturating_sub(1);
            let new =
                EventLog { events: VecDeque::new(), count: 0, bytes: 0, last_dropped, expires_at: None };
            shard.logs.insert(log.to_owned(), new);
        }
        let Some(kept) = shard.logs.get_mut(log) else { return StoreFuture::Ready(Ok(())) };
        kept.expires_at = Instant::now().checked_add(limits.ttl);
        self.logged_bytes.fetch_add(kept.add(events), Ordering::AcqRel);
        let too_much = |logged: usize| logged > self.max_log_bytes;
        while kept.count > limits.max_events
            || kept.bytes > limits.max_bytes
            || too_much(self.logged_bytes.load(Ordering::Acquire))
        {
            let Some(freed) = kept.drop_oldest() else { break };
            self.logged_bytes.fetch_sub(freed, Ordering::AcqRel);
        }
        StoreFuture::Ready(Ok(()))
    }

    fn read(&self, log: &str, after: u64) -> StoreResult<Option<Vec<EventBatch>>> {
        let shard = self.shard(log);
        let kept = shard.logs.get(log).filter(|log| !is_expired(log.expires_at) && log.last_dropped <= after);
        StoreFuture::Ready(Ok(kept.map(|log| log.events_after(after))))
    }

    fn delete_log(&self, log: &str) -> StoreResult<()> {
        let deleted = self.shard(log).logs.remove(log);
        if let Some(log) = deleted {
            self.logged_bytes.fetch_sub(log.bytes, Ordering::AcqRel);
        }
        StoreFuture::Ready(Ok(()))
    }

    fn purge_expired(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            shard.values.retain(|_, value| !is_expired(value.expires_at));
            shard.logs.retain(|_, log| {
                let stays = !is_expired(log.expires_at);
                if !stays {
                    self.logged_bytes.fetch_sub(log.bytes, Ordering::AcqRel);
                }
                stays
            });
            shard.values.shrink_to_fit();
            shard.logs.shrink_to_fit();
        }
    }
}

impl EventLog {
    /// Appends events and returns their size in bytes.
    fn add(&mut self, events: EventBatch) -> usize {
        let bytes = events.text.len();
        self.count += event_count(&events);
        self.bytes += bytes;
        self.events.push_back(events);
        bytes
    }

    /// Drops the oldest event and returns its size in bytes. The memory of a batch is freed with its last event.
    fn drop_oldest(&mut self) -> Option<usize> {
        let oldest = self.events.front_mut()?;
        let (dropped, before) = (oldest.first, oldest.text.len());
        let rest = oldest.events_after(dropped);
        let freed = before - rest.text.len();
        match dropped < oldest.last {
            true => *oldest = rest,
            false => drop(self.events.pop_front()),
        }
        self.count -= 1;
        self.bytes -= freed;
        self.last_dropped = dropped;
        Some(freed)
    }

    fn events_after(&self, after: u64) -> Vec<EventBatch> {
        self.events
            .iter()
            .filter(|events| events.last > after)
            .map(|events| events.events_after(after))
            .collect()
    }
}

impl EventBatch {
    /// The events after the event with the number `after`.
    pub fn events_after(&self, after: u64) -> Self {
        if after < self.first {
            return self.clone();
        }
        let passed = usize::try_from(after - self.first + 1).unwrap_or(usize::MAX);
        // A message contains no empty line, so an empty line ends an event.
        let ends = memchr::memmem::find_iter(&self.text, b"\n\n").map(|at| at + 2);
        let at = ends.take(passed).last().unwrap_or(self.text.len());
        Self { first: after + 1, last: self.last, text: self.text.slice(at..) }
    }
}

fn event_count(events: &EventBatch) -> usize {
    usize::try_from(events.last.saturating_sub(events.first)).unwrap_or(usize::MAX).saturating_add(1)
}

fn is_expired(expires: Option<Instant>) -> bool {
    expires.is_some_and(|expires| expires <= Instant::now())
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let logged = self.logged_bytes.load(Ordering::Acquire);
        f.debug_struct("MemoryStore").field("logged", &logged).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LogLimits = LogLimits { max_events: 4, max_bytes: 1_000, ttl: Duration::from_secs(60) };

    fn ready<T>(future: StoreResult<T>) -> T {
        match future {
            StoreFuture::Ready(value) => value.unwrap(),
            StoreFuture::Pending(_) => panic!("a store in memory is always ready"),
        }
    }

    fn events(first: u64, texts: &[&str]) -> EventBatch {
        let text: String = texts.iter().map(|text| format!("{text}\n\n")).collect();
        EventBatch { first, last: first + texts.len() as u64 - 1, text: text.into() }
    }

    fn texts(read: Option<Vec<EventBatch>>) -> Option<String> {
        read.map(|events| events.iter().map(|events| String::from_utf8_lossy(&events.text)).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn value_is_replaced_only_if_the_precondition_holds() {
        let store = MemoryStore::new();
        let (a, b) = (Bytes::from_static(b"a"), Bytes::from_static(b"b"));
        let age = Duration::from_secs(10);
        let first = ready(store.put("k", a.clone(), Precondition::Absent, age)).unwrap();
        assert_eq!(ready(store.put("k", b.clone(), Precondition::Absent, age)), None);
        assert_eq!(ready(store.put("k", b.clone(), Precondition::Version(first + 1), age)), None);
        let second = ready(store.put("k", b.clone(), Precondition::Version(first), age)).unwrap();
        assert_eq!(ready(store.get("k")), Some(VersionedValue { value: b.clone(), version: second }));
        assert_eq!(ready(store.take("k")), Some(b));
        assert_eq!((ready(store.take("k")), ready(store.get("k"))), (None, None));
        ready(store.put("k", a.clone(), Precondition::Any, age));
        tokio::time::advance(age).await;
        assert_eq!(ready(store.get("k")), None);
        assert!(ready(store.put("k", a, Precondition::Absent, age)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn log_is_readable_from_any_event_that_is_kept() {
        let store = MemoryStore::new();
        ready(store.append("l", events(1, &["one", "two", "three"]), LIMITS));
        ready(store.append("l", events(4, &["four"]), LIMITS));
        let after = |after| texts(ready(store.read("l", after)));
        assert_eq!(after(0).unwrap(), "one\n\ntwo\n\nthree\n\nfour\n\n");
        assert_eq!(after(2).unwrap(), "three\n\nfour\n\n");
        assert_eq!(after(3).unwrap(), "four\n\n");
        assert_eq!(after(4).unwrap(), "");
        assert_eq!(texts(ready(store.read("other", 0))), None);
        ready(store.append("l", events(5, &["five"]), LIMITS));
        assert_eq!(after(0), None, "the first is gone");
        assert_eq!(after(1).unwrap(), "two\n\nthree\n\nfour\n\nfive\n\n");
        assert_eq!(after(3).unwrap(), "four\n\nfive\n\n");
        ready(store.append("l", events(6, &[&"x".repeat(2_000)]), LIMITS));
        assert_eq!((after(5), after(6).unwrap().as_str()), (None, ""));
        ready(store.append("l", events(7, &["a", "b", "c", "d", "e", "f"]), LIMITS));
        assert_eq!((after(7), after(8).unwrap().as_str()), (None, "c\n\nd\n\ne\n\nf\n\n"));
        ready(store.delete_log("l"));
        assert_eq!(after(12), None);
        assert_eq!(store.logged_bytes.load(Ordering::Acquire), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn logs_expire_and_share_one_size_limit() {
        let store = MemoryStore::new().max_log_bytes(20);
        ready(store.append("a", events(1, &["0123456789"]), LIMITS));
        ready(store.append("b", events(1, &["0123456789"]), LIMITS));
        assert!(ready(store.read("a", 0)).is_some());
        assert!(ready(store.read("b", 0)).is_none(), "there was no room for it");
        tokio::time::advance(LIMITS.ttl).await;
        assert!(ready(store.read("a", 0)).is_none());
        store.purge_expired();
        assert_eq!(store.logged_bytes.load(Ordering::Acquire), 0);
        ready(store.append("b", events(1, &["0123456789"]), LIMITS));
        assert!(ready(store.read("b", 0)).is_some());
        tokio::time::advance(LIMITS.ttl).await;
        store.purge_expired();
        ready(store.append("b", events(2, &["x"]), LIMITS));
        assert!(ready(store.read("b", 0)).is_none(), "the first is gone");
        assert_eq!(texts(ready(store.read("b", 1))).unwrap(), "x\n\n");
    }
}
