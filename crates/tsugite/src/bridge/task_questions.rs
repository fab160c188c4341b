//! The tasks of a connection whose questions the bridge receives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::suspendable_call::SuspendableCall;
use crate::lock::lock;

/// The receivers of questions, by the id of their task.
#[derive(Default)]
pub(super) struct TaskQuestions {
    tasks: Mutex<HashMap<String, Weak<SuspendableCall>>>,
    registered: Notify,
}

impl TaskQuestions {
    /// Registers a task. Its questions go to `questions` as long as that exists.
    pub(super) fn register(&self, id: &str, questions: &Arc<SuspendableCall>) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|_, questions| questions.strong_count() > 0);
        tasks.insert(id.to_owned(), Arc::downgrade(questions));
        drop(tasks);
        self.registered.notify_waiters();
    }

    /// The receiver of the questions of a task.
    pub(super) fn get(&self, id: &str) -> Option<Arc<SuspendableCall>> {
        lock(&self.tasks).get(id)?.upgrade()
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
