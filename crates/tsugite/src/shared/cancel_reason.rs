//! The reason that a peer gives for a cancellation.

use std::sync::{Arc, OnceLock};

/// The reason of the cancellation of one request, once it is cancelled.
#[derive(Clone, Default)]
pub(crate) struct CancelReason(Arc<OnceLock<String>>);

impl CancelReason {
    /// Sets the reason. The first one counts.
    pub(crate) fn set(&self, reason: Option<String>) {
        if let Some(reason) = reason {
            let _ = self.0.set(reason);
        }
    }

    pub(crate) fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}
