//! How long one call is waited for: its silence, and all of it.

use std::time::{Duration, Instant};

use super::inbound::Rising;

/// How long to wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Patience {
    /// Without any sign of life.
    pub idle: Duration,
    /// In all, however much progress is reported; pauses do not count.
    pub total: Option<Duration>,
}

impl Patience {
    /// Waits `idle` without a sign of life, and as long as it takes with them.
    pub fn new(idle: Duration) -> Self {
        Self { idle, total: None }
    }

    /// Waits no longer than `total`, whatever comes.
    #[must_use]
    pub fn total(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }
}

/// Thirty seconds without a sign of life, ten minutes in all.
impl Default for Patience {
    fn default() -> Self {
        Self::new(Duration::from_secs(30)).total(Duration::from_secs(600))
    }
}

/// The clock of one call.
#[derive(Debug)]
pub struct Pace {
    patience: Patience,
    progress: Rising,
    /// When the last sign of life came.
    alive: Instant,
    /// What of the total is left from `alive` on.
    left: Option<Duration>,
    /// How many questions of the peer are being answered for this call; the clock stands meanwhile.
    paused: usize,
}

impl Pace {
    /// The call is made now.
    pub fn new(now: Instant, patience: Patience) -> Self {
        Self { patience, progress: Rising::default(), alive: now, left: patience.total, paused: 0 }
    }

    /// Progress has come. False when it did not rise, which is no sign of life.
    pub fn progress(&mut self, now: Instant, value: f64) -> bool {
        let rises = self.progress.step(value);
        if rises {
            self.spend(now);
        }
        rises
    }

    /// Somebody needs time to answer a question of the peer: the clock stands.
    pub fn pause(&mut self, now: Instant) {
        self.spend(now);
        self.paused += 1;
    }

    /// The answer is given; when it was the last the clock runs again, with the full patience for silence.
    pub fn resume(&mut self, now: Instant) {
        self.paused = self.paused.saturating_sub(1);
        if self.paused == 0 {
            self.alive = now;
        }
    }

    /// When the call runs out of time as things are. `None` while the clock stands, and when the patience is too long
    /// for the clock.
    pub fn deadline(&self) -> Option<Instant> {
        if self.paused > 0 {
            return None;
        }
        let wait = self.left.map_or(self.patience.idle, |left| left.min(self.patience.idle));
        self.alive.checked_add(wait)
    }

    /// Whether it is the time in all that ends the call at its deadline, not the silence.
    pub fn ends_by_total(&self) -> bool {
        self.left.is_some_and(|left| left < self.patience.idle)
    }

    /// The time since the last sign of life is taken from the total, unless the clock stood.
    fn spend(&mut self, now: Instant) {
        if self.paused == 0
            && let Some(left) = &mut self.left
        {
            *left = left.saturating_sub(now.saturating_duration_since(self.alive));
        }
        self.alive = now;
    }
}
