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

use super::round::{Known, Standing};
use crate::lock::lock;
use crate::server::context::Context;

/// How a run ended.
pub(crate) enum Driven<S> {
    /// With an answer: how to say it.
    Done(S),
    /// With questions.
    Asks(InputRequests, Known),
    /// With a mistake of the client, or of the handler.
    Refused(RpcError),
}

/// A handler being run.
pub(crate) struct Drive<S> {
    answer: Pin<Box<dyn Future<Output = S> + Send>>,
    context: Context,
    /// How long to wait for a handler that does not come to the question that was answered.
    patience: Duration,
    flag: Option<(Arc<Flag>, Waker)>,
    trips: u32,
    on_trip: bool,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Drive<S> {
    pub(crate) fn new(
        answer: Pin<Box<dyn Future<Output = S> + Send>>,
        context: Context,
        patience: Duration,
    ) -> Self {
        Self { answer, context, patience, flag: None, trips: 0, on_trip: false, waiting: None }
    }
}

impl<S> Future for Drive<S> {
    type Output = Driven<S>;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Driven<S>> {
        let this = self.get_mut();
        if !this.context.revision().is_stateless() {
            return this.answer.as_mut().poll(cx).map(Driven::Done);
        }
        if this.context.known_round().is_none() {
            this.context.set_driver(cx.waker());
            if let Poll::Ready(done) = this.answer.as_mut().poll(cx) {
                return Poll::Ready(Driven::Done(done));
            }
            if this.context.known_round().is_none() {
                return Poll::Pending;
            }
        }
        this.poll_round(cx)
    }
}

impl<S> Drive<S> {
    fn poll_round(&mut self, cx: &mut task::Context<'_>) -> Poll<Driven<S>> {
        let (flag, waker) = self.flag.get_or_insert_with(|| {
            let flag =
                Arc::new(Flag { woken: AtomicBool::new(true), parent: Mutex::new(cx.waker().clone()) });
            let waker = Waker::from(flag.clone());
            (flag, waker)
        });
        flag.forward_to(cx.waker());
        self.context.set_driver(waker);
        if flag.woken.swap(false, Ordering::AcqRel) {
            let mut inner = task::Context::from_waker(waker);
            if let Poll::Ready(done) = self.answer.as_mut().poll(&mut inner) {
                return Poll::Ready(Driven::Done(done));
            }
            self.trips += u32::from(std::mem::take(&mut self.on_trip));
        }
        let Some(round) = self.context.known_round() else { return Poll::Pending };
        match round.standing() {
            Standing::Works => {
                self.on_trip = false;
                self.waiting = None;
                Poll::Pending
            }
            Standing::Refused(refusal) => Poll::Ready(Driven::Refused(refusal)),
            Standing::Strays => {
                // Three are ours: here, in the waker, and with the context. Whoever else can wake the handler holds
                // another, or is a task of its own that holds the context and may still ask.
                let can_wake = Arc::strong_count(flag) > 3
                    || flag.woken.load(Ordering::Acquire)
                    || self.context.holders() > HOLDERS + round.questions();
                let patience = self.patience;
                let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
                if can_wake && waiting.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                tracing::error!("a handler asked something else than in the round before");
                let text = "Internal error: the handler asked something else than in the round before";
                Poll::Ready(Driven::Refused(RpcError::internal_with_message(text)))
            }
            Standing::Asks if self.on_trip || self.trips >= MOST_TRIPS => {
                let (asked, known) = round.end();
                Poll::Ready(Driven::Asks(asked, known))
            }
            Standing::Asks => {
                self.on_trip = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

impl<S> Drop for Drive<S> {
    fn drop(&mut self) {
        if let Some(round) = self.context.known_round() {
            round.close();
        }
    }
}

/// Notes that the handler was woken, and wakes whoever runs it.
struct Flag {
    woken: AtomicBool,
    parent: Mutex<Waker>,
}

impl Flag {
    fn forward_to(&self, waker: &Waker) {
        let mut parent = lock(&self.parent);
        if !parent.will_wake(waker) {
            parent.clone_from(waker);
        }
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        let parent = lock(&self.parent).clone();
        parent.wake();
    }
}

/// Who holds the context of a handler at rest, beside its questions: the handler itself, and four of ours (see
/// `Link::run`).
const HOLDERS: usize = 5;

/// A handler that wakes itself without end is not waited for.
const MOST_TRIPS: u32 = 64;
