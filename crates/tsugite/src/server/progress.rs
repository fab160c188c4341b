//! Progress notifications of a handler.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{self, Poll};

use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::progress::ProgressParams;

use super::context::Context;

impl Context {
    /// Reports how far the work has come, if the client asked for progress. A value that does not rise is not sent.
    ///
    /// The notification is sent when the returned [`ProgressUpdate`] is awaited, which waits while the peer reads too
    /// slowly. Beyond [`Server::max_notification_burst`](super::Server::max_notification_burst) only the newest value is
    /// sent, as soon as the rate allows; the last one is always sent.
    ///
    /// ```
    /// use tsugite::prelude::*;
    ///
    /// async fn copy(cx: Context) {
    ///     for file in 1..=10 {
    ///         cx.progress(file).total(10).message("copying").await;
    ///     }
    /// }
    /// # let _ = copy;
    /// ```
    #[doc(alias("report_progress", "notifications/progress", "notify_progress"))]
    pub fn progress(&self, progress: impl ProgressNumber) -> ProgressUpdate<'_> {
        ProgressUpdate {
            context: self,
            progress: progress.to_f64(),
            total: None,
            message: None,
            stage: Stage::Created,
        }
    }
}

/// A progress notification, sent once when it is awaited; see [`Context::progress`].
///
/// Awaiting is what sends, not dropping: the wait holds back a handler that is faster than its peer, and the compiler
/// warns of an update that is never awaited. An update that is dropped before it was sent is not sent.
#[must_use = "progress is sent when it is awaited"]
pub struct ProgressUpdate<'a> {
    context: &'a Context,
    progress: f64,
    total: Option<f64>,
    message: Option<Cow<'a, str>>,
    stage: Stage<'a>,
}

enum Stage<'a> {
    Created,
    /// The queue to the peer is full.
    Waiting {
        token: Id<'static>,
        capacity: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    },
    Done,
}

impl<'a> ProgressUpdate<'a> {
    /// Adds the value at which the work is done.
    pub fn total(mut self, total: impl ProgressNumber) -> Self {
        self.total = Some(total.to_f64());
        self
    }

    /// Adds a text for people that says what is being done.
    pub fn message(mut self, message: impl Into<Cow<'a, str>>) -> Self {
        self.message = Some(message.into());
        self
    }

    fn send(&mut self, token: Id<'static>) {
        if self.context.has_ended() || self.context.call_state().is_replaying() {
            return;
        }
        let mut params = ProgressParams::new(token, self.progress);
        params.total = self.total;
        params.message = self.message.take().map(Cow::into_owned);
        self.context.call_state().send_progress(params);
    }
}

impl Future for ProgressUpdate<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let (token, mut capacity) = match std::mem::replace(&mut this.stage, Stage::Done) {
            Stage::Done => return Poll::Ready(()),
            Stage::Waiting { token, capacity } => (token, capacity),
            Stage::Created => {
                this.context.call_state().mark_progress();
                let Some(token) = this.context.advance_progress(this.progress) else {
                    return Poll::Ready(());
                };
                let queue = this.context.outbox();
                if !queue.is_full() {
                    this.send(token);
                    return Poll::Ready(());
                }
                // A task does not wait for a client that may be away.
                if this.context.call_state().is_task() {
                    return Poll::Ready(());
                }
                (token, Box::pin(queue.wait_for_capacity()) as _)
            }
        };
        match capacity.as_mut().poll(cx) {
            Poll::Ready(()) => {
                this.send(token);
                Poll::Ready(())
            }
            Poll::Pending => {
                this.stage = Stage::Waiting { token, capacity };
                Poll::Pending
            }
        }
    }
}

impl fmt::Debug for ProgressUpdate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressUpdate")
            .field("progress", &self.progress)
            .field("total", &self.total)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

/// A number that [`Context::progress`] takes: any integer or float.
pub trait ProgressNumber {
    /// The number as it is sent. Integers above 2^53 are rounded.
    fn to_f64(self) -> f64;
}

macro_rules! progress_numbers {
    ($($number:ty),*) => {
        $(impl ProgressNumber for $number {
            fn to_f64(self) -> f64 {
                self as f64
            }
        })*
    };
}

progress_numbers!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    fn number(progress: impl ProgressNumber) -> f64 {
        progress.to_f64()
    }

    #[test]
    fn numbers_of_every_type_are_accepted() {
        let signed =
            [number(3_i8), number(3_i16), number(3_i32), number(3_i64), number(3_i128), number(3_isize)];
        let unsigned = [number(3_u8), number(3_u16), number(3_u32), number(3_u64), number(3_u128)];
        let others = [number([1, 2, 3].len()), number(3), number(3.0), number(3_f32)];
        assert!(signed.iter().chain(&unsigned).chain(&others).all(|number| *number == 3.0));
        assert_eq!(number(u128::MAX), u128::MAX as f64);
    }
}
