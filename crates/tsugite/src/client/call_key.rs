//! The idempotency key of a call: the client adds one to each call of a tool that runs once for each key.

use std::time::Duration;

use tokio::time::Instant;
use tsugite_core::protocol::idempotency::KEY;
use tsugite_core::protocol::{CallParams, IdempotencyKey, Meta};

use super::Client;
use super::options::Options;
use crate::shared::seal::random_id;

impl Client {
    /// Adds a key to a call of a tool that is known to look at it, unless the application has set one. Notes for how long the
    /// call can be sent again, if the application enabled that.
    pub(super) fn add_call_key(&self, call: &CallParams, options: &mut Options) {
        let shared = &self.inner.shared;
        let Some(idempotency) = shared.tools.idempotency(&call.name) else { return };
        let has_key = |meta: &Option<Meta>| meta.as_ref().is_some_and(|meta| meta.get(KEY).is_some());
        if !has_key(&options.meta) && !has_key(&call.meta) {
            // Without random numbers the call has no key and is not sent again.
            let Some(key) = random_id().and_then(|id| IdempotencyKey::new(id).ok()) else { return };
            options.meta.get_or_insert_default().set_idempotency_key(&key);
        }
        if shared.settings.repeat_keyed_calls && idempotency.durable {
            let retention = Duration::from_millis(idempotency.retention_ms).min(MAX_RETENTION);
            options.keyed_until = Some(Instant::now() + retention);
        }
    }
}

/// Longer times overflow the clock. No call takes that long.
const MAX_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
