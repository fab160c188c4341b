//! Turns a panic of a future into an error, so that a request whose handler panics gets an error response.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that returns an error if the inner future panics.
pub(crate) struct CatchPanic<F>(F);

/// A panic. The panic hook has written the message and the place to stderr.
#[derive(Debug)]
pub(crate) struct PanicError {
    pub(crate) message: String,
}

impl PanicError {
    /// Reads the message of a panic from its payload.
    pub(crate) fn from_payload(payload: &(dyn Any + Send)) -> Self {
        let literal = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = literal.or_else(|| payload.downcast_ref::<String>().cloned());
        Self { message: message.unwrap_or_else(|| "the payload of the panic is not text".to_owned()) }
    }
}

impl fmt::Display for PanicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.message)
    }
}

impl std::error::Error for PanicError {}

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
            Err(payload) => Poll::Ready(Err(PanicError::from_payload(&*payload))),
        }
    }
}
