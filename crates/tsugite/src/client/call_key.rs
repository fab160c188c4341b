//! The idempotency key of a call: the client adds one to each call of a tool that runs once for each key.

use tsugite_core::protocol::idempotency::KEY;
use tsugite_core::protocol::{CallParams, IdempotencyKey, Meta};

use super::Client;
use super::client_error::{ClientError, ErrorKind, Result, TimeoutKind};
use super::client_state::ClientState;
use super::key_age::KeyAge;
use super::options::Options;
use super::task_request::MAX_LISTINGS;
use crate::shared::seal::random_id;

impl Client {
    /// Adds a key to a call of a tool that is known to look at it, unless the application has set one. If the application
    /// enabled repeats, the list of tools is read to know it, and since when the server may know the key is noted.
    pub(super) async fn add_call_key(&self, call: &CallParams, options: &mut Options) -> Result<()> {
        let shared = &self.inner.shared;
        let repeats = shared.settings.repeat_keyed_calls;
        if repeats && shared.tools.key_retention(&call.name).is_none() {
            let total = options.timeouts(&shared.settings).total_timeout;
            let read = Box::pin(self.read_key_support(&call.name, options));
            match total {
                None => read.await?,
                Some(limit) => shared.clock.timeout(limit, read).await.unwrap_or_else(|_| {
                    let error = ClientError::from(ErrorKind::TimedOut { limit, kind: TimeoutKind::Total });
                    Err(error.with_may_have_run(false))
                })?,
            }
        }
        if shared.tools.idempotency(&call.name).is_none() {
            return Ok(());
        }
        let has_key = |meta: &Option<Meta>| meta.as_ref().is_some_and(|meta| meta.get(KEY).is_some());
        if !has_key(&options.meta) && !has_key(&call.meta) {
            // Without random numbers the call has no key and is not sent again.
            let Some(key) = random_id().and_then(|id| IdempotencyKey::new(id).ok()) else { return Ok(()) };
            options.meta.get_or_insert_default().set_idempotency_key(&key);
        }
        if repeats {
            options.keyed_since = Some(KeyAge::start());
        }
        Ok(())
    }

    /// Reads the list of tools until it says whether calls of this one can have a key, which it does not if it changes all the
    /// time.
    async fn read_key_support(&self, tool: &str, options: &Options) -> Result<()> {
        let connection = self.connection_with_timeout(options).await?;
        let capabilities = connection.negotiated().and_then(|session| session.capabilities.as_ref());
        // Such a server has no list, and refuses the call if it has no tools.
        if capabilities.is_some_and(|capabilities| capabilities.tools.is_none()) {
            return Ok(());
        }
        for _ in 0..MAX_LISTINGS {
            if self.inner.shared.tools.key_retention(tool).is_some() {
                break;
            }
            self.refresh_tools().await.map_err(|error| error.with_may_have_run(false))?;
        }
        Ok(())
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
            Some(age) => self.tools.key_retention(tool).map(|retention| age.elapsed() < retention),
            None => Some(false),
        }
    }
}
