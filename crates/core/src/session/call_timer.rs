//! How long one call is waited for: its silence, and all of it.

use std::time::{Duration, Instant};

use super::inbound::MonotonicProgress;

/// How long to wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// Without any sign of life.
    pub idle_timeout: Duration,
    /// In all, however much progress is reported; pauses do not count.
    pub total_timeout: Option<Duration>,
}

impl Timeouts {
    /// Waits `idle_timeout` without a sign of life, and as long as it takes with them.
    pub fn new(idle_timeout: Duration) -> Self {
        Self { idle_timeout, total_timeout: None }
    }

    /// Waits no longer than `total_timeout`, whatever comes.
    #[must_use]
    pub fn total_timeout(mut self, total: Duration) -> Self {
        self.total_timeout = Some(total);
        self
    }
}

/// Thirty seconds without a sign of life, ten minutes in all.
impl Default for Timeouts {
    fn default() -> Self {
        Self::new(Duration::from_secs(30)).total_timeout(Duration::from_secs(600))
    }
}

/// The clock of one call.
#[derive(Debug)]
pub struct CallTimer {
    timeouts: Timeouts,
    progress: MonotonicProgress,
    /// When the last sign of life came.
    last_activity: Instant,
    /// What of the total is left from `last_activity` on.
    total_remaining: Option<Duration>,
    /// How many questions of the peer are being answered for this call; the clock stands meanwhile.
    pause_count: usize,
}

impl CallTimer {
    /// The call is made now.
    pub fn new(now: Instant, timeouts: Timeouts) -> Self {
        Self {
            timeouts,
            progress: MonotonicProgress::default(),
            last_activity: now,
            total_remaining: timeouts.total_timeout,
            pause_count: 0,
        }
    }

    /// Progress has come. False when it did not rise, which is no sign of life.
    pub fn record_progress(&mut self, now: Instant, value: f64) -> bool {
        let rises = self.progress.advance(value);
        if rises {
            self.record_activity(now);
        }
        rises
    }

    /// Somebody needs time to answer a question of the peer: the clock stands.
    pub fn pause(&mut self, now: Instant) {
        self.record_activity(now);
        self.pause_count += 1;
    }

    /// The answer is given; when it was the last the clock runs again, with the full patience for silence.
    pub fn resume(&mut self, now: Instant) {
        self.pause_count = self.pause_count.saturating_sub(1);
        if self.pause_count == 0 {
            self.last_activity = now;
        }
    }

    /// When the call runs out of time as things are. `None` while the clock stands, and when the patience is too long
    /// for the clock.
    pub fn deadline(&self) -> Option<Instant> {
        if self.pause_count > 0 {
            return None;
        }
        let wait = self
            .total_remaining
            .map_or(self.timeouts.idle_timeout, |left| left.min(self.timeouts.idle_timeout));
        self.last_activity.checked_add(wait)
    }

    /// Whether it is the time in all that ends the call at its deadline, not the silence.
    pub fn is_limited_by_total(&self) -> bool {
        self.total_remaining.is_some_and(|left| left < self.timeouts.idle_timeout)
    }

    /// The time since the last sign of life is taken from the total, unless the clock stood.
    fn record_activity(&mut self, now: Instant) {
        if self.pause_count == 0
            && let Some(left) = &mut self.total_remaining
        {
            *left = left.saturating_sub(now.saturating_duration_since(self.last_activity));
        }
        self.last_activity = now;
    }
}
