//! One attempt at a time to learn how the servers describe themselves. Clients that arrive meanwhile wait for its outcome.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::OwnedMutexGuard;
use tsugite_core::revision::RpcError;

use super::description::CapabilitySet;
use crate::lock::lock;

/// The attempts of a bridge: one at a time for each set of capabilities.
#[derive(Default)]
pub(super) struct DescribeLocks(Mutex<HashMap<CapabilitySet, Arc<DescribeLock>>>);

#[derive(Default)]
struct DescribeLock {
    /// How many attempts have ended.
    ended: AtomicU64,
    /// The error of the last one.
    last_error: Arc<tokio::sync::Mutex<Option<RpcError>>>,
}

/// The right to make the next attempt. Dropping it leaves the attempt to the next client.
pub(super) struct DescribeAttempt {
    lock: Arc<DescribeLock>,
    last_error: OwnedMutexGuard<Option<RpcError>>,
}

impl DescribeLocks {
    /// Waits for an attempt that is under way. Fails with its error if it fails.
    pub(super) async fn acquire(&self, declared: CapabilitySet) -> Result<DescribeAttempt, RpcError> {
        let lock = Arc::clone(lock(&self.0).entry(declared).or_default());
        let ended = lock.ended.load(Ordering::Acquire);
        let last_error = Arc::clone(&lock.last_error).lock_owned().await;
        match &*last_error {
            // Trying again would take as long again, for each client that waits.
            Some(error) if lock.ended.load(Ordering::Acquire) != ended => Err(error.clone()),
            _ => Ok(DescribeAttempt { lock, last_error }),
        }
    }
}

impl DescribeAttempt {
    /// Ends the attempt. Clients that wait for it fail with the same error.
    pub(super) fn end(mut self, error: Option<&RpcError>) {
        *self.last_error = error.cloned();
        self.lock.ended.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;
    use tsugite_core::protocol::ClientCapabilities;

    use super::*;

    /// A second client, which waits for the attempt of the first.
    async fn waiting(locks: &Arc<DescribeLocks>) -> JoinHandle<Result<DescribeAttempt, RpcError>> {
        let locks = Arc::clone(locks);
        let declared = CapabilitySet::from(&ClientCapabilities::new());
        let next = tokio::spawn(async move { locks.acquire(declared).await });
        tokio::task::yield_now().await;
        next
    }

    #[tokio::test]
    async fn waiting_clients_share_the_outcome_of_an_attempt() {
        let locks = Arc::default();
        let first = waiting(&locks).await.await.unwrap().unwrap();
        let next = waiting(&locks).await;
        assert!(!next.is_finished());
        first.end(Some(&RpcError::Internal));
        assert!(next.await.unwrap().is_err());
        // A later client tries again, and so does one whose predecessor gave up or succeeded.
        let first = waiting(&locks).await.await.unwrap().unwrap();
        let next = waiting(&locks).await;
        drop(first);
        let first = next.await.unwrap().unwrap();
        let next = waiting(&locks).await;
        first.end(None);
        assert!(next.await.unwrap().is_ok());
    }
}
