//! A store in the memory of this process.

mod inboxes;
mod logs;
mod records;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    Committed, Conflict, Field, LogRead, MAX_KEY_BYTES, MAX_VALUE_BYTES, Position, Received, SpendLimit,
    Store, StoreFuture, StoreResult, StoreScope, Write,
};
use inboxes::Inboxes;
use logs::EventLog;
use records::{Bucket, Record};

/// A store in the memory of this process.
pub struct MemoryStore {
    shards: [Mutex<Shard>; SHARDS],
    inboxes: Arc<Inboxes>,
    hasher: RandomState,
    last_version: AtomicU64,
    /// The bytes of all logs.
    logged_bytes: AtomicUsize,
    max_log_bytes: usize,
    scope: StoreScope,
}

#[derive(Default)]
struct Shard {
    records: HashMap<String, Record>,
    logs: HashMap<String, EventLog>,
    buckets: HashMap<String, Bucket>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// A store for one server. All logs together hold at most 256 MiB; an append that would exceed that is not kept.
    pub fn new() -> Self {
        Self {
            shards: Default::default(),
            inboxes: Arc::default(),
            hasher: RandomState::new(),
            last_version: AtomicU64::new(0),
            logged_bytes: AtomicUsize::new(0),
            max_log_bytes: 256 << 20,
            scope: StoreScope::Process,
        }
    }

    /// Marks the store as shared by several servers in this process, as replicas of each other.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.scope = StoreScope::Replicas;
        self
    }

    /// Sets the limit in bytes for all logs together; 256 MiB by default.
    #[must_use]
    pub fn max_log_bytes(mut self, bytes: usize) -> Self {
        self.max_log_bytes = bytes;
        self
    }

    fn shard_index(&self, key: &str) -> usize {
        usize::try_from(self.hasher.hash_one(key)).unwrap_or(usize::MAX) % SHARDS
    }

    fn lock_shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        let [first, ..] = &self.shards;
        lock(self.shards.get(index).unwrap_or(first))
    }

    fn shard(&self, key: &str) -> MutexGuard<'_, Shard> {
        self.lock_shard(self.shard_index(key))
    }

    fn commit_now(&self, writes: &[Write<'_>]) -> Result<Committed, Conflict> {
        let mut shards = LockedShards::default();
        let mut indexes: Vec<usize> = Vec::new();
        if let [write] = writes {
            if let Some(key) = write.key() {
                let index = self.shard_index(key);
                shards.0.push((index, self.lock_shard(index)));
            }
        } else {
            indexes.extend(writes.iter().filter_map(Write::key).map(|key| self.shard_index(key)));
            // Always locked in this order, so that two commits cannot wait for each other.
            indexes.sort_unstable();
            indexes.dedup();
            shards.0.extend(indexes.into_iter().map(|index| (index, self.lock_shard(index))));
        }
        for (at, write) in writes.iter().enumerate() {
            if let Some(shard) = write.key().and_then(|key| shards.get(self.shard_index(key))) {
                check(shard, write).map_err(|current| Conflict { write: at, current })?;
            }
        }
        let mut committed =
            Committed { version: self.last_version.fetch_add(1, Ordering::Relaxed) + 1, last_event: 0 };
        for write in writes {
            match (write, write.key().and_then(|key| shards.get(self.shard_index(key)))) {
                (Write::Send { to, message, ttl }, _) => self.inboxes.send(*to, message.clone(), *ttl),
                (_, Some(shard)) => self.apply(shard, write, &mut committed),
                (_, None) => {}
            }
        }
        Ok(committed)
    }

    fn apply(&self, shard: &mut Shard, write: &Write<'_>, committed: &mut Committed) {
        match write {
            Write::Set { key, field, value, ttl, .. } => {
                let field = (*field, Field { value: value.clone(), version: committed.version });
                records::set(&mut shard.records, key, field, *ttl);
            }
            Write::Remove { key, field, .. } => records::remove_field(&mut shard.records, key, field),
            Write::Touch { key, ttl } => {
                if let Some(record) = records::find(&mut shard.records, key) {
                    record.expires_at = expiry(*ttl);
                }
            }
            Write::Delete { key } => drop(shard.records.remove(*key)),
            Write::Append(append) => {
                let total = (&self.logged_bytes, self.max_log_bytes);
                committed.last_event = logs::append(&mut shard.logs, append, total);
            }
            Write::DeleteLog { log } => {
                if let Some(log) = shard.logs.remove(*log) {
                    self.logged_bytes.fetch_sub(log.bytes(), Ordering::AcqRel);
                }
            }
            Write::Send { .. } => {}
        }
    }
}

/// The shards that a commit has locked, by their index.
#[derive(Default)]
struct LockedShards<'a>(Vec<(usize, MutexGuard<'a, Shard>)>);

impl LockedShards<'_> {
    fn get(&mut self, index: usize) -> Option<&mut Shard> {
        self.0.iter_mut().find(|(at, _)| *at == index).map(|(_, shard)| &mut **shard)
    }
}

impl Write<'_> {
    /// The key or log that is written.
    fn key(&self) -> Option<&str> {
        match self {
            Write::Set { key, .. }
            | Write::Remove { key, .. }
            | Write::Touch { key, .. }
            | Write::Delete { key } => Some(key),
            Write::Append(append) => Some(append.log),
            Write::DeleteLog { log } => Some(log),
            Write::Send { .. } => None,
        }
    }
}

/// Checks the precondition of a write. Fails with the current value of its field.
fn check(shard: &mut Shard, write: &Write<'_>) -> Result<(), Option<Field>> {
    match write {
        Write::Set { key, field, precondition, .. } | Write::Remove { key, field, precondition } => {
            records::check(&mut shard.records, key, field, *precondition)
        }
        Write::Append(append) => logs::check(&mut shard.logs, append).map_err(|()| None),
        Write::Touch { .. } | Write::Delete { .. } | Write::DeleteLog { .. } | Write::Send { .. } => Ok(()),
    }
}

impl Store for MemoryStore {
    fn scope(&self) -> StoreScope {
        self.scope
    }

    fn read(&self, key: &str, fields: &[&str]) -> StoreResult<Option<Vec<Option<Field>>>> {
        let mut shard = self.shard(key);
        let record = records::find(&mut shard.records, key);
        let found =
            record.map(|record| fields.iter().map(|field| record.fields.get(*field).cloned()).collect());
        StoreFuture::Ready(Ok(found))
    }

    fn list(&self, key: &str, after: &str, max: usize) -> StoreResult<Vec<(String, Field)>> {
        let mut shard = self.shard(key);
        let record = records::find(&mut shard.records, key);
        StoreFuture::Ready(Ok(record.map_or_else(Vec::new, |record| record.fields_after(after, max))))
    }

    fn commit(&self, writes: &[Write<'_>]) -> StoreResult<Result<Committed, Conflict>> {
        if let Err(error) = writes.iter().try_for_each(check_sizes) {
            return StoreFuture::Ready(Err(error.into()));
        }
        StoreFuture::Ready(Ok(self.commit_now(writes)))
    }

    fn take(&self, key: &str) -> StoreResult<Option<Vec<(String, Bytes)>>> {
        let mut shard = self.shard(key);
        let exists = records::find(&mut shard.records, key).is_some();
        let taken = shard.records.remove(key).filter(|_| exists);
        StoreFuture::Ready(Ok(
            taken.map(|record| record.fields.into_iter().map(|(name, field)| (name, field.value)).collect())
        ))
    }

    fn spend(&self, key: &str, cost: u32, limit: SpendLimit) -> StoreResult<Result<(), Duration>> {
        let mut shard = self.shard(key);
        StoreFuture::Ready(Ok(records::spend(&mut shard.buckets, key, cost, limit)))
    }

    fn read_log(&self, log: &str, after: u64) -> StoreResult<Option<LogRead>> {
        let shard = self.shard(log);
        StoreFuture::Ready(Ok(shard.logs.get(log).and_then(|log| log.read(after))))
    }

    fn receive(&self, replica: &str, position: &Position) -> StoreResult<Received> {
        match self.inboxes.messages_after(replica, position) {
            Some(received) => StoreFuture::Ready(Ok(received)),
            None => {
                let (inboxes, replica, position) =
                    (self.inboxes.clone(), replica.to_owned(), position.clone());
                StoreFuture::pending(async move { Ok(inboxes.wait(&replica, position).await) })
            }
        }
    }

    fn inbox(&self, replica: &str) -> StoreResult<Vec<Bytes>> {
        StoreFuture::Ready(Ok(self.inboxes.all_messages(replica)))
    }

    fn renew_lease(&self, replica: &str, ttl: Duration, handled: &Position) -> StoreResult<()> {
        self.inboxes.renew_lease(replica, ttl, handled);
        StoreFuture::Ready(Ok(()))
    }

    fn has_lease(&self, replica: &str) -> StoreResult<bool> {
        StoreFuture::Ready(Ok(self.inboxes.has_lease(replica)))
    }

    fn end_lease(&self, replica: &str) -> StoreResult<()> {
        self.inboxes.end_lease(replica);
        StoreFuture::Ready(Ok(()))
    }

    fn purge_expired(&self) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.records.retain(|_, record| !is_expired(record.expires_at));
            shard.buckets.retain(|_, bucket| !bucket.is_full());
            shard.logs.retain(|_, log| {
                let stays = !log.is_expired();
                if !stays {
                    self.logged_bytes.fetch_sub(log.bytes(), Ordering::AcqRel);
                }
                stays
            });
            shard.records.shrink_to_fit();
            shard.logs.shrink_to_fit();
        }
        self.inboxes.purge_expired();
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let logged = self.logged_bytes.load(Ordering::Acquire);
        f.debug_struct("MemoryStore").field("logged", &logged).finish_non_exhaustive()
    }
}

pub(crate) fn check_sizes(write: &Write<'_>) -> Result<(), &'static str> {
    let (key, field, value) = match write {
        Write::Set { key, field, value, .. } => (*key, *field, value.len()),
        Write::Remove { key, field, .. } => (*key, *field, 0),
        Write::Touch { key, .. } | Write::Delete { key } | Write::DeleteLog { log: key } => (*key, "", 0),
        Write::Append(append) => (append.log, "", append.data.len()),
        Write::Send { message, .. } => ("", "", message.len()),
    };
    if key.len() > MAX_KEY_BYTES || field.len() > MAX_KEY_BYTES {
        return Err("a key is longer than 512 bytes");
    }
    if value > MAX_VALUE_BYTES { Err("a value is larger than 16 MiB") } else { Ok(()) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The instant at which an entry expires; `None` if that is too far away to be expressed.
fn expiry(ttl: Duration) -> Option<Instant> {
    Instant::now().checked_add(ttl)
}

fn is_expired(expires_at: Option<Instant>) -> bool {
    expires_at.is_some_and(|expires_at| expires_at <= Instant::now())
}

const SHARDS: usize = 16;
