//! A handler after its first poll: it runs while it holds a permit, and ends when it makes no progress for too long.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::call_state::CallState;
use super::limits::{NestedPermit, NestedPermits};

/// A handler that is polled while it holds a permit. While a question to the client is open it holds none; then it waits
/// for one again.
pub(super) struct RunningHandler<F> {
    handler: F,
    call: Arc<CallState>,
    permits: NestedPermits,
    permit: Option<NestedPermit>,
    acquiring: Option<Pin<Box<dyn Future<Output = NestedPermit> + Send>>>,
}

impl<F: Future + Unpin> RunningHandler<F> {
    pub(super) fn new(handler: F, call: Arc<CallState>, permits: NestedPermits) -> Self {
        let permit = permits.try_acquire();
        Self { handler, call, permits, permit, acquiring: None }
    }

    /// Waits for a permit, in the order of the handlers that wait.
    fn poll_permit(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        if self.permit.is_some() {
            return Poll::Ready(());
        }
        let acquiring = self.acquiring.get_or_insert_with(|| Box::pin(self.permits.clone().acquire()));
        let Poll::Ready(permit) = acquiring.as_mut().poll(cx) else { return Poll::Pending };
        (self.permit, self.acquiring) = (Some(permit), None);
        Poll::Ready(())
    }
}

impl<F: Future + Unpin> Future for RunningHandler<F> {
    /// The permit is released when the response was written.
    type Output = (F::Output, Option<NestedPermit>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let is_asking = this.call.is_paused();
            if !is_asking && this.poll_permit(cx).is_pending() {
                return Poll::Pending;
            }
            if let Poll::Ready(output) = Pin::new(&mut this.handler).poll(cx) {
                return Poll::Ready((output, this.permit.take()));
            }
            if this.call.is_paused() {
                (this.permit, this.acquiring) = (None, None);
                return Poll::Pending;
            }
            // The answer arrived in this poll: from now on the handler counts as running again.
            if this.permit.is_some() || this.poll_permit(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

/// A handler that ends if it neither completes nor reports progress for a while. The clock stops while the client answers a
/// question.
pub(super) struct IdleTimeout<F> {
    handler: F,
    call: Arc<CallState>,
    timeout: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl<F> IdleTimeout<F> {
    pub(super) fn new(handler: F, call: Arc<CallState>, timeout: Duration) -> Self {
        call.start_idle_clock();
        Self { handler, call, timeout, sleep: Box::pin(tokio::time::sleep(timeout)) }
    }
}

impl<F: Future + Unpin> Future for IdleTimeout<F> {
    /// The timeout, if it has passed.
    type Output = Result<F::Output, Duration>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = Pin::new(&mut self.handler).poll(cx) {
            return Poll::Ready(Ok(output));
        }
        // The timer must not pass for something that makes the handler go on.
        let waker = self.call.driver().waker().unwrap_or_else(|| cx.waker().clone());
        let mut cx = task::Context::from_waker(&waker);
        while self.sleep.as_mut().poll(&mut cx).is_ready() {
            let left = self.timeout.saturating_sub(self.call.idle_time());
            if left.is_zero() {
                return Poll::Ready(Err(self.timeout));
            }
            let next = Instant::now() + left;
            self.sleep.as_mut().reset(next);
        }
        Poll::Pending
    }
}
