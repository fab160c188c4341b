//! Runs a handler that may ask, until it is done or rests with questions open.
//!
//! A run ends when the handler is pending, a question is open, nothing is being done once, and one trip through the
//! scheduler has woken nothing of it. Ordinary I/O beside a question is not waited for: it runs again in the next round.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Wake, Waker};
use std::time::Duration;

use tokio::time::Sleep;
use tsugite_core::protocol::mrtr::InputRequests;
use tsugite_core::revision::RpcError;

use super::round::{RoundHistory, RoundState};
use crate::lock::lock;
use crate::server::context::Context;

/// How a run ended.
pub(crate) enum DriveOutcome<S> {
    /// With an answer: how to say it.
    Complete(S),
    /// With questions.
    InputRequired(InputRequests, RoundHistory),
    /// With a mistake of the client, or of the handler.
    Error(RpcError),
}

/// A handler being run.
pub(crate) struct HandlerDriver<S> {
    handler: Pin<Box<dyn Future<Output = S> + Send>>,
    context: Context,
    /// How long to wait for a handler that does not come to the question that was answered.
    round_timeout: Duration,
    wake_flag: Option<(Arc<WakeFlag>, Waker)>,
    yield_count: u32,
    yielded: bool,
    divergence_timer: Option<Pin<Box<Sleep>>>,
}

impl<S> HandlerDriver<S> {
    pub(crate) fn new(
        handler: Pin<Box<dyn Future<Output = S> + Send>>,
        context: Context,
        round_timeout: Duration,
    ) -> Self {
        Self {
            handler,
            context,
            round_timeout,
            wake_flag: None,
            yield_count: 0,
            yielded: false,
            divergence_timer: None,
        }
    }
}

impl<S> Future for HandlerDriver<S> {
    type Output = DriveOutcome<S>;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<DriveOutcome<S>> {
        let this = self.get_mut();
        if !this.context.revision().is_stateless() {
            return this.handler.as_mut().poll(cx).map(DriveOutcome::Complete);
        }
        if this.context.current_round().is_none() {
            this.context.set_driver(cx.waker());
            if let Poll::Ready(done) = this.handler.as_mut().poll(cx) {
                return Poll::Ready(DriveOutcome::Complete(done));
            }
            if this.context.current_round().is_none() {
                return Poll::Pending;
            }
        }
        this.poll_round(cx)
    }
}

impl<S> HandlerDriver<S> {
    fn poll_round(&mut self, cx: &mut task::Context<'_>) -> Poll<DriveOutcome<S>> {
        let (flag, waker) = self.wake_flag.get_or_insert_with(|| {
            let flag =
                Arc::new(WakeFlag { woken: AtomicBool::new(true), parent: Mutex::new(cx.waker().clone()) });
            let waker = Waker::from(flag.clone());
            (flag, waker)
        });
        flag.set_parent(cx.waker());
        self.context.set_driver(waker);
        if flag.woken.swap(false, Ordering::AcqRel) {
            let mut inner = task::Context::from_waker(waker);
            if let Poll::Ready(done) = self.handler.as_mut().poll(&mut inner) {
                return Poll::Ready(DriveOutcome::Complete(done));
            }
            self.yield_count += u32::from(std::mem::take(&mut self.yielded));
        }
        let Some(round) = self.context.current_round() else { return Poll::Pending };
        match round.state() {
            RoundState::Running => {
                self.yielded = false;
                self.divergence_timer = None;
                Poll::Pending
            }
            RoundState::Failed(refusal) => Poll::Ready(DriveOutcome::Error(refusal)),
            RoundState::Diverged => {
                // Three are ours: here, in the waker, and with the context. Whoever else can wake the handler holds
                // another, or is a task of its own that holds the context and may still ask.
                let can_wake = Arc::strong_count(flag) > 3
                    || flag.woken.load(Ordering::Acquire)
                    || self.context.strong_count() > BASE_CONTEXT_REFS + round.open_count();
                let patience = self.round_timeout;
                let waiting =
                    self.divergence_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
                if can_wake && waiting.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                tracing::error!("a handler asked something else than in the round before");
                let text = "Internal error: the handler asked something else than in the round before";
                Poll::Ready(DriveOutcome::Error(RpcError::internal_with_message(text)))
            }
            RoundState::AwaitingInput if self.yielded || self.yield_count >= MAX_YIELDS => {
                let (asked, known) = round.end();
                Poll::Ready(DriveOutcome::InputRequired(asked, known))
            }
            RoundState::AwaitingInput => {
                self.yielded = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

impl<S> Drop for HandlerDriver<S> {
    fn drop(&mut self) {
        if let Some(round) = self.context.current_round() {
            round.close();
        }
    }
}

/// Notes that the handler was woken, and wakes whoever runs it.
struct WakeFlag {
    woken: AtomicBool,
    parent: Mutex<Waker>,
}

impl WakeFlag {
    fn set_parent(&self, waker: &Waker) {
        let mut parent = lock(&self.parent);
        if !parent.will_wake(waker) {
            parent.clone_from(waker);
        }
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        let parent = lock(&self.parent).clone();
        parent.wake();
    }
}

/// Holders of the context of a handler at rest, beside its questions: the handler itself, and three of ours (see
/// `ServerConnection::continue_pending`).
const BASE_CONTEXT_REFS: usize = 4;

/// A handler that wakes itself without end is not waited for.
const MAX_YIELDS: u32 = 64;
