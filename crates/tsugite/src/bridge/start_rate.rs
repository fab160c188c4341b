//! The rate at which a bridge opens connections, since each may start a process.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// Limits how many connections are opened at once and per second.
pub(super) struct StartRate {
    /// When the next start would be due if there were no bursts. The lock serves waiting starts in their order.
    next_due: Mutex<Option<Instant>>,
    max_wait: Duration,
}

impl StartRate {
    /// A start waits for at most `max_wait`.
    pub(super) fn new(max_wait: Duration) -> Self {
        Self { next_due: Mutex::default(), max_wait }
    }

    /// Waits until a connection may be opened. Returns false if that takes too long. A dropped wait uses nothing up.
    pub(super) async fn wait(&self) -> bool {
        let turn = async {
            let mut next_due = self.next_due.lock().await;
            let due = next_due.unwrap_or_else(Instant::now);
            let early = due.saturating_duration_since(Instant::now());
            let wait = early.saturating_sub(START_INTERVAL * (START_BURST - 1));
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            *next_due = Some(due.max(Instant::now()) + START_INTERVAL);
        };
        tokio::time::timeout(self.max_wait, turn).await.is_ok()
    }
}

/// How many connections are opened at once.
const START_BURST: u32 = 32;
/// The time between two connections after a burst: eight per second.
const START_INTERVAL: Duration = Duration::from_millis(125);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn starts_beyond_the_burst_are_spread_over_time() {
        let rate = StartRate::new(Duration::from_secs(30));
        let begun = Instant::now();
        for _ in 0..START_BURST {
            assert!(rate.wait().await);
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for _ in 0..8 {
            assert!(rate.wait().await);
        }
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn start_that_would_wait_too_long_fails() {
        let rate = StartRate::new(Duration::from_millis(100));
        for _ in 0..START_BURST {
            assert!(rate.wait().await);
        }
        assert!(!rate.wait().await);
        tokio::time::advance(START_INTERVAL).await;
        assert!(rate.wait().await);
    }
}
