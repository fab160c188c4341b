//! One connection to one server: calls leave from here, and what arrives is decided here.

use std::borrow::Cow;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::{
    Id, Incoming, Message, MessageLimits, Notification, RawJson, Request, Response, parse, write,
};
use tsugite_core::protocol::cancellation::{Cancelled, CancelledParams};
use tsugite_core::protocol::logging::Log;
use tsugite_core::protocol::meta::{self, ClientMeta};
use tsugite_core::protocol::progress::Progress;
use tsugite_core::protocol::{
    Implementation, Meta, Method, NotificationMethod, ServerCapabilities, elicitation, ping, prompts,
    resources, tools,
};
use tsugite_core::revision::{
    Revision, RpcError, Translate, UnsupportedByRevisionError, read_notification, write_notification,
};
use tsugite_core::session::InboundRequests;
use tsugite_core::session::inbound::CancelAction;

use super::client_error::{ClientError, ErrorKind};
use super::client_handler::{self, Change};
use super::client_settings::Direction;
use super::client_state::ClientState;
use super::options::Options;
use super::pending_calls::{PendingCall, PendingCalls};
use super::server_requests;
use super::transport::{EncodedRequest, Transport};
use crate::lock::lock;
use crate::shared::panic::CatchPanic;

/// A connection.
pub(super) struct ClientConnection {
    pub(super) shared: Arc<ClientState>,
    pub(super) transport: Transport,
    pub(super) calls: PendingCalls,
    negotiated: OnceLock<NegotiatedSession>,
    /// What the server said of itself, as it stood there.
    handshake_result: Mutex<Option<RawJson>>,
    /// What the server asked and has no answer to yet.
    inbound_requests: Mutex<InboundRequestTable>,
    /// Whether the revision was believed and not found out, and nothing has shown yet that it is right.
    revision_unverified: AtomicBool,
    /// Why the connection is gone.
    disconnect_reason: OnceLock<String>,
    /// The connection is about to be ended by us.
    closing: AtomicBool,
    /// The connection was ended by us.
    is_aborted: AtomicBool,
    abort_notify: Notify,
    tasks: Mutex<Vec<AbortHandle>>,
    /// Web pages the server says are done with.
    completed_elicitations: Mutex<Vec<String>>,
    elicitation_notify: Notify,
    /// For answers that wait for their turn over HTTP, and for those whose turn it is.
    pub(super) queued_response_permits: Arc<Semaphore>,
    pub(super) response_send_permits: Semaphore,
    /// What is being said without anybody waiting for it.
    background_send_permits: Arc<Semaphore>,
    limits: MessageLimits,
}

/// What both sides know of each other.
pub(super) struct NegotiatedSession {
    pub(super) revision: Revision,
    pub(super) server_info: Option<Implementation>,
    /// `None` if it was not asked.
    pub(super) capabilities: Option<ServerCapabilities>,
    pub(super) instructions: Option<String>,
    /// What each request of 2026-07-28 says of its sender.
    meta_entries: Vec<(&'static str, RawJson)>,
    /// The same as members of an object.
    meta_json: String,
}

struct InboundRequestTable {
    inbound: InboundRequests,
    tasks: HashMap<Id<'static>, AbortHandle>,
}

/// Why a call has no answer.
pub(super) enum CallError {
    /// Trying again would not help.
    Fatal(ClientError),
    /// The connection, or the session, is gone.
    Disconnected { may_have_run: bool, reason: String },
}

impl CallError {
    pub(super) fn disconnected(seen: impl Into<String>) -> Self {
        CallError::Disconnected { may_have_run: true, reason: seen.into() }
    }

    pub(super) fn not_sent(seen: impl Into<String>) -> Self {
        CallError::Disconnected { may_have_run: false, reason: seen.into() }
    }
}

impl From<ClientError> for CallError {
    fn from(error: ClientError) -> Self {
        CallError::Fatal(error)
    }
}

impl From<ErrorKind> for CallError {
    fn from(kind: ErrorKind) -> Self {
        CallError::Fatal(kind.into())
    }
}

impl From<UnsupportedByRevisionError> for CallError {
    fn from(unsayable: UnsupportedByRevisionError) -> Self {
        CallError::Fatal(unsayable.into())
    }
}

impl From<CallError> for ClientError {
    fn from(trouble: CallError) -> Self {
        match trouble {
            CallError::Fatal(error) => error,
            CallError::Disconnected { may_have_run, reason: seen } => {
                ErrorKind::ConnectionLost { may_have_run, reason: seen }.into()
            }
        }
    }
}

/// A request that can be written for whoever listens.
pub(super) trait OutboundRequest: Send + Sync {
    fn method(&self) -> &str;
    /// What `Mcp-Name` mirrors.
    fn name(&self) -> Option<&str>;
    /// Appends the message.
    fn encode(
        &self,
        out: &mut Vec<u8>,
        id: &Id<'_>,
        link: &ClientConnection,
        options: &Options,
    ) -> Result<(), ClientError>;
    /// The headers that mirror arguments, for a server of `revision` over HTTP.
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

    /// Both sides know each other.
    pub(super) fn set_negotiated(
        &self,
        revision: Revision,
        server: Option<Implementation>,
        capabilities: Option<ServerCapabilities>,
        instructions: Option<String>,
    ) {
        let claims = self.request_meta_entries(revision);
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
        // A connection is agreed on once.
        let _ = self.negotiated.set(agreed);
    }

    /// The server has said what it is.
    pub(super) fn set_handshake_result(&self, hello: &RawJson) {
        // Only whoever stands behind a client wants it word for word.
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

    /// The revision was believed, not found out.
    pub(super) fn mark_revision_unverified(&self) {
        self.revision_unverified.store(true, Ordering::Release);
    }

    /// Whether what has come of a call is the first sign of whether the belief was right; asked once.
    pub(super) fn take_revision_unverified(&self) -> bool {
        self.revision_unverified.load(Ordering::Acquire)
            && self.revision_unverified.swap(false, Ordering::AcqRel)
    }

    /// The revision that is spoken, or while that is not known the one that may be assumed.
    pub(super) fn revision(&self) -> Revision {
        match self.negotiated.get() {
            Some(agreed) => agreed.revision,
            None => self.shared.settings.revisions.error_fallback(),
        }
    }

    /// What is to be said in `_meta` of each request.
    pub(super) fn request_meta_entries(&self, revision: Revision) -> Vec<(&'static str, RawJson)> {
        if !revision.is_stateless() {
            return Vec::new();
        }
        let settings = &self.shared.settings;
        let mut claims =
            ClientMeta::for_revision(revision, settings.capabilities()).client_info(settings.info.clone());
        if let Some(level) = settings.effective_log_level() {
            claims = claims.log_level(level);
        }
        let mut stamped = Meta::new();
        stamped.set_client_meta(&claims);
        let keys = [meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES, meta::CLIENT_INFO, meta::LOG_LEVEL];
        keys.into_iter().filter_map(|key| Some((key, stamped.get(key)?.clone()))).collect()
    }

    /// What a call says in `_meta` that wants nothing of its own there, as members of an object.
    pub(super) fn request_meta_json(&self, id: &Id<'_>, options: &Options) -> Cow<'_, str> {
        let claims = self.negotiated.get().map_or("", |agreed| agreed.meta_json.as_str());
        match (options.wants_progress(), id.as_i64()) {
            (true, Some(id)) if claims.is_empty() => format!("\"{}\":{id}", meta::PROGRESS_TOKEN).into(),
            (true, Some(id)) => format!("{claims},\"{}\":{id}", meta::PROGRESS_TOKEN).into(),
            _ => claims.into(),
        }
    }

    /// Puts into `_meta` what the revision, the call and its options want there.
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

    /// Makes a call and waits for its answer. Dropping the future tells the server to stop.
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
                Err(ErrorKind::TimedOut { limit: timed_out.limit, kind: timed_out.kind }.into())
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

    /// Something has arrived: a line, a body or an event. `via` is the call whose stream it came on, if it did.
    ///
    /// What is no message is reported and skipped.
    pub(super) fn receive(self: &Arc<Self>, bytes: &[u8], via: Option<&Arc<PendingCall>>) {
        if bytes.trim_ascii().is_empty() {
            return;
        }
        self.shared.trace_message(Direction::Received, bytes);
        self.dispatch(bytes, via);
    }

    /// The same for what was told already.
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
            Message::Request(request) => self.handle_request(&request, via),
        }
    }

    fn handle_response(&self, response: Response<'_>) {
        let Some(id) = response.id else {
            tracing::warn!(error = ?response.outcome.err(), "the server could not read a message of ours");
            return;
        };
        if !self.calls.complete(&id, response.outcome.map(|result| result.to_owned())) {
            tracing::debug!(?id, "an answer that nobody waits for");
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
                    self.handle_cancelled(id);
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
        let subscription = match self.revision().is_stateless() {
            // What lacks the mark came on the stream of one subscription.
            true => meta
                .as_ref()
                .and_then(Meta::subscription_id)
                .map(|id| id.as_i64().unwrap_or(NO_CALL))
                .or_else(|| via.map(|waiting| waiting.id())),
            false => None,
        };
        self.shared.notify_change(change, subscription, self.revision());
    }

    /// The server no longer wants an answer, or says that a subscription is over.
    fn handle_cancelled(&self, id: Id<'static>) {
        if self.revision().is_stateless() {
            // Only a subscription is ended by the server; its result may follow, or not.
            if self.shared.is_subscription(&id) {
                self.calls.complete(&id, Ok(RawJson::empty_object()));
            }
            return;
        }
        let mut asked = lock(&self.inbound_requests);
        if asked.inbound.cancel(&id) == CancelAction::Stop {
            asked.inbound.complete(&id);
            if let Some(task) = asked.tasks.remove(&id) {
                task.abort();
            }
        }
    }

    /// The server asks something.
    fn handle_request(self: &Arc<Self>, request: &Request<'_>, via: Option<&Arc<PendingCall>>) {
        let revision = self.revision();
        if self.negotiated.get().is_some() && revision.is_stateless() {
            // 2026-07-28 has no requests of the server.
            tracing::warn!(
                method = &*request.method,
                "the server sent a request, which its revision does not have"
            );
            return;
        }
        let id = request.id.clone().into_owned();
        if request.method == ping::Ping::NAME {
            let mut bytes = Vec::new();
            write::raw_result(&mut bytes, &id, &RawJson::empty_object());
            self.transport.send_response_detached(self, bytes);
            return;
        }
        let mut asked = lock(&self.inbound_requests);
        if asked.inbound.begin(&id, &request.method).is_err() {
            drop(asked);
            let refusal =
                RpcError::InvalidRequest("too many questions at once, or one with the id of another".into());
            self.transport.send_response_detached(self, encode_error(&id, &refusal, revision));
            return;
        }
        // Who knows which call asks when it came on no call's stream? Any of them may.
        let paused: Vec<_> = match via {
            Some(waiting) => vec![waiting.pause_timer()],
            None => self.calls.all().iter().map(PendingCall::pause_timer).collect(),
        };
        let (link, method) = (Arc::clone(self), request.method.clone().into_owned());
        let params = request.params().to_owned();
        let (answered, call) = (id.clone(), via.map(|waiting| waiting.id()));
        let task = tokio::spawn(async move {
            let settings = &link.shared.settings;
            // The server waits for an answer, whatever becomes of the handler.
            let answer = match &settings.observer {
                Some(tap) => CatchPanic::new(tap.on_request(method.clone(), params, call)).await,
                None => {
                    let answer = server_requests::handle_server_request(
                        &settings.handlers,
                        &method,
                        &params,
                        revision,
                    );
                    let answer = CatchPanic::new(Box::pin(answer)).await;
                    answer.map(|answer| answer.map_err(|refusal| refusal.to_error_object(revision)))
                }
            };
            let answer = answer.unwrap_or_else(|_| Err(RpcError::Internal.to_error_object(revision)));
            drop(paused);
            let mut bytes = Vec::new();
            match answer {
                Ok(answer) => write::raw_result(&mut bytes, &answered, &answer),
                Err(error) => write::error(&mut bytes, Some(&answered), revision.writes_null_id(), &error),
            }
            // It is open until its answer has left: a server that takes no answers cannot have any number of them wait.
            if let Err(trouble) = link.transport.send_message(&link, bytes).await {
                tracing::warn!(error = %ClientError::from(trouble), method, "an answer could not be sent");
            }
            let mut asked = lock(&link.inbound_requests);
            asked.tasks.remove(&answered);
            asked.inbound.complete(&answered);
        });
        if asked.inbound.is_open(&id) {
            asked.tasks.insert(id, task.abort_handle());
        }
    }

    /// A web page the user was sent to is done with.
    fn complete_elicitation(&self, id: &str) {
        let mut visited = lock(&self.completed_elicitations);
        if visited.len() >= MAX_COMPLETED_ELICITATIONS {
            visited.remove(0);
        }
        visited.push(id.to_owned());
        drop(visited);
        self.elicitation_notify.notify_waiters();
    }

    /// Waits until the server says that all of these pages are done with.
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

    /// Why the connection is gone, if it is.
    pub(super) fn disconnect_reason(&self) -> Option<&str> {
        self.disconnect_reason.get().map(String::as_str)
    }

    /// The connection is gone: every call over it ends.
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

    /// A task that lives as long as the connection.
    pub(super) fn register_task(&self, task: &tokio::task::JoinHandle<()>) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task.abort_handle());
    }

    /// The connection is about to be ended: what is under way ends with it, without a word.
    pub(super) fn begin_close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Says something in a task of its own. The end of the connection comes after it.
    pub(super) fn send_in_background(self: &Arc<Self>, bytes: Vec<u8>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Ok(place) = Arc::clone(&self.background_send_permits).try_acquire_owned() else {
            return tracing::debug!("too much is being said to a server that does not listen");
        };
        let link = Arc::clone(self);
        runtime.spawn(async move {
            if let Err(trouble) = link.transport.send_message(&link, bytes).await {
                tracing::debug!(error = %ClientError::from(trouble), "a message could not be sent");
            }
            drop(place);
        });
    }

    /// Ends the connection politely.
    pub(super) async fn close(self: &Arc<Self>) {
        // A server that does not take what is being said is not waited for.
        let _ = tokio::time::timeout(
            CLOSE_FLUSH_TIMEOUT,
            self.background_send_permits.acquire_many(MAX_BACKGROUND_SENDS as u32),
        )
        .await;
        self.transport.close(self).await;
        self.abort("the client is closed");
    }

    /// Waits until the connection is ended by us, and gives why.
    pub(super) async fn aborted(&self) -> String {
        let ending = self.abort_notify.notified();
        if !self.is_aborted.load(Ordering::Acquire) {
            ending.await;
        }
        self.disconnect_reason().unwrap_or_default().to_owned()
    }

    /// The connection is lost and another will take its place. Calls over HTTP that are under way hear from the server
    /// itself what became of them.
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

/// Tells the server to stop unless the call is done.
struct CancelOnDrop<'a> {
    link: &'a Arc<ClientConnection>,
    id: i64,
}

impl CancelOnDrop<'_> {
    fn disarm(self) {
        self.link.calls.remove(self.id);
        // There is nothing left to stop, and nothing in it to drop.
        std::mem::forget(self);
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        // An answer that is there, or a connection that is not, needs no cancellation; neither does what is asked before
        // anything is agreed, which the server may not even know, nor what ends with the connection.
        let wanted = self.link.negotiated.get().is_some() && !self.link.closing.load(Ordering::Acquire);
        if self.link.calls.remove(self.id) && wanted {
            self.link.transport.cancel(self.link, self.id);
        }
    }
}

/// `notifications/handle_cancelled` for a call.
pub(super) fn encode_cancelled(id: i64, revision: Revision) -> Vec<u8> {
    let params = CancelledParams::new().request_id(Id::from(id)).reason("no longer wanted");
    let mut bytes = Vec::new();
    // Every revision has it.
    let _ = write_notification::<Cancelled>(&mut bytes, params, revision);
    bytes
}

fn encode_error(id: &Id<'_>, refusal: &RpcError, revision: Revision) -> Vec<u8> {
    let mut bytes = Vec::new();
    write::error(&mut bytes, Some(id), revision.writes_null_id(), &refusal.to_error_object(revision));
    bytes
}

fn read_meta(notification: &Notification<'_>) -> Option<Meta> {
    let params: tsugite_core::protocol::EmptyParams = notification.params().read().ok()?;
    params.meta
}

/// The id of no call of ours.
const NO_CALL: i64 = -1;
/// Questions of a server that may be open at a time.
const MAX_INBOUND_REQUESTS: usize = 64;
/// Answers that nobody has to think about, over HTTP: how many may wait, and how many are sent at a time.
const MAX_QUEUED_RESPONSES: usize = 1_024;
const MAX_CONCURRENT_RESPONSES: usize = 16;
/// Messages over HTTP that nobody waits for, and how long the end of a connection waits for them.
const MAX_BACKGROUND_SENDS: usize = 1_024;
const CLOSE_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Web pages that are remembered as done with.
const MAX_COMPLETED_ELICITATIONS: usize = 64;
