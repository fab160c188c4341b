//! Removes expired records from the store of a server, for stores that do not do it by themselves.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::ServerShared;
use crate::shared::boxed::boxed;

/// Removes expired records once a minute until the server is dropped. Started once, by the first feature that writes records
/// without a session over HTTP. Nothing happens outside of a runtime.
pub(super) fn start(shared: &Arc<ServerShared>) {
    if shared.is_purging.load(Ordering::Acquire) {
        return;
    }
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    if shared.is_purging.swap(true, Ordering::AcqRel) {
        return;
    }
    let shared = Arc::downgrade(shared);
    runtime.spawn(boxed(async move {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let Some(shared) = shared.upgrade() else { return };
            shared.config().store.purge_expired();
        }
    }));
}

const INTERVAL: Duration = Duration::from_secs(60);
