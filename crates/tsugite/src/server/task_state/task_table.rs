//! The tasks of one server, as this process knows them: which run here, and how all of them are reached.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::record::StoredTask;
use super::running_task::RunningTask;
use super::settings::TaskSettings;
use super::task_hub::TaskHub;
use super::task_store::{ChangeError, ChangeFn};
use crate::lock::lock;
use crate::replica::{Replica, digest};
use crate::server::caller_key::CallerKey;
use crate::server::record_limits::{RecordCounts, RecordLimit};
use crate::store::Store;

/// The tasks of one server.
pub(crate) struct TaskTable {
    pub(crate) hub: Arc<TaskHub>,
    running: Mutex<RunningTasks>,
    taking_over: AtomicBool,
    stopping: AtomicBool,
}

#[derive(Default)]
struct RunningTasks {
    /// By the digest of their id.
    tasks: HashMap<String, Arc<RunningTask>>,
    /// The digests of tasks that are about to run here.
    reserved: HashSet<String>,
    /// Both of them, by the same digests.
    counts: RecordCounts,
}

/// Room for a task that is about to run here. Hold it until [`TaskTable::begin`] has returned.
pub(crate) struct RunningSlot<'a> {
    table: &'a TaskTable,
    name: String,
}

impl Drop for RunningSlot<'_> {
    fn drop(&mut self) {
        let mut running = lock(&self.table.running);
        running.reserved.remove(&self.name);
        if !running.tasks.contains_key(&self.name) {
            running.counts.remove(&self.name);
        }
    }
}

impl TaskTable {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        replica: Option<Arc<Replica>>,
        settings: TaskSettings,
    ) -> Arc<Self> {
        Arc::new(Self {
            hub: TaskHub::new(store, replica, settings),
            running: Mutex::default(),
            taking_over: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        })
    }

    /// Changes the state of a task, and tells the handler and everyone else who waits for that.
    pub(crate) async fn change<E>(
        &self,
        task: StoredTask,
        change: ChangeFn<'_, E>,
    ) -> Result<StoredTask, ChangeError<E>> {
        let (id, version) = (task.call.id.clone(), task.version);
        let changed = self.hub.store.change(task, change).await;
        let may_be_changed = match &changed {
            Ok(task) => task.version != version,
            // It may have made the change, and this process gets no message from itself.
            Err(ChangeError::Store(_)) => true,
            Err(ChangeError::Refused(_) | ChangeError::Gone | ChangeError::TooLarge(_)) => false,
        };
        if let Ok(changed) = &changed {
            self.hub.recount(changed);
        }
        if may_be_changed {
            self.notify_changed(&digest(id.as_bytes()));
        }
        changed
    }

    /// Registers a task that runs here. Its record was written before: another writer may have changed it since.
    pub(crate) fn begin(&self, task: &Arc<RunningTask>) {
        lock(&self.running).tasks.insert(task.name().to_owned(), task.clone());
        task.notify_changed();
    }

    /// Reserves room for a task of a caller, by its id. Fails if no further one may run here. Without a caller only the limit
    /// for all of them holds.
    pub(crate) fn reserve(
        &self,
        id: &str,
        caller: Option<CallerKey>,
    ) -> Result<RunningSlot<'_>, RecordLimit> {
        let (name, limits) = (digest(id.as_bytes()), self.hub.settings.running_limits());
        let mut running = lock(&self.running);
        running.counts.add(&name, caller, 0, Duration::MAX, &limits)?;
        running.reserved.insert(name.clone());
        Ok(RunningSlot { table: self, name })
    }

    /// Whether a task runs here or is about to, by the digest of its id.
    pub(crate) fn is_here(&self, name: &str) -> bool {
        let running = lock(&self.running);
        running.tasks.contains_key(name) || running.reserved.contains(name)
    }

    /// Removes a task that no longer runs here.
    pub(crate) fn finish(&self, task: &RunningTask) {
        let mut running = lock(&self.running);
        running.tasks.remove(task.name());
        running.counts.remove(task.name());
    }

    /// The tasks that run here.
    pub(crate) fn running(&self) -> Vec<Arc<RunningTask>> {
        lock(&self.running).tasks.values().cloned().collect()
    }

    /// A task has changed, here or in another process.
    pub(crate) fn notify_changed(&self, name: &str) {
        if let Some(task) = lock(&self.running).tasks.get(name) {
            task.notify_changed();
        }
        self.hub.notify_watches(name);
    }

    /// Changes in other processes may have been missed.
    pub(crate) fn notify_missed(&self) {
        self.running().iter().for_each(|task| task.notify_changed());
        self.hub.notify_all_watches();
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

    /// Lets tasks begin again: a transport serves the server after another one has stopped it.
    pub(crate) fn end_stopping(&self) {
        self.stopping.store(false, Ordering::Release);
    }
}
