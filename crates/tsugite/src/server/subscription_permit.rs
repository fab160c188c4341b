//! Permits for `subscriptions/listen` streams: for all clients, per authenticated caller and per session.

use std::sync::Arc;

use super::change_feed::URI_OVERHEAD_BYTES;
use super::connection::{ConnectionScope, ServerConnection};
use super::limits::{CallerKey, LimitPermit, Resource};
use super::principal::Caller;

/// A permit for one `subscriptions/listen` stream. Dropping it uncounts the stream.
pub(crate) struct SubscriptionPermit {
    _stream: LimitPermit,
    /// The connection that counts the stream, and the number of resources it subscribes to.
    counted_by: Option<(Arc<ServerConnection>, usize)>,
}

impl ServerConnection {
    /// Counts a `subscriptions/listen` stream and the resources it names; `None` if a limit of their number or bytes is reached. Where requests
    /// belong to no session, each authenticated caller has the limit of a session.
    pub(crate) fn open_stream(
        self: &Arc<Self>,
        caller: &Caller,
        uris: &[String],
    ) -> Option<SubscriptionPermit> {
        let (max, resources) = (self.config.max_subscriptions, uris.len());
        let bytes = uris.iter().map(|uri| uri.len() + URI_OVERHEAD_BYTES).sum();
        if bytes > self.config.max_subscription_bytes {
            return None;
        }
        let stream = self.limits.acquire(CallerKey::of_caller(caller), Some(Resource::Stream), bytes).ok()?;
        if self.scope == ConnectionScope::Stateless {
            if caller.principal.is_some() {
                stream.check_caller_limit(max).ok()?;
            }
            return Some(SubscriptionPermit { _stream: stream, counted_by: None });
        }
        let mut state = self.push.lock();
        if state.open_streams >= max || state.subscribed_resources + resources > max {
            return None;
        }
        state.open_streams += 1;
        state.subscribed_resources += resources;
        drop(state);
        Some(SubscriptionPermit { _stream: stream, counted_by: Some((self.clone(), resources)) })
    }
}

impl Drop for SubscriptionPermit {
    fn drop(&mut self) {
        if let Some((connection, resources)) = &self.counted_by {
            let mut state = connection.push.lock();
            state.open_streams = state.open_streams.saturating_sub(1);
            state.subscribed_resources = state.subscribed_resources.saturating_sub(*resources);
        }
    }
}
