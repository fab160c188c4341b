//! Limits how often a server may ask the user.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tsugite_core::revision::RpcError;

use crate::lock::lock;
use crate::shared::log;

/// The number of elicitations per minute. Clones share the count.
#[derive(Clone)]
pub(in crate::client) struct ElicitationLimit {
    per_minute: u32,
    /// When the whole number is available again.
    recovered_at: Arc<Mutex<Option<Instant>>>,
}

impl ElicitationLimit {
    pub(in crate::client) fn new(per_minute: u32) -> Self {
        Self { per_minute: per_minute.max(1), recovered_at: Arc::default() }
    }

    /// Counts an elicitation. Fails if the server asks too often.
    pub(in crate::client) fn admit(&self, now: Instant) -> Result<(), RpcError> {
        let share = Duration::from_secs(60) / self.per_minute;
        let mut recovered_at = lock(&self.recovered_at);
        let next = recovered_at.map_or(now, |at| at.max(now)) + share;
        if next - now > Duration::from_secs(60) {
            drop(recovered_at);
            log::warn!(limit = self.per_minute, "refused an elicitation: the server asks too often");
            let text = format!("the client answers at most {} elicitations per minute", self.per_minute);
            return Err(RpcError::InvalidRequest(text.into()).with("limit", self.per_minute));
        }
        *recovered_at = Some(next);
        Ok(())
    }
}

impl Default for ElicitationLimit {
    fn default() -> Self {
        Self::new(60)
    }
}
