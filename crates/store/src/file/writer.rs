//! The thread that writes.
//!
//! It takes all writes that wait, applies them one after the other in one transaction, commits that transaction to the disk
//! once, and then answers all callers. Writes that arrive meanwhile wait for the next transaction, so many callers share one
//! flush of the disk.
//!
//! After a failure, such as a full disk, none of the writes of the transaction is acknowledged. The database engine takes no
//! further writes then, so the file is opened again, which goes back to the last complete commit.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redb::Database;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::open::Opener;
use super::purge::Purge;
use super::shared::Shared;
use super::tables::{Snapshot, Tables};
use crate::{StoreError, StoreFuture, StoreResult};

/// The way to the thread. Dropping it finishes the writes that wait and closes the file.
pub(super) struct Writer {
    requests: Sender<Request>,
    /// Limits the bytes that wait, in units of [`UNIT`].
    capacity: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

enum Request {
    Write(Box<dyn QueuedWrite>),
    Purge,
    Close,
}

impl Writer {
    pub(super) fn start(opener: Opener, database: Database, shared: Arc<Shared>) -> io::Result<Self> {
        let (requests, received) = mpsc::channel();
        let writing = Writing { opener, database: Some(database), shared, purge: None };
        let thread =
            thread::Builder::new().name("tsugite-store".to_owned()).spawn(move || writing.run(&received))?;
        Ok(Self { requests, capacity: Arc::new(Semaphore::new(CAPACITY)), thread: Some(thread) })
    }

    /// Writes `bytes`, about, with `operation`. Waits while too many bytes wait already.
    pub(super) fn write<T: Send + 'static>(
        &self,
        bytes: usize,
        operation: impl FnOnce(&mut Tables<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreResult<T> {
        let (requests, capacity) = (self.requests.clone(), self.capacity.clone());
        let units = u32::try_from((1 + bytes / UNIT).min(CAPACITY)).unwrap_or(u32::MAX);
        let written = async move {
            let permit = capacity.acquire_many_owned(units).await?;
            let (reply, answer) = oneshot::channel();
            let write = Operation { operation: Some(operation), outcome: None, reply, _permit: permit };
            requests.send(Request::Write(Box::new(write))).map_err(|_| CLOSED)?;
            answer.await.map_err(|_| CLOSED)?
        };
        StoreFuture::pending(async move {
            tokio::time::timeout(WRITE_TIMEOUT, written).await.unwrap_or_else(|_| {
                Err("the store did not finish a write within 30 s; the disk is too slow or does not answer".into())
            })
        })
    }

    pub(super) fn purge(&self) {
        // Without a receiver the store is closed, and nothing expires any more.
        drop(self.requests.send(Request::Purge));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.requests.send(Request::Close));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// A write that waits for its transaction.
trait QueuedWrite: Send {
    fn apply(&mut self, tables: &mut Tables<'_>) -> Result<(), StoreError>;

    /// Answers the caller.
    fn finish(self: Box<Self>, result: Result<(), String>);
}

struct Operation<T, F> {
    operation: Option<F>,
    outcome: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
    _permit: OwnedSemaphorePermit,
}

impl<T: Send, F> QueuedWrite for Operation<T, F>
where
    F: FnOnce(&mut Tables<'_>) -> Result<T, StoreError> + Send,
{
    fn apply(&mut self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        if let Some(operation) = self.operation.take() {
            self.outcome = Some(operation(tables)?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, result: Result<(), String>) {
        let Self { outcome, reply, .. } = *self;
        let outcome = result.and_then(|()| outcome.ok_or_else(|| CLOSED.to_owned()));
        // A caller that no longer waits needs no answer.
        drop(reply.send(outcome.map_err(Into::into)));
    }
}

/// The state of the thread.
struct Writing {
    opener: Opener,
    /// `None` after a failure, until the file could be opened again.
    database: Option<Database>,
    shared: Arc<Shared>,
    purge: Option<Purge>,
}

impl Writing {
    fn run(mut self, requests: &Receiver<Request>) {
        let mut closing = false;
        loop {
            let mut batch = Vec::new();
            let mut next = if self.purge.is_some() || closing {
                requests.try_recv().ok()
            } else if self.database.is_none() {
                // Without a write, too: readers need the file, and an empty batch opens it.
                match requests.recv_timeout(REOPEN_INTERVAL) {
                    Err(RecvTimeoutError::Timeout) => None,
                    request => Some(request.unwrap_or(Request::Close)),
                }
            } else {
                Some(requests.recv().unwrap_or(Request::Close))
            };
            while let Some(request) = next {
                match request {
                    Request::Write(write) => batch.push(write),
                    Request::Purge => drop(self.purge.get_or_insert_default()),
                    Request::Close => closing = true,
                }
                next = if batch.len() < MAX_BATCH { requests.try_recv().ok() } else { None };
            }
            if closing && batch.is_empty() {
                break;
            }
            self.write(batch);
        }
        self.shared.close();
    }

    /// Writes a batch and answers its callers.
    fn write(&mut self, mut batch: Vec<Box<dyn QueuedWrite>>) {
        let written = catch_unwind(AssertUnwindSafe(|| self.try_write(&mut batch)));
        let written = written.unwrap_or_else(|_| Err("the database engine panicked in a write".into()));
        let result = written.map_err(|error| {
            self.database = None;
            self.purge = None;
            format!("writing to {} failed: {error}", self.opener.path().display())
        });
        for write in batch {
            write.finish(result.clone());
        }
    }

    fn try_write(&mut self, batch: &mut [Box<dyn QueuedWrite>]) -> Result<(), StoreError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => {
                let database = self.opener.open()?;
                self.shared.publish(Snapshot::new(&database)?);
                // The transaction that failed may have happened, with its messages.
                self.shared.changed.notify_waiters();
                database
            }
        };
        let database = self.database.insert(database);
        let transaction = database.begin_write()?;
        let max_log_bytes = self.shared.max_log_bytes.load(Ordering::Relaxed);
        let mut tables = Tables::open(&transaction, self.shared.clock.now(), max_log_bytes)?;
        for write in batch {
            write.apply(&mut tables)?;
        }
        if let Some(purge) = &mut self.purge
            && purge.step(&mut tables)?
        {
            self.purge = None;
        }
        let Tables { mut counters, now, changed, sent, .. } = tables;
        drop(tables);
        if !changed {
            transaction.abort()?;
            return Ok(());
        }
        counters.time = now;
        counters.save(&transaction)?;
        transaction.commit()?;
        self.shared.transactions.fetch_add(1, Ordering::Relaxed);
        // Before the callers hear of it: they must see it when they read.
        self.shared.publish(Snapshot::new(database)?);
        if sent {
            self.shared.changed.notify_waiters();
        }
        Ok(())
    }
}

const CLOSED: &str = "the store is closed";
/// Each write counts as at least this many bytes.
const UNIT: usize = 16 << 10;
/// 64 MiB may wait, in at most 4,096 writes.
const CAPACITY: usize = 4_096;
const MAX_BATCH: usize = 4_096;
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
