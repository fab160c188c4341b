//! Limits how often a child that exits without an answer is started again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::lock;

/// Counts the starts of a child since the one that last answered a call.
#[derive(Default)]
pub(super) struct RestartBackoff {
    /// The number of the last start, from 1.
    last: AtomicU32,
    /// The starts that do not count any more.
    forgiven: AtomicU32,
    last_time: Mutex<Option<Instant>>,
}

/// The child was started too often.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RestartLimitError {
    pub(super) starts: u32,
    /// How long it is not started again.
    pub(super) wait: Duration,
}

impl RestartBackoff {
    /// Counts a start, and returns how long to wait before it.
    pub(super) fn before_start(&self, now: Instant) -> Result<Duration, RestartLimitError> {
        let mut last_time = lock(&self.last_time);
        let elapsed = last_time.map_or(COOL_DOWN, |last| now.saturating_duration_since(last));
        // The child has lived for long, or there was a long pause.
        if elapsed >= COOL_DOWN {
            self.forgiven.store(self.number(), Ordering::Relaxed);
        }
        let starts = self.starts();
        if starts > MAX_RESTARTS {
            return Err(RestartLimitError { starts, wait: COOL_DOWN.saturating_sub(elapsed) });
        }
        let delay = match starts {
            0 | 1 => Duration::ZERO,
            more => FIRST_DELAY * 2_u32.pow(more - 2),
        };
        self.last.fetch_add(1, Ordering::Relaxed);
        *last_time = Some(now + delay);
        Ok(delay)
    }

    /// The number of the last start.
    pub(super) fn number(&self) -> u32 {
        self.last.load(Ordering::Relaxed)
    }

    /// Records that the child of this start has answered a call. It may have exited already, and been started again.
    pub(super) fn record_answer(&self, number: u32) {
        let forgiven = number.saturating_sub(1);
        if self.forgiven.load(Ordering::Relaxed) < forgiven {
            self.forgiven.fetch_max(forgiven, Ordering::Relaxed);
        }
    }

    /// Whether the limit is reached.
    pub(super) fn is_exhausted(&self) -> bool {
        self.starts() > MAX_RESTARTS
    }

    fn starts(&self) -> u32 {
        self.number().saturating_sub(self.forgiven.load(Ordering::Relaxed))
    }
}

/// Restarts in a row.
const MAX_RESTARTS: u32 = 5;
/// The delay before the second restart. It doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// How long a child is not started after the last restart.
const COOL_DOWN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_delayed_and_limited() {
        let (backoff, start) = (RestartBackoff::default(), Instant::now());
        let delays: Vec<u64> =
            (0..6).map(|_| backoff.before_start(start).unwrap().as_millis() as u64).collect();
        assert_eq!(delays, [0, 0, 100, 200, 400, 800]);
        assert!(backoff.is_exhausted());
        let refused = backoff.before_start(start + COOL_DOWN / 2).unwrap_err();
        assert_eq!(refused.starts, 6);
        assert!(refused.wait > COOL_DOWN / 2 && refused.wait < COOL_DOWN, "{refused:?}");
        // After a pause the child gets another chance.
        assert_eq!(backoff.before_start(start + COOL_DOWN * 2), Ok(Duration::ZERO));
        assert!(!backoff.is_exhausted());
    }

    #[test]
    fn answer_resets_the_backoff() {
        let (backoff, start) = (RestartBackoff::default(), Instant::now());
        for number in 1..100 {
            assert_eq!(backoff.before_start(start), Ok(Duration::ZERO));
            backoff.record_answer(number);
        }
        // The answer of an earlier child does not excuse the later ones.
        assert_eq!(backoff.before_start(start), Ok(Duration::ZERO));
        assert_eq!(backoff.before_start(start), Ok(FIRST_DELAY));
        backoff.record_answer(99);
        assert_eq!(backoff.before_start(start), Ok(FIRST_DELAY * 2));
    }
}
