//! Runs the handler of a task: stores its questions, and hands it the answers.

use std::collections::{HashMap, HashSet};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use tokio::time::Sleep;
use tsugite_core::protocol::mrtr::InputRequest;

use crate::server::ask::BoxedHandler;
use crate::server::call_state::{CallState, PauseGuard};
use crate::server::kept_call::KeptAnswer;
use crate::server::round::{Round, WakeSignal};
use crate::server::task_state::{RunningTask, TaskLost, TaskQuestion, TaskState};

/// Runs a handler until it completes. `None` if its task was cancelled, taken over or released.
pub(super) async fn drive<S>(
    handler: BoxedHandler<S>,
    call: &Arc<CallState>,
    task: &Arc<RunningTask>,
) -> Option<S> {
    let state = task.snapshot().state;
    // Otherwise every answer was there when the handler asked what it waits for.
    let has_new = state.answers.len() > state.delivered_answers;
    let mut driver = TaskDriver {
        handler,
        call,
        task,
        round: call.round(),
        signal: None,
        stored: StoredQuestions::from_state(&state),
        unreached: state.questions,
        delivered: state.answers.into_keys().collect(),
        timers: HashMap::new(),
        paused: None,
    };
    if has_new {
        driver.go_on().await.ok()?;
    }
    loop {
        match driver.next_step().await {
            Step::Done(done) => return Some(done),
            Step::Store(asked) => driver.store(asked).await.ok()?,
            Step::TimedOut(key) => driver.time_out(key).await.ok()?,
            Step::Changed => driver.take_answers().await.ok()?,
        }
    }
}

struct TaskDriver<'a, S> {
    handler: BoxedHandler<S>,
    call: &'a Arc<CallState>,
    task: &'a Arc<RunningTask>,
    round: Arc<Round>,
    signal: Option<Arc<WakeSignal>>,
    /// The questions as the record has them.
    stored: StoredQuestions,
    /// The questions of an earlier run of the handler that this one has not asked yet. They stay open: the client may answer
    /// them meanwhile.
    unreached: Vec<TaskQuestion>,
    /// The keys of answers that the handler has got.
    delivered: HashSet<String>,
    /// The time limits of open questions that have one.
    timers: HashMap<String, Pin<Box<Sleep>>>,
    /// Stops the timeout of the handler while a question is open.
    paused: Option<PauseGuard>,
}

/// The next thing to do before the handler is polled again.
enum Step<S> {
    Done(S),
    /// The handler asks other questions than before, or began or ceased to wait for nothing else.
    Store(AskedQuestions),
    /// The answer to a question did not arrive in time.
    TimedOut(String),
    /// Another writer may have changed the state.
    Changed,
}

/// The questions that the record has.
#[derive(PartialEq, Eq)]
struct StoredQuestions {
    keys: Vec<String>,
    can_run_again: bool,
}

impl StoredQuestions {
    fn from_state(state: &TaskState) -> Self {
        let keys = state.questions.iter().map(|question| question.key.clone()).collect();
        Self { keys, can_run_again: state.can_run_again }
    }
}

/// The questions that the handler asks now.
struct AskedQuestions {
    questions: Vec<(String, InputRequest, Duration)>,
    can_run_again: bool,
}

impl<S> TaskDriver<'_, S> {
    /// Polls the handler until something must be done for it.
    async fn next_step(&mut self) -> Step<S> {
        let task = self.task.clone();
        let mut changed = pin!(task.changed());
        poll_fn(|cx| self.poll_step(changed.as_mut(), cx)).await
    }

    fn poll_step(
        &mut self,
        changed: Pin<&mut impl Future<Output = ()>>,
        cx: &mut task::Context<'_>,
    ) -> Poll<Step<S>> {
        let signal = self.signal.get_or_insert_with(|| {
            let signal = WakeSignal::new(cx.waker());
            self.call.driver().set_signal(&signal);
            signal
        });
        signal.set_parent(cx.waker());
        // First, so that a lost task does not go on.
        if changed.poll(cx).is_ready() {
            return Poll::Ready(Step::Changed);
        }
        if let Some(Poll::Ready(done)) = signal.poll_if_woken(self.handler.as_mut()) {
            return Poll::Ready(Step::Done(done));
        }
        signal.watch();
        let mut timers = self.timers.iter_mut();
        let expired = timers.find_map(|(key, timer)| timer.as_mut().poll(cx).is_ready().then(|| key.clone()));
        if let Some(key) = expired {
            return Poll::Ready(Step::TimedOut(key));
        }
        let mut questions = self.round.open_questions();
        let open_count = questions.len();
        self.paused =
            (open_count > 0).then(|| self.paused.take().unwrap_or_else(|| self.call.pause_timeout()));
        // A spawned task of the handler may not have taken its answer yet.
        questions.retain(|(key, ..)| !self.delivered.contains(key));
        let is_waiting = questions.len() == open_count
            && self.round.is_asking()
            && !signal.can_wake()
            && !self.call.has_handles_elsewhere(questions.len());
        self.unreached.retain(|question| {
            !is_waiting && !self.round.has_asked(&question.key) && !self.delivered.contains(&question.key)
        });
        let unreached = self.unreached.iter();
        questions.extend(
            unreached.map(|question| (question.key.clone(), question.request.clone(), Duration::MAX)),
        );
        let keys: Vec<_> = questions.iter().map(|(key, ..)| key.clone()).collect();
        let can_run_again = self.call.task.can_run_again(is_waiting);
        if self.stored != (StoredQuestions { keys, can_run_again }) {
            return Poll::Ready(Step::Store(AskedQuestions { questions, can_run_again }));
        }
        Poll::Pending
    }

    /// Stores the questions that the handler asks now. Only then can the client see them.
    async fn store(&mut self, asked: AskedQuestions) -> Result<(), TaskLost> {
        let AskedQuestions { questions, can_run_again } = asked;
        self.timers.retain(|key, _| questions.iter().any(|(open, ..)| open == key));
        for (key, _, timeout) in questions.iter().filter(|(.., timeout)| *timeout < Duration::MAX) {
            let timer = || Box::pin(tokio::time::sleep(*timeout));
            self.timers.entry(key.clone()).or_insert_with(timer);
        }
        let open: Vec<_> =
            questions.into_iter().map(|(key, request, _)| TaskQuestion { key, request }).collect();
        let (delivered_answers, fingerprints) = (self.delivered.len(), self.round.fingerprints());
        let change = move |state: &mut TaskState| {
            // An answer may have arrived meanwhile.
            let unanswered = open.iter().filter(|question| !state.answers.contains_key(&question.key));
            state.questions = unanswered.cloned().collect();
            state.can_run_again = can_run_again;
            state.delivered_answers = delivered_answers;
            state.fingerprints.clone_from(&fingerprints);
            state.update_status();
            true
        };
        let state = self.task.change(change).await?.state;
        self.take(state).await
    }

    async fn time_out(&mut self, key: String) -> Result<(), TaskLost> {
        self.timers.remove(&key);
        let change = move |state: &mut TaskState| state.answer(&key, KeptAnswer::TimedOut);
        let state = self.task.change(change).await?.state;
        self.take(state).await
    }

    async fn take_answers(&mut self) -> Result<(), TaskLost> {
        if self.task.is_lost() {
            return Err(TaskLost);
        }
        let state = self.task.refresh().await?.state;
        self.take(state).await
    }

    /// Stores that the handler goes on with new answers: it does not wait for what the record says any more.
    async fn go_on(&mut self) -> Result<TaskState, TaskLost> {
        let can_run_again = self.call.task.can_run_again(false);
        let go_on = move |state: &mut TaskState| {
            let is_changed = state.can_run_again != can_run_again;
            state.can_run_again = can_run_again;
            is_changed
        };
        let state = self.task.change(go_on).await?.state;
        self.stored = StoredQuestions::from_state(&state);
        Ok(state)
    }

    /// Hands new answers to the handler. Before that the record says that the handler goes on.
    async fn take(&mut self, mut state: TaskState) -> Result<(), TaskLost> {
        self.stored = StoredQuestions::from_state(&state);
        if state.answers.keys().any(|key| !self.delivered.contains(key)) {
            state = self.go_on().await?;
        }
        let mut is_woken = false;
        for (key, answer) in state.answers {
            if self.delivered.insert(key.clone()) {
                self.timers.remove(&key);
                self.round.answer(&key, answer);
                is_woken = true;
            }
        }
        if is_woken {
            self.call.driver().wake();
        }
        Ok(())
    }
}
