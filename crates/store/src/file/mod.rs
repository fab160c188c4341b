//! The store in one file.

mod clock;
mod commit;
mod error;
mod logs;
mod open;
mod private;
mod purge;
mod queues;
mod records;
mod shared;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;

use crate::memory::check_sizes;
use crate::{
    Committed, Conflict, Field, LogRead, MemoryStore, Position, Received, SpendLimit, Store, StoreError,
    StoreFuture, StoreResult, StoreScope, Write,
};
use commit::OwnedWrite;
pub use error::FileStoreError;
use error::Reason;
use open::{MakeDatabase, Opener};
use shared::Shared;
use tables::Snapshot;
use writer::Writer;

/// A store in one file, for one process at a time. The section [One file](crate#one-file) says what is in it.
///
/// Dropping the store finishes the writes that wait and closes the file, which blocks the thread for as long as the disk
/// needs.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("tsugite-store-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("state.redb");
/// let store = tsugite_store::FileStore::open(&path)?.max_log_bytes(64 << 20);
/// # drop(store);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
pub struct FileStore {
    path: PathBuf,
    writer: Writer,
    shared: Arc<Shared>,
    /// Leases and rate limits, which end with the process.
    volatile: MemoryStore,
}

impl FileStore {
    /// Opens the store in `path`, and creates it if there is no such file. The new file can be read by its owner alone.
    ///
    /// Blocks; the longest after a process was killed, when the whole file is read once. Fails if the folder of the file does
    /// not exist, if another process uses the file, and if the file is damaged, of a newer version or of another kind. It is
    /// never overwritten.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileStoreError> {
        Self::open_with(path.as_ref(), Box::new(|builder, file| builder.create_file(file)))
    }

    fn open_with(path: &Path, make: MakeDatabase) -> Result<Self, FileStoreError> {
        let failed = |reason| FileStoreError::new(path, reason);
        let opener = Opener::new(path, make);
        let database = opener.open_or_create()?;
        let snapshot = Snapshot::new(&database).map_err(|error| failed(Reason::Damaged(error)))?;
        let shared = Arc::new(Shared::new(snapshot, MAX_LOG_BYTES));
        let writer = Writer::start(opener, database, shared.clone());
        let writer = writer.map_err(|error| failed(Reason::Thread(error)))?;
        Ok(Self { path: path.to_owned(), writer, shared, volatile: MemoryStore::new() })
    }

    /// Sets the limit in bytes for all logs together; 256 MiB by default. An append that would exceed it is not kept.
    #[must_use]
    pub fn max_log_bytes(self, bytes: usize) -> Self {
        self.shared.max_log_bytes.store(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
        self
    }

    /// The number of transactions that were written to the disk since the store was opened, for tests.
    #[doc(hidden)]
    pub fn transactions(&self) -> u64 {
        self.shared.transactions.load(Ordering::Relaxed)
    }

    /// Reads on a thread for blocking work.
    fn read_blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Snapshot, u64) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreResult<T> {
        StoreFuture::pending(self.shared.clone().read_blocking(read))
    }

    /// Changes the inbox of a replica, if there is one.
    fn change_inbox(
        &self,
        replica: &str,
        change: impl FnOnce(&mut tables::Tables<'_>, &str) -> Result<(), StoreError> + Send + 'static,
    ) -> StoreResult<()> {
        // Most replicas have no messages, and a flush of the disk for each renewal would be wasted.
        match self.shared.read(|snapshot, _| queues::has_inbox(snapshot, replica)) {
            Ok(false) => StoreFuture::Ready(Ok(())),
            Ok(true) => {
                let replica = replica.to_owned();
                self.writer.write(0, move |tables| change(tables, &replica))
            }
            Err(error) => StoreFuture::Ready(Err(error)),
        }
    }
}

impl Store for FileStore {
    fn scope(&self) -> StoreScope {
        StoreScope::Restart
    }

    // Records are small and mostly in the cache: at once, since a thread for blocking work costs more than the read.
    fn read(&self, key: &str, fields: &[&str]) -> StoreResult<Option<Vec<Option<Field>>>> {
        StoreFuture::Ready(self.shared.read(|snapshot, now| records::read(snapshot, key, fields, now)))
    }

    fn list(&self, key: &str, after: &str, max: usize) -> StoreResult<Vec<(String, Field)>> {
        StoreFuture::Ready(self.shared.read(|snapshot, now| records::list(snapshot, key, after, max, now)))
    }

    fn commit(&self, writes: &[Write<'_>]) -> StoreResult<Result<Committed, Conflict>> {
        if let Err(error) = writes.iter().try_for_each(check_sizes) {
            return StoreFuture::Ready(Err(error.into()));
        }
        let writes: Vec<OwnedWrite> = writes.iter().map(OwnedWrite::from).collect();
        let bytes = writes.iter().map(OwnedWrite::size).sum();
        self.writer.write(bytes, move |tables| commit::commit(tables, &writes))
    }

    fn take(&self, key: &str) -> StoreResult<Option<Vec<(String, Bytes)>>> {
        let key = key.to_owned();
        self.writer.write(0, move |tables| records::take(tables, &key))
    }

    fn spend(&self, key: &str, cost: u32, limit: SpendLimit) -> StoreResult<Result<(), Duration>> {
        self.volatile.spend(key, cost, limit)
    }

    fn read_log(&self, log: &str, after: u64) -> StoreResult<Option<LogRead>> {
        let log = log.to_owned();
        self.read_blocking(move |snapshot, now| logs::read(snapshot, &log, after, now))
    }

    fn receive(&self, replica: &str, position: &Position) -> StoreResult<Received> {
        let (shared, replica, position) = (self.shared.clone(), replica.to_owned(), position.clone());
        StoreFuture::pending(async move {
            loop {
                let changed = shared.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let (replica, position) = (replica.clone(), position.clone());
                let received = shared.clone().read_blocking(move |snapshot, now| {
                    queues::messages_after(snapshot, &replica, &position, now)
                });
                if let Some(received) = received.await? {
                    return Ok(received);
                }
                changed.await;
            }
        })
    }

    fn inbox(&self, replica: &str) -> StoreResult<Vec<Bytes>> {
        let replica = replica.to_owned();
        self.read_blocking(move |snapshot, now| queues::inbox(snapshot, &replica, now))
    }

    fn renew_lease(&self, replica: &str, ttl: Duration, handled: &Position) -> StoreResult<()> {
        if let StoreFuture::Ready(Err(error)) = self.volatile.renew_lease(replica, ttl, &Position::default())
        {
            return StoreFuture::Ready(Err(error));
        }
        let handled = handled.clone();
        self.change_inbox(replica, move |tables, replica| queues::keep(tables, replica, ttl, &handled))
    }

    fn has_lease(&self, replica: &str) -> StoreResult<bool> {
        self.volatile.has_lease(replica)
    }

    fn end_lease(&self, replica: &str) -> StoreResult<()> {
        if let StoreFuture::Ready(Err(error)) = self.volatile.end_lease(replica) {
            return StoreFuture::Ready(Err(error));
        }
        self.change_inbox(replica, queues::end)
    }

    fn purge_expired(&self) {
        self.volatile.purge_expired();
        self.writer.purge();
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("path", &self.path).finish_non_exhaustive()
    }
}

const MAX_LOG_BYTES: u64 = 256 << 20;
