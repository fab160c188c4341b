//! The deadline of one call: an idle timeout that progress restarts, and a total timeout.
//!
//! The clock is an argument: the caller passes the current instant, asks for the [deadline](CallTimer::deadline) and
//! sleeps until then.

use std::time::{Duration, Instant};

use super::inbound::MonotonicProgress;

/// How long to wait for a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// The longest time without progress.
    pub idle_timeout: Duration,
    /// The longest time in total, with or without progress. Paused time does not count.
    pub total_timeout: Option<Duration>,
}

impl Timeouts {
    /// An idle timeout without a total timeout.
    pub fn new(idle_timeout: Duration) -> Self {
        Self { idle_timeout, total_timeout: None }
    }

    /// Sets the total timeout.
    #[must_use]
    pub fn total_timeout(mut self, total: Duration) -> Self {
        self.total_timeout = Some(total);
        self
    }
}

/// 30 seconds without progress, 10 minutes in total.
impl Default for Timeouts {
    fn default() -> Self {
        Self::new(Duration::from_secs(30)).total_timeout(Duration::from_secs(600))
    }
}

/// The timer of one call.
#[derive(Debug)]
pub struct CallTimer {
    timeouts: Timeouts,
    progress: MonotonicProgress,
    /// When the call began, last made progress or was last resumed.
    last_activity: Instant,
    /// The rest of the total timeout, counted from `last_activity`.
    total_remaining: Option<Duration>,
    /// How many requests of the peer are being answered for this call; the timer is paused while there are any.
    pause_count: usize,
}

impl CallTimer {
    /// Starts the timer.
    pub fn new(now: Instant, timeouts: Timeouts) -> Self {
        Self {
            timeouts,
            progress: MonotonicProgress::default(),
            last_activity: now,
            total_remaining: timeouts.total_timeout,
            pause_count: 0,
        }
    }

    /// Restarts the idle timeout because of a progress notification. Returns false and changes nothing if the value did
    /// not increase.
    pub fn record_progress(&mut self, now: Instant, value: f64) -> bool {
        let rises = self.progress.advance(value);
        if rises {
            self.record_activity(now);
        }
        rises
    }

    /// Pauses the timer while a request of the peer is answered. Pauses nest.
    pub fn pause(&mut self, now: Instant) {
        self.record_activity(now);
        self.pause_count += 1;
    }

    /// Ends one pause. The last one restarts the idle timeout.
    pub fn resume(&mut self, now: Instant) {
        self.pause_count = self.pause_count.saturating_sub(1);
        if self.pause_count == 0 {
            self.last_activity = now;
        }
    }

    /// When the call times out if nothing else happens. `None` while the timer is paused, and if the timeout lies beyond
    /// the range of the clock.
    pub fn deadline(&self) -> Option<Instant> {
        if self.pause_count > 0 {
            return None;
        }
        let wait = self
            .total_remaining
            .map_or(self.timeouts.idle_timeout, |left| left.min(self.timeouts.idle_timeout));
        self.last_activity.checked_add(wait)
    }

    /// Whether the deadline is that of the total timeout, not of the idle timeout.
    pub fn is_limited_by_total(&self) -> bool {
        self.total_remaining.is_some_and(|left| left < self.timeouts.idle_timeout)
    }

    /// Subtracts the time since the last activity from the total timeout, unless the timer was paused.
    fn record_activity(&mut self, now: Instant) {
        if self.pause_count == 0
            && let Some(left) = &mut self.total_remaining
        {
            *left = left.saturating_sub(now.saturating_duration_since(self.last_activity));
        }
        self.last_activity = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn timer(now: Instant, idle: u32, total: u32) -> CallTimer {
        CallTimer::new(now, Timeouts::new(SECOND * idle).total_timeout(SECOND * total))
    }

    #[test]
    fn progress_restarts_the_idle_timeout_within_the_total() {
        // LIFE-025, LIFE-026
        let now = Instant::now();
        let mut timer = timer(now, 30, 60);
        assert_eq!(timer.deadline(), Some(now + SECOND * 30));
        assert!(timer.record_progress(now + SECOND * 20, 1.0));
        assert_eq!(timer.deadline(), Some(now + SECOND * 50));
        assert!(timer.record_progress(now + SECOND * 45, 2.0));
        assert_eq!(timer.deadline(), Some(now + SECOND * 60));
        assert!(timer.is_limited_by_total());
    }

    #[test]
    fn progress_that_does_not_increase_restarts_nothing() {
        let now = Instant::now();
        let mut timer = timer(now, 30, 600);
        assert!(timer.record_progress(now, 5.0));
        assert!(!timer.record_progress(now + SECOND * 10, 5.0));
        assert_eq!(timer.deadline(), Some(now + SECOND * 30));
    }

    #[test]
    fn paused_timer_has_no_deadline() {
        let now = Instant::now();
        let mut timer = timer(now, 30, 40);
        timer.pause(now + SECOND * 10);
        timer.pause(now + SECOND * 11);
        timer.resume(now + SECOND * 500);
        assert_eq!(timer.deadline(), None);
        timer.resume(now + SECOND * 1000);
        // Ten seconds of the total had passed before the first pause.
        assert_eq!(timer.deadline(), Some(now + SECOND * 1030));
    }

    #[test]
    fn endless_timeout_has_no_deadline() {
        let timer = CallTimer::new(Instant::now(), Timeouts::new(Duration::MAX));
        assert_eq!(timer.deadline(), None);
    }
}
