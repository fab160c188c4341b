//! The wishes of an application for the task that a call may become.

use std::sync::Arc;
use std::time::Duration;

use tsugite_core::protocol::tasks::Task;

/// Receives a task whenever its status or the message of its status has changed.
pub(super) type TaskCallback = Arc<dyn Fn(Task) + Send + Sync>;

/// The options for the task of a call.
#[derive(Clone, Default)]
pub(super) struct TaskOptions {
    /// Whether to ask for a task where the client decides.
    pub(super) requested: bool,
    /// How long the server is asked to keep the task, where the client decides.
    pub(super) ttl: Option<Duration>,
    /// How long to follow the task.
    pub(super) timeout: Option<Duration>,
    pub(super) on_task: Option<TaskCallback>,
}
