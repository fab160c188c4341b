//! The age of the key of a call.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// How long the server may know the key of a call, by two clocks: one stands still while the computer sleeps, the other may be
/// set.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyAge {
    instant: Instant,
    time: SystemTime,
}

impl KeyAge {
    pub(super) fn start() -> Self {
        Self { instant: Instant::now(), time: SystemTime::now() }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.instant.elapsed().max(self.time.elapsed().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn clock_that_went_on_gives_the_age() {
        let asleep = KeyAge { instant: Instant::now(), time: SystemTime::now() - Duration::from_secs(7_200) };
        assert!(asleep.elapsed() >= Duration::from_secs(7_200));
        let set_back =
            KeyAge { instant: Instant::now(), time: SystemTime::now() + Duration::from_secs(7_200) };
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(set_back.elapsed(), Duration::from_secs(60));
    }
}
