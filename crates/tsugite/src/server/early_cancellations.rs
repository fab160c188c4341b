//! Cancellations of requests that have not arrived yet.
//!
//! Over HTTP a cancellation has a connection of its own. It can overtake its request, and it can arrive while the handler
//! of its request is polled for the first time, before the request is in the table of requests in flight.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use tsugite_core::jsonrpc::Id;

/// The cancellations of one session that came before their requests were known.
///
/// Most cancellations that match no request are late rather than early, so few are kept, and not for long.
#[derive(Default)]
pub(super) struct EarlyCancellations(VecDeque<EarlyCancellation>);

/// A cancellation without a request yet.
pub(super) struct EarlyCancellation {
    id: Id<'static>,
    at: Instant,
    /// The reason that the client gave, at most [`MAX_REASON_BYTES`] long.
    pub(super) reason: Option<String>,
}

impl EarlyCancellations {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Remembers the id of a request that is to be cancelled when it arrives, and why.
    pub(super) fn insert(&mut self, id: Id<'static>, reason: Option<String>, now: Instant) {
        self.0.retain(|known| known.id != id && is_fresh(known.at, now));
        if self.0.len() >= MAX_IDS {
            self.0.pop_front();
        }
        self.0.push_back(EarlyCancellation { id, at: now, reason: reason.map(shorten) });
    }

    /// The earlier cancellation of a request. It counts once.
    pub(super) fn take(&mut self, id: &Id<'_>, now: Instant) -> Option<EarlyCancellation> {
        let found = self.0.iter().position(|known| known.id == *id);
        found.and_then(|index| self.0.remove(index)).filter(|known| is_fresh(known.at, now))
    }
}

/// Limits the memory that a reason takes.
fn shorten(mut reason: String) -> String {
    let end = (0..=MAX_REASON_BYTES.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end));
    reason.truncate(end.unwrap_or(0));
    reason.shrink_to_fit();
    reason
}

fn is_fresh(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) <= TTL
}

/// How many ids a session remembers; the oldest is forgotten first.
const MAX_IDS: usize = 64;

/// How much of a reason is kept.
const MAX_REASON_BYTES: usize = 1 << 10;

/// How long a cancellation waits for its request. Some clients use ids again, so this is no longer than two connections to
/// one server differ.
const TTL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancellation_counts_once_and_not_for_long() {
        let (mut early, now) = (EarlyCancellations::default(), Instant::now());
        early.insert(Id::from(1), None, now);
        assert!(early.take(&Id::from(2), now).is_none());
        assert!(early.take(&Id::from(1), now + TTL).is_some());
        assert!(early.take(&Id::from(1), now).is_none() && early.is_empty());
        early.insert(Id::from(1), None, now);
        assert!(early.take(&Id::from(1), now + TTL + Duration::from_millis(1)).is_none());
    }

    #[test]
    fn memory_of_a_session_is_bounded() {
        let (mut early, now) = (EarlyCancellations::default(), Instant::now());
        let reason = "é".repeat(MAX_REASON_BYTES);
        for id in 0..1000 {
            early.insert(Id::from(id), Some(reason.clone()), now);
            early.insert(Id::from(id), Some(reason.clone()), now);
        }
        assert_eq!(early.0.len(), MAX_IDS);
        assert!(early.take(&Id::from(0), now).is_none());
        let kept = early.take(&Id::from(999), now).and_then(|early| early.reason);
        assert_eq!(kept, Some("é".repeat(MAX_REASON_BYTES / 2)));
    }
}
