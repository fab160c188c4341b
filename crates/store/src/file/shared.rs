//! The state that readers and the writer share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::clock::Clock;
use super::tables::Snapshot;
use crate::StoreError;

pub(super) struct Shared {
    /// The last commit. A reader keeps the one that it began with.
    snapshot: RwLock<Arc<Snapshot>>,
    /// Wakes receivers when a message was sent, and when the store is closed.
    pub(super) changed: Notify,
    closed: AtomicBool,
    pub(super) clock: Clock,
    pub(super) max_log_bytes: AtomicU64,
    /// The number of transactions that were written to the file.
    pub(super) transactions: AtomicU64,
}

impl Shared {
    pub(super) fn new(snapshot: Snapshot, max_log_bytes: u64) -> Self {
        Self {
            clock: Clock::after(snapshot.counters.time),
            snapshot: RwLock::new(Arc::new(snapshot)),
            changed: Notify::new(),
            closed: AtomicBool::new(false),
            max_log_bytes: AtomicU64::new(max_log_bytes),
            transactions: AtomicU64::new(0),
        }
    }

    pub(super) fn publish(&self, snapshot: Snapshot) {
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Reads at the current time. Does not wait for writes.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Snapshot, u64) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err("the store is closed".into());
        }
        let snapshot = self.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone();
        let read = catch_unwind(AssertUnwindSafe(|| read(&snapshot, self.clock.now())));
        read.unwrap_or_else(|_| Err("the database engine panicked in a read".into()))
    }

    /// Reads on a thread for blocking work, for a result that may be large.
    pub(super) async fn read_blocking<T: Send + 'static>(
        self: Arc<Self>,
        read: impl FnOnce(&Snapshot, u64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match Handle::try_current() {
            Ok(runtime) => runtime.spawn_blocking(move || self.read(read)).await?,
            Err(_) => self.read(read),
        }
    }
}
