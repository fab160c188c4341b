//! The time by which entries expire, in milliseconds since 1970.
//!
//! It continues over restarts and never goes back: it begins with the wall clock, or with the time of the last commit if that
//! is later, and then follows the monotonic clock. A step of the wall clock has no effect until the store is opened again.

use std::time::{Duration, Instant, SystemTime};

pub(super) struct Clock {
    start: u64,
    opened: Instant,
}

impl Clock {
    /// A clock for a file whose last commit was at `last`.
    pub(super) fn after(last: u64) -> Self {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { start: milliseconds(since_epoch).max(last), opened: Instant::now() }
    }

    pub(super) fn now(&self) -> u64 {
        self.start.saturating_add(milliseconds(self.opened.elapsed()))
    }
}

/// The time at which an entry expires that is kept for `ttl` from `now` on.
pub(super) fn expiry(now: u64, ttl: Duration) -> u64 {
    now.saturating_add(milliseconds(ttl))
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_go_back_over_a_restart() {
        let future = milliseconds(SystemTime::UNIX_EPOCH.elapsed().unwrap()) + 3_600_000;
        assert!(Clock::after(future).now() >= future);
        let now = Clock::after(0).now();
        assert!(now > future - 3_700_000 && now < future);
    }

    #[test]
    fn endless_time_to_live_does_not_overflow() {
        assert_eq!(expiry(5, Duration::MAX), u64::MAX);
        assert_eq!(expiry(5, Duration::from_millis(7)), 12);
    }
}
