//! Replicas without a lease. One that stays without it for a whole lease time is dead.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// The replicas whose lease was away when this one last looked.
#[derive(Default)]
pub(super) struct Suspects(HashMap<String, Suspect>);

struct Suspect {
    since: Instant,
    last_look: Instant,
}

impl Suspects {
    /// Notes that a replica has its lease.
    pub(super) fn clear(&mut self, replica: &str) {
        self.0.remove(replica);
    }

    /// Notes that a replica has no lease. Returns whether that was so at every look for a whole lease time. Looks that are
    /// further apart do not count together: the replica may have had its lease between them.
    pub(super) fn note(&mut self, replica: &str, lease: Duration, now: Instant) -> bool {
        if self.0.len() >= MAX_SUSPECTS {
            self.0.retain(|_, suspect| now.duration_since(suspect.last_look) <= lease);
        }
        let new = || Suspect { since: now, last_look: now };
        let suspect = self.0.entry(replica.to_owned()).or_insert_with(new);
        if now.duration_since(suspect.last_look) > lease {
            suspect.since = now;
        }
        suspect.last_look = now;
        now.duration_since(suspect.since) >= lease
    }
}

const MAX_SUSPECTS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    #[test]
    fn replica_without_a_lease_for_long_is_dead() {
        let (mut suspects, start) = (Suspects::default(), Instant::now());
        assert!(!suspects.note("a", LEASE, start));
        assert!(!suspects.note("a", LEASE, start + LEASE / 2));
        assert!(suspects.note("a", LEASE, start + LEASE));
        suspects.clear("a");
        assert!(!suspects.note("a", LEASE, start + LEASE));
    }

    #[test]
    fn looks_far_apart_do_not_count_together() {
        let (mut suspects, start) = (Suspects::default(), Instant::now());
        assert!(!suspects.note("a", LEASE, start));
        let days_later = start + 20_000 * LEASE;
        assert!(!suspects.note("a", LEASE, days_later));
        assert!(suspects.note("a", LEASE, days_later + LEASE));
    }
}
