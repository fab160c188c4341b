//! The current time, which tests can move.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The wall clock, ahead by as much as tokio's clock was advanced. Outside of tests the two clocks of a process agree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
    started_in_tokio: tokio::time::Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), started_in_tokio: tokio::time::Instant::now() }
    }

    pub(crate) fn now(&self) -> SystemTime {
        let advanced = self.started_in_tokio.elapsed().saturating_sub(self.started.elapsed());
        // Two readings of one clock differ by less than this.
        let advanced = if advanced < Duration::from_millis(500) { Duration::ZERO } else { advanced };
        SystemTime::now() + advanced
    }

    /// The time in seconds since 1970.
    pub(crate) fn seconds(&self) -> u64 {
        self.now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}
