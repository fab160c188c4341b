//! The mark of a request whose idempotency key was looked up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Marks a request whose key was looked up, and records whether its handler has begun.
#[derive(Clone, Default)]
pub(crate) struct KeyedRun(Arc<AtomicBool>);

impl KeyedRun {
    pub(crate) fn mark_begun(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
