//! What went wrong when, as it happened: it decides which outcomes a client may see.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The faults so far. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct FaultLog {
    start: Instant,
    entries: Arc<Mutex<Vec<Entry>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A replica was killed or terminated, until it serves again.
    ReplicaDown,
    /// A replica was terminated.
    ReplicaStopping,
    ReplicaFrozen,
    /// Redis does not run.
    RedisDown,
    /// Redis lost its data.
    DataLost,
    /// The connections of a replica to Redis are disturbed.
    LinkDisturbed,
    /// This process, which all connections to Redis pass through, did not run for a while: the machine has too much to do.
    DriverStalled,
}

#[derive(Debug)]
struct Entry {
    effect: Effect,
    from: Duration,
    until: Option<Duration>,
}

impl FaultLog {
    pub(crate) fn new(start: Instant) -> Self {
        Self { start, entries: Arc::default() }
    }

    /// The time since the start of the run.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Records that an effect begins, and returns its number for [`Self::end`].
    pub(crate) fn begin(&self, effect: Effect) -> usize {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(Entry { effect, from: self.now(), until: None });
        entries.len() - 1
    }

    pub(crate) fn end(&self, number: usize) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(number) {
            entry.until = Some(self.now());
        }
    }

    /// Watches until the run ends whether this process runs without long pauses.
    pub(crate) async fn watch_stalls(self) {
        loop {
            let before = Instant::now();
            tokio::time::sleep(TICK).await;
            if before.elapsed() > TICK + MAX_STALL {
                let stalled = self.begin(Effect::DriverStalled);
                self.end(stalled);
            }
        }
    }

    /// Whether one of the effects was there since `from`, or up to [`AFTERMATH`] before.
    pub(crate) fn had(&self, effects: &[Effect], from: Duration) -> bool {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = |entry: &Entry| {
            let is_recent = entry.until.is_none_or(|until| until + AFTERMATH >= from);
            is_recent && effects.contains(&entry.effect)
        };
        entries.iter().any(counts)
    }

    /// Whether Redis lost its data while a message that was accepted at `accepted` could still wait there for its replica.
    pub(crate) fn lost_message(&self, accepted: Duration) -> bool {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = |entry: &Entry| {
            let is_near = entry.until.is_none_or(|until| until + AFTERMATH >= accepted);
            entry.effect == Effect::DataLost && is_near && entry.from <= accepted + MAX_WAITING
        };
        entries.iter().any(counts)
    }
}

const TICK: Duration = Duration::from_millis(50);

/// A pause of the driver that counts as a fault.
const MAX_STALL: Duration = Duration::from_millis(500);

/// How long a fault may be noticed after its end: leases run out, and connections are made again after a pause.
const AFTERMATH: Duration = Duration::from_secs(3);

/// How long an accepted message may wait for its replica: longer than a replica is stopped, or data is stalled.
const MAX_WAITING: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_fault_excuses_only_requests_near_it() {
        let log = FaultLog::new(Instant::now());
        assert!(!log.had(&[Effect::RedisDown], Duration::ZERO));
        let number = log.begin(Effect::RedisDown);
        assert!(log.had(&[Effect::RedisDown], Duration::from_secs(100)));
        log.end(number);
        assert!(log.had(&[Effect::RedisDown], Duration::ZERO));
        assert!(!log.had(&[Effect::RedisDown], Duration::from_secs(100)));
        assert!(!log.had(&[Effect::DataLost], Duration::ZERO));
    }

    #[test]
    fn message_is_lost_only_with_the_data_that_holds_it() {
        let log = FaultLog::new(Instant::now());
        log.end(log.begin(Effect::RedisDown));
        assert!(!log.lost_message(Duration::ZERO));
        log.end(log.begin(Effect::DataLost));
        assert!(log.lost_message(Duration::ZERO));
        assert!(!log.lost_message(Duration::from_secs(100)));
    }

    #[test]
    fn message_accepted_long_before_a_loss_has_arrived() {
        let start = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        let log = FaultLog::new(start);
        log.end(log.begin(Effect::DataLost));
        assert!(log.lost_message(Duration::from_secs(55)));
        assert!(!log.lost_message(Duration::from_secs(30)));
    }
}
