//! The mark of a request whose idempotency key was looked up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// Marks a request whose key was looked up, and records whether its handler has begun.
#[derive(Clone, Default)]
pub(crate) struct KeyedRun(Arc<RunState>);

#[derive(Default)]
struct RunState {
    has_begun: AtomicBool,
    task: Mutex<Option<BeginTask>>,
}

/// Lets the task begin that a call has become. Dropping it cancels the task.
pub(crate) type BeginTask = Box<dyn FnOnce() + Send>;

impl KeyedRun {
    pub(crate) fn mark_begun(&self) {
        self.0.has_begun.store(true, Ordering::Release);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.0.has_begun.load(Ordering::Acquire)
    }

    /// Keeps the task back that the call has become, until its id is stored under the key.
    pub(crate) fn hold_task(&self, begin: BeginTask) {
        *lock(&self.0.task) = Some(begin);
    }

    pub(crate) fn take_task(&self) -> Option<BeginTask> {
        lock(&self.0.task).take()
    }
}
