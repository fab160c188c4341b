//! The part of a server's tasks that every task uses: their store, their limits, and who waits for changes.

use std::sync::{Arc, Mutex};

use super::record::{OnceStep, StoredTask, TaskCall, TaskOutcome, TaskState};
use super::settings::TaskSettings;
use super::task_store::TaskStore;
use super::task_watch::{TaskWatch, TaskWatches};
use crate::lock::lock;
use crate::replica::Replica;
use crate::server::caller_key::CallerKey;
use crate::server::kept_call::KeptAnswer;
use crate::server::record_limits::{RecordCounts, RecordLimit};
use crate::store::{Store, StoreError};

/// The store, the limits and the watches of a server's tasks.
pub(crate) struct TaskHub {
    pub(crate) store: TaskStore,
    pub(crate) settings: TaskSettings,
    counts: Mutex<RecordCounts>,
    watches: TaskWatches,
}

impl TaskHub {
    pub(super) fn new(
        store: Arc<dyn Store>,
        replica: Option<Arc<Replica>>,
        settings: TaskSettings,
    ) -> Arc<Self> {
        let max_ttl = settings.ttl.max(settings.max_ttl);
        Arc::new(Self {
            store: TaskStore::new(store, replica, max_ttl),
            settings,
            counts: Mutex::default(),
            watches: TaskWatches::default(),
        })
    }

    /// Stores a new task and counts it for a caller. `listed` says whether its caller can list it.
    pub(crate) async fn create(
        &self,
        call: TaskCall,
        state: TaskState,
        listed: bool,
        counted_for: Option<CallerKey>,
    ) -> Result<StoredTask, CreateError> {
        let (id, caller) = (call.id.clone(), call.caller.clone());
        let ttl = call.remaining_ttl().unwrap_or_default();
        let bytes = bytes_of(&call, &state);
        lock(&self.counts).add(&id, counted_for, bytes, ttl, &self.settings.limits())?;
        let created = self.store.create(call, state, caller.as_ref().filter(|_| listed)).await;
        if created.is_err() {
            lock(&self.counts).remove(&id);
        }
        Ok(created?)
    }

    /// Counts more bytes of a task before they are stored: answers, or a value of `once`.
    pub(crate) fn count_bytes(&self, id: &str, bytes: usize) -> Result<(), RecordLimit> {
        lock(&self.counts).grow(id, bytes, &self.settings.limits())
    }

    /// Counts the bytes of a result, in place of the answers and the values of `once`.
    pub(crate) fn count_result(&self, call: &TaskCall, bytes: usize) -> Result<(), RecordLimit> {
        let mut counts = lock(&self.counts);
        counts.set_bytes(&call.id, bytes_of_call(call));
        counts.grow(&call.id, bytes, &self.settings.limits())
    }

    /// Counts fewer bytes of a task: some were counted before and not stored.
    pub(crate) fn give_back_bytes(&self, id: &str, bytes: usize) {
        lock(&self.counts).shrink(id, bytes);
    }

    /// Counts the bytes that a task has now.
    pub(crate) fn recount(&self, task: &StoredTask) {
        lock(&self.counts).set_bytes(&task.call.id, bytes_of(&task.call, &task.state));
    }

    /// Waits for changes of tasks, by the digests of their ids.
    pub(crate) fn watch(&self, names: impl IntoIterator<Item = String>) -> Arc<TaskWatch> {
        self.watches.add(names)
    }

    /// Tells everyone who waits for it that a task has changed.
    pub(super) fn notify_watches(&self, name: &str) {
        self.watches.mark(name);
    }

    /// The same for all tasks.
    pub(super) fn notify_all_watches(&self) {
        self.watches.mark_all();
    }
}

/// Why a task was not created.
#[derive(Debug)]
pub(crate) enum CreateError {
    Limit(RecordLimit),
    Store(StoreError),
}

impl From<RecordLimit> for CreateError {
    fn from(error: RecordLimit) -> Self {
        CreateError::Limit(error)
    }
}

impl From<StoreError> for CreateError {
    fn from(error: StoreError) -> Self {
        CreateError::Store(error)
    }
}

fn bytes_of(call: &TaskCall, state: &TaskState) -> usize {
    let answers = state.answers.values().map(KeptAnswer::bytes);
    let steps = state.once.values().map(|step| match step {
        OnceStep::Begun => 0,
        OnceStep::Value(value) => value.text().len(),
    });
    let outcome = state.outcome.iter().map(|outcome| match outcome {
        TaskOutcome::Result(result) => result.text().len(),
        TaskOutcome::Error(error) => {
            error.message.len() + error.data.as_ref().map_or(0, |data| data.text().len())
        }
    });
    bytes_of_call(call) + answers.chain(steps).chain(outcome).sum::<usize>()
}

fn bytes_of_call(call: &TaskCall) -> usize {
    let handshake = call.handshake.as_ref().map_or(0, |(params, _)| params.text().len());
    call.params.text().len() + handshake + TASK_BYTES
}

/// The bytes of a task besides those that are counted.
const TASK_BYTES: usize = 1 << 10;
