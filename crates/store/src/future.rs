//! The outcome of a store operation, now or later.

use std::error::Error;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

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

impl<T> StoreFuture<T> {
    /// Boxes a future.
    pub fn pending(future: impl Future<Output = T> + Send + 'static) -> Self {
        StoreFuture::Pending(Box::pin(future))
    }
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

impl<T> fmt::Debug for StoreWait<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreWait").field(&self.0).finish()
    }
}

impl<T> fmt::Debug for StoreFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, StoreFuture::Ready(_)) { "Ready" } else { "Pending" })
    }
}

/// The reason a store operation failed. It is logged and never sent to a peer.
pub type StoreError = Box<dyn Error + Send + Sync>;

/// The outcome of a store operation that can fail.
pub type StoreResult<T> = StoreFuture<Result<T, StoreError>>;
