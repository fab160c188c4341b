//! Until when the bridge keeps the connection of a task open, since a server may know the task on no other.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::lock;

/// The use of a task by its client. It begins anew with each poll, and is over when the task is known to have ended.
pub(super) struct TaskUse {
    ttl: Duration,
    /// `None` once the task has ended.
    until: Mutex<Option<Instant>>,
}

impl TaskUse {
    /// A task that is in use until it was not polled for `ttl`.
    pub(super) fn new(ttl: Duration) -> Self {
        let ttl = ttl.min(MAX_TTL);
        Self { ttl, until: Mutex::new(Some(Instant::now() + ttl)) }
    }

    /// Records a poll of the client.
    pub(super) fn renew(&self) {
        if let Some(until) = &mut *lock(&self.until) {
            *until = Instant::now() + self.ttl;
        }
    }

    /// Records that the task has ended.
    pub(super) fn end(&self) {
        lock(&self.until).take();
    }

    /// Whether the task is known to have ended.
    pub(super) fn has_ended(&self) -> bool {
        lock(&self.until).is_none()
    }

    /// Whether the task may still run, and its client polls it.
    pub(super) fn is_active(&self) -> bool {
        lock(&self.until).is_some_and(|until| until > Instant::now())
    }

    /// Waits until the client has not polled for too long, or the task has ended.
    pub(super) async fn wait_until_over(&self) {
        loop {
            let until = *lock(&self.until);
            match until {
                Some(until) if until > Instant::now() => tokio::time::sleep_until(until).await,
                _ => return,
            }
        }
    }
}

/// How long a task is known, whatever its server says.
pub(super) const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn use_lasts_while_the_client_polls() {
        let ttl = Duration::from_secs(60);
        let used = TaskUse::new(ttl);
        tokio::time::advance(ttl / 2).await;
        used.renew();
        tokio::time::advance(ttl / 2).await;
        assert!(used.is_active());
        tokio::time::advance(ttl / 2).await;
        assert!(!used.is_active());
        used.renew();
        assert!(used.is_active());
        used.end();
        used.renew();
        assert!(!used.is_active() && used.has_ended());
    }

    #[tokio::test(start_paused = true)]
    async fn unlimited_time_does_not_overflow() {
        let used = TaskUse::new(Duration::MAX);
        used.renew();
        tokio::time::advance(MAX_TTL / 2).await;
        assert!(used.is_active());
    }
}
