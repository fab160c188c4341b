//! Whether a request may have reached the server.

use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that is set before a request is sent. Until then, a call that ends did not run and needs no cancellation.
#[derive(Default)]
pub(super) struct SentFlag(AtomicBool);

impl SentFlag {
    pub(super) fn set(&self, sent: bool) {
        self.0.store(sent, Ordering::Release);
    }

    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
