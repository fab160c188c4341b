//! The idempotency key of a call: the client adds one to each call of a tool that runs once for each key.

use tokio::time::Instant;
use tsugite_core::protocol::idempotency::KEY;
use tsugite_core::protocol::{CallParams, IdempotencyKey, Meta};

use super::Client;
use super::client_error::Result;
use super::client_state::ClientState;
use super::options::Options;
use super::task_request::MAX_LISTINGS;
use crate::shared::seal::random_id;

impl Client {
    /// Adds a key to a call of a tool that is known to look at it, unless the application has set one. Notes since when the
    /// server may know the key, if the application enabled repeats.
    pub(super) fn add_call_key(&self, call: &CallParams, options: &mut Options) {
        let shared = &self.inner.shared;
        if shared.tools.idempotency(&call.name).is_none() {
            return;
        }
        let has_key = |meta: &Option<Meta>| meta.as_ref().is_some_and(|meta| meta.get(KEY).is_some());
        if !has_key(&options.meta) && !has_key(&call.meta) {
            // Without random numbers the call has no key and is not sent again.
            let Some(key) = random_id().and_then(|id| IdempotencyKey::new(id).ok()) else { return };
            options.meta.get_or_insert_default().set_idempotency_key(&key);
        }
        if shared.settings.repeat_keyed_calls {
            options.keyed_since = Some(Instant::now());
        }
    }

    /// Whether the server still recognizes a call by its key, so that running it twice does no harm. Reads the list of tools
    /// if it has changed: another version of the server may have taken over.
    pub(super) async fn confirm_call_key(&self, tool: &str, options: &Options) -> Result<bool> {
        for _ in 0..MAX_LISTINGS {
            match self.inner.shared.recognizes_key(tool, options) {
                Some(recognizes) => return Ok(recognizes),
                None => self.refresh_tools().await?,
            }
        }
        Ok(false)
    }
}

impl ClientState {
    /// Whether the server recognizes a call by its key; `None` if the list of tools must be read to know it.
    pub(super) fn recognizes_key(&self, tool: &str, options: &Options) -> Option<bool> {
        match options.keyed_since {
            Some(since) => self.tools.key_retention(tool).map(|retention| since.elapsed() < retention),
            None => Some(false),
        }
    }
}
