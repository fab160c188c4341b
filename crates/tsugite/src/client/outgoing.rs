//! Messages to the server: requests, which wait for their responses, notifications, and responses.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::NotificationMethod;
use tsugite_core::protocol::cancellation::{Cancelled, CancelledParams};
use tsugite_core::revision::{Translate, write_notification};

use super::call_error::CallError;
use super::client_error::{ClientError, ErrorKind, TimeoutKind};
use super::client_settings::Direction;
use super::connection::{ClientConnection, MAX_BACKGROUND_SENDS, OutboundRequest};
use super::encoded_request::EncodedRequest;
use super::line_connection;
use super::options::Options;
use super::pending_calls::PendingCall;
use super::request_id_observer::RequestIdObserver;
use super::transport::{ChildPipe, ServerReply, Transport, into_rpc_result, send_line};

impl ClientConnection {
    /// Sends a request and waits for its response. Dropping the future cancels the request.
    pub(super) async fn call(
        self: &Arc<Self>,
        request: &dyn OutboundRequest,
        options: &Options,
    ) -> Result<ServerReply, CallError> {
        let timeouts = options.timeouts(&self.shared.settings);
        let on_progress =
            options.on_progress.clone().or_else(|| self.shared.settings.handlers.progress.clone());
        let call = self.calls.register(timeouts, on_progress.clone());
        let id = Id::from(call.id());
        if let Some(token) = &options.task_token {
            token.keep(&self.task_tokens, &id, on_progress.as_ref());
        }
        let observer = options.request_id_observer.as_ref();
        let notifies = !(request.asks_for_task() && self.revision().has_core_tasks());
        let cancel_guard = CancelOnDrop { connection: self, call: &call, observer, notifies };
        if let Some(observer) = &options.request_id_observer {
            observer.on_request_id(call.id());
        }
        let mut bytes = Vec::with_capacity(256);
        if let Err(error) = request.encode(&mut bytes, &id, self, options) {
            cancel_guard.disarm();
            return Err(error.into());
        }
        let headers = match &self.transport {
            Transport::StreamableHttp(_) => request.param_headers(self),
            _ => Vec::new(),
        };
        // A pipe sends nothing twice by itself.
        let over_http = matches!(&self.transport, Transport::StreamableHttp(_) | Transport::HttpSse(_));
        let outgoing = EncodedRequest {
            bytes,
            method: request.method(),
            name: request.name(),
            param_headers: headers,
            extra_headers: &options.headers,
            harmless: over_http
                && (self.is_harmless(request, options) || self.is_recognized(request, options)),
            checks_liveness: options.checks_liveness,
        };
        let mut exchange = pin!(self.exchange(&call, outgoing));
        match call.run_with_timeout(exchange.as_mut()).await {
            Ok(outcome) => {
                cancel_guard.disarm();
                if let (Transport::InProcess(server), Some(slot)) = (&self.transport, &options.failure_cause)
                {
                    slot.set(server.take_failure_cause(&id));
                }
                outcome
            }
            Err(timed_out) => {
                let kind = ErrorKind::TimedOut { limit: timed_out.limit, kind: timed_out.kind };
                let error = ClientError::from(kind).with_may_have_run(call.sent.get());
                if let (Some(caller), false) = (&options.timeout_sender, notifies) {
                    // Only the response names the task that is to be cancelled.
                    let _ = caller.send(error);
                    let outcome = exchange.await;
                    cancel_guard.disarm();
                    return outcome;
                }
                drop(cancel_guard);
                Err(error.into())
            }
        }
    }

    /// Sends a request and waits for its response. The caller enforces the timeouts.
    async fn exchange(
        self: &Arc<Self>,
        call: &Arc<PendingCall>,
        outgoing: EncodedRequest<'_>,
    ) -> Result<ServerReply, CallError> {
        // The call is registered already, so a connection that is lost from now on fails it.
        if let Some(reason) = self.disconnect_reason() {
            return Err(CallError::not_sent(reason));
        }
        self.shared.trace_message(Direction::Sent, &outgoing.bytes);
        match &self.transport {
            Transport::Child(ChildPipe { outbox, .. }) | Transport::Streams(outbox) => {
                outbox.wait_for_capacity().await;
                call.sent.set(true);
                outbox.push(|out| out.extend_from_slice(&outgoing.bytes));
            }
            Transport::InProcess(server) => {
                call.sent.set(true);
                server.receive(&outgoing.bytes);
            }
            // The response may arrive before the server has accepted the POST.
            Transport::HttpSse(sse) => tokio::select! {
                biased;
                sent = Box::pin(sse.send_request(self, call, outgoing)) => {
                    if let Some(reply) = sent? {
                        return Ok(reply);
                    }
                }
                outcome = call.outcome() => return into_rpc_result(outcome),
            },
            // Closing a pipe fails the call, but an HTTP request would continue. Boxed to keep the future of a pipe's
            // call small.
            Transport::StreamableHttp(http) => {
                return tokio::select! {
                    outcome = Box::pin(http.exchange(self, call, outgoing)) => outcome,
                    reason = self.aborted() => Err(CallError::Disconnected { may_have_run: call.sent.get(), reason }),
                };
            }
        }
        into_rpc_result(call.outcome().await)
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
        self.send_message(bytes).await.map_err(ClientError::from)
    }

    /// Sends `notifications/cancelled` for a call, without waiting.
    pub(super) fn send_cancelled(self: &Arc<Self>, id: i64, reason: Option<String>) {
        let reason = reason.unwrap_or_else(|| "cancelled by the client".to_owned());
        let params = CancelledParams::new().request_id(Id::from(id)).reason(reason);
        let mut bytes = Vec::new();
        // Every revision has it.
        let _ = write_notification::<Cancelled>(&mut bytes, params, self.revision());
        self.send_message_detached(bytes);
    }

    /// Sends a notification, or a response to a request of the server. Fails after the idle timeout if the server does
    /// not accept it.
    pub(super) async fn send_message(self: &Arc<Self>, bytes: Vec<u8>) -> Result<(), CallError> {
        self.shared.trace_message(Direction::Sent, &bytes);
        let sending = async {
            match &self.transport {
                Transport::Child(ChildPipe { outbox, .. }) | Transport::Streams(outbox) => {
                    send_line(outbox, &bytes).await
                }
                Transport::InProcess(server) => server.receive(&bytes),
                Transport::StreamableHttp(http) => Box::pin(http.send_message(self, bytes)).await?,
                Transport::HttpSse(sse) => Box::pin(sse.send_message(self, bytes)).await?,
            }
            Ok(())
        };
        let limit = self.shared.settings.timeouts.idle_timeout;
        match self.shared.clock.timeout(limit, sending).await {
            Ok(result) => result,
            Err(_) => Err(ErrorKind::TimedOut { limit, kind: TimeoutKind::Idle }.into()),
        }
    }

    /// Sends a message without waiting, if there is a runtime to send it.
    pub(super) fn send_message_detached(self: &Arc<Self>, bytes: Vec<u8>) {
        match &self.transport {
            Transport::Child(ChildPipe { outbox, .. }) | Transport::Streams(outbox) => {
                self.shared.trace_message(Direction::Sent, &bytes);
                outbox.push(|out| out.extend_from_slice(&bytes));
            }
            Transport::InProcess(server) if tokio::runtime::Handle::try_current().is_ok() => {
                self.shared.trace_message(Direction::Sent, &bytes);
                server.receive(&bytes);
            }
            Transport::InProcess(_) => {}
            Transport::StreamableHttp(_) | Transport::HttpSse(_) => self.send_in_background(bytes),
        }
    }

    /// Sends a response that needed no handler, without waiting. If too many are queued it is dropped, so that a server
    /// that does not read its responses cannot fill the memory.
    pub(super) fn send_response_detached(self: &Arc<Self>, bytes: Vec<u8>) {
        match &self.transport {
            Transport::Child(ChildPipe { outbox, .. }) | Transport::Streams(outbox) if outbox.is_full() => {
                tracing::debug!("dropped a response: the queue is full")
            }
            Transport::Child(_) | Transport::Streams(_) | Transport::InProcess(_) => {
                self.send_message_detached(bytes)
            }
            Transport::StreamableHttp(_) | Transport::HttpSse(_) => {
                let Ok(permit) = Arc::clone(&self.queued_response_permits).try_acquire_owned() else {
                    return tracing::debug!("dropped a response: the queue is full");
                };
                let responder = Arc::clone(self);
                self.register_task(&tokio::spawn(async move {
                    let _send_permit = responder.response_send_permits.acquire().await;
                    if let Err(error) = responder.send_message(bytes).await {
                        tracing::debug!(error = %ClientError::from(error), "cannot send a response");
                    }
                    drop(permit);
                }));
            }
        }
    }

    /// Sends a message in a task of its own. Closing waits for it.
    fn send_in_background(self: &Arc<Self>, bytes: Vec<u8>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Ok(permit) = Arc::clone(&self.background_send_permits).try_acquire_owned() else {
            return tracing::debug!(
                limit = MAX_BACKGROUND_SENDS,
                "dropped a message: too many are waiting to be sent"
            );
        };
        let connection = Arc::clone(self);
        runtime.spawn(async move {
            if let Err(error) = connection.send_message(bytes).await {
                tracing::debug!(error = %ClientError::from(error), "cannot send a message");
            }
            drop(permit);
        });
    }

    /// Closes the connection after messages in the background are sent.
    pub(super) async fn close(self: &Arc<Self>) {
        // A server that does not read its input must not delay the close.
        let _ = tokio::time::timeout(
            CLOSE_FLUSH_TIMEOUT,
            self.background_send_permits.acquire_many(MAX_BACKGROUND_SENDS as u32),
        )
        .await;
        match &self.transport {
            Transport::Child(pipe) => pipe.close().await,
            Transport::Streams(outbox) => line_connection::close_streams(outbox).await,
            Transport::InProcess(server) => server.close(),
            Transport::StreamableHttp(http) => http.close(self).await,
            Transport::HttpSse(_) => {}
        }
        self.abort("the client is closed");
    }
}

/// Cancels a call when dropped, unless it is done.
struct CancelOnDrop<'a> {
    connection: &'a Arc<ClientConnection>,
    call: &'a PendingCall,
    observer: Option<&'a Arc<dyn RequestIdObserver>>,
    /// Whether the server is told. A request for a task is cancelled by the id of the task alone.
    notifies: bool,
}

impl CancelOnDrop<'_> {
    fn disarm(self) {
        self.connection.calls.remove(self.call.id());
        // It owns nothing, so forgetting it leaks nothing.
        std::mem::forget(self);
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        // No cancellation for a call that is answered, that was not sent, that ends with the connection, or that was sent
        // before the negotiation, when the server may not know the notification.
        let is_heard = self.connection.negotiated().is_some() && !self.connection.is_closing();
        let notifies = self.notifies && is_heard;
        if self.connection.calls.remove(self.call.id()) && notifies && self.call.sent.get() {
            let reason = self.observer.and_then(|observer| observer.cancel_reason());
            self.connection.era().cancel(self.connection, self.call.id(), reason);
        }
    }
}

/// How long closing waits for messages that are sent in the background.
const CLOSE_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
