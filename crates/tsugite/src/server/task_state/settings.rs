//! The settings of tasks, each with its default.

use std::time::Duration;

use super::super::Server;
use crate::server::record_limits::{RecordLimit, RecordLimits};

/// The settings of tasks.
#[derive(Debug, Clone)]
pub(crate) struct TaskSettings {
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Duration,
    pub(crate) poll_interval: Duration,
    /// How long a call of a tool that may become a task runs before it does.
    pub(crate) after: Option<Duration>,
    pub(crate) max_running: usize,
    /// A quarter of the whole if `None`.
    max_running_per_caller: Option<usize>,
    pub(crate) max_tasks: usize,
    pub(crate) max_tasks_per_caller: usize,
    pub(crate) max_bytes: usize,
    /// A quarter of the whole if `None`.
    max_bytes_per_caller: Option<usize>,
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(3_600),
            max_ttl: Duration::from_secs(24 * 3_600),
            poll_interval: Duration::from_secs(1),
            after: Some(Duration::from_secs(10)),
            max_running: 256,
            max_running_per_caller: None,
            max_tasks: 10_000,
            max_tasks_per_caller: 1_000,
            max_bytes: 256 << 20,
            max_bytes_per_caller: None,
        }
    }
}

impl TaskSettings {
    /// The limits on tasks that run in this process.
    pub(super) fn running_limits(&self) -> RecordLimits {
        let share = self.max_running_per_caller.unwrap_or(quarter(self.max_running));
        RecordLimits {
            records: RecordLimit::new("max_running_tasks", self.max_running),
            records_per_caller: RecordLimit::new("max_running_tasks_per_caller", share),
            ..self.limits()
        }
    }

    /// The limits on tasks that this process created.
    pub(super) fn limits(&self) -> RecordLimits {
        let byte_share = self.max_bytes_per_caller.unwrap_or(quarter(self.max_bytes));
        RecordLimits {
            records: RecordLimit::new("max_tasks", self.max_tasks),
            records_per_caller: RecordLimit::new("max_tasks_per_caller", self.max_tasks_per_caller),
            bytes: RecordLimit::new("max_task_bytes", self.max_bytes),
            bytes_per_caller: RecordLimit::new("max_task_bytes_per_caller", byte_share),
        }
    }
}

impl Server {
    /// Sets how long a task is kept after its creation, unless the client asks for another time. Default: 1 hour. A task
    /// that still runs then is cancelled.
    #[must_use]
    #[doc(alias("ttl", "ttlMs"))]
    pub fn task_ttl(self, time: Duration) -> Self {
        self.configure(|config| config.tasks.ttl = at_least_one_millisecond(time))
    }

    /// Sets the longest time for which a client may have a task kept (2025-11-25). Default: 24 hours.
    #[must_use]
    pub fn max_task_ttl(self, time: Duration) -> Self {
        self.configure(|config| config.tasks.max_ttl = at_least_one_millisecond(time))
    }

    /// Sets the interval at which clients are asked to poll a task. Default: 1 second.
    #[must_use]
    #[doc(alias("pollInterval", "pollIntervalMs"))]
    pub fn task_poll_interval(self, time: Duration) -> Self {
        self.configure(|config| config.tasks.poll_interval = at_least_one_millisecond(time))
    }

    /// Sets after which time a call of a tool with [`Tool::task`](super::super::Tool::task) `Optional` becomes a task, if
    /// the client supports that (2026-07-28). Default: 10 seconds. `None`: only when the handler awaits
    /// [`Context::start_task`](super::super::Context::start_task).
    #[must_use]
    pub fn task_after(self, time: impl Into<Option<Duration>>) -> Self {
        let time = time.into();
        self.configure(|config| config.tasks.after = time)
    }

    /// Sets how many tasks run in this process at once. Default: 256. A further call that must be a task is rejected; one
    /// that may be runs as an ordinary call.
    #[must_use]
    pub fn max_running_tasks(self, tasks: usize) -> Self {
        self.configure(|config| config.tasks.max_running = tasks.max(1))
    }

    /// Sets how many of these tasks one caller may have. Default: a quarter of them. A caller is counted as for
    /// [`Server::max_tasks_per_caller`].
    #[must_use]
    pub fn max_running_tasks_per_caller(self, tasks: usize) -> Self {
        self.configure(|config| config.tasks.max_running_per_caller = Some(tasks.max(1)))
    }

    /// Sets how many tasks that this process created are kept at once, finished ones included. Default: 10,000.
    #[must_use]
    pub fn max_tasks(self, tasks: usize) -> Self {
        self.configure(|config| config.tasks.max_tasks = tasks.max(1))
    }

    /// Sets how many of these tasks one caller may have. Default: 1,000. A caller is a
    /// [`Principal`](super::super::Principal), else the network address of the client. If neither is known, as on stdio, only
    /// the limits for all callers hold.
    #[must_use]
    pub fn max_tasks_per_caller(self, tasks: usize) -> Self {
        self.configure(|config| config.tasks.max_tasks_per_caller = tasks.max(1))
    }

    /// Sets how many bytes the params, answers, values of `once` and results of these tasks may have together. Default: 256
    /// MiB. An answer beyond it is rejected, and its question stays open. A value or a result beyond it fails its task.
    #[must_use]
    pub fn max_task_bytes(self, bytes: usize) -> Self {
        self.configure(|config| config.tasks.max_bytes = bytes.max(1))
    }

    /// Sets how many of these bytes the tasks of one caller may have. Default: a quarter of them. A caller is counted as for
    /// [`Server::max_tasks_per_caller`].
    #[must_use]
    pub fn max_task_bytes_per_caller(self, bytes: usize) -> Self {
        self.configure(|config| config.tasks.max_bytes_per_caller = Some(bytes.max(1)))
    }
}

/// The default share of one caller.
fn quarter(whole: usize) -> usize {
    (whole / 4).max(1)
}

fn at_least_one_millisecond(time: Duration) -> Duration {
    time.max(Duration::from_millis(1))
}
