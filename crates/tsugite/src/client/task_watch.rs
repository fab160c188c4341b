//! Notifications about tasks that the client follows.
//!
//! Only the newest state of a task is kept until it is taken, so that many notifications neither fill the memory nor pass on
//! more than one change.

use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;
use tsugite_core::protocol::tasks::Task;

use crate::lock::lock;

/// The tasks that a client follows.
#[derive(Default)]
pub(super) struct TaskWatches {
    watches: Mutex<Vec<Weak<TaskWatch>>>,
}

/// One task that is followed.
pub(super) struct TaskWatch {
    id: String,
    newest: Mutex<Option<Task>>,
    changed: Notify,
}

impl TaskWatches {
    /// Begins to keep what the server reports about a task, until the watch is dropped.
    pub(super) fn watch(&self, id: &str) -> Arc<TaskWatch> {
        let watch =
            Arc::new(TaskWatch { id: id.to_owned(), newest: Mutex::default(), changed: Notify::new() });
        let mut watches = lock(&self.watches);
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Arc::downgrade(&watch));
        watch
    }

    /// Keeps what the server has reported. Ignores tasks that are not followed.
    pub(super) fn notify(&self, task: &Task) {
        for watch in lock(&self.watches).iter().filter_map(Weak::upgrade) {
            if watch.id == task.task_id {
                *lock(&watch.newest) = Some(task.clone());
                watch.changed.notify_one();
            }
        }
    }
}

impl TaskWatch {
    /// Waits for a notification that was not taken yet, and takes it.
    pub(super) async fn changed(&self) -> Task {
        loop {
            self.changed.notified().await;
            if let Some(task) = lock(&self.newest).take() {
                return task;
            }
        }
    }
}
