//! Tasks that cross between the two forms: of 2025-11-25, and of the extension of 2026-07-28.
//!
//! A task gets an id of the bridge: one caller may have several connections, and so several servers that give the same id.
//! An entry here says which caller got the id: to all others the task does not exist, since the server cannot tell the
//! clients of the bridge apart. Entries are limited in number and age.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::Task;
use tsugite_core::revision::RpcError;

use super::bridge_errors::limit_error;
use super::core_task::CoreTask;
use super::target::Target;
use super::task_use::MAX_TTL;
use crate::lock::lock;
use crate::server::CancellationToken;
use crate::server::limits::CallerKey;
use crate::server::tasks::unknown_task;

/// A task that crosses from one form to the other.
pub(super) struct BridgedTask {
    /// As its client knows it.
    pub(super) id: String,
    pub(super) form: TaskForm,
    expires_at: Instant,
    /// Whether its client has got the outcome.
    delivered: AtomicBool,
}

/// The form that a task has behind the bridge.
pub(super) enum TaskForm {
    /// At a server of 2025-11-25.
    Core(CoreTask),
    /// At a server of 2026-07-28.
    Extension(ExtensionTask),
    /// The result of a call that the server did not make a task, for a client that asked for one.
    Kept { task: Task, result: RawJson },
}

/// A task at a server of 2026-07-28.
pub(super) struct ExtensionTask {
    /// As the server knows it.
    pub(super) id: String,
    /// Whether its client has cancelled it: the client must not see another status from then on.
    pub(super) cancellation: CancellationToken,
}

impl ExtensionTask {
    /// A task that the server knows by this id.
    pub(super) fn new(id: String) -> Self {
        Self { id, cancellation: CancellationToken::default() }
    }
}

impl BridgedTask {
    /// A task that the server keeps for `ttl`; `None` is forever.
    pub(super) fn new(id: String, form: TaskForm, ttl: Option<Duration>) -> Self {
        let ttl = ttl.unwrap_or(MAX_TTL).min(MAX_TTL);
        Self { id, form, expires_at: Instant::now() + ttl, delivered: AtomicBool::new(false) }
    }

    /// Records that its client has got the outcome, so that it can give way to another task.
    pub(super) fn mark_delivered(&self) {
        self.delivered.store(true, Ordering::Release);
    }

    fn can_give_way(&self) -> bool {
        let has_ended = matches!(&self.form, TaskForm::Core(core) if core.in_use.has_ended());
        has_ended || self.delivered.load(Ordering::Acquire)
    }

    fn kept_bytes(&self) -> usize {
        match &self.form {
            TaskForm::Kept { result, .. } => result.text().len(),
            TaskForm::Core(_) | TaskForm::Extension(_) => 0,
        }
    }
}

/// The tasks of all clients.
#[derive(Default)]
pub(super) struct BridgedTasks {
    tasks: Mutex<HashMap<TaskKey, Arc<BridgedTask>>>,
    /// How many calls under way each caller has room reserved for. Locked after `tasks`.
    reserved: Mutex<HashMap<Option<CallerKey>, usize>>,
}

/// Room for one task of a caller, reserved until the task is registered or this is dropped.
pub(super) struct TaskRoom<'a> {
    tasks: &'a BridgedTasks,
    caller: Option<CallerKey>,
}

/// The caller of a task, and its id.
type TaskKey = (Option<CallerKey>, String);

impl BridgedTasks {
    /// Reserves room for a further task of a caller. Fails if it cannot have one. Tasks whose clients have got the outcome
    /// give way.
    pub(super) fn reserve(&self, caller: Option<CallerKey>) -> Result<TaskRoom<'_>, RpcError> {
        let mut tasks = lock(&self.tasks);
        let mut reserved = lock(&self.reserved);
        remove_expired(&mut tasks);
        for (own_only, limit) in [(true, MAX_TASKS_PER_CALLER), (false, MAX_TASKS)] {
            let is_counted = |of: &Option<CallerKey>| !own_only || (caller.is_some() && *of == caller);
            let counts = |key: &TaskKey| is_counted(&key.0);
            let under_way: usize =
                reserved.iter().filter(|(of, _)| is_counted(of)).map(|(_, count)| count).sum();
            let mut count = tasks.keys().filter(|key| counts(key)).count() + under_way;
            while count >= limit {
                if !remove_first(&mut tasks, |key, task| counts(key) && task.can_give_way()) {
                    let text = format!(
                        "too many tasks cross the bridge ({count}); fetch the outcome of one, or wait until some have expired"
                    );
                    return Err(limit_error(text, limit));
                }
                count -= 1;
            }
        }
        *reserved.entry(caller.clone()).or_default() += 1;
        Ok(TaskRoom { tasks: self, caller })
    }

    /// Registers a task. If too many results are kept, those of the same caller give way first.
    fn insert(&self, caller: Option<CallerKey>, task: BridgedTask) -> Arc<BridgedTask> {
        let task = Arc::new(task);
        let key = (caller, task.id.clone());
        let mut tasks = lock(&self.tasks);
        remove_expired(&mut tasks);
        tasks.insert(key.clone(), Arc::clone(&task));
        limit_kept_results(&mut tasks, &key);
        task
    }

    /// The task of a caller.
    pub(super) fn find(&self, caller: Option<&CallerKey>, id: &str) -> Result<Arc<BridgedTask>, RpcError> {
        let key = (caller.cloned(), id.to_owned());
        let found = lock(&self.tasks).get(&key).filter(|task| task.expires_at > Instant::now()).cloned();
        found.ok_or_else(unknown_task)
    }

    /// Removes all of them, and ends what the bridge does for them.
    pub(super) fn clear(&self) {
        let ended = std::mem::take(&mut *lock(&self.tasks));
        drop(ended);
    }
}

impl TaskRoom<'_> {
    /// Registers the task.
    pub(super) fn insert(self, task: BridgedTask) {
        self.tasks.insert(self.caller.clone(), task);
    }
}

impl Drop for TaskRoom<'_> {
    fn drop(&mut self) {
        let mut reserved = lock(&self.tasks.reserved);
        if let Some(count) = reserved.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                reserved.remove(&self.caller);
            }
        }
    }
}

/// Fails if the id that a server gave to a task is too long to be kept.
pub(super) fn check_task_id(id: &str, target: &Target) -> Result<(), RpcError> {
    if id.len() <= MAX_TASK_ID_BYTES {
        return Ok(());
    }
    let text = format!(
        "{} created a task with an id of {} bytes; the limit is {MAX_TASK_ID_BYTES}; the call may have run",
        target.display_name(),
        id.len()
    );
    Err(limit_error(text, MAX_TASK_ID_BYTES))
}

/// Removes the task that expires first among those that fit. Returns whether there was one.
fn remove_first(
    tasks: &mut HashMap<TaskKey, Arc<BridgedTask>>,
    fits: impl Fn(&TaskKey, &BridgedTask) -> bool,
) -> bool {
    let fitting = tasks.iter().filter(|(key, task)| fits(key, task));
    let first = fitting.min_by_key(|(_, task)| task.expires_at).map(|(key, _)| key.clone());
    first.is_some_and(|first| tasks.remove(&first).is_some())
}

/// Removes kept results other than the newest until the limits are met: those of its caller first, the earliest to expire
/// before the others.
fn limit_kept_results(tasks: &mut HashMap<TaskKey, Arc<BridgedTask>>, newest: &TaskKey) {
    let is_own = |key: &TaskKey| key.0 == newest.0;
    let is_kept = |key: &TaskKey, task: &BridgedTask| key != newest && task.kept_bytes() > 0;
    let mut own = || {
        let bytes: usize =
            tasks.iter().filter(|(key, _)| is_own(key)).map(|(_, task)| task.kept_bytes()).sum();
        let is_over = newest.0.is_some() && bytes > MAX_KEPT_BYTES_PER_CALLER;
        is_over && remove_first(tasks, |key, task| is_own(key) && is_kept(key, task))
    };
    while own() {}
    while tasks.values().map(|task| task.kept_bytes()).sum::<usize>() > MAX_KEPT_BYTES {
        let removed = remove_first(tasks, |key, task| is_own(key) && is_kept(key, task))
            || remove_first(tasks, is_kept);
        if !removed {
            return;
        }
    }
}

fn remove_expired(tasks: &mut HashMap<TaskKey, Arc<BridgedTask>>) {
    let now = Instant::now();
    tasks.retain(|_, task| task.expires_at > now);
}

const MAX_TASK_ID_BYTES: usize = 1 << 10;
const MAX_TASKS: usize = 10_000;
const MAX_TASKS_PER_CALLER: usize = 1_000;
/// Bytes of results that the bridge keeps.
const MAX_KEPT_BYTES: usize = 64 << 20;
/// The share of one caller.
const MAX_KEPT_BYTES_PER_CALLER: usize = MAX_KEPT_BYTES / 4;

#[cfg(test)]
mod tests {
    use tsugite_core::protocol::TaskStatus;

    use super::*;
    use crate::server::Principal;

    fn caller(name: &str) -> Option<CallerKey> {
        CallerKey::new(Some(&Principal::new(name)), None)
    }

    fn task(id: &str, ttl: Option<Duration>) -> BridgedTask {
        BridgedTask::new(id.to_owned(), TaskForm::Extension(ExtensionTask::new(id.to_owned())), ttl)
    }

    #[tokio::test(start_paused = true)]
    async fn task_is_known_to_its_caller_until_it_expires() {
        let tasks = BridgedTasks::default();
        tasks.insert(caller("ann"), task("1", Some(Duration::from_secs(60))));
        tasks.insert(caller("ann"), task("2", None));
        assert!(tasks.find(caller("ann").as_ref(), "1").is_ok());
        assert!(tasks.find(caller("ben").as_ref(), "1").is_err() && tasks.find(None, "1").is_err());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(tasks.find(caller("ann").as_ref(), "1").is_err());
        assert!(tasks.find(caller("ann").as_ref(), "2").is_ok());
        tokio::time::advance(MAX_TTL).await;
        assert!(tasks.find(caller("ann").as_ref(), "2").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_of_one_caller_are_limited() {
        let tasks = BridgedTasks::default();
        for id in 0..MAX_TASKS_PER_CALLER {
            drop(tasks.reserve(caller("ann")).unwrap());
            tasks.insert(caller("ann"), task(&id.to_string(), None));
        }
        assert!(tasks.reserve(caller("ann")).is_err());
        drop(tasks.reserve(caller("ben")).unwrap());
        tokio::time::advance(MAX_TTL).await;
        drop(tasks.reserve(caller("ann")).unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_under_way_count_as_tasks() {
        let tasks = BridgedTasks::default();
        let mut rooms: Vec<_> =
            (0..MAX_TASKS_PER_CALLER).map(|_| tasks.reserve(caller("ann")).unwrap()).collect();
        assert!(tasks.reserve(caller("ann")).is_err() && tasks.reserve(caller("ben")).is_ok());
        rooms.pop().unwrap().insert(task("1", None));
        assert!(tasks.reserve(caller("ann")).is_err());
        rooms.pop();
        assert!(tasks.reserve(caller("ann")).is_ok());
        rooms.clear();
        assert!(lock(&tasks.reserved).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn delivered_task_gives_way_to_another() {
        let (tasks, ann) = (BridgedTasks::default(), caller("ann"));
        let delivered = tasks.insert(ann.clone(), task("delivered", None));
        for id in 1..MAX_TASKS_PER_CALLER {
            tasks.insert(ann.clone(), task(&id.to_string(), None));
        }
        assert!(tasks.reserve(ann.clone()).is_err());
        delivered.mark_delivered();
        drop(tasks.reserve(ann.clone()).unwrap());
        assert!(tasks.find(ann.as_ref(), "delivered").is_err() && tasks.find(ann.as_ref(), "1").is_ok());
    }

    fn kept(id: &str, bytes: usize) -> BridgedTask {
        let result = RawJson::from_value(&"x".repeat(bytes)).unwrap();
        let task = Task::new(id, TaskStatus::Completed, "", "");
        BridgedTask::new(id.to_owned(), TaskForm::Kept { task, result }, None)
    }

    #[tokio::test(start_paused = true)]
    async fn kept_results_of_other_callers_stay() {
        let tasks = BridgedTasks::default();
        tasks.insert(caller("ann"), kept("ann's", 1));
        for id in 0..6 {
            tokio::time::advance(Duration::from_secs(1)).await;
            tasks.insert(caller("ben"), kept(&id.to_string(), MAX_KEPT_BYTES_PER_CALLER - 2));
        }
        assert!(tasks.find(caller("ann").as_ref(), "ann's").is_ok());
        assert!(tasks.find(caller("ben").as_ref(), "4").is_err());
        assert!(tasks.find(caller("ben").as_ref(), "5").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_kept_result_gives_way() {
        let tasks = BridgedTasks::default();
        for id in ["1", "2", "3"] {
            tasks.insert(None, kept(id, MAX_KEPT_BYTES / 2));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(tasks.find(None, "1").is_err() && tasks.find(None, "3").is_ok());
    }
}
