//! How often the bridge polls a task, and until when.

use std::time::Duration;

use tsugite_core::protocol::TaskStatus;
use tsugite_core::protocol::raw_tasks::RawTaskDetails;

/// The interval that the server wishes, within limits.
pub(super) fn poll_interval(details: &RawTaskDetails) -> Duration {
    let interval = details.poll_interval_ms.map_or(DEFAULT_INTERVAL, Duration::from_millis);
    interval.clamp(MIN_INTERVAL, MAX_INTERVAL)
}

/// Whether the status never changes again.
pub(super) fn is_final(status: TaskStatus) -> bool {
    match status {
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => true,
        TaskStatus::Working | TaskStatus::InputRequired => false,
    }
}

pub(super) const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// A server cannot make the bridge poll all the time, or forget the task.
pub(super) const MIN_INTERVAL: Duration = Duration::from_millis(50);
const MAX_INTERVAL: Duration = Duration::from_secs(300);
