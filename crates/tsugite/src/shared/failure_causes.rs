//! The causes of failed requests, kept for a client in the same process. They are never sent.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Arc, Mutex};

use tsugite_core::jsonrpc::Id;

use super::lock::lock;

/// The error of a handler, which the peer does not see.
pub(crate) type FailureCause = Arc<dyn Error + Send + Sync>;

/// The causes of the last failures of one connection, by the id of their request.
#[derive(Default)]
pub(crate) struct FailureCauses(Mutex<VecDeque<(Id<'static>, FailureCause)>>);

impl FailureCauses {
    /// Keeps a cause. The oldest is dropped if there are too many, for example because their calls were cancelled.
    pub(crate) fn insert(&self, id: &Id<'_>, cause: FailureCause) {
        let mut causes = lock(&self.0);
        if causes.len() >= MAX_CAUSES {
            causes.pop_front();
        }
        causes.push_back((id.clone().into_owned(), cause));
    }

    /// Takes the cause of a failed request.
    #[allow(dead_code, reason = "used only by the client")]
    pub(crate) fn take(&self, id: &Id<'_>) -> Option<FailureCause> {
        let mut causes = lock(&self.0);
        let position = causes.iter().position(|(known, _)| known == id)?;
        causes.remove(position).map(|(_, cause)| cause)
    }
}

const MAX_CAUSES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(number: i64) -> FailureCause {
        Arc::new(std::io::Error::other(number.to_string()))
    }

    #[test]
    fn cause_is_taken_once_by_its_id() {
        let causes = FailureCauses::default();
        causes.insert(&Id::from(1), cause(1));
        causes.insert(&Id::from(2), cause(2));
        assert_eq!(causes.take(&Id::from(1)).map(|cause| cause.to_string()).as_deref(), Some("1"));
        assert!(causes.take(&Id::from(1)).is_none());
        assert!(causes.take(&Id::from(2)).is_some());
    }

    #[test]
    fn oldest_cause_is_dropped_beyond_the_limit() {
        let causes = FailureCauses::default();
        let ids = 0..=MAX_CAUSES as i64;
        ids.clone().for_each(|id| causes.insert(&Id::from(id), cause(id)));
        let kept: Vec<i64> = ids.filter(|id| causes.take(&Id::from(*id)).is_some()).collect();
        assert_eq!((kept.len(), kept.first()), (MAX_CAUSES, Some(&1)));
    }
}
