//! Messages the server sends without a request: change notifications, logs, and requests to the client.
//!
//! Over stdio one outbound queue carries everything. A session over HTTP has no queue until the client opens a stream for
//! it, and a connection without a session never pushes anything.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use tsugite_core::protocol::logging::Level;
use tsugite_core::session::HandshakePhase;

use super::ask::OutgoingRequests;
use super::change_feed::ChangeListener;
use super::connection::{ConnectionScope, ServerConnection};
use super::handler_limits::StreamPermit;
use super::principal::Principal;
use super::registry::ListKind;
use crate::lock::lock;
use crate::shared::outbound_queue::OutboundQueue;

/// The part of a connection that sends messages which answer no request.
#[derive(Default)]
pub(super) struct PushChannel {
    queue: OnceLock<Arc<OutboundQueue>>,
    /// Created with the first request to the client.
    outgoing_requests: OnceLock<Arc<OutgoingRequests>>,
    state: Mutex<PushState>,
}

struct PushState {
    log_level: Level,
    /// The session's entry in the change feed.
    listener: Option<Arc<ChangeListener>>,
    /// Open `subscriptions/listen` streams, and the resources they name in total.
    open_streams: usize,
    subscribed_resources: usize,
}

impl Default for PushState {
    fn default() -> Self {
        Self { log_level: Level::Info, listener: None, open_streams: 0, subscribed_resources: 0 }
    }
}

impl PushChannel {
    /// Starts a new session: the log level and the subscriptions of the last one are forgotten.
    pub(super) fn reset(&self) {
        let mut state = self.lock();
        state.log_level = Level::Info;
        state.listener = None;
    }

    pub(super) fn log_level(&self) -> Level {
        self.lock().log_level
    }

    pub(super) fn has_queue(&self) -> bool {
        self.queue.get().is_some()
    }

    /// Lets change notifications through: the client is ready for them.
    pub(super) fn activate_listener(&self) {
        if let Some(listener) = &self.lock().listener {
            listener.activate();
        }
    }

    /// Wakes the transport that waits for the last response to be written.
    pub(super) fn notify_idle(&self) {
        if let Some(queue) = self.queue.get() {
            queue.notify_idle();
        }
    }

    /// Stops sending: the client is gone.
    pub(super) fn close(&self) {
        self.lock().listener = None;
        if let Some(queue) = self.queue.get() {
            queue.close();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PushState> {
        lock(&self.state)
    }
}

impl ServerConnection {
    /// Whether messages that answer no request can reach the client.
    pub(crate) fn can_push(&self) -> bool {
        self.scope == ConnectionScope::Session
    }

    /// The queue for messages that answer no request; over stdio, for all messages.
    pub(crate) fn outbox(&self) -> &Arc<OutboundQueue> {
        self.push.queue.get_or_init(|| Arc::new(OutboundQueue::new(self.config.max_write_buffer_bytes)))
    }

    /// The requests sent to the client that have no response yet.
    pub(crate) fn outgoing_requests(&self) -> &Arc<OutgoingRequests> {
        self.push.outgoing_requests.get_or_init(Arc::default)
    }

    /// Wakes the stream that carries the queue, so that it checks whether to end.
    pub(crate) fn wake_push_stream(&self) {
        if let Some(queue) = self.push.queue.get() {
            queue.wake();
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
            let (queue, principal) = (self.outbox().clone(), self.caller.principal.clone());
            let listener = Arc::new(ChangeListener::for_session(queue, phase.revision()?, principal, lists));
            if matches!(phase, HandshakePhase::Ready(_)) {
                listener.activate();
            }
            self.server.shared.feed.add_listener(&listener);
            state.listener = Some(listener);
        }
        state.listener.clone()
    }

    /// Counts a `subscriptions/listen` stream and the resources it names; `None` if a limit is reached. Where requests
    /// belong to no session, each authenticated caller has the limit of a session.
    pub(crate) fn open_stream(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        resources: usize,
    ) -> Option<StreamPermit> {
        let max = self.config.max_subscriptions;
        let mut permit = self.handler_limits.open_stream()?;
        if self.scope == ConnectionScope::Stateless {
            return match principal {
                Some(principal) => permit.count_for_principal(principal, max),
                None => Some(permit),
            };
        }
        let mut state = self.push.lock();
        if state.open_streams >= max || state.subscribed_resources + resources > max {
            return None;
        }
        state.open_streams += 1;
        state.subscribed_resources += resources;
        drop(state);
        permit.attach_connection(self, resources);
        Some(permit)
    }

    /// Uncounts a `subscriptions/listen` stream that has ended.
    pub(super) fn close_stream(&self, resources: usize) {
        let mut state = self.push.lock();
        state.open_streams = state.open_streams.saturating_sub(1);
        state.subscribed_resources = state.subscribed_resources.saturating_sub(resources);
    }
}
