//! When a task is polled: at the interval of the server, and sooner after a notification.
//!
//! A notification that was right costs no more than one poll. Notifications that a poll does not confirm double the delay
//! before the next one, up to the interval, so that a flood of them causes no flood of polls.

use std::time::Duration;

use tokio::time::Instant;
use tsugite_core::protocol::tasks::Task;

/// The polls of one task.
pub(super) struct PollPace {
    last_poll: Option<Instant>,
    /// The interval that the server has named last.
    interval: Duration,
    /// The shortest time between a poll and one that a notification causes.
    early_delay: Duration,
}

impl PollPace {
    pub(super) fn new() -> Self {
        Self { last_poll: None, interval: DEFAULT_INTERVAL, early_delay: MIN_INTERVAL }
    }

    pub(super) fn record_poll(&mut self, now: Instant) {
        self.last_poll = Some(now);
    }

    /// Records that a poll found what a notification had announced.
    pub(super) fn record_news(&mut self) {
        self.early_delay = MIN_INTERVAL;
    }

    /// Records the interval that the server wants, and returns it within limits.
    pub(super) fn record_interval(&mut self, task: &Task) -> Duration {
        let interval = task.poll_interval_ms.map_or(DEFAULT_INTERVAL, Duration::from_millis);
        self.interval = interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
        self.interval
    }

    /// The interval that the server has named last.
    pub(super) fn last_interval(&self) -> Duration {
        self.interval
    }

    /// The time of a poll that a notification causes. Each of them delays the next one more.
    pub(super) fn early_poll(&mut self, interval: Duration) -> Instant {
        let delay = self.early_delay.min(interval);
        self.early_delay = self.early_delay.saturating_mul(2).min(MAX_INTERVAL);
        self.last_poll.map_or_else(Instant::now, |last| last + delay)
    }
}

const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// A server cannot make the client poll all the time, or forget the task.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
const MAX_INTERVAL: Duration = Duration::from_secs(300);
