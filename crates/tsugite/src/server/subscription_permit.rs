//! Permits for `subscriptions/listen` streams: for all clients, per authenticated caller and per session.

use std::sync::Arc;

use super::connection::{ConnectionScope, ServerConnection};
use super::handler_limits::StreamPermit;
use super::principal::Principal;

/// A permit for one `subscriptions/listen` stream. Dropping it uncounts the stream.
pub(crate) struct SubscriptionPermit {
    _stream: StreamPermit,
    /// The connection that counts the stream, and the number of resources it subscribes to.
    counted_by: Option<(Arc<ServerConnection>, usize)>,
}

impl ServerConnection {
    /// Counts a `subscriptions/listen` stream and the resources it names; `None` if a limit is reached. Where requests
    /// belong to no session, each authenticated caller has the limit of a session.
    pub(crate) fn open_stream(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        resources: usize,
    ) -> Option<SubscriptionPermit> {
        let max = self.config.max_subscriptions;
        let stream = self.handler_limits.open_stream()?;
        if self.scope == ConnectionScope::Stateless {
            let stream = match principal {
                Some(principal) => stream.count_for_principal(principal, max)?,
                None => stream,
            };
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
