//! The tasks of one server, as this process knows them: which run here, how many there are, and who waits for changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::record::{StoredTask, TaskCall, TaskState};
use super::running_task::RunningTask;
use super::settings::TaskSettings;
pub(crate) use super::task_limits::TaskLimitError;
use super::task_limits::TaskLimits;
use super::task_store::{ChangeError, ChangeFn, TaskStore};
use super::task_watch::{TaskWatch, TaskWatches};
use crate::lock::lock;
use crate::replica::{Replica, digest};
use crate::store::{Store, StoreError};

/// The tasks of one server.
pub(crate) struct TaskTable {
    pub(crate) store: TaskStore,
    pub(crate) settings: TaskSettings,
    /// The tasks that run here, by the digest of their id.
    running: Mutex<HashMap<String, Arc<RunningTask>>>,
    limits: Mutex<TaskLimits>,
    watches: TaskWatches,
    taking_over: AtomicBool,
    stopping: AtomicBool,
}

impl TaskTable {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        replica: Option<Arc<Replica>>,
        settings: TaskSettings,
    ) -> Arc<Self> {
        let max_ttl = settings.ttl.max(settings.max_ttl);
        Arc::new(Self {
            store: TaskStore::new(store, replica, max_ttl),
            settings,
            running: Mutex::default(),
            limits: Mutex::default(),
            watches: TaskWatches::default(),
            taking_over: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        })
    }

    /// Stores a new task and counts it. `listed` says whether its caller can list it.
    pub(crate) async fn create(
        &self,
        call: TaskCall,
        state: TaskState,
        listed: bool,
    ) -> Result<StoredTask, CreateError> {
        let (id, caller) = (call.id.clone(), call.caller.clone());
        let ttl = call.remaining_ttl().unwrap_or_default();
        let bytes = call.params.text().len() + TASK_BYTES;
        lock(&self.limits).add(&id, caller.as_ref(), bytes, ttl, &self.settings)?;
        let created = self.store.create(call, state, caller.as_ref().filter(|_| listed)).await;
        if created.is_err() {
            lock(&self.limits).remove(&id);
        }
        Ok(created?)
    }

    /// Changes the state of a task, and tells everyone who waits for that.
    pub(crate) async fn change<E>(
        &self,
        task: StoredTask,
        change: ChangeFn<'_, E>,
    ) -> Result<StoredTask, ChangeError<E>> {
        let id = task.call.id.clone();
        let changed = self.store.change(task, change).await;
        if changed.is_ok() {
            self.notify_changed(&digest(id.as_bytes()));
        }
        changed
    }

    /// Counts the bytes of a result.
    pub(crate) fn count_result(&self, id: &str, bytes: usize) -> Result<(), TaskLimitError> {
        lock(&self.limits).grow(id, bytes, &self.settings)
    }

    /// Registers a task that runs here.
    pub(crate) fn begin(&self, task: &Arc<RunningTask>) {
        lock(&self.running).insert(task.name().to_owned(), task.clone());
    }

    /// Fails if no further task may run here.
    pub(crate) fn check(&self) -> Result<(), TaskLimitError> {
        let limit = self.settings.max_running;
        match lock(&self.running).len() >= limit {
            true => Err(TaskLimitError { setting: "max_running_tasks", limit }),
            false => Ok(()),
        }
    }

    /// Removes a task that no longer runs here.
    pub(crate) fn finish(&self, task: &RunningTask) {
        lock(&self.running).remove(task.name());
    }

    /// The tasks that run here.
    pub(crate) fn running(&self) -> Vec<Arc<RunningTask>> {
        lock(&self.running).values().cloned().collect()
    }

    /// Waits for changes of tasks, by the digests of their ids.
    pub(crate) fn watch(&self, names: impl IntoIterator<Item = String>) -> Arc<TaskWatch> {
        self.watches.add(names)
    }

    /// A task has changed, here or in another process.
    pub(crate) fn notify_changed(&self, name: &str) {
        if let Some(task) = lock(&self.running).get(name) {
            task.notify_changed();
        }
        self.watches.mark(name);
    }

    /// A task has changed that runs here, and that knows it.
    pub(super) fn notify_watches(&self, name: &str) {
        self.watches.mark(name);
    }

    /// Changes in other processes may have been missed.
    pub(crate) fn notify_missed(&self) {
        self.running().iter().for_each(|task| task.notify_changed());
        self.watches.mark_all();
    }

    /// Whether this is the first call: tasks of other processes are taken over by one loop.
    pub(crate) fn begin_taking_over(&self) -> bool {
        !self.taking_over.swap(true, Ordering::AcqRel)
    }

    /// Whether the server stops: no task begins any more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Marks the server as stopping. Returns false if it was marked before.
    pub(crate) fn begin_stopping(&self) -> bool {
        !self.stopping.swap(true, Ordering::AcqRel)
    }
}

/// Why a task was not created.
#[derive(Debug)]
pub(crate) enum CreateError {
    Limit(TaskLimitError),
    Store(StoreError),
}

impl From<TaskLimitError> for CreateError {
    fn from(error: TaskLimitError) -> Self {
        CreateError::Limit(error)
    }
}

impl From<StoreError> for CreateError {
    fn from(error: StoreError) -> Self {
        CreateError::Store(error)
    }
}

/// The bytes of a task besides its params and its result.
const TASK_BYTES: usize = 1 << 10;
