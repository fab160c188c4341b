//! The tasks of a connection: where their questions go, and whether they still need it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::suspendable_call::SuspendableCall;
use super::task_use::TaskUse;
use crate::lock::lock;

/// The receivers of questions, by the id of their task.
#[derive(Default)]
pub(super) struct TaskQuestions {
    tasks: Mutex<HashMap<String, TaskEntry>>,
    registered: Notify,
}

struct TaskEntry {
    questions: Weak<SuspendableCall>,
    in_use: Weak<TaskUse>,
}

impl TaskQuestions {
    /// Registers a task. Its questions go to `questions` as long as that exists.
    pub(super) fn register(&self, id: &str, questions: &Arc<SuspendableCall>, in_use: &Arc<TaskUse>) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|_, task| task.questions.strong_count() > 0);
        let entry = TaskEntry { questions: Arc::downgrade(questions), in_use: Arc::downgrade(in_use) };
        tasks.insert(id.to_owned(), entry);
        drop(tasks);
        self.registered.notify_waiters();
    }

    /// The receiver of the questions of a task.
    pub(super) fn get(&self, id: &str) -> Option<Arc<SuspendableCall>> {
        lock(&self.tasks).get(id)?.questions.upgrade()
    }

    /// Whether a task may still run, and its client polls it.
    pub(super) fn has_active(&self) -> bool {
        lock(&self.tasks).values().filter_map(|task| task.in_use.upgrade()).any(|used| used.is_active())
    }

    /// As [`get`](Self::get). The server may ask before the response that names the task was read, so an unknown one is
    /// waited for, but not long.
    pub(super) async fn find(&self, id: &str) -> Option<Arc<SuspendableCall>> {
        let found = async {
            loop {
                let mut registered = std::pin::pin!(self.registered.notified());
                registered.as_mut().enable();
                match self.get(id) {
                    Some(questions) => return questions,
                    None => registered.await,
                }
            }
        };
        tokio::time::timeout(REGISTRATION_TIMEOUT, found).await.ok()
    }
}

const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(1);
