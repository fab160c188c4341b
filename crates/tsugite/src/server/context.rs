//! The context of a call: logging, cancellation, and information about the client.
//!
//! Questions to the client are in `ask`, progress in `progress`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tsugite_core::jsonrpc::{Id, RawJson};
use tsugite_core::protocol::logging::{Level, Log, LogParams};
use tsugite_core::protocol::{ClientCapabilities, Implementation};
use tsugite_core::revision::{Revision, write_notification};

use super::Server;
use super::call_state::CallState;
use super::cancellation::CancellationToken;
use super::handler_error::HandlerError;
use super::outgoing_requests::OutgoingRequests;
use super::principal::{Headers, Principal};
use super::state::StateType;
use crate::lock::lock;
use crate::shared::outbound_queue::OutboundQueue;

/// The context of a call: a handler logs, reports progress and asks the client through it. A parameter of any handler; cheap
/// to clone.
///
/// A task that the handler starts may keep a clone and ask the client through it: the call waits for it.
#[doc(alias("RequestContext", "ToolContext", "ctx", "RequestHandlerExtra", "ServerSession"))]
pub struct Context(Arc<CallState>);

impl Clone for Context {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.0.remove_handle();
    }
}

impl Context {
    /// Sends a log message, if the client wants messages of that level. Data that cannot be serialized is not sent.
    ///
    /// Waits while the outbound queue of the client is full; a task drops the message instead. Messages beyond
    /// [`Server::max_notification_burst`](super::Server::max_notification_burst) are dropped; a last message says how many.
    #[doc(alias("logging", "send_log_message", "notifications/message", "sendLoggingMessage"))]
    pub async fn log<T: Serialize + ?Sized>(&self, level: Level, data: &T) {
        self.send_log(level, None, data).await;
    }

    /// Sends a log message with the name of a logger; otherwise like [`Context::log`].
    pub async fn log_with_logger<T: Serialize + ?Sized>(&self, level: Level, logger: &str, data: &T) {
        self.send_log(level, Some(logger), data).await;
    }

    async fn send_log<T: Serialize + ?Sized>(&self, level: Level, logger: Option<&str>, data: &T) {
        let wanted = self.0.settings.client.log_level.is_some_and(|min_level| level >= min_level);
        if !wanted || self.0.has_ended() || !self.0.can_notify() {
            return;
        }
        let Ok(mut data) = RawJson::from_value(data) else { return };
        for redact in self.0.settings.redact.iter().flatten() {
            let Ok(mut value) = data.read() else { return };
            redact(&mut value);
            data = RawJson::from(value);
        }
        // A task does not wait for a client that may be away.
        if self.0.is_task() && self.0.settings.outbox.is_full() {
            return;
        }
        self.0.settings.outbox.wait_for_capacity().await;
        if self.0.has_ended() || self.0.is_replaying() || !self.0.admit_log() {
            return;
        }
        let (revision, mut params) = (self.0.settings.revision, LogParams::new(level, data));
        params.logger = logger.map(str::to_owned);
        self.0.set_related_task(&mut params.meta);
        self.0.settings.outbox.push(|out| drop(write_notification::<Log>(out, params, revision)));
    }

    /// The protocol revision of the call.
    #[doc(alias("protocol_version", "protocolVersion"))]
    pub fn revision(&self) -> Revision {
        self.0.settings.revision
    }

    /// The capabilities of the client.
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        &self.0.settings.client.capabilities
    }

    /// The name and version that the client gives itself. For display only: it is not verified.
    #[doc(alias("client_info", "clientInfo"))]
    pub fn client(&self) -> Option<&Implementation> {
        self.0.settings.client.info.as_ref()
    }

    /// The caller, if the transport has authenticated it.
    #[doc(alias("auth", "AuthInfo", "access_token"))]
    pub fn principal(&self) -> Option<&Principal> {
        self.0.settings.caller.principal.as_ref()
    }

    /// The headers of the HTTP request; empty for other transports.
    pub fn headers(&self) -> &Headers {
        if let Some(kept) = &self.0.settings.caller.kept {
            kept.bind_to_request();
        }
        self.0.task.mark_headers_used();
        &self.0.settings.caller.headers
    }

    /// The server that has the handler, which may be mounted in another. Handlers may add to it and remove from it.
    pub fn server(&self) -> &Server {
        &self.0.settings.server
    }

    /// The value given to [`Server::state`] of the server that has the handler, like the parameter
    /// [`State<T>`](super::State). Fails if the server has no state of this type; a parameter is checked before the server
    /// serves, so prefer one.
    pub fn state<T: Clone + Send + Sync + 'static>(&self) -> Result<T, HandlerError> {
        let states = &self.server().shared.config().states;
        states.get().ok_or_else(|| HandlerError::hidden(StateType::of::<T>().missing_error()))
    }

    /// The cancellation token of the request. A cancelled handler is dropped; tasks that it started can watch the token.
    #[doc(alias("notifications/cancelled", "cancelled"))]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.0.cancellation.clone()
    }

    /// Closes the stream that would carry the response, while the handler continues. Up to 2025-11-25 a client over HTTP
    /// reconnects for the response later, so that no connection stays open for long. Does nothing where streams cannot be
    /// resumed.
    pub fn close_stream(&self) {
        self.0.settings.outbox.request_close();
    }

    /// Records that progress has reached `value`. Returns the token to report it under, or nothing if the client did not
    /// ask for progress, the value does not rise, or the request has ended.
    pub(super) fn advance_progress(&self, value: f64) -> Option<Id<'static>> {
        let (token, highest) = self.0.progress.as_ref()?;
        let rises = lock(highest).advance(value);
        (rises && !self.has_ended() && self.0.can_notify()).then(|| token.clone())
    }

    pub(crate) fn outbox(&self) -> &Arc<OutboundQueue> {
        &self.0.settings.outbox
    }

    /// The queue for messages after the response; `None` if the client is disconnected or the connection cannot push.
    pub(crate) fn push_queue(&self) -> Option<Arc<OutboundQueue>> {
        let connection = self.0.settings.connection.upgrade().filter(|connection| connection.can_push())?;
        Some(connection.outbox().clone()).filter(|outbox| !outbox.is_closed())
    }

    pub(crate) fn outgoing_requests(&self) -> &Arc<OutgoingRequests> {
        &self.0.settings.outgoing_requests
    }

    /// The timeout of a question that does not set its own.
    pub(crate) fn ask_timeout(&self) -> Duration {
        self.0.settings.ask_timeout
    }

    pub(crate) fn may_ask(&self) -> bool {
        self.0.settings.may_ask
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// A new handle, which counts until it is dropped.
    pub(super) fn new(state: &Arc<CallState>) -> Self {
        state.add_handle();
        Self(state.clone())
    }

    /// The state of the call, without a handle.
    pub(crate) fn call_state(&self) -> &Arc<CallState> {
        &self.0
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("revision", &self.0.settings.revision).finish_non_exhaustive()
    }
}
