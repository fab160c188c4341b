//! Messages the server sends without a request: change notifications, logs, and requests to the client.

use std::sync::Arc;

use tsugite_core::protocol::logging::Level;
use tsugite_core::session::HandshakePhase;

use super::change_feed::ChangeListener;
use super::connection::{ConnectionScope, ServerConnection};
use super::limits::CallerKey;
use super::outgoing_requests::OutgoingRequests;
use super::principal::Principal;
use crate::shared::list_kind::ListKind;
use crate::shared::outbound_queue::OutboundQueue;

impl ServerConnection {
    /// Whether messages that answer no request can reach the client.
    pub(crate) fn can_push(&self) -> bool {
        matches!(self.scope, ConnectionScope::Session | ConnectionScope::UnorderedSession)
    }

    /// The queue for messages that answer no request; over stdio, for all messages.
    pub(crate) fn outbox(&self) -> &Arc<OutboundQueue> {
        self.push.queue.get_or_init(|| Arc::new(OutboundQueue::new(self.config.max_write_buffer_bytes)))
    }

    /// Whether a stream to the client waits for messages that answer no request.
    pub(crate) fn has_push_reader(&self) -> bool {
        self.push.queue.get().is_some_and(|queue| queue.has_reader())
    }

    /// The requests sent to the client that have no response yet.
    pub(crate) fn outgoing_requests(&self) -> &Arc<OutgoingRequests> {
        self.push.outgoing_requests.get_or_init(|| {
            let replica =
                self.server.shared.replica().filter(|_| self.scope == ConnectionScope::UnorderedSession);
            Arc::new(OutgoingRequests::of_replica(replica))
        })
    }

    /// Sets whether this process is told of changes for the session. Another replica is, if not.
    ///
    /// A client that has a session id has the response to `initialize`. Its `notifications/initialized` may have reached
    /// another replica, so this one does not wait for it.
    pub(crate) fn set_push_active(&self, is_active: bool) {
        let mut state = self.push.lock();
        let was_active = std::mem::replace(&mut state.is_active, is_active);
        if !was_active || !is_active {
            // Subscriptions may have ended at other replicas.
            state.listener = None;
        }
        drop(state);
        if is_active {
            self.listener();
            self.mark_ready();
        }
    }

    /// Whether this process is told of changes for the session.
    pub(crate) fn is_push_active(&self) -> bool {
        self.push.lock().is_active
    }

    /// Subscribes the session to a resource, as another replica has before.
    pub(crate) fn subscribe_restored(&self, uri: String) {
        let max = (self.config.max_subscriptions, self.config.max_subscription_bytes);
        let begin = |bytes| self.limits.acquire(CallerKey::of_caller(&self.caller), None, bytes).ok();
        if let Some(listener) = self.listener() {
            listener.subscribe(uri, max, begin);
        }
    }

    /// Unsubscribes the session from a resource.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        if let Some(listener) = self.listener() {
            listener.unsubscribe(uri);
        }
    }

    /// Whether the session has subscribed to a resource, as far as this process knows.
    pub(crate) fn is_subscribed(&self, uri: &str) -> bool {
        self.push.lock().listener.as_ref().is_some_and(|listener| listener.is_subscribed(uri))
    }

    /// Wakes the stream that carries the queue, so that it checks whether to end.
    pub(crate) fn wake_push_stream(&self) {
        if let Some(queue) = self.push.queue.get() {
            queue.wake();
        }
    }

    /// Notes the token of the newest request of the session: changes are sent as far as its scopes allow.
    pub(crate) fn note_principal(&self, principal: Option<&Principal>) {
        let Some(principal) = principal else { return };
        let mut state = self.push.lock();
        if state.principal.as_ref().or(self.caller.principal.as_ref()) == Some(principal) {
            return;
        }
        state.principal = Some(principal.clone());
        if let Some(listener) = &state.listener {
            listener.set_principal(principal.clone());
        }
    }

    /// Sets the least level of log messages that the client wants.
    pub(crate) fn set_log_level(&self, level: Level) {
        self.push.lock().log_level = level;
    }

    /// The session's entry in the change feed, created on first use. `None` before the handshake and without a session.
    pub(crate) fn listener(&self) -> Option<Arc<ChangeListener>> {
        if !self.can_push() {
            return None;
        }
        // Held while the handshake is read, so that a client that becomes ready meanwhile activates the new listener.
        let mut state = self.push.lock();
        if state.listener.is_none() {
            let (phase, declared) = self.negotiated();
            let lists = ListKind::ALL.into_iter().filter(|kind| declared.has(*kind)).collect();
            let newest = state.principal.as_ref().or(self.caller.principal.as_ref());
            let (queue, principal) = (self.outbox().clone(), newest.cloned());
            let listener = Arc::new(ChangeListener::for_session(queue, phase.revision()?, principal, lists));
            if matches!(phase, HandshakePhase::Ready(_)) && state.is_active {
                listener.activate();
            }
            self.server.shared.feed.add_listener(&listener);
            state.listener = Some(listener);
        }
        state.listener.clone()
    }
}
