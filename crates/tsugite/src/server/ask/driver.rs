//! Runs a handler that may ask, until it completes or only open questions keep it pending.
//!
//! A round ends when the handler is pending, a question is open, no `once` is running, and one trip through the scheduler
//! has not woken the handler. Ordinary I/O beside a question is not waited for: it runs again in the next round.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use tokio::time::Sleep;
use tsugite_core::protocol::mrtr::InputRequests;
use tsugite_core::revision::RpcError;

use super::kept_driver::{KeptQuestions, KeptStep};
use crate::server::call_state::CallState;
use crate::server::round::{Round, RoundHistory, RoundState, WakeSignal};
use crate::server::subject::Subject;
use crate::shared::log;

/// How a run of a handler ended.
pub(crate) enum DriveOutcome<S> {
    /// The handler has completed.
    Complete(S),
    /// The handler is pending with questions for the client.
    InputRequired(InputRequests, RoundHistory),
    /// The client or the handler made a mistake.
    Error(RpcError),
    /// Another process has taken over the call: this one answers nothing.
    TakenOver,
    /// The call becomes a task, which runs the handler from now on.
    BecomesTask(BoxedHandler<S>),
}

/// The future of a handler.
pub(crate) type BoxedHandler<S> = Pin<Box<dyn Future<Output = S> + Send>>;

/// A future that runs a handler.
pub(crate) struct HandlerDriver<S> {
    /// `None` once it was handed over to a task.
    handler: Option<BoxedHandler<S>>,
    call: Arc<CallState>,
    /// How long to wait for a handler that does not ask the question that was answered.
    round_timeout: Duration,
    subject: Arc<Subject<'static>>,
    /// The questions of a call that can be kept.
    kept: Option<KeptQuestions>,
    signal: Option<Arc<WakeSignal>>,
    yield_count: u32,
    yielded: bool,
    divergence_timer: Option<Pin<Box<Sleep>>>,
    /// Passes when the call becomes a task by itself.
    task_timer: Option<Pin<Box<Sleep>>>,
}

impl<S> HandlerDriver<S> {
    pub(crate) fn new(
        handler: BoxedHandler<S>,
        call: Arc<CallState>,
        round_timeout: Duration,
        subject: Arc<Subject<'static>>,
        kept: Option<KeptQuestions>,
    ) -> Self {
        let task_after = call.task.open_offer().and_then(|offer| offer.after);
        Self {
            handler: Some(handler),
            task_timer: task_after.map(|after| Box::pin(tokio::time::sleep(after))),
            call,
            round_timeout,
            subject,
            kept,
            signal: None,
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
        if this.kept.is_some() {
            return this.poll_kept(cx);
        }
        if !this.call.revision().is_stateless() {
            let Some(handler) = &mut this.handler else { return Poll::Pending };
            return handler.as_mut().poll(cx).map(DriveOutcome::Complete);
        }
        if this.call.current_round().is_none() {
            this.call.driver().set_task(cx.waker());
            let Some(handler) = &mut this.handler else { return Poll::Pending };
            if let Poll::Ready(done) = handler.as_mut().poll(cx) {
                return Poll::Ready(DriveOutcome::Complete(done));
            }
        }
        match this.call.current_round().cloned() {
            Some(round) => this.poll_round(&round, cx),
            None => this.poll_becomes_task(cx),
        }
    }
}

impl<S> HandlerDriver<S> {
    /// Polls the handler of a call that can be kept, and handles its questions.
    fn poll_kept(&mut self, cx: &mut task::Context<'_>) -> Poll<DriveOutcome<S>> {
        let round = self.call.round();
        let signal = self.signal.get_or_insert_with(|| {
            let signal = WakeSignal::new(cx.waker());
            self.call.driver().set_signal(&signal);
            signal
        });
        signal.set_parent(cx.waker());
        loop {
            let Some(handler) = &mut self.handler else { return Poll::Pending };
            if let Some(Poll::Ready(done)) = signal.poll_if_woken(handler.as_mut()) {
                return Poll::Ready(DriveOutcome::Complete(done));
            }
            signal.watch();
            let Some(kept) = &mut self.kept else { return Poll::Pending };
            match kept.poll(&round, signal, cx) {
                KeptStep::Continue => {}
                KeptStep::Wait => return Poll::Pending,
                KeptStep::Abandon => return Poll::Ready(DriveOutcome::TakenOver),
            }
        }
    }

    fn poll_round(&mut self, round: &Round, cx: &mut task::Context<'_>) -> Poll<DriveOutcome<S>> {
        let signal = self.signal.get_or_insert_with(|| {
            let signal = WakeSignal::new(cx.waker());
            self.call.driver().set_signal(&signal);
            signal
        });
        signal.set_parent(cx.waker());
        let Some(handler) = &mut self.handler else { return Poll::Pending };
        match signal.poll_if_woken(handler.as_mut()) {
            Some(Poll::Ready(done)) => return Poll::Ready(DriveOutcome::Complete(done)),
            Some(Poll::Pending) => self.yield_count += u32::from(std::mem::take(&mut self.yielded)),
            None => {}
        }
        if self.call.task.is_wanted() {
            return self.poll_becomes_task(cx);
        }
        match round.state() {
            RoundState::Running => {
                self.yielded = false;
                self.divergence_timer = None;
                self.poll_becomes_task(cx)
            }
            RoundState::Failed(error) => Poll::Ready(DriveOutcome::Error(error)),
            RoundState::Diverged => self.poll_diverged(round, cx),
            RoundState::AwaitingInput if self.yielded || self.yield_count >= MAX_YIELDS => {
                let (requests, history) = round.end();
                Poll::Ready(DriveOutcome::InputRequired(requests, history))
            }
            RoundState::AwaitingInput => {
                self.yielded = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// Hands the handler over if its call becomes a task now: the handler wants that, or its time has passed.
    fn poll_becomes_task(&mut self, cx: &mut task::Context<'_>) -> Poll<DriveOutcome<S>> {
        if self.call.task.open_offer().is_none() {
            return Poll::Pending;
        }
        let is_due = self.task_timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready());
        if !is_due && !self.call.task.is_wanted() {
            return Poll::Pending;
        }
        match self.handler.take() {
            Some(handler) => Poll::Ready(DriveOutcome::BecomesTask(handler)),
            None => Poll::Pending,
        }
    }

    /// Waits for a handler that has not asked the answered question, for as long as something can make it go on.
    fn poll_diverged(&mut self, round: &Round, cx: &mut task::Context<'_>) -> Poll<DriveOutcome<S>> {
        let Some(signal) = &self.signal else { return Poll::Pending };
        signal.watch();
        // In this order: a task that asks wakes the handler before it drops its context.
        let can_continue = self.call.has_handles_elsewhere(round.open_count()) || signal.can_wake();
        let timeout = self.round_timeout;
        let timer = self.divergence_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        if can_continue && timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        log::error!(
            kind = self.subject.kind,
            name = &*self.subject.name,
            "a handler did not ask the question that the client answered; handlers must ask the same in each round"
        );
        let text = "Internal error: the handler asked something else than in the round before";
        Poll::Ready(DriveOutcome::Error(RpcError::internal_with_message(text)))
    }
}

impl<S> Drop for HandlerDriver<S> {
    fn drop(&mut self) {
        if self.handler.is_some()
            && let Some(round) = self.call.current_round()
        {
            round.close();
        }
    }
}

/// How often a round waits for a handler that wakes itself.
const MAX_YIELDS: u32 = 64;
