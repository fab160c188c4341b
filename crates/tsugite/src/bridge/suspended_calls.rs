//! Calls to a server of the handshake era that wait for an answer of a client of the stateless era.
//!
//! The call runs in a task of its own. When the server asks, the client gets the questions with a sealed state, and the call
//! waits here until the client returns with answers, or its time is over. Number and time are limited.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::AbortHandle;
use tsugite_core::revision::RpcError;

use super::bridge_errors::limit_error;
use super::in_flight::InFlightCall;
use super::suspendable_call::SuspendableCall;
use super::suspension_slots::{SuspensionClaim, SuspensionPermit};
use crate::lock::lock;
use crate::shared::seal::random_id;

/// A call that is under way at the server. Dropping it cancels it there.
pub(super) struct SuspendedCall {
    pub(super) call: Arc<SuspendableCall>,
    pub(super) in_flight: Arc<InFlightCall>,
    pub(super) task: AbortHandle,
    /// The connection that it holds while it is suspended.
    pub(super) claim: Option<SuspensionClaim>,
}

impl Drop for SuspendedCall {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The calls that wait for their clients to return.
pub(super) struct SuspendedCalls {
    calls: Mutex<HashMap<String, SuspendedEntry>>,
    max_calls: usize,
    ttl: Duration,
}

struct SuspendedEntry {
    call: SuspendedCall,
    _permit: Option<SuspensionPermit>,
    /// Ends it if the client does not return in time.
    _expiry: ExpiryTask,
}

struct ExpiryTask(AbortHandle);

impl Drop for ExpiryTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl SuspendedCalls {
    pub(super) fn new(max_calls: usize, ttl: Duration) -> Self {
        Self { calls: Mutex::default(), max_calls, ttl }
    }

    /// How long a call waits for its client.
    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Keeps a call until its client returns. Returns its key.
    pub(super) fn insert(self: &Arc<Self>, call: SuspendedCall) -> Result<String, RpcError> {
        let name = random_id().ok_or(RpcError::Internal)?;
        let mut calls = lock(&self.calls);
        if calls.len() >= self.max_calls {
            let text = format!("too many suspended calls ({}); try again later", self.max_calls);
            return Err(limit_error(text, self.max_calls));
        }
        let permit = call.claim.as_ref().map(SuspensionClaim::acquire).transpose()?;
        let (all, key, time) = (Arc::downgrade(self), name.clone(), self.ttl);
        let end = tokio::spawn(async move {
            tokio::time::sleep(time).await;
            let late = all.upgrade().and_then(|all| lock(&all.calls).remove(&key));
            if late.is_some() {
                tracing::debug!("a suspended call was cancelled: its client did not return in time");
            }
        });
        let expiry = ExpiryTask(end.abort_handle());
        calls.insert(name.clone(), SuspendedEntry { call, _permit: permit, _expiry: expiry });
        Ok(name)
    }

    /// Removes a call.
    pub(super) fn take(&self, name: &str) -> Option<SuspendedCall> {
        let waiting = lock(&self.calls).remove(name)?;
        Some(waiting.call)
    }

    /// Cancels all of them.
    pub(super) fn clear(&self) {
        let ended = std::mem::take(&mut *lock(&self.calls));
        drop(ended);
    }
}
