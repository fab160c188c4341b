//! Calls that wait for an answer, and the time they have for it.

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
use crate::lock::lock;

/// Told how far a call has come.
pub(super) type ProgressCallback = Arc<dyn Fn(ProgressParams) + Send + Sync>;

/// What came of a call.
#[derive(Debug)]
pub(super) enum CallOutcome {
    Response(Result<RawJson, ErrorObject>),
    /// The connection went away; in words.
    Disconnected(String),
}

/// The calls made over one connection. Ids are never used twice.
#[derive(Default)]
pub(super) struct PendingCalls {
    last_id: AtomicI64,
    table: Mutex<HashMap<i64, Arc<PendingCall>, foldhash::fast::RandomState>>,
}

/// One of them.
pub(super) struct PendingCall {
    id: i64,
    timeouts: Timeouts,
    on_progress: Option<ProgressCallback>,
    state: Mutex<PendingCallState>,
}

struct PendingCallState {
    call_timer: CallTimer,
    outcome: Option<CallOutcome>,
    /// Who waits for the outcome.
    outcome_waker: Option<Waker>,
    /// Who waits for the clock to run again.
    timer_waker: Option<Waker>,
}

/// No answer came in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallTimeoutError {
    pub(super) limit: Duration,
    pub(super) kind: TimeoutKind,
}

impl PendingCalls {
    /// A call is made now.
    pub(super) fn register(
        &self,
        patience: Timeouts,
        on_progress: Option<ProgressCallback>,
    ) -> Arc<PendingCall> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let state = PendingCallState {
            call_timer: CallTimer::new(Instant::now().into_std(), patience),
            outcome: None,
            outcome_waker: None,
            timer_waker: None,
        };
        let waiting = Arc::new(PendingCall { id, timeouts: patience, on_progress, state: Mutex::new(state) });
        lock(&self.table).insert(id, Arc::clone(&waiting));
        waiting
    }

    /// Nobody waits for it any more. False if it was answered already.
    pub(super) fn remove(&self, id: i64) -> bool {
        lock(&self.table).remove(&id).is_some()
    }

    /// An answer has come. False when nobody waits for it: it is late, doubled, or the peer's mistake.
    pub(super) fn complete(&self, id: &Id<'_>, outcome: Result<RawJson, ErrorObject>) -> bool {
        let waiting = id.as_i64().and_then(|id| lock(&self.table).remove(&id));
        match waiting {
            Some(waiting) => {
                waiting.complete(CallOutcome::Response(outcome));
                true
            }
            None => false,
        }
    }

    /// Progress has come. False when it belongs to no call.
    pub(super) fn handle_progress(&self, progress: ProgressParams) -> bool {
        match self.get(&progress.progress_token) {
            Some(waiting) => {
                waiting.handle_progress(progress);
                true
            }
            None => false,
        }
    }

    /// The call with this id, if it still waits.
    pub(super) fn get(&self, id: &Id<'_>) -> Option<Arc<PendingCall>> {
        let id = id.as_i64()?;
        lock(&self.table).get(&id).cloned()
    }

    /// Everything that waits: whoever asked a question without saying for which call asked it for one of these.
    pub(super) fn all(&self) -> Vec<Arc<PendingCall>> {
        lock(&self.table).values().cloned().collect()
    }

    /// The connection is gone: every call is over.
    pub(super) fn fail_all(&self, seen: &str) {
        let all = std::mem::take(&mut *lock(&self.table));
        for waiting in all.into_values() {
            waiting.complete(CallOutcome::Disconnected(seen.to_owned()));
        }
    }
}

impl PendingCall {
    pub(super) fn id(&self) -> i64 {
        self.id
    }

    /// Waits for the outcome. Time is kept by [`Self::run_with_timeout`].
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

    /// Whether the outcome is there.
    pub(super) fn is_complete(&self) -> bool {
        lock(&self.state).outcome.is_some()
    }

    /// Runs `work` as long as the call has time.
    pub(super) async fn run_with_timeout<F: Future>(
        &self,
        mut work: Pin<&mut F>,
    ) -> Result<F::Output, CallTimeoutError> {
        // Most calls are answered before their first look at the clock.
        let mut clock = pin!(None);
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
                match clock.as_mut().as_pin_mut() {
                    None => clock.set(Some(sleep_until(deadline))),
                    Some(mut clock) if clock.deadline() != deadline && clock.is_elapsed() => {
                        clock.as_mut().reset(deadline);
                    }
                    Some(_) => {}
                }
                if let Some(clock) = clock.as_mut().as_pin_mut()
                    && clock.poll(cx).is_pending()
                {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Somebody needs time to answer a question of the server: the clock stands until the guard is dropped.
    pub(super) fn pause_timer(self: &Arc<Self>) -> PausedTimer {
        lock(&self.state).call_timer.pause(Instant::now().into_std());
        PausedTimer(Arc::clone(self))
    }

    fn handle_progress(&self, progress: ProgressParams) {
        let rises =
            lock(&self.state).call_timer.record_progress(Instant::now().into_std(), progress.progress);
        if rises && let Some(told) = &self.on_progress {
            client_handler::invoke_callback(&**told, progress);
        }
    }

    fn complete(&self, outcome: CallOutcome) {
        let waiter = {
            let mut state = lock(&self.state);
            state.outcome = Some(outcome);
            state.outcome_waker.take()
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

/// A clock that stands.
pub(super) struct PausedTimer(Arc<PendingCall>);

impl Drop for PausedTimer {
    fn drop(&mut self) {
        let timer = {
            let mut state = lock(&self.0.state);
            state.call_timer.resume(Instant::now().into_std());
            state.timer_waker.take()
        };
        if let Some(timer) = timer {
            timer.wake();
        }
    }
}

fn register_waker(place: &mut Option<Waker>, cx: &Context<'_>) {
    if !place.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        *place = Some(cx.waker().clone());
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
    async fn progress_extends_the_timeout_up_to_the_total() {
        let calls = PendingCalls::default();
        let waiting = calls.register(timeouts(30, 70), None);
        let start = Instant::now();
        let told = async {
            for step in 1..10 {
                tokio::time::sleep(SECOND * 20).await;
                calls.handle_progress(progress(waiting.id(), f64::from(step)));
            }
            std::future::pending::<()>().await;
        };
        let timed_out = waiting.run_with_timeout(pin!(told)).await.unwrap_err();
        assert_eq!((start.elapsed(), timed_out.kind), (SECOND * 70, TimeoutKind::Total));
    }

    #[tokio::test(start_paused = true)]
    async fn silent_call_times_out() {
        let calls = PendingCalls::default();
        let waiting = calls.register(timeouts(30, 70), None);
        let start = Instant::now();
        let timed_out = waiting.run_with_timeout(pin!(waiting.outcome())).await.unwrap_err();
        assert_eq!((start.elapsed(), timed_out.kind), (SECOND * 30, TimeoutKind::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_pauses_during_server_requests() {
        let calls = PendingCalls::default();
        let waiting = calls.register(timeouts(30, 40), None);
        let start = Instant::now();
        let asked = async {
            tokio::time::sleep(SECOND * 10).await;
            let paused = waiting.pause_timer();
            tokio::time::sleep(SECOND * 1000).await;
            drop(paused);
            std::future::pending::<()>().await;
        };
        waiting.run_with_timeout(pin!(asked)).await.unwrap_err();
        assert_eq!(start.elapsed(), SECOND * 1040);
    }

    #[tokio::test(start_paused = true)]
    async fn clock_paused_from_the_start_runs_again() {
        let calls = PendingCalls::default();
        let waiting = calls.register(timeouts(5, 40), None);
        let start = Instant::now();
        let paused = waiting.pause_timer();
        let resumed = async {
            tokio::time::sleep(SECOND * 100).await;
            drop(paused);
        };
        let outcome = pin!(waiting.outcome());
        let (_, timed_out) = tokio::join!(resumed, waiting.run_with_timeout(outcome));
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
    async fn response_is_accepted_once() {
        let calls = PendingCalls::default();
        let waiting = calls.register(Timeouts::default(), None);
        let id = Id::from(waiting.id());
        assert!(calls.complete(&id, Ok(RawJson::empty_object())));
        assert!(!calls.complete(&id, Ok(RawJson::empty_object())));
        assert!(!calls.complete(&Id::from(77), Ok(RawJson::empty_object())));
        assert!(matches!(waiting.outcome().await, CallOutcome::Response(Ok(_))));
    }

    #[tokio::test]
    async fn a_lost_connection_ends_every_call() {
        let calls = PendingCalls::default();
        let waiting: Vec<_> = (0..3).map(|_| calls.register(Timeouts::default(), None)).collect();
        calls.fail_all("gone");
        for waiting in waiting {
            assert!(matches!(waiting.outcome().await, CallOutcome::Disconnected(seen) if seen == "gone"));
        }
        assert!(calls.all().is_empty());
    }
}
