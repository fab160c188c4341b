//! A task whose handler runs in this process.
//!
//! Every write runs in a task of its own, so that it completes although the handler that waits for it is dropped, and so that
//! a handler that is not polled cannot hold the lock.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::task::JoinHandle;
use tsugite_core::jsonrpc::code::{INTERNAL_ERROR, UNAVAILABLE};
use tsugite_core::jsonrpc::{ErrorObject, RawJson};

use super::record::{OnceStep, StoredTask, TaskState};
use super::task_hub::TaskHub;
use super::task_store::ChangeError;
use crate::error::Chain;
use crate::lock::lock;
use crate::replica::digest;
use crate::shared::boxed::boxed;
use crate::shared::log;
use crate::store::MAX_VALUE_BYTES;

/// A task whose handler runs in this process.
pub(crate) struct RunningTask {
    id: String,
    name: String,
    hub: Arc<TaskHub>,
    /// The state as it was last read or written.
    stored: AsyncMutex<StoredTask>,
    /// The same for readers that cannot wait.
    snapshot: Mutex<StoredTask>,
    changed: Notify,
    /// Whether another writer may have changed the state.
    is_stale: AtomicBool,
    /// Set when the task was cancelled, taken over or expired: its handler must not go on.
    is_lost: AtomicBool,
    observer: OnceLock<StateObserver>,
}

/// Called with each state of a task that differs from the one before in what a client sees.
pub(crate) type StateObserver = Box<dyn Fn(&StoredTask) + Send + Sync>;

/// The task was cancelled, taken over or expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskLost;

/// The decision about a step of `once`.
pub(crate) enum OnceStart {
    /// Its work must run.
    Run,
    /// An earlier run of the handler began it and did not finish.
    MayHaveRun,
}

impl RunningTask {
    pub(crate) fn new(hub: &Arc<TaskHub>, stored: StoredTask) -> Arc<Self> {
        let id = stored.call.id.clone();
        Arc::new(Self {
            name: digest(id.as_bytes()),
            id,
            hub: hub.clone(),
            snapshot: Mutex::new(stored.clone()),
            stored: AsyncMutex::new(stored),
            changed: Notify::new(),
            is_stale: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            observer: OnceLock::new(),
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The digest of the id, under which other processes know the task.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn hub(&self) -> &Arc<TaskHub> {
        &self.hub
    }

    /// The task as it was last read or written.
    pub(crate) fn snapshot(&self) -> StoredTask {
        lock(&self.snapshot).clone()
    }

    /// Calls `observer` from now on. Only the first one counts.
    pub(crate) fn observe(&self, observer: StateObserver) {
        drop(self.observer.set(observer));
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// The state may have been changed by another writer.
    pub(crate) fn notify_changed(&self) {
        self.is_stale.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Waits until another writer may have changed the state.
    pub(crate) async fn changed(&self) {
        let (mut announced, mut found) = (pin!(self.announced()), pin!(self.found_changed()));
        poll_fn(|cx| match announced.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => found.as_mut().poll(cx),
        })
        .await
    }

    /// Looks at the record now and then, and returns when it has another version. A change is not announced if it happened
    /// after the store had failed, or if the message about it is lost.
    async fn found_changed(&self) {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            let newest = self.hub.store.read(&self.id).await;
            let known = lock(&self.snapshot).version;
            if newest.is_ok_and(|newest| newest.is_none_or(|newest| newest.version != known)) {
                return;
            }
        }
    }

    async fn announced(&self) {
        loop {
            let notified = self.changed.notified();
            if self.is_stale.swap(false, Ordering::AcqRel) {
                return;
            }
            notified.await;
        }
    }

    /// Changes the state, and tries again while the store fails. `change` may run more than once.
    pub(crate) async fn change(
        self: &Arc<Self>,
        change: impl FnMut(&mut TaskState) -> bool + Send + 'static,
    ) -> Result<StoredTask, TaskLost> {
        // A panic in `change` would be one of this library.
        self.start_change(Box::new(change)).await.unwrap_or(Err(TaskLost))
    }

    /// Not generic over the change, so it is compiled once.
    fn start_change(self: &Arc<Self>, change: BoxedChange) -> JoinHandle<Result<StoredTask, TaskLost>> {
        let task = self.clone();
        tokio::spawn(boxed(async move { task.change_here(change).await }))
    }

    async fn change_here(&self, mut change: BoxedChange) -> Result<StoredTask, TaskLost> {
        let mut stored = self.stored.lock().await;
        let (mut attempt, mut failure) = (0, None);
        loop {
            if self.is_lost() {
                return Err(TaskLost);
            }
            let runner = self.hub.store.runner();
            let mut guarded = |state: &mut TaskState| match state.is_final() || state.runner != runner {
                true => Err(Box::new(state.clone())),
                false => match &failure {
                    None => Ok(change(state)),
                    Some(error) => {
                        state.fail(ErrorObject::clone(error));
                        Ok(true)
                    }
                },
            };
            match self.hub.store.change(stored.clone(), &mut guarded).await {
                Ok(changed) => {
                    *stored = changed.clone();
                    // In this order: the session hears of the status before it is asked a question.
                    self.note(changed.clone());
                    self.hub.notify_watches(&self.name);
                    if failure.is_some() {
                        self.mark_lost();
                        return Err(TaskLost);
                    }
                    return Ok(changed);
                }
                Err(ChangeError::TooLarge(bytes)) => {
                    let text = format!(
                        "The state of this task, with its result, has {bytes} bytes; at most {MAX_VALUE_BYTES} can be stored"
                    );
                    failure = Some(ErrorObject::new(INTERNAL_ERROR, text));
                }
                Err(ChangeError::Refused(state)) => {
                    let newest = StoredTask { state: *state, ..stored.clone() };
                    self.note(newest);
                    self.mark_lost();
                    return Err(TaskLost);
                }
                Err(ChangeError::Gone) => {
                    self.mark_gone();
                    return Err(TaskLost);
                }
                // No other process runs the task while this one lives, so it waits for the store.
                Err(ChangeError::Store(error)) => {
                    if log::is_first("task", &error.to_string()) {
                        log::warn!(error = %Chain(&*error), "a task does not go on: the store failed");
                    }
                    tokio::time::sleep(RETRY * (1 << attempt)).await;
                    attempt = (attempt + 1).min(MAX_BACKOFF);
                    match self.hub.store.read(&self.id).await {
                        Ok(Some(newest)) => *stored = newest,
                        Ok(None) => {
                            self.mark_gone();
                            return Err(TaskLost);
                        }
                        Err(_) => {}
                    }
                }
            }
        }
    }

    /// Reads what other writers have changed: answers and cancellations.
    pub(crate) async fn refresh(self: &Arc<Self>) -> Result<StoredTask, TaskLost> {
        let task = self.clone();
        let read = async move {
            let mut stored = task.stored.lock().await;
            match task.hub.store.read(&task.id).await {
                Ok(Some(newest)) => {
                    *stored = newest.clone();
                    let is_ours = newest.state.runner == task.hub.store.runner();
                    let is_over = newest.state.is_final() || !is_ours;
                    task.note(newest.clone());
                    if is_over {
                        task.mark_lost();
                        return Err(TaskLost);
                    }
                    Ok(newest)
                }
                Ok(None) => {
                    task.mark_gone();
                    Err(TaskLost)
                }
                Err(_) => {
                    // Read again soon.
                    let stored = stored.clone();
                    tokio::time::sleep(RETRY).await;
                    task.notify_changed();
                    Ok(stored)
                }
            }
        };
        tokio::spawn(boxed(read)).await.unwrap_or(Err(TaskLost))
    }

    /// Sets the text that describes the status.
    pub(crate) async fn set_message(self: &Arc<Self>, text: String) {
        let set = move |state: &mut TaskState| {
            let before = state.message.clone();
            state.set_message(Some(text.clone()));
            state.message != before
        };
        // A lost task is dropped by its driver.
        drop(self.change(set).await);
    }

    /// Stores that the work of a step begins. `is_repeatable` says whether it may run although it was begun before; if not,
    /// the task fails.
    pub(crate) async fn begin_once(
        self: &Arc<Self>,
        key: &str,
        is_repeatable: bool,
    ) -> Result<OnceStart, TaskLost> {
        if self.snapshot().state.once.get(key) == Some(&OnceStep::Begun) {
            if is_repeatable {
                return Ok(OnceStart::Run);
            }
            let text = format!(
                "The process of this task ended during its step {key:?}, which may have run; the task was not continued"
            );
            self.fail(ErrorObject::new(INTERNAL_ERROR, text)).await?;
            return Ok(OnceStart::MayHaveRun);
        }
        let key = key.to_owned();
        self.change(move |state| {
            state.once.insert(key.clone(), OnceStep::Begun);
            true
        })
        .await?;
        Ok(OnceStart::Run)
    }

    /// Stores the value of a step, or that it failed and may run again.
    pub(crate) async fn end_once(
        self: &Arc<Self>,
        key: &str,
        value: Option<RawJson>,
    ) -> Result<(), TaskLost> {
        let key = key.to_owned();
        let bytes = value.as_ref().map_or(0, |value| value.text().len());
        if let Err(limit) = self.hub.count_bytes(&self.id, bytes) {
            let text = format!(
                "The value of the step {key:?} cannot be kept: the limit `{}` on the bytes of tasks is {}",
                limit.setting, limit.value
            );
            self.fail(ErrorObject::new(UNAVAILABLE, text)).await?;
            return Err(TaskLost);
        }
        self.change(move |state| {
            match &value {
                Some(value) => drop(state.once.insert(key.clone(), OnceStep::Value(value.clone()))),
                None => drop(state.once.remove(&key)),
            }
            true
        })
        .await?;
        Ok(())
    }

    /// Ends the task with an error; its handler does not go on.
    async fn fail(self: &Arc<Self>, error: ErrorObject) -> Result<(), TaskLost> {
        self.change(move |state| {
            state.fail(error.clone());
            true
        })
        .await?;
        self.mark_lost();
        Ok(())
    }

    fn note(&self, newest: StoredTask) {
        self.hub.recount(&newest);
        let mut snapshot = lock(&self.snapshot);
        let before = std::mem::replace(&mut *snapshot, newest.clone());
        drop(snapshot);
        let (old, new) = (&before.state, &newest.state);
        if (old.status, &old.message) != (new.status, &new.message)
            && let Some(observer) = self.observer.get()
        {
            observer(&newest);
        }
    }

    /// Ends the run in this process without a change of the state, for another process.
    pub(crate) fn release(&self) {
        self.mark_lost();
    }

    /// Ends the run because there is no record any more.
    fn mark_gone(&self) {
        if self.snapshot().call.remaining_ttl().is_some() && !self.is_lost() {
            log::error!(
                task = self.name,
                "the store has lost the record of a task that runs: its handler is dropped"
            );
        }
        self.mark_lost();
    }

    fn mark_lost(&self) {
        self.is_lost.store(true, Ordering::Release);
        self.notify_changed();
    }
}

/// Changes the state of a task, and returns whether it did.
type BoxedChange = Box<dyn FnMut(&mut TaskState) -> bool + Send>;

/// How often the record is read again although no change was announced.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(100);
/// 100 ms times two to the power of this is the longest wait.
const MAX_BACKOFF: u32 = 5;
