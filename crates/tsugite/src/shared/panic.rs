//! Turns a panic of a future into an error, so that a request whose handler panics gets an error response.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that returns an error if the inner future panics.
pub(crate) struct CatchPanic<F>(F);

/// The future panicked. The panic hook has written the message to stderr.
#[derive(Debug)]
pub(crate) struct PanicError;

impl<F: Future + Unpin> CatchPanic<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(future)
    }
}

impl<F: Future + Unpin> Future for CatchPanic<F> {
    type Output = Result<F::Output, PanicError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The future is never polled again after a panic, so no inconsistent state can be observed.
        match catch_unwind(AssertUnwindSafe(|| Pin::new(&mut self.0).poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(_) => Poll::Ready(Err(PanicError)),
        }
    }
}
