//! The part of a connection that sends messages without a request.
//!
//! Over stdio one outbound queue carries everything. A session over HTTP has no queue until the client opens a stream for
//! it, and a connection without a session never pushes anything.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use tsugite_core::protocol::logging::Level;

use super::change_feed::ChangeListener;
use super::outgoing_requests::OutgoingRequests;
use super::principal::Principal;
use crate::lock::lock;
use crate::shared::outbound_queue::OutboundQueue;

/// The part of a connection that sends messages which answer no request.
#[derive(Default)]
pub(super) struct PushChannel {
    pub(super) queue: OnceLock<Arc<OutboundQueue>>,
    /// Created with the first request to the client.
    pub(super) outgoing_requests: OnceLock<Arc<OutgoingRequests>>,
    state: Mutex<PushState>,
}

pub(super) struct PushState {
    pub(super) log_level: Level,
    /// The newest principal of the session, if it is not the one that opened it.
    pub(super) principal: Option<Principal>,
    /// The session's entry in the change feed.
    pub(super) listener: Option<Arc<ChangeListener>>,
    /// Open `subscriptions/listen` streams, and the resources they name in total.
    pub(super) open_streams: usize,
    pub(super) subscribed_resources: usize,
    /// Whether this process is told of changes for the session.
    pub(super) is_active: bool,
}

impl Default for PushState {
    fn default() -> Self {
        Self {
            log_level: Level::Info,
            principal: None,
            listener: None,
            open_streams: 0,
            subscribed_resources: 0,
            is_active: true,
        }
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
        let state = self.lock();
        if let Some(listener) = state.listener.as_ref().filter(|_| state.is_active) {
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

    pub(super) fn lock(&self) -> MutexGuard<'_, PushState> {
        lock(&self.state)
    }
}
