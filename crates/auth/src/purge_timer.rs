//! [`PurgeTimer`]: the removal of expired records, for stores that do not do it by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tsugite::store::Store;

/// Removes expired records once a minute.
#[derive(Default)]
pub(crate) struct PurgeTimer {
    last: AtomicU64,
}

impl PurgeTimer {
    /// Removes them in the background if a minute has passed. `now` in seconds since 1970.
    pub(crate) fn purge(&self, store: &Arc<dyn Store>, now: u64) {
        let last = self.last.load(Ordering::Relaxed);
        let is_due = now >= last.saturating_add(PURGE_SECONDS);
        if is_due && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let store = Arc::clone(store);
            tokio::task::spawn_blocking(move || store.purge_expired());
        }
    }
}

const PURGE_SECONDS: u64 = 60;
