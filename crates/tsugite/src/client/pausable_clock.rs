//! Timeouts that do not run while a request of the client waits for its authorizer: a person may be logging in.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The clock of one client. It stands while at least one request waits for credentials.
#[derive(Default)]
pub(super) struct PausableClock {
    waiting: watch::Sender<usize>,
}

/// The limit has passed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Elapsed;

impl PausableClock {
    /// Stops the clock until the guard is dropped.
    pub(super) fn pause(&self) -> PausedClock<'_> {
        self.waiting.send_modify(|waiting| *waiting += 1);
        PausedClock(self)
    }

    /// Runs a future until the limit has passed on this clock.
    pub(super) async fn timeout<F: Future>(&self, limit: Duration, work: F) -> Result<F::Output, Elapsed> {
        let mut work = pin!(work);
        let mut waiting = self.waiting.subscribe();
        let mut remaining = limit;
        loop {
            // The sender lives as long as `self`, so waiting for it cannot fail.
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                _ = waiting.wait_for(|waiting| *waiting == 0) => {}
            }
            let since = Instant::now();
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                _ = waiting.wait_for(|waiting| *waiting > 0) => remaining = remaining.saturating_sub(since.elapsed()),
                () = tokio::time::sleep(remaining) => return Err(Elapsed),
            }
        }
    }
}

/// Lets the clock continue when dropped.
pub(super) struct PausedClock<'a>(&'a PausableClock);

impl Drop for PausedClock<'_> {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|waiting| *waiting -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn clock_stands_while_credentials_are_awaited() {
        let clock = PausableClock::default();
        let start = Instant::now();
        let work = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let paused = clock.pause();
            tokio::time::sleep(Duration::from_secs(1_000)).await;
            drop(paused);
            std::future::pending::<()>().await;
        };
        assert_eq!(clock.timeout(Duration::from_secs(30), work).await, Err(Elapsed));
        assert_eq!(start.elapsed(), Duration::from_secs(1_030));
        assert_eq!(clock.timeout(Duration::from_secs(30), async { 7 }).await, Ok(7));
    }
}
