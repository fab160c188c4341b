//! State that may outlive a process: sessions, and the events of streams that clients can resume.
//!
//! [`Store`] is narrow, so that a backend shared by many replicas is easy to write. [`MemoryStore`] is the default and
//! is always ready; a request that reads no state costs nothing extra.

mod memory_store;

use std::error::Error;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

pub use memory_store::MemoryStore;

/// The outcome of an operation on a store, ready or pending. It can be awaited.
///
/// A store in memory is always ready, so that it needs neither an allocation nor a second poll.
#[must_use = "a pending operation runs when it is awaited"]
pub enum StoreFuture<T> {
    /// The outcome.
    Ready(T),
    /// A future that gives the outcome.
    Pending(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T: Unpin> IntoFuture for StoreFuture<T> {
    type Output = T;
    type IntoFuture = StoreWait<T>;

    fn into_future(self) -> StoreWait<T> {
        StoreWait(Some(self))
    }
}

/// The future that awaits a [`StoreFuture`].
pub struct StoreWait<T>(Option<StoreFuture<T>>);

impl<T: Unpin> Future for StoreWait<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let future = &mut self.get_mut().0;
        match future.take() {
            Some(StoreFuture::Ready(value)) => Poll::Ready(value),
            Some(StoreFuture::Pending(mut pending)) => {
                let polled = pending.as_mut().poll(cx);
                if polled.is_pending() {
                    *future = Some(StoreFuture::Pending(pending));
                }
                polled
            }
            // The outcome was taken by an earlier poll.
            None => Poll::Pending,
        }
    }
}

impl<T> std::fmt::Debug for StoreWait<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StoreWait").field(&self.0).finish()
    }
}

impl<T> std::fmt::Debug for StoreFuture<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, StoreFuture::Ready(_)) { "Ready" } else { "Pending" })
    }
}

/// The reason a store operation failed. It is logged and never sent to a peer.
pub type StoreError = Box<dyn Error + Send + Sync>;

/// The outcome of a store operation that can fail.
pub type StoreResult<T> = StoreFuture<Result<T, StoreError>>;

/// A value with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedValue {
    /// The value.
    pub value: Bytes,
    /// Differs for each value that was stored under the key.
    pub version: u64,
}

/// The condition under which [`Store::put`] replaces the value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// No condition.
    Any,
    /// The key has no value.
    Absent,
    /// The value has this version.
    Version(u64),
}

/// Consecutive events of one stream, as they were sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBatch {
    /// The number of the first event.
    pub first: u64,
    /// The number of the last event.
    pub last: u64,
    /// The events as `text/event-stream`, each terminated by an empty line.
    pub text: Bytes,
}

/// The limits of one log.
#[derive(Debug, Clone, Copy)]
pub struct LogLimits {
    /// The number of events that are kept.
    pub max_events: usize,
    /// The bytes that are kept.
    pub max_bytes: usize,
    /// The time after the last event for which the log is kept.
    pub ttl: Duration,
}

/// Stores values and event logs, each for a limited time. A store is shared by replicas or private to one.
#[doc(alias("EventStore", "SessionManager", "SessionStore"))]
pub trait Store: Send + Sync + 'static {
    /// Whether other processes see the contents. Then sessions are stored here too, and every replica finds the session
    /// of a client.
    fn is_shared(&self) -> bool {
        true
    }

    /// Returns the value of a key.
    fn get(&self, key: &str) -> StoreResult<Option<VersionedValue>>;

    /// Stores a value under a key until `ttl` has passed, if `precondition` holds. Returns the version of the value, or
    /// `None` if the precondition does not hold.
    fn put(
        &self,
        key: &str,
        value: Bytes,
        precondition: Precondition,
        ttl: Duration,
    ) -> StoreResult<Option<u64>>;

    /// Removes the value of a key and returns it. Only one of several concurrent calls gets it.
    fn take(&self, key: &str) -> StoreResult<Option<Bytes>>;

    /// Appends events to a log. Events beyond the limits are dropped, oldest first.
    fn append(&self, log: &str, events: EventBatch, limits: LogLimits) -> StoreResult<()>;

    /// Returns the events after the event `after`; `None` if some of them were dropped or the log does not exist.
    fn read(&self, log: &str, after: u64) -> StoreResult<Option<Vec<EventBatch>>>;

    /// Deletes a log.
    fn delete_log(&self, log: &str) -> StoreResult<()>;

    /// Removes expired entries. Called periodically, for a store that does not expire entries by itself.
    fn purge_expired(&self) {}
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn is_shared(&self) -> bool {
        (**self).is_shared()
    }

    fn get(&self, key: &str) -> StoreResult<Option<VersionedValue>> {
        (**self).get(key)
    }

    fn put(
        &self,
        key: &str,
        value: Bytes,
        precondition: Precondition,
        ttl: Duration,
    ) -> StoreResult<Option<u64>> {
        (**self).put(key, value, precondition, ttl)
    }

    fn take(&self, key: &str) -> StoreResult<Option<Bytes>> {
        (**self).take(key)
    }

    fn append(&self, log: &str, events: EventBatch, limits: LogLimits) -> StoreResult<()> {
        (**self).append(log, events, limits)
    }

    fn read(&self, log: &str, after: u64) -> StoreResult<Option<Vec<EventBatch>>> {
        (**self).read(log, after)
    }

    fn delete_log(&self, log: &str) -> StoreResult<()> {
        (**self).delete_log(log)
    }

    fn purge_expired(&self) {
        (**self).purge_expired();
    }
}
