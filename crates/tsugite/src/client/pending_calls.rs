//! Calls without a response yet, and their timeouts.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tsugite_core::jsonrpc::{ErrorObject, Id, RawJson};
use tsugite_core::protocol::progress::ProgressParams;
use tsugite_core::session::call_timer::{CallTimer, Timeouts};

use super::client_error::TimeoutKind;
use super::client_handler;
use super::sent_flag::SentFlag;
use crate::lock::lock;

/// Receives the progress of a call.
pub(super) type ProgressCallback = Arc<dyn Fn(ProgressParams) + Send + Sync>;

/// The outcome of a call.
#[derive(Debug)]
pub(super) enum CallOutcome {
    Response(Result<RawJson, ErrorObject>),
    /// The connection was lost, for this reason.
    Disconnected(String),
    /// The response exceeds this limit, in bytes.
    TooLarge(usize),
}

/// The pending calls of one connection. Ids are never reused.
#[derive(Default)]
pub(super) struct PendingCalls {
    last_id: AtomicI64,
    table: Mutex<HashMap<i64, Arc<PendingCall>, foldhash::fast::RandomState>>,
}

/// A call without a response yet.
pub(super) struct PendingCall {
    id: i64,
    timeouts: Timeouts,
    on_progress: Option<ProgressCallback>,
    pub(super) sent: SentFlag,
    state: Mutex<PendingCallState>,
}

struct PendingCallState {
    call_timer: CallTimer,
    outcome: Option<CallOutcome>,
    /// Woken when the outcome is set.
    outcome_waker: Option<Waker>,
    /// Woken when the timer resumes.
    timer_waker: Option<Waker>,
}

/// No response arrived in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallTimeoutError {
    pub(super) limit: Duration,
    pub(super) kind: TimeoutKind,
}

impl PendingCalls {
    /// Registers a new call.
    pub(super) fn register(
        &self,
        timeouts: Timeouts,
        on_progress: Option<ProgressCallback>,
    ) -> Arc<PendingCall> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let state = PendingCallState {
            call_timer: CallTimer::new(Instant::now().into_std(), timeouts),
            outcome: None,
            outcome_waker: None,
            timer_waker: None,
        };
        let sent = SentFlag::default();
        let call = Arc::new(PendingCall { id, timeouts, on_progress, sent, state: Mutex::new(state) });
        lock(&self.table).insert(id, Arc::clone(&call));
        call
    }

    /// Removes a call. Returns false if it was complete already.
    pub(super) fn remove(&self, id: i64) -> bool {
        lock(&self.table).remove(&id).is_some()
    }

    /// Completes a call. Returns false if no call has this id: the response is late, duplicate or an error of the peer.
    pub(super) fn complete(&self, id: &Id<'_>, outcome: Result<RawJson, ErrorObject>) -> bool {
        let call = id.as_i64().and_then(|id| lock(&self.table).remove(&id));
        match call {
            Some(call) => {
                call.complete(CallOutcome::Response(outcome));
                true
            }
            None => false,
        }
    }

    /// Fails a call whose response exceeds the size limit. Returns false if no call has this id.
    pub(super) fn fail_too_large(&self, id: i64, limit: usize) -> bool {
        let call = lock(&self.table).remove(&id);
        call.inspect(|call| call.complete(CallOutcome::TooLarge(limit))).is_some()
    }

    /// The call with this id, if it is still pending.
    pub(super) fn get(&self, id: &Id<'_>) -> Option<Arc<PendingCall>> {
        let id = id.as_i64()?;
        lock(&self.table).get(&id).cloned()
    }

    /// All pending calls. A request of the server that names no call may belong to any of them.
    pub(super) fn all(&self) -> Vec<Arc<PendingCall>> {
        lock(&self.table).values().cloned().collect()
    }

    /// Fails every call, because the connection was lost.
    pub(super) fn fail_all(&self, reason: &str) {
        let all = std::mem::take(&mut *lock(&self.table));
        for call in all.into_values() {
            call.complete(CallOutcome::Disconnected(reason.to_owned()));
        }
    }
}

impl PendingCall {
    pub(super) fn id(&self) -> i64 {
        self.id
    }

    /// Waits for the outcome, without a timeout; see [`Self::run_with_timeout`].
    pub(super) fn outcome(&self) -> impl Future<Output = CallOutcome> {
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            match state.outcome.take() {
                Some(outcome) => Poll::Ready(outcome),
                None => {
                    register_waker(&mut state.outcome_waker, cx);
                    Poll::Pending
                }
            }
        })
    }

    /// Whether the outcome is set.
    pub(super) fn is_complete(&self) -> bool {
        lock(&self.state).outcome.is_some()
    }

    /// Runs `work` until the call times out.
    pub(super) async fn run_with_timeout<F: Future>(
        &self,
        mut work: Pin<&mut F>,
    ) -> Result<F::Output, CallTimeoutError> {
        // The timer is created only when needed: most calls complete at the first poll.
        let mut sleep = pin!(None);
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            loop {
                let (deadline, total) = {
                    let mut state = lock(&self.state);
                    let deadline = state.call_timer.deadline().map(Instant::from_std);
                    if deadline.is_none() {
                        register_waker(&mut state.timer_waker, cx);
                    }
                    (deadline, state.call_timer.is_limited_by_total())
                };
                let Some(deadline) = deadline else { return Poll::Pending };
                if deadline <= Instant::now() {
                    let limit =
                        self.timeouts.total_timeout.filter(|_| total).unwrap_or(self.timeouts.idle_timeout);
                    let kind = if total { TimeoutKind::Total } else { TimeoutKind::Idle };
                    return Poll::Ready(Err(CallTimeoutError { limit, kind }));
                }
                match sleep.as_mut().as_pin_mut() {
                    None => sleep.set(Some(sleep_until(deadline))),
                    Some(mut sleep) if sleep.deadline() != deadline && sleep.is_elapsed() => {
                        sleep.as_mut().reset(deadline);
                    }
                    Some(_) => {}
                }
                if let Some(sleep) = sleep.as_mut().as_pin_mut()
                    && sleep.poll(cx).is_pending()
                {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Pauses the timer until the guard is dropped, while the client answers a request of the server.
    pub(super) fn pause_timer(self: &Arc<Self>) -> PausedTimer {
        lock(&self.state).call_timer.pause(Instant::now().into_std());
        PausedTimer(Arc::clone(self))
    }

    /// Records progress, and reports it if it is more than before.
    pub(super) fn handle_progress(&self, progress: ProgressParams) {
        let advanced =
            lock(&self.state).call_timer.record_progress(Instant::now().into_std(), progress.progress);
        if advanced && let Some(callback) = &self.on_progress {
            client_handler::invoke_callback(&**callback, progress);
        }
    }

    fn complete(&self, outcome: CallOutcome) {
        let waker = {
            let mut state = lock(&self.state);
            state.outcome = Some(outcome);
            state.outcome_waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Resumes the timer of a call when dropped.
pub(super) struct PausedTimer(Arc<PendingCall>);

impl Drop for PausedTimer {
    fn drop(&mut self) {
        let waker = {
            let mut state = lock(&self.0.state);
            state.call_timer.resume(Instant::now().into_std());
            state.timer_waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn register_waker(slot: &mut Option<Waker>, cx: &Context<'_>) {
    if !slot.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        *slot = Some(cx.waker().clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn timeouts(idle: u32, total: u32) -> Timeouts {
        Timeouts::new(SECOND * idle).total_timeout(SECOND * total)
    }

    fn progress(token: i64, value: f64) -> ProgressParams {
        ProgressParams::new(Id::from(token), value)
    }

    #[tokio::test(start_paused = true)]
    async fn progress_extends_the_idle_timeout_not_the_total_timeout() {
        let calls = PendingCalls::default();
        let call = calls.register(timeouts(30, 70), None);
        let start = Instant::now();
        let work = async {
            for step in 1..10 {
                tokio::time::sleep(SECOND * 20).await;
                call.handle_progress(progress(call.id(), f64::from(step)));
            }
            std::future::pending::<()>().await;
        };
        let timed_out = call.run_with_timeout(pin!(work)).await.unwrap_err();
        assert_eq!((start.elapsed(), timed_out.kind), (SECOND * 70, TimeoutKind::Total));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_timeout_ends_a_call() {
        let calls = PendingCalls::default();
        let call = calls.register(timeouts(30, 70), None);
        let start = Instant::now();
        let timed_out = call.run_with_timeout(pin!(call.outcome())).await.unwrap_err();
        assert_eq!((start.elapsed(), timed_out.kind), (SECOND * 30, TimeoutKind::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn timer_is_paused_while_a_request_is_answered() {
        let calls = PendingCalls::default();
        let call = calls.register(timeouts(30, 40), None);
        let start = Instant::now();
        let work = async {
            tokio::time::sleep(SECOND * 10).await;
            let paused = call.pause_timer();
            tokio::time::sleep(SECOND * 1000).await;
            drop(paused);
            std::future::pending::<()>().await;
        };
        call.run_with_timeout(pin!(work)).await.unwrap_err();
        assert_eq!(start.elapsed(), SECOND * 1040);
    }

    #[tokio::test(start_paused = true)]
    async fn timer_paused_from_the_start_resumes() {
        let calls = PendingCalls::default();
        let call = calls.register(timeouts(5, 40), None);
        let start = Instant::now();
        let paused = call.pause_timer();
        let resumed = async {
            tokio::time::sleep(SECOND * 100).await;
            drop(paused);
        };
        let outcome = pin!(call.outcome());
        let (_, timed_out) = tokio::join!(resumed, call.run_with_timeout(outcome));
        assert!(timed_out.is_err());
        assert_eq!(start.elapsed(), SECOND * 105);
    }

    #[test]
    fn ids_are_never_reused() {
        // JRPC-004, JRPC-005
        let calls = PendingCalls::default();
        let mut ids: Vec<_> = (0..3).map(|_| calls.register(Timeouts::default(), None).id()).collect();
        assert!(calls.complete(&Id::from(ids[0]), Ok(RawJson::empty_object())));
        assert!(calls.remove(ids[1]));
        ids.push(calls.register(Timeouts::default(), None).id());
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{ids:?}");
    }

    #[test]
    fn only_a_pending_call_is_cancelled() {
        // CANC-003, CANC-004: a call is cancelled only if `remove` finds it.
        let calls = PendingCalls::default();
        let id = calls.register(Timeouts::default(), None).id();
        assert!(calls.complete(&Id::from(id), Ok(RawJson::empty_object())));
        assert!(!calls.remove(id));
        let id = calls.register(Timeouts::default(), None).id();
        assert!(calls.remove(id));
        assert!(!calls.remove(id));
        assert!(!calls.remove(77));
    }

    #[tokio::test]
    async fn second_response_to_a_call_is_ignored() {
        let calls = PendingCalls::default();
        let call = calls.register(Timeouts::default(), None);
        let id = Id::from(call.id());
        assert!(calls.complete(&id, Ok(RawJson::empty_object())));
        assert!(!calls.complete(&id, Ok(RawJson::empty_object())));
        assert!(!calls.complete(&Id::from(77), Ok(RawJson::empty_object())));
        assert!(matches!(call.outcome().await, CallOutcome::Response(Ok(_))));
    }

    #[tokio::test]
    async fn lost_connection_fails_every_call() {
        let calls = PendingCalls::default();
        let call: Vec<_> = (0..3).map(|_| calls.register(Timeouts::default(), None)).collect();
        calls.fail_all("gone");
        for call in call {
            assert!(matches!(call.outcome().await, CallOutcome::Disconnected(reason) if reason == "gone"));
        }
        assert!(calls.all().is_empty());
    }
}
