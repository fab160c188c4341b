//! One round of a call on 2026-07-28: the questions of the handler, the known answers, and the results of `once`.
//!
//! `wake_signal` and [`DriverHandle`] connect a round with the driver that polls its handler.

mod driver_handle;
mod wake_signal;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{self, Poll, Waker};
use std::time::Duration;

use indexmap::IndexMap;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::mrtr::{INPUT_RESPONSES, InputRequest, InputRequests};
use tsugite_core::revision::RpcError;

pub(super) use driver_handle::DriverHandle;
pub(super) use wake_signal::WakeSignal;

use super::ask_error::AskError;
use super::kept_call::{KeptAnswer, KeptHistory};
use crate::lock::lock;

/// One round: a run of a handler with the answers known so far.
#[derive(Default)]
pub(crate) struct Round(Mutex<RoundInner>);

/// The results of earlier rounds, and the answers that arrived with this one.
#[derive(Default)]
pub(crate) struct RoundHistory {
    /// The number of earlier rounds.
    pub(crate) rounds: u32,
    /// Answers by key.
    pub(crate) answers: HashMap<String, RawJson>,
    /// Fingerprints of the questions that the answers belong to, for keys that the handler chose.
    pub(crate) fingerprints: HashMap<String, String>,
    /// The keys of answers that arrived with this request to a question of the previous round.
    pub(crate) new_answers: HashSet<String>,
    /// The results of `once`, by key.
    pub(crate) once_results: HashMap<String, RawJson>,
    /// A digest of the state that the client carried.
    pub(crate) state_digest: Option<String>,
}

#[derive(Default)]
struct RoundInner {
    history: RoundHistory,
    /// Whether the handler has used an answer that arrived with this request.
    new_answer_used: bool,
    /// Questions without an answer, in the order they were asked.
    open_requests: IndexMap<String, InputRequest>,
    /// Keys of questions that are open or were answered in this round.
    keys: HashSet<String>,
    once_keys: HashSet<String>,
    /// The keys of `once` whose work runs.
    once_running: HashSet<String>,
    /// Answers of a call that can be kept, by key.
    kept_answers: HashMap<String, KeptAnswer>,
    /// The keys of stored answers that the handler has not used yet.
    unused_answers: HashSet<String>,
    /// How long an answer to an open question is waited for, in a call that can be kept or is a task.
    timeouts: HashMap<String, Duration>,
    error: Option<RpcError>,
    ended: bool,
    /// Wakers of questions asked by tasks that the handler spawned, woken when the round ends.
    wakers: Vec<Waker>,
}

/// The state of a round while its handler is pending.
pub(crate) enum RoundState {
    /// Questions are open and no `once` is running: the handler may be dropped.
    AwaitingInput,
    /// Questions are open, but no new answer was used: the handler may not have reached its question yet.
    Diverged,
    /// The client sent an invalid answer.
    Failed(RpcError),
    /// No question is open, or a `once` is running.
    Running,
}

impl Round {
    /// Creates a round with the results of earlier ones.
    pub(crate) fn with_history(history: RoundHistory) -> Self {
        Self(Mutex::new(RoundInner { history, ..RoundInner::default() }))
    }

    /// Creates a round with the answers of a call that was kept.
    pub(crate) fn with_kept_history(history: KeptHistory) -> Self {
        let KeptHistory { once_results, fingerprints, .. } = history;
        let unused_answers = history.answers.keys().cloned().collect();
        Self(Mutex::new(RoundInner {
            history: RoundHistory { once_results, fingerprints, ..RoundHistory::default() },
            kept_answers: history.answers,
            unused_answers,
            ..RoundInner::default()
        }))
    }

    /// Whether the handler has not used all stored answers.
    pub(crate) fn has_unused_answers(&self) -> bool {
        !self.lock().unused_answers.is_empty()
    }

    /// A digest of the state that the client carried, if this is not the first round.
    pub(super) fn state_digest(&self) -> Option<String> {
        self.lock().history.state_digest.clone()
    }

    /// The open questions of a call that can be kept or is a task, and how long an answer is waited for.
    pub(super) fn open_questions(&self) -> Vec<(String, InputRequest, Duration)> {
        let inner = self.lock();
        let timeout = |key: &String| inner.timeouts.get(key).copied().unwrap_or(Duration::MAX);
        inner
            .open_requests
            .iter()
            .map(|(key, request)| (key.clone(), request.clone(), timeout(key)))
            .collect()
    }

    /// Whether the handler has asked a question for which it chose this key, or which is open under it. The key of an earlier
    /// run may be a chosen one with the fingerprint of other words behind it.
    pub(super) fn has_asked(&self, key: &str) -> bool {
        let inner = self.lock();
        let chosen = key.rsplit_once('-').map(|(chosen, _)| chosen);
        let is_bound = |chosen: &str| inner.history.fingerprints.contains_key(chosen);
        inner.keys.contains(key)
            || chosen.is_some_and(|chosen| is_bound(chosen) && inner.keys.contains(chosen))
    }

    /// Fingerprints of the questions that were first asked under keys of the handler.
    pub(super) fn fingerprints(&self) -> HashMap<String, String> {
        self.lock().history.fingerprints.clone()
    }

    /// Whether questions are open and no `once` is running.
    pub(super) fn is_asking(&self) -> bool {
        let inner = self.lock();
        !inner.open_requests.is_empty() && inner.once_running.is_empty()
    }

    /// The answers so far and the results of `once`.
    pub(super) fn kept_history(&self) -> KeptHistory {
        let inner = self.lock();
        KeptHistory {
            answers: inner.kept_answers.clone(),
            once_results: inner.history.once_results.clone(),
            fingerprints: inner.history.fingerprints.clone(),
            ..KeptHistory::default()
        }
    }

    /// The history of a call that becomes a task: answers of earlier rounds, the results of `once`, and the keys of `once`
    /// whose work runs.
    pub(crate) fn task_history(&self) -> (KeptHistory, Vec<String>) {
        let inner = self.lock();
        let mut answers = inner.kept_answers.clone();
        let earlier = inner.history.answers.iter().filter(|(key, _)| inner.keys.contains(*key));
        answers.extend(earlier.map(|(key, answer)| (key.clone(), KeptAnswer::Result(answer.clone()))));
        let RoundHistory { once_results, fingerprints, .. } = &inner.history;
        let (once_results, fingerprints) = (once_results.clone(), fingerprints.clone());
        let history = KeptHistory { answers, once_results, fingerprints, ..KeptHistory::default() };
        (history, inner.once_running.iter().cloned().collect())
    }

    /// Answers a question of a call that can be kept.
    pub(super) fn answer(&self, key: &str, answer: KeptAnswer) {
        let wakers = {
            let mut inner = self.lock();
            inner.kept_answers.insert(key.to_owned(), answer);
            std::mem::take(&mut inner.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn state(&self) -> RoundState {
        let mut inner = self.lock();
        if let Some(error) = inner.error.take() {
            return RoundState::Failed(error);
        }
        if inner.open_requests.is_empty() || !inner.once_running.is_empty() {
            return RoundState::Running;
        }
        if inner.new_answer_used || inner.history.new_answers.is_empty() {
            RoundState::AwaitingInput
        } else {
            RoundState::Diverged
        }
    }

    /// The number of open questions.
    pub(crate) fn open_count(&self) -> usize {
        self.lock().open_requests.len()
    }

    /// Ends the round and returns its open questions and the answers so far. Questions of spawned tasks fail.
    pub(crate) fn end(&self) -> (InputRequests, RoundHistory) {
        let mut inner = self.lock();
        inner.ended = true;
        let open = std::mem::take(&mut inner.open_requests).into_iter().collect();
        let mut history = std::mem::take(&mut inner.history);
        // Without a state, answers may have any key; those to no question are not passed on.
        if history.rounds == 0 {
            history.answers.retain(|key, _| inner.keys.contains(key));
        }
        let wakers = std::mem::take(&mut inner.wakers);
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        (open, history)
    }

    /// Ends the round of a handler that has completed or was dropped.
    pub(crate) fn close(&self) {
        drop(self.end());
    }

    /// Looks up the result of `once` for `key` in earlier rounds.
    pub(super) fn once(self: &Arc<Self>, key: &str) -> Result<OnceLookup, AskError> {
        let mut inner = self.lock();
        if !inner.once_keys.insert(key.to_owned()) {
            drop(inner);
            return Err(AskError::misused(format!("`once` was used twice with the key {key:?}")));
        }
        if let Some(json) = inner.history.once_results.get(key) {
            return Ok(OnceLookup::Stored(json.clone()));
        }
        inner.once_running.insert(key.to_owned());
        drop(inner);
        Ok(OnceLookup::Run(OnceGuard { round: self.clone(), key: key.to_owned() }))
    }

    /// Fails the request because of an invalid answer. Never completes; the driver drops the handler.
    pub(super) async fn fail_invalid_answer<T>(&self, driver: &DriverHandle, key: &str, text: &str) -> T {
        let key: String = key.chars().take(60).collect();
        let error =
            RpcError::InvalidParams(format!("Invalid params: `{INPUT_RESPONSES}` {key:?}: {text}").into())
                .with("path", format!("{INPUT_RESPONSES}.{key}"));
        self.lock().error = Some(error);
        driver.wake();
        std::future::pending().await
    }

    fn lock(&self) -> MutexGuard<'_, RoundInner> {
        lock(&self.0)
    }
}

/// Returns the answer to a question if it is known. Otherwise records the question and waits for the end of the round.
/// `timeout` matters if the call becomes a task meanwhile.
pub(super) async fn request_input(
    driver: &DriverHandle,
    round: &Arc<Round>,
    key: Option<QuestionKey>,
    request: InputRequest,
    timeout: Duration,
) -> Result<(String, RawJson), AskError> {
    let fingerprint = fingerprint(&request)?;
    let key = {
        let mut inner = round.lock();
        if inner.ended {
            return Err(AskError::Suspended);
        }
        let key = match key {
            Some(QuestionKey { key, .. }) if inner.keys.contains(&key) => {
                drop(inner);
                return Err(AskError::misused(format!("two questions have the key {key:?}")));
            }
            Some(QuestionKey { key, reuses_answer }) => {
                inner.bind_question(&key, fingerprint, reuses_answer);
                key
            }
            // It contains the fingerprint, so another question has another key.
            None => unique_key(&inner, &request, &fingerprint)?,
        };
        inner.keys.insert(key.clone());
        if let Some(answer) = inner.history.answers.get(&key).cloned() {
            let is_first = !inner.new_answer_used && inner.history.new_answers.contains(&key);
            inner.new_answer_used |= is_first;
            drop(inner);
            if is_first {
                // The driver may have been waiting for a new answer to be used.
                driver.wake();
            }
            return Ok((key, answer));
        }
        inner.open_requests.insert(key.clone(), request);
        inner.timeouts.insert(key.clone(), timeout);
        key
    };
    let mut open = OpenRequestGuard { round, key, chosen: None, keeps_key: false };
    driver.wake();
    let answer = poll_fn(|cx| {
        let mut inner = round.lock();
        // The call has become a task since.
        if let Some(answer) = inner.kept_answers.get(&open.key).cloned() {
            // An equal question later gets another key.
            open.keeps_key = true;
            return Poll::Ready(Some(answer));
        }
        if inner.ended {
            return Poll::Ready(None);
        }
        // The driver drops the handler when the round ends; only spawned tasks have to be woken.
        if !driver.is_driver(cx.waker()) && !inner.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            inner.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    })
    .await;
    match answer {
        Some(answer) => Ok((open.key.clone(), answer.into_result()?)),
        None => Err(AskError::Suspended),
    }
}

/// Returns the answer to a question of a call that can be kept, or of a task. The driver of the handler sends the question.
/// `keeps_key` says whether its key is never used again, also if the question is dropped.
pub(super) async fn request_answer(
    driver: &DriverHandle,
    round: &Arc<Round>,
    key: Option<QuestionKey>,
    request: InputRequest,
    (timeout, keeps_key): (Duration, bool),
) -> Result<KeptAnswer, AskError> {
    let fingerprint = fingerprint(&request)?;
    let mut open = {
        let mut inner = round.lock();
        if inner.ended {
            return Err(AskError::Closed);
        }
        let chosen = key.as_ref().map(|key| key.key.clone());
        let key = match key {
            Some(QuestionKey { key, .. }) if inner.keys.contains(&key) => {
                drop(inner);
                return Err(AskError::misused(format!("two questions have the key {key:?}")));
            }
            Some(chosen) => inner.bound_key(chosen, fingerprint),
            None => unique_key(&inner, &request, &fingerprint)?,
        };
        inner.keys.extend(chosen.clone());
        inner.keys.insert(key.clone());
        if let Some(answer) = inner.kept_answers.get(&key).cloned() {
            inner.unused_answers.remove(&key);
            return Ok(answer);
        }
        inner.open_requests.insert(key.clone(), request);
        inner.timeouts.insert(key.clone(), timeout);
        OpenRequestGuard { round, key, chosen, keeps_key }
    };
    driver.wake();
    poll_fn(|cx| {
        let mut inner = round.lock();
        if let Some(answer) = inner.kept_answers.get(&open.key).cloned() {
            // An equal question later gets another key, in this run and in every later one.
            open.keeps_key = true;
            return Poll::Ready(Ok(answer));
        }
        if inner.ended {
            return Poll::Ready(Err(AskError::Closed));
        }
        // The driver polls the handler when the answer is there; only spawned tasks have to be woken.
        if !driver.is_driver(cx.waker()) && !inner.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            inner.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    })
    .await
}

/// The key that a handler chose for a question.
pub(super) struct QuestionKey {
    pub(super) key: String,
    /// Whether an answer counts although the question has changed since it was shown.
    pub(super) reuses_answer: bool,
}

impl RoundInner {
    /// Binds a key to the question that is asked under it now. The answer to another question is dropped, so that the new
    /// one is asked.
    fn bind_question(&mut self, key: &str, fingerprint: String, reuses_answer: bool) {
        let history = &mut self.history;
        let shown = history.fingerprints.insert(key.to_owned(), fingerprint.clone());
        if !reuses_answer && shown.is_some_and(|shown| shown != fingerprint) {
            history.answers.remove(key);
            // The handler has reached the question that was answered: it has not diverged.
            self.new_answer_used |= history.new_answers.remove(key);
        }
    }

    /// The key of a question in a call that can be kept, or in a task. A chosen key stays bound to the question that was
    /// first asked under it, since the client may have been shown that one: another question gets another key.
    fn bound_key(&mut self, chosen: QuestionKey, fingerprint: String) -> String {
        let QuestionKey { key, reuses_answer } = chosen;
        let bound = self.history.fingerprints.entry(key.clone()).or_insert_with(|| fingerprint.clone());
        match reuses_answer || *bound == fingerprint {
            true => key,
            false => {
                // Nothing waits for an answer that is not used.
                self.unused_answers.remove(&key);
                format!("{key}-{fingerprint}")
            }
        }
    }
}

/// A short digest of the content of a question.
fn fingerprint(request: &InputRequest) -> Result<String, AskError> {
    let text = RawJson::from_value(request)
        .map_err(|error| AskError::misused(format!("a question cannot be serialized: {error}")))?;
    let digest = ring::digest::digest(&ring::digest::SHA256, text.text().as_bytes());
    Ok(digest.as_ref().iter().take(FINGERPRINT_BYTES).map(|byte| format!("{byte:02x}")).collect())
}

const FINGERPRINT_BYTES: usize = 6;

/// Derives a key from the content of a question and the number of equal questions before it. The order of questions is not
/// used, because it can change from round to round, for instance with `select!`.
fn unique_key(inner: &RoundInner, request: &InputRequest, fingerprint: &str) -> Result<String, AskError> {
    let kind = match request {
        InputRequest::Elicit(_) => "elicitation",
        InputRequest::Sample(_) => "sampling",
        _ => "roots",
    };
    let numbered = (1_u32..).map(|number| match number {
        1 => format!("{kind}-{fingerprint}"),
        number => format!("{kind}-{fingerprint}-{number}"),
    });
    let mut free = numbered.filter(|key| !inner.keys.contains(key));
    free.next().ok_or_else(|| AskError::misused("too many equal questions"))
}

/// An open question. Dropping it removes the question and frees its key.
struct OpenRequestGuard<'a> {
    round: &'a Round,
    key: String,
    /// The key that the handler chose, if the question may have another one.
    chosen: Option<String>,
    /// Whether the keys stay in use.
    keeps_key: bool,
}

impl Drop for OpenRequestGuard<'_> {
    fn drop(&mut self) {
        let mut inner = self.round.lock();
        inner.open_requests.shift_remove(&self.key);
        inner.timeouts.remove(&self.key);
        if !self.keeps_key {
            inner.keys.remove(&self.key);
            if let Some(chosen) = &self.chosen {
                inner.keys.remove(chosen);
            }
        }
    }
}

/// The result of looking up a key of `once`.
pub(super) enum OnceLookup {
    /// An earlier round has stored a result.
    Stored(RawJson),
    /// The work must run.
    Run(OnceGuard),
}

/// The running work of a `once`. The round does not end while it exists.
pub(super) struct OnceGuard {
    round: Arc<Round>,
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
        inner.once_running.remove(&self.key);
    }
}

thread_local! {
    static IN_ONCE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the current poll runs inside the work of a `once`.
pub(super) fn is_in_once() -> bool {
    IN_ONCE.get()
}

/// The work of a `once`. Marks its polls, so that questions inside fail.
pub(super) struct OnceFuture<F>(Pin<Box<F>>);

impl<F: Future> OnceFuture<F> {
    pub(super) fn new(work: F) -> Self {
        Self(Box::pin(work))
    }
}

impl<F: Future> Future for OnceFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<F::Output> {
        /// Restores the flag, also if the work panics.
        struct ResetOnDrop(bool);
        impl Drop for ResetOnDrop {
            fn drop(&mut self) {
                IN_ONCE.set(self.0);
            }
        }
        let _reset = ResetOnDrop(IN_ONCE.replace(true));
        self.0.as_mut().poll(cx)
    }
}
