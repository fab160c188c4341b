//! One run of a handler on 2026-07-28: what was asked, what is known, what was done once.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{self, Poll, Waker};

use indexmap::IndexMap;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::mrtr::{INPUT_RESPONSES, InputRequest, InputRequests};
use tsugite_core::revision::RpcError;

use super::AskError;
use crate::lock::lock;
use crate::server::call_state::CallState;

/// One run of a handler.
#[derive(Default)]
pub(crate) struct Round(Mutex<RoundInner>);

/// What earlier rounds have learnt, and what came with this one.
#[derive(Default)]
pub(crate) struct RoundHistory {
    /// How many rounds there were before.
    pub(crate) rounds: u32,
    /// Answers by key.
    pub(crate) answers: HashMap<String, RawJson>,
    /// Which of them came with this request, to something that was asked.
    pub(crate) new_answers: HashSet<String>,
    /// What was done once.
    pub(crate) once_results: HashMap<String, RawJson>,
}

#[derive(Default)]
struct RoundInner {
    history: RoundHistory,
    /// Whether an answer that came with this request was taken.
    new_answer_used: bool,
    /// Questions without an answer, in the order they were asked.
    open_requests: IndexMap<String, InputRequest>,
    /// Keys of questions that are open or were answered in this run.
    keys: HashSet<String>,
    once_keys: HashSet<String>,
    once_running: usize,
    error: Option<RpcError>,
    ended: bool,
    /// Questions asked by tasks of their own, to be woken when the round ends.
    wakers: Vec<Waker>,
}

/// How a run stands when its handler rests.
pub(crate) enum RoundState {
    /// It may be dropped: questions are open and nothing else holds it.
    AwaitingInput,
    /// Questions are open, but not one answer that came was taken: perhaps the handler is not there yet.
    Diverged,
    /// The client sent an answer that is none.
    Failed(RpcError),
    /// It works.
    Running,
}

impl Round {
    /// A run that knows what earlier ones learnt.
    pub(crate) fn with_history(known: RoundHistory) -> Self {
        Self(Mutex::new(RoundInner { history: known, ..RoundInner::default() }))
    }

    pub(crate) fn state(&self) -> RoundState {
        let mut inner = self.lock();
        if let Some(refusal) = inner.error.take() {
            return RoundState::Failed(refusal);
        }
        if inner.open_requests.is_empty() || inner.once_running > 0 {
            return RoundState::Running;
        }
        if inner.new_answer_used || inner.history.new_answers.is_empty() {
            RoundState::AwaitingInput
        } else {
            RoundState::Diverged
        }
    }

    /// How many questions are open.
    pub(crate) fn open_count(&self) -> usize {
        self.lock().open_requests.len()
    }

    /// Ends the run: gives what was asked and what is known by now. Questions of tasks of their own end too.
    pub(crate) fn end(&self) -> (InputRequests, RoundHistory) {
        let mut inner = self.lock();
        inner.ended = true;
        let open = std::mem::take(&mut inner.open_requests).into_iter().collect();
        let mut known = std::mem::take(&mut inner.history);
        // Answers that came without a state may answer anything; what nobody asked does not travel on.
        if known.rounds == 0 {
            known.answers.retain(|key, _| inner.keys.contains(key));
        }
        let wakers = std::mem::take(&mut inner.wakers);
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        (open, known)
    }

    /// The handler is gone without a question.
    pub(crate) fn close(&self) {
        drop(self.end());
    }

    /// Looks whether `key` was done in an earlier round.
    pub(super) fn once(self: &Arc<Self>, call: &Arc<CallState>, key: &str) -> Result<OnceLookup, AskError> {
        let mut inner = self.lock();
        if !inner.once_keys.insert(key.to_owned()) {
            drop(inner);
            return Err(AskError::misused(format!("`once` was used twice with the key {key:?}")));
        }
        if let Some(json) = inner.history.once_results.get(key) {
            return Ok(OnceLookup::Stored(json.clone()));
        }
        inner.once_running += 1;
        drop(inner);
        Ok(OnceLookup::Run(OnceGuard { round: self.clone(), call: call.clone(), key: key.to_owned() }))
    }

    /// Fails the request: an answer is not one to what was asked. Never ends; the driver drops the handler.
    pub(in crate::server) async fn fail_invalid_answer<T>(
        &self,
        call: &CallState,
        key: &str,
        text: &str,
    ) -> T {
        let key: String = key.chars().take(60).collect();
        let refusal =
            RpcError::InvalidParams(format!("Invalid params: `{INPUT_RESPONSES}` {key:?}: {text}").into());
        self.lock().error = Some(refusal);
        call.wake_driver();
        std::future::pending().await
    }

    fn lock(&self) -> MutexGuard<'_, RoundInner> {
        lock(&self.0)
    }
}

/// Asks: gives the answer if it is known, and otherwise stays until the run is over.
pub(in crate::server) async fn request_input(
    call: &CallState,
    round: &Arc<Round>,
    key: Option<String>,
    request: InputRequest,
) -> Result<(String, RawJson), AskError> {
    let key = {
        let mut inner = round.lock();
        let key = match key {
            Some(key) if inner.keys.contains(&key) => {
                drop(inner);
                return Err(AskError::misused(format!("two questions have the key {key:?}")));
            }
            Some(key) => key,
            None => unique_key(&inner, &request)?,
        };
        if inner.ended {
            return Err(AskError::Suspended);
        }
        inner.keys.insert(key.clone());
        if let Some(answer) = inner.history.answers.get(&key).cloned() {
            let first = !inner.new_answer_used && inner.history.new_answers.contains(&key);
            inner.new_answer_used |= first;
            drop(inner);
            if first {
                // The run may have waited for somebody to take it.
                call.wake_driver();
            }
            return Ok((key, answer));
        }
        inner.open_requests.insert(key.clone(), request);
        key
    };
    let _open = OpenRequestGuard { round, key };
    call.wake_driver();
    poll_fn(|cx| {
        let mut inner = round.lock();
        if inner.ended {
            return Poll::Ready(());
        }
        // The driver drops the handler when the run is over; only tasks of their own have to hear of it.
        if !call.is_driver(cx.waker()) && !inner.wakers.iter().any(|known| known.will_wake(cx.waker())) {
            inner.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    })
    .await;
    Err(AskError::Suspended)
}

/// A key made of what is asked, and of how often the same was asked before. Never of the position, which `select!` and
/// the order of events would shuffle.
fn unique_key(inner: &RoundInner, request: &InputRequest) -> Result<String, AskError> {
    let text = RawJson::from_value(request)
        .map_err(|error| AskError::misused(format!("a question has no JSON: {error}")))?;
    let digest = ring::digest::digest(&ring::digest::SHA256, text.text().as_bytes());
    let print: String = digest.as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let kind = match request {
        InputRequest::Elicit(_) => "elicitation",
        InputRequest::Sample(_) => "sampling",
        _ => "roots",
    };
    let numbered = (1_u32..).map(|number| match number {
        1 => format!("{kind}-{print}"),
        number => format!("{kind}-{print}-{number}"),
    });
    let mut free = numbered.filter(|key| !inner.keys.contains(key));
    free.next().ok_or_else(|| AskError::misused("too many equal questions"))
}

/// A question that is open; dropped, it is withdrawn and its key is free again.
struct OpenRequestGuard<'a> {
    round: &'a Round,
    key: String,
}

impl Drop for OpenRequestGuard<'_> {
    fn drop(&mut self) {
        let mut inner = self.round.lock();
        inner.open_requests.shift_remove(&self.key);
        inner.keys.remove(&self.key);
    }
}

/// What `once_results` found.
pub(super) enum OnceLookup {
    /// An earlier round did it.
    Stored(RawJson),
    /// It is to be done.
    Run(OnceGuard),
}

/// Something being done once. The run does not end meanwhile.
pub(super) struct OnceGuard {
    round: Arc<Round>,
    call: Arc<CallState>,
    key: String,
}

impl OnceGuard {
    pub(super) fn store(self, json: RawJson) {
        self.round.lock().history.once_results.insert(self.key.clone(), json);
    }
}

impl Drop for OnceGuard {
    fn drop(&mut self) {
        let mut inner = self.round.lock();
        inner.once_running = inner.once_running.saturating_sub(1);
        drop(inner);
        // The run may have waited for this alone, and it may have been done by a task of its own.
        self.call.wake_driver();
    }
}

thread_local! {
    static IN_ONCE: Cell<bool> = const { Cell::new(false) };
}

/// Whether what is being polled is the work of a `once_results`.
pub(super) fn is_in_once() -> bool {
    IN_ONCE.get()
}

/// The work of a `once_results`: questions polled inside notice.
pub(super) struct OnceFuture<F>(Pin<Box<F>>);

impl<F: Future> OnceFuture<F> {
    pub(super) fn new(work: F) -> Self {
        Self(Box::pin(work))
    }
}

impl<F: Future> Future for OnceFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<F::Output> {
        /// Put back also when the work panics.
        struct ResetOnDrop(bool);
        impl Drop for ResetOnDrop {
            fn drop(&mut self) {
                IN_ONCE.set(self.0);
            }
        }
        let _before = ResetOnDrop(IN_ONCE.replace(true));
        self.0.as_mut().poll(cx)
    }
}
