//! Cancellations of requests that have not arrived yet.
//!
//! Over HTTP a cancellation has a connection of its own. It can overtake its request, and it can arrive while the handler
//! of its request is polled for the first time, before the request is in the table of requests in flight.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use tsugite_core::jsonrpc::Id;

/// The ids of one session that were cancelled before their requests were known, with the time of the cancellation.
///
/// Most cancellations that match no request are late rather than early, so few are kept, and not for long.
#[derive(Default)]
pub(super) struct EarlyCancellations(VecDeque<(Id<'static>, Instant)>);

impl EarlyCancellations {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Remembers the id of a request that is to be cancelled when it arrives.
    pub(super) fn insert(&mut self, id: Id<'static>, now: Instant) {
        self.0.retain(|(known, at)| *known != id && is_fresh(*at, now));
        if self.0.len() >= MAX_IDS {
            self.0.pop_front();
        }
        self.0.push_back((id, now));
    }

    /// Whether the request was cancelled before. The cancellation counts once.
    pub(super) fn take(&mut self, id: &Id<'_>, now: Instant) -> bool {
        let found = self.0.iter().position(|(known, _)| known == id);
        let taken = found.and_then(|index| self.0.remove(index));
        taken.is_some_and(|(_, at)| is_fresh(at, now))
    }
}

fn is_fresh(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) <= TTL
}

/// How many ids a session remembers; the oldest is forgotten first.
const MAX_IDS: usize = 64;

/// How long a cancellation waits for its request. Some clients use ids again, so this is no longer than two connections to
/// one server differ.
const TTL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancellation_counts_once_and_not_for_long() {
        let (mut early, now) = (EarlyCancellations::default(), Instant::now());
        early.insert(Id::from(1), now);
        assert!(!early.take(&Id::from(2), now));
        assert!(early.take(&Id::from(1), now + TTL));
        assert!(!early.take(&Id::from(1), now) && early.is_empty());
        early.insert(Id::from(1), now);
        assert!(!early.take(&Id::from(1), now + TTL + Duration::from_millis(1)));
    }

    #[test]
    fn memory_of_a_session_is_bounded() {
        let (mut early, now) = (EarlyCancellations::default(), Instant::now());
        for id in 0..1000 {
            early.insert(Id::from(id), now);
            early.insert(Id::from(id), now);
        }
        assert_eq!(early.0.len(), MAX_IDS);
        assert!(!early.take(&Id::from(0), now) && early.take(&Id::from(999), now));
    }
}
