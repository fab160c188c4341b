//! Counts the tasks that this process created until they expire.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::record::StoredCaller;
use super::settings::TaskSettings;
use crate::shared::principal::CallerIdentity;

/// A limit on tasks that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskLimitError {
    /// The name of the setting.
    pub(crate) setting: &'static str,
    pub(crate) limit: usize,
}

/// The tasks that this process created and that are not expired.
#[derive(Default)]
pub(super) struct TaskLimits {
    tasks: HashMap<String, CountedTask>,
    callers: HashMap<CallerName, usize>,
    bytes: usize,
}

/// `None` for all callers without a principal.
type CallerName = Option<CallerIdentity>;

struct CountedTask {
    caller: CallerName,
    bytes: usize,
    expires: Instant,
}

impl TaskLimits {
    /// Counts a new task.
    pub(super) fn add(
        &mut self,
        id: &str,
        caller: Option<&StoredCaller>,
        bytes: usize,
        ttl: Duration,
        settings: &TaskSettings,
    ) -> Result<(), TaskLimitError> {
        let caller = caller.map(|caller| caller.identity.clone());
        if self.exceeded(&caller, bytes, settings).is_some() {
            self.remove_expired();
        }
        if let Some(error) = self.exceeded(&caller, bytes, settings) {
            return Err(error);
        }
        // Limited, because adding `Duration::MAX` would overflow.
        let expires = Instant::now() + ttl.min(Duration::from_secs(1 << 32));
        *self.callers.entry(caller.clone()).or_default() += 1;
        self.bytes += bytes;
        self.tasks.insert(id.to_owned(), CountedTask { caller, bytes, expires });
        Ok(())
    }

    /// Counts more bytes for a task. A task of another process is not counted here.
    pub(super) fn grow(
        &mut self,
        id: &str,
        bytes: usize,
        settings: &TaskSettings,
    ) -> Result<(), TaskLimitError> {
        if self.bytes.saturating_add(bytes) > settings.max_bytes {
            self.remove_expired();
        }
        if self.bytes.saturating_add(bytes) > settings.max_bytes {
            return Err(TaskLimitError { setting: "max_task_bytes", limit: settings.max_bytes });
        }
        if let Some(task) = self.tasks.get_mut(id) {
            task.bytes += bytes;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Counts a task no longer, which was not created after all.
    pub(super) fn remove(&mut self, id: &str) {
        if let Some(task) = self.tasks.remove(id) {
            self.uncount(&task);
        }
    }

    fn exceeded(&self, caller: &CallerName, bytes: usize, settings: &TaskSettings) -> Option<TaskLimitError> {
        let of_caller = self.callers.get(caller).copied().unwrap_or_default();
        let limits = [
            (self.tasks.len() + 1, "max_tasks", settings.max_tasks),
            (of_caller + 1, "max_tasks_per_caller", settings.max_tasks_per_caller),
            (self.bytes.saturating_add(bytes), "max_task_bytes", settings.max_bytes),
        ];
        let exceeded = limits.into_iter().find(|(used, _, limit)| used > limit);
        exceeded.map(|(_, setting, limit)| TaskLimitError { setting, limit })
    }

    fn remove_expired(&mut self) {
        let now = Instant::now();
        let expired: Vec<_> =
            self.tasks.iter().filter(|(_, task)| task.expires <= now).map(|(id, _)| id.clone()).collect();
        expired.iter().for_each(|id| self.remove(id));
    }

    fn uncount(&mut self, task: &CountedTask) {
        self.bytes = self.bytes.saturating_sub(task.bytes);
        if let Some(count) = self.callers.get_mut(&task.caller) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.callers.remove(&task.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::principal::Principal;

    fn error(setting: &'static str, limit: usize) -> Result<(), TaskLimitError> {
        Err(TaskLimitError { setting, limit })
    }

    #[tokio::test(start_paused = true)]
    async fn each_limit_holds_until_a_task_expires() {
        let settings =
            TaskSettings { max_tasks: 3, max_tasks_per_caller: 2, max_bytes: 100, ..Default::default() };
        let (ann, ben) =
            (StoredCaller::new(&Principal::new("ann")), StoredCaller::new(&Principal::new("ben")));
        let second = Duration::from_secs(1);
        let mut limits = TaskLimits::default();
        assert_eq!(limits.add("1", Some(&ann), 10, second, &settings), Ok(()));
        assert_eq!(limits.add("2", Some(&ann), 10, second, &settings), Ok(()));
        assert_eq!(limits.add("3", Some(&ann), 10, second, &settings), error("max_tasks_per_caller", 2));
        assert_eq!(limits.add("3", Some(&ben), 81, second, &settings), error("max_task_bytes", 100));
        assert_eq!(limits.add("3", None, 10, second, &settings), Ok(()));
        assert_eq!(limits.add("4", Some(&ben), 1, second, &settings), error("max_tasks", 3));
        assert_eq!(limits.grow("3", 71, &settings), error("max_task_bytes", 100));
        assert_eq!(limits.grow("3", 70, &settings), Ok(()));
        tokio::time::advance(second).await;
        assert_eq!(limits.add("4", Some(&ben), 100, second, &settings), Ok(()));
        limits.remove("4");
        assert!(limits.tasks.is_empty() && limits.callers.is_empty() && limits.bytes == 0);
    }
}
