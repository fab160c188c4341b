//! A store in the memory of this process.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::{Entry, Events, Expect, LogBounds, Soon, Store, Stored};

/// A store in the memory of this process.
pub struct MemoryStore {
    shards: [Mutex<Shard>; 16],
    hasher: RandomState,
    /// The bytes of all logs.
    logged: AtomicUsize,
    most: usize,
    shared: bool,
}

#[derive(Default)]
struct Shard {
    values: HashMap<String, Value>,
    logs: HashMap<String, Log>,
    last_version: u64,
}

struct Value {
    entry: Entry,
    expires: Option<Instant>,
}

struct Log {
    events: VecDeque<Events>,
    count: usize,
    bytes: usize,
    /// The last event that is gone; 0 is none.
    gone: u64,
    expires: Option<Instant>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// For one server. Its logs have 256 MiB together; of a stream that would need more, nothing is kept.
    pub fn new() -> Self {
        Self {
            shards: Default::default(),
            hasher: RandomState::new(),
            logged: AtomicUsize::new(0),
            most: 256 << 20,
            shared: false,
        }
    }

    /// For servers that share it, as replicas of each other in one process.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// How many bytes all logs may have together.
    #[must_use]
    pub fn most_logged(mut self, bytes: usize) -> Self {
        self.most = bytes;
        self
    }

    fn shard(&self, key: &str) -> MutexGuard<'_, Shard> {
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

    fn get(&self, key: &str) -> Stored<Option<Entry>> {
        let mut shard = self.shard(key);
        if shard.values.get(key).is_some_and(|value| is_past(value.expires)) {
            shard.values.remove(key);
        }
        Soon::Now(Ok(shard.values.get(key).map(|value| value.entry.clone())))
    }

    fn put(&self, key: &str, value: Bytes, expect: Expect, age: Duration) -> Stored<Option<u64>> {
        let mut shard = self.shard(key);
        let there = shard.values.get(key).filter(|value| !is_past(value.expires));
        let version = there.map(|value| value.entry.version);
        let fits = match expect {
            Expect::Any => true,
            Expect::Nothing => version.is_none(),
            Expect::Version(expected) => version == Some(expected),
        };
        if !fits {
            return Soon::Now(Ok(None));
        }
        shard.last_version += 1;
        let version = shard.last_version;
        let value = Value { entry: Entry { value, version }, expires: Instant::now().checked_add(age) };
        shard.values.insert(key.to_owned(), value);
        Soon::Now(Ok(Some(version)))
    }

    fn take(&self, key: &str) -> Stored<Option<Bytes>> {
        let taken = self.shard(key).values.remove(key).filter(|value| !is_past(value.expires));
        Soon::Now(Ok(taken.map(|value| value.entry.value)))
    }

    fn append(&self, log: &str, events: Events, bounds: LogBounds) -> Stored<()> {
        let mut shard = self.shard(log);
        if !shard.logs.contains_key(log) {
            // A log whose time was over begins anew, and what it held before is gone.
            let gone = events.first.saturating_sub(1);
            let new = Log { events: VecDeque::new(), count: 0, bytes: 0, gone, expires: None };
            shard.logs.insert(log.to_owned(), new);
        }
        let Some(kept) = shard.logs.get_mut(log) else { return Soon::Now(Ok(())) };
        kept.expires = Instant::now().checked_add(bounds.age);
        self.logged.fetch_add(kept.add(events), Ordering::AcqRel);
        let too_much = |logged: usize| logged > self.most;
        while kept.count > bounds.events
            || kept.bytes > bounds.bytes
            || too_much(self.logged.load(Ordering::Acquire))
        {
            let Some(less) = kept.drop_oldest() else { break };
            self.logged.fetch_sub(less, Ordering::AcqRel);
        }
        Soon::Now(Ok(()))
    }

    fn read(&self, log: &str, after: u64) -> Stored<Option<Vec<Events>>> {
        let shard = self.shard(log);
        let kept = shard.logs.get(log).filter(|log| !is_past(log.expires) && log.gone <= after);
        Soon::Now(Ok(kept.map(|log| log.after(after))))
    }

    fn forget(&self, log: &str) -> Stored<()> {
        let forgotten = self.shard(log).logs.remove(log);
        if let Some(log) = forgotten {
            self.logged.fetch_sub(log.bytes, Ordering::AcqRel);
        }
        Soon::Now(Ok(()))
    }

    fn sweep(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            shard.values.retain(|_, value| !is_past(value.expires));
            shard.logs.retain(|_, log| {
                let stays = !is_past(log.expires);
                if !stays {
                    self.logged.fetch_sub(log.bytes, Ordering::AcqRel);
                }
                stays
            });
            shard.values.shrink_to_fit();
            shard.logs.shrink_to_fit();
        }
    }
}

impl Log {
    /// Gives how many bytes that added.
    fn add(&mut self, events: Events) -> usize {
        let bytes = events.text.len();
        self.count += count(&events);
        self.bytes += bytes;
        self.events.push_back(events);
        bytes
    }

    /// Gives how many bytes are gone with the oldest event. Of events that came together, memory goes with the last one.
    fn drop_oldest(&mut self) -> Option<usize> {
        let oldest = self.events.front_mut()?;
        let (gone, before) = (oldest.first, oldest.text.len());
        let rest = oldest.since(gone);
        let less = before - rest.text.len();
        match gone < oldest.last {
            true => *oldest = rest,
            false => drop(self.events.pop_front()),
        }
        self.count -= 1;
        self.bytes -= less;
        self.gone = gone;
        Some(less)
    }

    fn after(&self, after: u64) -> Vec<Events> {
        self.events.iter().filter(|events| events.last > after).map(|events| events.since(after)).collect()
    }
}

impl Events {
    /// Those that follow the event `after`.
    pub fn since(&self, after: u64) -> Self {
        if after < self.first {
            return self.clone();
        }
        let passed = usize::try_from(after - self.first + 1).unwrap_or(usize::MAX);
        // No message holds an empty line, so an empty line ends an event.
        let ends = memchr::memmem::find_iter(&self.text, b"\n\n").map(|at| at + 2);
        let at = ends.take(passed).last().unwrap_or(self.text.len());
        Self { first: after + 1, last: self.last, text: self.text.slice(at..) }
    }
}

fn count(events: &Events) -> usize {
    usize::try_from(events.last.saturating_sub(events.first)).unwrap_or(usize::MAX).saturating_add(1)
}

fn is_past(expires: Option<Instant>) -> bool {
    expires.is_some_and(|expires| expires <= Instant::now())
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let logged = self.logged.load(Ordering::Acquire);
        f.debug_struct("MemoryStore").field("logged", &logged).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: LogBounds = LogBounds { events: 4, bytes: 1_000, age: Duration::from_secs(60) };

    fn now<T>(soon: Stored<T>) -> T {
        match soon {
            Soon::Now(value) => value.unwrap(),
            Soon::Later(_) => panic!("memory answers at once"),
        }
    }

    fn events(first: u64, texts: &[&str]) -> Events {
        let text: String = texts.iter().map(|text| format!("{text}\n\n")).collect();
        Events { first, last: first + texts.len() as u64 - 1, text: text.into() }
    }

    fn texts(read: Option<Vec<Events>>) -> Option<String> {
        read.map(|events| events.iter().map(|events| String::from_utf8_lossy(&events.text)).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_put_where_what_is_expected_stands_and_goes_with_its_time() {
        let store = MemoryStore::new();
        let (a, b) = (Bytes::from_static(b"a"), Bytes::from_static(b"b"));
        let age = Duration::from_secs(10);
        let first = now(store.put("k", a.clone(), Expect::Nothing, age)).unwrap();
        assert_eq!(now(store.put("k", b.clone(), Expect::Nothing, age)), None);
        assert_eq!(now(store.put("k", b.clone(), Expect::Version(first + 1), age)), None);
        let second = now(store.put("k", b.clone(), Expect::Version(first), age)).unwrap();
        assert_eq!(now(store.get("k")), Some(Entry { value: b.clone(), version: second }));
        assert_eq!(now(store.take("k")), Some(b));
        assert_eq!((now(store.take("k")), now(store.get("k"))), (None, None));
        now(store.put("k", a.clone(), Expect::Any, age));
        tokio::time::advance(age).await;
        assert_eq!(now(store.get("k")), None);
        assert!(now(store.put("k", a, Expect::Nothing, age)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_is_read_from_any_event_on_until_some_of_it_is_gone() {
        let store = MemoryStore::new();
        now(store.append("l", events(1, &["one", "two", "three"]), BOUNDS));
        now(store.append("l", events(4, &["four"]), BOUNDS));
        let after = |after| texts(now(store.read("l", after)));
        assert_eq!(after(0).unwrap(), "one\n\ntwo\n\nthree\n\nfour\n\n");
        assert_eq!(after(2).unwrap(), "three\n\nfour\n\n");
        assert_eq!(after(3).unwrap(), "four\n\n");
        assert_eq!(after(4).unwrap(), "");
        assert_eq!(texts(now(store.read("other", 0))), None);
        now(store.append("l", events(5, &["five"]), BOUNDS));
        assert_eq!(after(0), None, "the first is gone");
        assert_eq!(after(1).unwrap(), "two\n\nthree\n\nfour\n\nfive\n\n");
        assert_eq!(after(3).unwrap(), "four\n\nfive\n\n");
        now(store.append("l", events(6, &[&"x".repeat(2_000)]), BOUNDS));
        assert_eq!((after(5), after(6).unwrap().as_str()), (None, ""));
        now(store.append("l", events(7, &["a", "b", "c", "d", "e", "f"]), BOUNDS));
        assert_eq!((after(7), after(8).unwrap().as_str()), (None, "c\n\nd\n\ne\n\nf\n\n"));
        now(store.forget("l"));
        assert_eq!(after(12), None);
        assert_eq!(store.logged.load(Ordering::Acquire), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn logs_end_with_their_time_and_have_a_bound_together() {
        let store = MemoryStore::new().most_logged(20);
        now(store.append("a", events(1, &["0123456789"]), BOUNDS));
        now(store.append("b", events(1, &["0123456789"]), BOUNDS));
        assert!(now(store.read("a", 0)).is_some());
        assert!(now(store.read("b", 0)).is_none(), "there was no room for it");
        tokio::time::advance(BOUNDS.age).await;
        assert!(now(store.read("a", 0)).is_none());
        store.sweep();
        assert_eq!(store.logged.load(Ordering::Acquire), 0);
        now(store.append("b", events(1, &["0123456789"]), BOUNDS));
        assert!(now(store.read("b", 0)).is_some());
        tokio::time::advance(BOUNDS.age).await;
        store.sweep();
        now(store.append("b", events(2, &["x"]), BOUNDS));
        assert!(now(store.read("b", 0)).is_none(), "the first is gone");
        assert_eq!(texts(now(store.read("b", 1))).unwrap(), "x\n\n");
    }
}
