//! State that may outlive a process: sessions, and the events of streams for clients that come back.
//!
//! [`Store`] is narrow, so that a backend shared by many replicas is little work. [`MemoryStore`] is the default and
//! answers at once; requests that need nothing from it pay nothing for it.

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
            // It gave its outcome before.
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

/// Why a store could not do it. What stands in it goes to the log, never to a peer.
pub type StoreError = Box<dyn Error + Send + Sync>;

/// What a store answers.
pub type StoreResult<T> = StoreFuture<Result<T, StoreError>>;

/// A value, and which one it is among those that stood under its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedValue {
    /// The value.
    pub value: Bytes,
    /// Changes whenever the value does.
    pub version: u64,
}

/// What must stand under a key for a value to take its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// Anything or nothing.
    Any,
    /// Nothing.
    Absent,
    /// The value of this version.
    Version(u64),
}

/// Some events of one stream, in order and without a gap, as they were sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBatch {
    /// The number of the first.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
    /// All of them: text of `text/event-stream`, each ended by an empty line.
    pub text: Bytes,
}

/// How much of a stream is kept.
#[derive(Debug, Clone, Copy)]
pub struct LogLimits {
    /// How many events.
    pub max_events: usize,
    /// How many bytes.
    pub max_bytes: usize,
    /// For how long after the last one.
    pub ttl: Duration,
}

/// Keeps values and logs, each for a time. Shared by replicas or private to one.
pub trait Store: Send + Sync + 'static {
    /// Whether other processes see what is kept here: then sessions are kept here too, and found by whichever replica a
    /// client reaches.
    fn is_shared(&self) -> bool {
        true
    }

    /// What stands under a key.
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

    /// Takes away what stands under a key, once.
    fn take(&self, key: &str) -> StoreResult<Option<Bytes>>;

    /// Appends to a log. What is beyond the bounds goes, the oldest first.
    fn append(&self, log: &str, events: EventBatch, bounds: LogLimits) -> StoreResult<()>;

    /// What follows the event `after`; `None` if some of that is gone, or the log is not there.
    fn read(&self, log: &str, after: u64) -> StoreResult<Option<Vec<EventBatch>>>;

    /// Forgets a log.
    fn delete_log(&self, log: &str) -> StoreResult<()>;

    /// Called now and then, for a store that does not notice by itself what is too old.
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

    fn append(&self, log: &str, events: EventBatch, bounds: LogLimits) -> StoreResult<()> {
        (**self).append(log, events, bounds)
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
