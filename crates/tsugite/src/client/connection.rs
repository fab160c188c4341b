//! One connection to one server: its state, from the negotiation to the end.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::{Id, MessageLimits, RawJson};
use tsugite_core::protocol::meta;
use tsugite_core::protocol::{Implementation, Meta, ServerCapabilities};
use tsugite_core::revision::Revision;
use tsugite_core::session::InboundRequests;

use super::client_error::ClientError;
use super::client_state::ClientState;
use super::options::Options;
use super::pending_calls::PendingCalls;
use super::task_progress::TaskTokens;
use super::transport::Transport;
use crate::era::Era;
use crate::lock::lock;
use crate::shared::cancel_reason::CancelReason;

/// A connection to a server.
pub(super) struct ClientConnection {
    pub(super) shared: Arc<ClientState>,
    pub(super) transport: Transport,
    pub(super) calls: PendingCalls,
    pub(super) negotiated: OnceLock<NegotiatedSession>,
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
    disconnect_notify: Notify,
    /// The start of the child that the connection belongs to.
    start_number: AtomicU32,
    tasks: Mutex<Vec<AbortHandle>>,
    /// The progress tokens of tasks.
    pub(super) task_tokens: Arc<TaskTokens>,
    /// Ids of web pages that the server has reported as complete.
    pub(super) completed_elicitations: Mutex<Vec<String>>,
    pub(super) elicitation_notify: Notify,
    /// Permits for responses over HTTP: those that wait, and those that are being sent.
    pub(super) queued_response_permits: Arc<Semaphore>,
    pub(super) response_send_permits: Semaphore,
    /// Permits for messages that are sent in the background.
    pub(super) background_send_permits: Arc<Semaphore>,
    pub(super) limits: MessageLimits,
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
    /// The tasks that answer them, each with the reason for which the server cancels it.
    pub(super) tasks: HashMap<Id<'static>, (AbortHandle, CancelReason)>,
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
        connection: &ClientConnection,
        options: &Options,
    ) -> Result<(), ClientError>;
    /// Whether it asks for a task, which is not cancelled as other requests are.
    fn asks_for_task(&self) -> bool {
        false
    }
    /// The headers that repeat arguments, over HTTP.
    fn param_headers(&self, connection: &ClientConnection) -> Vec<(String, String)>;
}

impl ClientConnection {
    pub(super) fn new(shared: Arc<ClientState>, transport: Transport) -> Arc<Self> {
        let limits = MessageLimits::default().max_message_bytes(shared.settings.max_message_bytes);
        let inbound_requests = InboundRequestTable {
            inbound: InboundRequests::new(MAX_INBOUND_REQUESTS),
            tasks: HashMap::new(),
        };
        Arc::new(Self {
            shared,
            transport,
            calls: PendingCalls::default(),
            negotiated: OnceLock::new(),
            handshake_result: Mutex::default(),
            inbound_requests: Mutex::new(inbound_requests),
            revision_unverified: AtomicBool::new(false),
            disconnect_reason: OnceLock::new(),
            closing: AtomicBool::new(false),
            is_aborted: AtomicBool::new(false),
            abort_notify: Notify::new(),
            disconnect_notify: Notify::new(),
            start_number: AtomicU32::new(0),
            tasks: Mutex::default(),
            task_tokens: Arc::default(),
            completed_elicitations: Mutex::default(),
            elicitation_notify: Notify::new(),
            queued_response_permits: Arc::new(Semaphore::new(MAX_QUEUED_RESPONSES)),
            response_send_permits: Semaphore::new(MAX_CONCURRENT_RESPONSES),
            background_send_permits: Arc::new(Semaphore::new(MAX_BACKGROUND_SENDS)),
            limits,
        })
    }

    /// Sets the result of the negotiation, once. `meta_entries` go into the `_meta` of every request.
    pub(super) fn set_negotiated(
        &self,
        revision: Revision,
        server: Option<Implementation>,
        capabilities: Option<ServerCapabilities>,
        instructions: Option<String>,
        meta_entries: Vec<(&'static str, RawJson)>,
    ) {
        let members: Vec<String> =
            meta_entries.iter().map(|(key, value)| format!("{key:?}:{}", value.text())).collect();
        let meta_json = members.join(",");
        let session = NegotiatedSession {
            revision,
            server_info: server,
            capabilities,
            instructions,
            meta_entries,
            meta_json,
        };
        // A second negotiation on the same connection changes nothing.
        let _ = self.negotiated.set(session);
    }

    /// Keeps the result of `initialize` or `server/discover`.
    pub(super) fn set_handshake_result(&self, result: &RawJson) {
        // Only an observer needs it unchanged.
        if self.shared.settings.observer.is_some() {
            *lock(&self.handshake_result) = Some(result.clone());
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
            Some(session) => session.revision,
            None => self.shared.settings.revisions.error_fallback(),
        }
    }

    /// The era whose rules the connection follows.
    pub(super) fn era(&self) -> Era {
        Era::from(self.revision())
    }

    /// The `_meta` entries of a call without entries of its own, as members of a JSON object.
    pub(super) fn request_meta_json(&self, id: &Id<'_>, options: &Options) -> Cow<'_, str> {
        let meta_entries = self.negotiated.get().map_or("", |session| session.meta_json.as_str());
        match (options.wants_progress(), id.as_i64()) {
            (true, Some(id)) if meta_entries.is_empty() => {
                format!("\"{}\":{id}", meta::PROGRESS_TOKEN).into()
            }
            (true, Some(id)) => format!("{meta_entries},\"{}\":{id}", meta::PROGRESS_TOKEN).into(),
            _ => meta_entries.into(),
        }
    }

    /// Adds the `_meta` entries of the options, the progress token and the era.
    pub(super) fn add_request_meta(&self, target: &mut Option<Meta>, id: &Id<'_>, options: &Options) {
        if let Some(given) = &options.meta {
            let meta = target.get_or_insert_default();
            for (key, value) in given.iter() {
                meta.insert(key, value);
            }
        }
        if options.wants_progress() {
            target.get_or_insert_default().set_progress_token(id);
        }
        for (key, value) in self.negotiated.get().into_iter().flat_map(|session| &session.meta_entries) {
            target.get_or_insert_default().insert(*key, value);
        }
    }

    pub(super) fn limits(&self) -> &MessageLimits {
        &self.limits
    }

    /// Why the connection was lost; `None` if it is open.
    pub(super) fn disconnect_reason(&self) -> Option<&str> {
        self.disconnect_reason.get().map(String::as_str)
    }

    /// Marks the connection as lost, and fails every call over it.
    pub(super) fn mark_disconnected(&self, reason: &str) {
        let first = self.disconnect_reason.set(reason.to_owned()).is_ok();
        if let (Some(observer), true, Some(_)) =
            (&self.shared.settings.observer, first, self.negotiated.get())
        {
            observer.on_disconnect(reason);
        }
        self.disconnect_notify.notify_waiters();
        self.calls.fail_all(reason);
        let tasks: Vec<_> = lock(&self.inbound_requests).tasks.drain().map(|(_, (task, _))| task).collect();
        for task in tasks {
            task.abort();
        }
    }

    pub(super) fn set_start_number(&self, number: u32) {
        self.start_number.store(number, Ordering::Release);
    }

    pub(super) fn start_number(&self) -> u32 {
        self.start_number.load(Ordering::Acquire)
    }

    /// Waits until the connection is lost.
    pub(super) async fn disconnected(&self) {
        let mut notified = std::pin::pin!(self.disconnect_notify.notified());
        notified.as_mut().enable();
        if self.disconnect_reason().is_none() {
            notified.await;
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

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Waits until the client ends the connection, and returns the reason.
    pub(super) async fn aborted(&self) -> String {
        let aborted = self.abort_notify.notified();
        if !self.is_aborted.load(Ordering::Acquire) {
            aborted.await;
        }
        self.disconnect_reason().unwrap_or_default().to_owned()
    }

    /// Marks a connection as lost that another will replace. HTTP requests in flight still wait for their responses.
    pub(super) fn retire(&self, reason: &str) {
        match &self.transport {
            Transport::StreamableHttp(_) => {
                self.mark_disconnected(reason);
                for task in lock(&self.tasks).drain(..) {
                    task.abort();
                }
            }
            _ => self.abort(reason),
        }
    }

    /// Ends the connection at once.
    pub(super) fn abort(&self, reason: &str) {
        self.mark_disconnected(reason);
        self.is_aborted.store(true, Ordering::Release);
        self.abort_notify.notify_waiters();
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
        self.transport.kill();
    }
}

/// Requests of a server that may be open at a time.
const MAX_INBOUND_REQUESTS: usize = 64;
/// Immediate responses over HTTP: how many may wait, and how many are sent at a time.
const MAX_QUEUED_RESPONSES: usize = 1_024;
const MAX_CONCURRENT_RESPONSES: usize = 16;
/// Messages that are sent in the background over HTTP.
pub(super) const MAX_BACKGROUND_SENDS: usize = 1_024;
