//! One connection to one server: sends requests, and dispatches the messages that arrive.

use std::borrow::Cow;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::{Id, Incoming, Message, MessageLimits, Notification, RawJson, Response, parse};
use tsugite_core::protocol::cancellation::{Cancelled, CancelledParams};
use tsugite_core::protocol::logging::Log;
use tsugite_core::protocol::meta;
use tsugite_core::protocol::progress::Progress;
use tsugite_core::protocol::{
    Implementation, Meta, NotificationMethod, ServerCapabilities, elicitation, prompts, resources, tools,
};
use tsugite_core::revision::{Revision, Translate, read_notification, write_notification};
use tsugite_core::session::InboundRequests;

use super::call_error::CallError;
use super::client_error::{ClientError, ErrorKind};
use super::client_handler::{self, Change};
use super::client_settings::Direction;
use super::client_state::ClientState;
use super::era::Era;
use super::options::Options;
use super::pending_calls::{PendingCall, PendingCalls};
use super::transport::{EncodedRequest, Transport};
use crate::lock::lock;

/// A connection to a server.
pub(super) struct ClientConnection {
    pub(super) shared: Arc<ClientState>,
    pub(super) transport: Transport,
    pub(super) calls: PendingCalls,
    negotiated: OnceLock<NegotiatedSession>,
    /// The result of `initialize` or `server/discover`, unchanged; kept only for an observer.
    handshake_result: Mutex<Option<RawJson>>,
    /// Requests of the server without a response yet.
    pub(super) inbound_requests: Mutex<InboundRequestTable>,
    /// Whether the revision was assumed, not probed, and no response has confirmed it yet.
    revision_unverified: AtomicBool,
    /// Why the connection was lost, if it was.
    disconnect_reason: OnceLock<String>,
    /// Whether the client is closing the connection.
    closing: AtomicBool,
    /// Whether the client has ended the connection.
    is_aborted: AtomicBool,
    abort_notify: Notify,
    tasks: Mutex<Vec<AbortHandle>>,
    /// Ids of web pages that the server has reported as complete.
    completed_elicitations: Mutex<Vec<String>>,
    elicitation_notify: Notify,
    /// Permits for responses over HTTP: those that wait, and those that are being sent.
    pub(super) queued_response_permits: Arc<Semaphore>,
    pub(super) response_send_permits: Semaphore,
    /// Permits for messages that are sent in the background.
    background_send_permits: Arc<Semaphore>,
    limits: MessageLimits,
}

/// The result of the negotiation.
pub(super) struct NegotiatedSession {
    pub(super) revision: Revision,
    pub(super) server_info: Option<Implementation>,
    /// `None` if the server was not asked.
    pub(super) capabilities: Option<ServerCapabilities>,
    pub(super) instructions: Option<String>,
    /// The `_meta` entries of every request, in the stateless era.
    meta_entries: Vec<(&'static str, RawJson)>,
    /// The same as members of an object.
    meta_json: String,
}

/// Requests of the server that have no response yet, and the tasks that answer them.
pub(super) struct InboundRequestTable {
    pub(super) inbound: InboundRequests,
    pub(super) tasks: HashMap<Id<'static>, AbortHandle>,
}

/// A request that can be encoded for any revision.
pub(super) trait OutboundRequest: Send + Sync {
    fn method(&self) -> &str;
    /// The value of the `Mcp-Name` header.
    fn name(&self) -> Option<&str>;
    /// Appends the message.
    fn encode(
        &self,
        out: &mut Vec<u8>,
        id: &Id<'_>,
        link: &ClientConnection,
        options: &Options,
    ) -> Result<(), ClientError>;
    /// The headers that repeat arguments, over HTTP.
    fn param_headers(&self, link: &ClientConnection) -> Vec<(String, String)>;
}

impl ClientConnection {
    pub(super) fn new(shared: Arc<ClientState>, carrier: Transport) -> Arc<Self> {
        let limits = MessageLimits::default().max_message_bytes(shared.settings.max_message_bytes);
        let asked = InboundRequestTable {
            inbound: InboundRequests::new(MAX_INBOUND_REQUESTS),
            tasks: HashMap::new(),
        };
        Arc::new(Self {
            shared,
            transport: carrier,
            calls: PendingCalls::default(),
            negotiated: OnceLock::new(),
            handshake_result: Mutex::default(),
            inbound_requests: Mutex::new(asked),
            revision_unverified: AtomicBool::new(false),
            disconnect_reason: OnceLock::new(),
            closing: AtomicBool::new(false),
            is_aborted: AtomicBool::new(false),
            abort_notify: Notify::new(),
            tasks: Mutex::default(),
            completed_elicitations: Mutex::default(),
            elicitation_notify: Notify::new(),
            queued_response_permits: Arc::new(Semaphore::new(MAX_QUEUED_RESPONSES)),
            response_send_permits: Semaphore::new(MAX_CONCURRENT_RESPONSES),
            background_send_permits: Arc::new(Semaphore::new(MAX_BACKGROUND_SENDS)),
            limits,
        })
    }

    /// Sets the result of the negotiation, once.
    pub(super) fn set_negotiated(
        &self,
        revision: Revision,
        server: Option<Implementation>,
        capabilities: Option<ServerCapabilities>,
        instructions: Option<String>,
    ) {
        let claims = Era::from(revision).request_meta(revision, &self.shared.settings);
        let written: Vec<String> =
            claims.iter().map(|(key, value)| format!("{key:?}:{}", value.text())).collect();
        let written_claims = written.join(",");
        let agreed = NegotiatedSession {
            revision,
            server_info: server,
            capabilities,
            instructions,
            meta_entries: claims,
            meta_json: written_claims,
        };
        // A second negotiation on the same connection changes nothing.
        let _ = self.negotiated.set(agreed);
    }

    /// Keeps the result of `initialize` or `server/discover`.
    pub(super) fn set_handshake_result(&self, hello: &RawJson) {
        // Only an observer needs it unchanged.
        if self.shared.settings.observer.is_some() {
            *lock(&self.handshake_result) = Some(hello.clone());
        }
    }

    pub(super) fn handshake_result(&self) -> Option<RawJson> {
        lock(&self.handshake_result).clone()
    }

    pub(super) fn negotiated(&self) -> Option<&NegotiatedSession> {
        self.negotiated.get()
    }

    /// Marks the revision as assumed, not probed.
    pub(super) fn mark_revision_unverified(&self) {
        self.revision_unverified.store(true, Ordering::Release);
    }

    /// Whether the revision is still unconfirmed; false from the second time on.
    pub(super) fn take_revision_unverified(&self) -> bool {
        self.revision_unverified.load(Ordering::Acquire)
            && self.revision_unverified.swap(false, Ordering::AcqRel)
    }

    /// The negotiated revision, or before the negotiation the one to assume.
    pub(super) fn revision(&self) -> Revision {
        match self.negotiated.get() {
            Some(agreed) => agreed.revision,
            None => self.shared.settings.revisions.error_fallback(),
        }
    }

    /// The era whose rules the connection follows.
    pub(super) fn era(&self) -> Era {
        Era::from(self.revision())
    }

    /// The `_meta` entries of a call without entries of its own, as members of a JSON object.
    pub(super) fn request_meta_json(&self, id: &Id<'_>, options: &Options) -> Cow<'_, str> {
        let claims = self.negotiated.get().map_or("", |agreed| agreed.meta_json.as_str());
        match (options.wants_progress(), id.as_i64()) {
            (true, Some(id)) if claims.is_empty() => format!("\"{}\":{id}", meta::PROGRESS_TOKEN).into(),
            (true, Some(id)) => format!("{claims},\"{}\":{id}", meta::PROGRESS_TOKEN).into(),
            _ => claims.into(),
        }
    }

    /// Adds the `_meta` entries of the options, the progress token and the era.
    pub(super) fn add_request_meta(&self, place: &mut Option<Meta>, id: &Id<'_>, options: &Options) {
        if let Some(given) = &options.meta {
            let meta = place.get_or_insert_default();
            for (key, value) in given.iter() {
                meta.insert(key, value);
            }
        }
        if options.wants_progress() {
            place.get_or_insert_default().set_progress_token(id);
        }
        for (key, value) in self.negotiated.get().into_iter().flat_map(|agreed| &agreed.meta_entries) {
            place.get_or_insert_default().insert(*key, value);
        }
    }

    /// Sends a request and waits for its response. Dropping the future cancels the request.
    pub(super) async fn call(
        self: &Arc<Self>,
        request: &dyn OutboundRequest,
        options: &Options,
    ) -> Result<Result<RawJson, tsugite_core::jsonrpc::ErrorObject>, CallError> {
        let patience = options.timeouts(&self.shared.settings);
        let told = options.on_progress.clone().or_else(|| self.shared.settings.handlers.progress.clone());
        let waiting = self.calls.register(patience, told);
        let id = Id::from(waiting.id());
        let stop = CancelOnDrop { link: self, id: waiting.id() };
        if let Some(started) = &options.request_id_observer {
            started.on_request_id(waiting.id());
        }
        let mut bytes = Vec::with_capacity(256);
        if let Err(error) = request.encode(&mut bytes, &id, self, options) {
            stop.disarm();
            return Err(error.into());
        }
        let headers = match &self.transport {
            Transport::StreamableHttp(_) => request.param_headers(self),
            _ => Vec::new(),
        };
        let outgoing = EncodedRequest {
            bytes,
            method: request.method(),
            name: request.name(),
            param_headers: headers,
            extra_headers: &options.headers,
        };
        let exchange = pin!(self.transport.exchange(self, &waiting, outgoing));
        match waiting.run_with_timeout(exchange).await {
            Ok(outcome) => {
                stop.disarm();
                outcome
            }
            Err(timed_out) => {
                drop(stop);
                Err(ErrorKind::TimedOut { limit: timed_out.limit, total: timed_out.total }.into())
            }
        }
    }

    /// Sends a notification.
    pub(super) async fn notify<N: NotificationMethod>(
        self: &Arc<Self>,
        params: N::Params,
    ) -> Result<(), ClientError>
    where
        N::Params: Translate,
    {
        let mut bytes = Vec::with_capacity(128);
        write_notification::<N>(&mut bytes, params, self.revision())?;
        self.transport.send_message(self, bytes).await.map_err(ClientError::from)
    }

    /// Handles a line, a body or an event. `via` is the call on whose stream it arrived.
    ///
    /// Anything that is not a message is reported and skipped.
    pub(super) fn receive(self: &Arc<Self>, bytes: &[u8], via: Option<&Arc<PendingCall>>) {
        if bytes.trim_ascii().is_empty() {
            return;
        }
        self.shared.trace_message(Direction::Received, bytes);
        self.dispatch(bytes, via);
    }

    /// Handles bytes that were traced already.
    pub(super) fn dispatch(self: &Arc<Self>, bytes: &[u8], via: Option<&Arc<PendingCall>>) {
        match parse(bytes, &self.limits) {
            Ok(Incoming::Single(message)) => self.handle_message(message, via),
            Ok(Incoming::Batch(batch)) => {
                for message in batch.into_messages() {
                    match message {
                        Ok(message) => self.handle_message(message, via),
                        Err(fault) => self.shared.report_invalid_message(bytes, &format!("{:?}", fault.kind)),
                    }
                }
            }
            Err(fault) => self.shared.report_invalid_message(bytes, &format!("{:?}", fault.kind)),
        }
    }

    pub(super) fn limits(&self) -> &MessageLimits {
        &self.limits
    }

    pub(super) fn handle_message(self: &Arc<Self>, message: Message<'_>, via: Option<&Arc<PendingCall>>) {
        match message {
            Message::Response(response) => self.handle_response(response),
            Message::Notification(notification) => self.handle_notification(&notification, via),
            Message::Request(request) => {
                // Before a revision is agreed on, the server may be of the handshake era, and waits for an answer.
                let era = self.negotiated.get().map_or(Era::Handshake, |agreed| Era::from(agreed.revision));
                era.handle_request(self, &request, via);
            }
        }
    }

    fn handle_response(&self, response: Response<'_>) {
        let Some(id) = response.id else {
            tracing::warn!(error = ?response.outcome.err(), "the server could not read a message of ours");
            return;
        };
        if !self.calls.complete(&id, response.outcome.map(|result| result.to_owned())) {
            tracing::debug!(?id, "a response to no pending request");
        }
    }

    fn handle_notification(
        self: &Arc<Self>,
        notification: &Notification<'_>,
        via: Option<&Arc<PendingCall>>,
    ) {
        self.forward_to_observer(notification, via.map(|waiting| waiting.id()));
        let revision = self.revision();
        let params = notification.params();
        match &*notification.method {
            Progress::NAME => {
                if let Ok(progress) = read_notification::<Progress>(params, revision) {
                    self.calls.handle_progress(progress);
                }
            }
            Log::NAME => {
                if let Ok(log) = read_notification::<Log>(params, revision)
                    && let Some(told) = &self.shared.settings.handlers.log
                {
                    client_handler::invoke_callback(&**told, log);
                }
            }
            Cancelled::NAME => {
                if let Ok(CancelledParams { request_id: Some(id), .. }) =
                    read_notification::<Cancelled>(params, revision)
                {
                    self.era().handle_cancelled(self, &id);
                }
            }
            tools::ListChanged::NAME => self.notify_change(Change::Tools, &read_meta(notification), via),
            prompts::ListChanged::NAME => self.notify_change(Change::Prompts, &read_meta(notification), via),
            resources::ListChanged::NAME => {
                self.notify_change(Change::Resources, &read_meta(notification), via)
            }
            resources::Updated::NAME => {
                if let Ok(updated) = read_notification::<resources::Updated>(params, revision) {
                    self.notify_change(Change::Resource { uri: updated.uri }, &updated.meta, via);
                }
            }
            elicitation::Complete::NAME => {
                if let Ok(done) = read_notification::<elicitation::Complete>(params, revision) {
                    self.complete_elicitation(&done.elicitation_id);
                    self.notify_change(Change::ElicitationComplete { id: done.elicitation_id }, &None, via);
                }
            }
            tsugite_core::protocol::subscriptions::Acknowledged::NAME => {
                if let Some(id) = read_meta(notification).and_then(|meta| meta.subscription_id()) {
                    self.shared.acknowledge_subscription(&id);
                }
            }
            other => tracing::debug!(method = other, "a notification that says nothing to this client"),
        }
    }

    fn notify_change(&self, change: Change, meta: &Option<Meta>, via: Option<&Arc<PendingCall>>) {
        let subscription = self.era().subscription_id(meta.as_ref(), via);
        self.shared.notify_change(change, subscription, self.era());
    }

    /// Records that a web page the user was sent to is complete.
    fn complete_elicitation(&self, id: &str) {
        let mut visited = lock(&self.completed_elicitations);
        if visited.len() >= MAX_COMPLETED_ELICITATIONS {
            visited.remove(0);
        }
        visited.push(id.to_owned());
        drop(visited);
        self.elicitation_notify.notify_waiters();
    }

    /// Waits until the server has reported all of these pages as complete.
    pub(super) async fn wait_for_elicitations(&self, ids: &[String]) {
        loop {
            let visit = self.elicitation_notify.notified();
            let seen = {
                let visited = lock(&self.completed_elicitations);
                ids.iter().all(|id| visited.contains(id))
            };
            if seen {
                return;
            }
            visit.await;
        }
    }

    /// Why the connection was lost; `None` if it is open.
    pub(super) fn disconnect_reason(&self) -> Option<&str> {
        self.disconnect_reason.get().map(String::as_str)
    }

    /// Marks the connection as lost, and fails every call over it.
    pub(super) fn mark_disconnected(&self, seen: &str) {
        let first = self.disconnect_reason.set(seen.to_owned()).is_ok();
        if let (Some(tap), true, Some(_)) = (&self.shared.settings.observer, first, self.negotiated.get()) {
            tap.on_disconnect(seen);
        }
        self.calls.fail_all(seen);
        let tasks: Vec<_> = lock(&self.inbound_requests).tasks.drain().map(|(_, task)| task).collect();
        for task in tasks {
            task.abort();
        }
    }

    /// Registers a task that ends with the connection.
    pub(super) fn register_task(&self, task: &tokio::task::JoinHandle<()>) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task.abort_handle());
    }

    /// Marks the connection as closing: calls in flight end without a cancellation.
    pub(super) fn begin_close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Sends a message in a task of its own. Closing waits for it.
    pub(super) fn send_in_background(self: &Arc<Self>, bytes: Vec<u8>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Ok(place) = Arc::clone(&self.background_send_permits).try_acquire_owned() else {
            return tracing::debug!("a message was dropped: too many wait for the server");
        };
        let link = Arc::clone(self);
        runtime.spawn(async move {
            if let Err(trouble) = link.transport.send_message(&link, bytes).await {
                tracing::debug!(error = %ClientError::from(trouble), "a message could not be sent");
            }
            drop(place);
        });
    }

    /// Closes the connection after messages in the background are sent.
    pub(super) async fn close(self: &Arc<Self>) {
        // A server that does not read is not waited for.
        let _ = tokio::time::timeout(
            CLOSE_FLUSH_TIMEOUT,
            self.background_send_permits.acquire_many(MAX_BACKGROUND_SENDS as u32),
        )
        .await;
        self.transport.close(self).await;
        self.abort("the client is closed");
    }

    /// Waits until the client ends the connection, and returns the reason.
    pub(super) async fn aborted(&self) -> String {
        let ending = self.abort_notify.notified();
        if !self.is_aborted.load(Ordering::Acquire) {
            ending.await;
        }
        self.disconnect_reason().unwrap_or_default().to_owned()
    }

    /// Marks a connection as lost that another will replace. HTTP requests in flight still wait for their responses.
    pub(super) fn retire(&self, seen: &str) {
        match &self.transport {
            Transport::StreamableHttp(_) => {
                self.mark_disconnected(seen);
                for task in lock(&self.tasks).drain(..) {
                    task.abort();
                }
            }
            _ => self.abort(seen),
        }
    }

    /// Ends the connection at once.
    pub(super) fn abort(&self, seen: &str) {
        self.mark_disconnected(seen);
        self.is_aborted.store(true, Ordering::Release);
        self.abort_notify.notify_waiters();
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
        self.transport.kill();
    }
}

/// Cancels a call when dropped, unless it is done.
struct CancelOnDrop<'a> {
    link: &'a Arc<ClientConnection>,
    id: i64,
}

impl CancelOnDrop<'_> {
    fn disarm(self) {
        self.link.calls.remove(self.id);
        // It owns nothing, so that forgetting it leaks nothing.
        std::mem::forget(self);
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        // No cancellation for a call that is answered, that ends with the connection, or that was sent before the
        // negotiation, when the server may not know the notification.
        let wanted = self.link.negotiated.get().is_some() && !self.link.closing.load(Ordering::Acquire);
        if self.link.calls.remove(self.id) && wanted {
            self.link.era().cancel(self.link, self.id);
        }
    }
}

/// Encodes `notifications/cancelled` for a call.
pub(super) fn encode_cancelled(id: i64, revision: Revision) -> Vec<u8> {
    let params = CancelledParams::new().request_id(Id::from(id)).reason("no longer wanted");
    let mut bytes = Vec::new();
    // Every revision has it.
    let _ = write_notification::<Cancelled>(&mut bytes, params, revision);
    bytes
}

fn read_meta(notification: &Notification<'_>) -> Option<Meta> {
    let params: tsugite_core::protocol::NoParams = notification.params().read().ok()?;
    params.meta
}

/// Requests of a server that may be open at a time.
const MAX_INBOUND_REQUESTS: usize = 64;
/// Immediate responses over HTTP: how many may wait, and how many are sent at a time.
const MAX_QUEUED_RESPONSES: usize = 1_024;
const MAX_CONCURRENT_RESPONSES: usize = 16;
/// Messages in the background over HTTP, and how long closing waits for them.
const MAX_BACKGROUND_SENDS: usize = 1_024;
const CLOSE_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Complete web pages that are remembered.
const MAX_COMPLETED_ELICITATIONS: usize = 64;
