//! Limits the rate of the progress and log notifications of one request: the settings, and what the limit counts.
//!
//! A burst passes untouched. `limited_notifications` does what happens beyond it.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use tsugite_core::protocol::progress::ProgressParams;

/// The settings of the limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotificationLimit {
    /// How many notifications a request may send at once.
    pub(crate) burst: u32,
    /// How many it may send for each second that passes.
    pub(crate) per_second: u32,
}

impl Default for NotificationLimit {
    fn default() -> Self {
        Self { burst: 1_000, per_second: 100 }
    }
}

/// The notifications of one request, as far as they are limited.
#[derive(Default)]
pub(super) struct LimitedNotifications(pub(super) Mutex<LimiterState>);

#[derive(Default)]
pub(super) struct LimiterState {
    /// When the burst is available again as a whole.
    recovered_at: Option<Instant>,
    /// The newest progress that was not sent.
    pub(super) held_progress: Option<ProgressParams>,
    /// Whether a task waits to send it.
    pub(super) has_sender: bool,
    pub(super) dropped_logs: u64,
}

impl LimiterState {
    /// Counts a notification. Returns when the next one may be sent if this one may not.
    pub(super) fn admit(&mut self, limit: NotificationLimit, now: Instant) -> Result<(), Instant> {
        let share = Duration::from_secs(1) / limit.per_second.max(1);
        let Some(burst) = share.checked_mul(limit.burst.max(1)) else { return Ok(()) };
        let next = self.recovered_at.map_or(now, |at| at.max(now)) + share;
        match (next - now).checked_sub(burst) {
            Some(wait) if !wait.is_zero() => Err(now + wait),
            _ => {
                self.recovered_at = Some(next);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_recovers_with_time() {
        let (mut state, start) = (LimiterState::default(), Instant::now());
        let limit = NotificationLimit { burst: 3, per_second: 10 };
        let mut admitted = |millis: u64| state.admit(limit, start + Duration::from_millis(millis)).is_ok();
        assert_eq!([0, 0, 0, 0, 99].map(&mut admitted), [true, true, true, false, false]);
        assert_eq!([100, 100, 300, 300, 300].map(&mut admitted), [true, false, true, true, false]);
        assert_eq!([9_000, 9_000, 9_000, 9_000].map(&mut admitted), [true, true, true, false]);
    }

    #[test]
    fn limits_of_any_size_are_accepted() {
        for (burst, per_second) in [(0, 0), (u32::MAX, 1), (1, u32::MAX), (u32::MAX, u32::MAX)] {
            let limit = NotificationLimit { burst, per_second };
            assert!(LimiterState::default().admit(limit, Instant::now()).is_ok());
        }
    }
}
