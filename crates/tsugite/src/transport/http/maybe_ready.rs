//! A value that is available now, or a boxed future of it.
//!
//! Most requests need nothing but memory: their stages run one after the other in the first poll, without a future on
//! the heap. The same stages continue in a boxed future if the body has not arrived yet or a shared store must be asked.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A value, or a future of it.
pub(super) enum MaybeReady<T> {
    Ready(T),
    Pending(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T: 'static> MaybeReady<T> {
    /// Boxes a future.
    pub(super) fn pending(future: impl Future<Output = T> + Send + 'static) -> Self {
        MaybeReady::Pending(Box::pin(future))
    }

    /// Runs the next stage with the value: at once if it is ready, else when it is.
    pub(super) fn then<U: 'static>(
        self,
        cx: &mut Context<'_>,
        next: impl FnOnce(T, &mut Context<'_>) -> MaybeReady<U> + Send + 'static,
    ) -> MaybeReady<U> {
        match self {
            MaybeReady::Ready(value) => next(value, cx),
            MaybeReady::Pending(mut value) => {
                let mut next = Some(next);
                let mut rest: Option<Pin<Box<dyn Future<Output = U> + Send>>> = None;
                MaybeReady::pending(poll_fn(move |cx| {
                    if let Some(rest) = &mut rest {
                        return rest.as_mut().poll(cx);
                    }
                    let Poll::Ready(value) = value.as_mut().poll(cx) else { return Poll::Pending };
                    let Some(next) = next.take() else { return Poll::Pending };
                    match next(value, cx) {
                        MaybeReady::Ready(value) => Poll::Ready(value),
                        MaybeReady::Pending(future) => rest.insert(future).as_mut().poll(cx),
                    }
                }))
            }
        }
    }

    /// Changes the value: at once if it is ready, else when it is.
    pub(super) fn map<U: 'static>(self, change: impl FnOnce(T) -> U + Send + 'static) -> MaybeReady<U> {
        match self {
            MaybeReady::Ready(value) => MaybeReady::Ready(change(value)),
            MaybeReady::Pending(value) => MaybeReady::pending(async move { change(value.await) }),
        }
    }

    /// Waits for the value.
    pub(super) async fn wait(self) -> T {
        match self {
            MaybeReady::Ready(value) => value,
            MaybeReady::Pending(value) => value.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// The next stage, which is ready at once or not.
    fn double(value: u32, is_ready: bool) -> MaybeReady<u32> {
        match is_ready {
            true => MaybeReady::Ready(value * 2),
            false => MaybeReady::pending(async move {
                tokio::task::yield_now().await;
                value * 2
            }),
        }
    }

    #[tokio::test]
    async fn stages_run_at_once_or_when_their_value_is_ready() {
        for (first, second) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut cx = Context::from_waker(Waker::noop());
            let value = double(1, first).then(&mut cx, move |value, _| double(value, second));
            assert_eq!(matches!(value, MaybeReady::Ready(_)), first && second);
            assert_eq!(value.map(|value| value + 1).wait().await, 5);
        }
    }
}
