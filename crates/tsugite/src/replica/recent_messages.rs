//! The messages that were received last. A store delivers each at least once, and each counts once.

use std::collections::{HashSet, VecDeque};

/// The messages that were received last, by sender and number.
#[derive(Default)]
pub(super) struct RecentMessages {
    known: HashSet<(String, u64)>,
    /// Oldest first.
    order: VecDeque<(String, u64)>,
}

impl RecentMessages {
    /// Adds a message. Returns false if it is known.
    pub(super) fn insert(&mut self, sender: &str, number: u64) -> bool {
        let message = (sender.to_owned(), number);
        if !self.known.insert(message.clone()) {
            return false;
        }
        self.order.push_back(message);
        if self.order.len() > MAX_KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

/// More than a replica receives before it tells the store that they are handled.
const MAX_KNOWN: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_message_is_known() {
        let mut recent = RecentMessages::default();
        assert!(recent.insert("a", 1));
        assert!(recent.insert("b", 1));
        assert!(recent.insert("a", 2));
        assert!(!recent.insert("a", 1));
    }

    #[test]
    fn oldest_messages_are_forgotten() {
        let mut recent = RecentMessages::default();
        for number in 0..=MAX_KNOWN as u64 {
            assert!(recent.insert("a", number));
        }
        assert_eq!(recent.known.len(), MAX_KNOWN);
        assert_eq!(recent.order.len(), MAX_KNOWN);
        assert!(!recent.insert("a", 1));
        assert!(recent.insert("a", 0));
    }
}
