//! The way of a message through the server: parse, decide, check the requests in flight, layers, route.
//!
//! [`ServerConnection::handle_request`] is the pipeline of every request, whatever its transport. Lines (stdio, memory,
//! HTTP+SSE) enter through [`ServerConnection::receive`]. A POST is parsed and decided by the HTTP transport, since headers
//! and sessions are part of that decision, and enters as [`ReceivedRequest::Post`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tsugite_core::jsonrpc::{Incoming, Message, ParseError, Request};
use tsugite_core::protocol::cancellation::Cancelled;
use tsugite_core::protocol::lifecycle::Initialized;
use tsugite_core::protocol::{Method, NotificationMethod};
use tsugite_core::revision::{Revision, RpcError, Translate, read_notification};
use tsugite_core::session::HandshakePhase;
use tsugite_core::session::request_meta::{RequestMeta, parse_with_meta};
use tsugite_core::session::stdio::{StdioDecision, decide, decide_request};

use super::connection::ServerConnection;
use super::in_flight::{Admission, AdmissionError, TOO_MANY_REQUESTS};
use super::incoming_request::{IncomingRequest, Tracking};
use super::pending::{PendingRequest, pending_bytes};
use super::principal::Caller;
use super::response_writer::ResponseWriter;
use super::{failure, layer, route};
use crate::shared::panic::PanicError;

impl ServerConnection {
    /// Receives one line. Returns the requests that are still pending after their first poll.
    pub(crate) fn receive(self: &Arc<Self>, line: &[u8]) -> Vec<PendingRequest> {
        self.receive_from(&self.caller, line)
    }

    /// Receives one line of a caller whose token may be newer than that of the connection.
    pub(crate) fn receive_from(self: &Arc<Self>, caller: &Caller, line: &[u8]) -> Vec<PendingRequest> {
        let mut scanned = RequestMeta::default();
        let parsed = parse_with_meta(line, &self.config.limits, &mut scanned);
        let writer = ResponseWriter::single(self.outbox().clone());
        let pending = match parsed {
            Ok(Incoming::Single(message)) => self.receive_message(Ok(message), &scanned, caller, &writer),
            Err(error) => self.receive_message(Err(error), &scanned, caller, &writer),
            Ok(Incoming::Batch(_)) => return self.receive_batch(parsed, caller, &writer),
        };
        pending.into_iter().collect()
    }

    /// Runs one request through the pipeline, one line per stage. A stage that ends the request has answered it.
    pub(crate) fn handle_request(self: &Arc<Self>, received: ReceivedRequest<'_>) -> Option<PendingRequest> {
        let (request, admission) = self.decide(received)?;
        let request = self.check_in_flight(request, admission)?;
        match &self.config.layers {
            Some(layers) => layer::serve(self, layers, request),
            None => self.route_request(request),
        }
    }

    /// Decides which revision governs a request and which checks it must pass.
    fn decide<'a>(&'a self, received: ReceivedRequest<'a>) -> Option<(IncomingRequest<'a>, Admission)> {
        match received {
            ReceivedRequest::Line { request, meta, caller, writer } => {
                let (phase, declared) = self.negotiated();
                let (revision, admission) = match decide_request(phase, self.config.revisions, request, meta)
                {
                    StdioDecision::Serve(revision) => (revision, Admission::IfRoom),
                    StdioDecision::Initialize(revision) => (revision, Admission::IfIdUnused),
                    StdioDecision::Pong => (Revision::OLDEST, Admission::Always),
                    StdioDecision::Reject(error, revision) => {
                        writer.send_error(Some(&request.id), &error, revision);
                        return None;
                    }
                    // Not decisions about a request.
                    StdioDecision::Notification(_)
                    | StdioDecision::Initialized
                    | StdioDecision::Cancel(_)
                    | StdioDecision::Batch(_)
                    | StdioDecision::DeliverResponse
                    | StdioDecision::Ignore
                    | StdioDecision::ParseError(_) => return None,
                };
                if admission == Admission::IfRoom {
                    self.mark_ready_by_request(phase, revision);
                }
                if self.limits.check_pending(caller, pending_bytes(request)).is_err() {
                    let error = RpcError::InvalidRequest(TOO_MANY_REQUESTS.into())
                        .with("bytes", self.config.max_pending_bytes);
                    writer.send_error(Some(&request.id), &error, revision);
                    return None;
                }
                let tracking = Tracking::Connection;
                Some((
                    IncomingRequest { request, meta, revision, writer, caller, declared, tracking },
                    admission,
                ))
            }
            ReceivedRequest::Post(mut request) => {
                // All stateless requests share one connection, whose handshake none of them needs.
                if !request.revision.is_stateless() {
                    let (phase, declared) = self.negotiated();
                    self.mark_ready_by_request(phase, request.revision);
                    request.declared = declared;
                }
                match request.tracking {
                    Tracking::Connection => Some((request, Admission::IfRoom)),
                    Tracking::Layer(_) | Tracking::Untracked => Some((request, Admission::Always)),
                }
            }
        }
    }

    /// Rejects a request with an id that is in use, or above the limit of requests in flight. Drops one that its sender has
    /// already cancelled.
    fn check_in_flight<'a>(
        &self,
        request: IncomingRequest<'a>,
        admission: Admission,
    ) -> Option<IncomingRequest<'a>> {
        match self.in_flight.check(&request.request.id, admission) {
            Ok(()) => Some(request),
            Err(AdmissionError::Cancelled) => None,
            Err(AdmissionError::Error(error)) => {
                request.send_error(&error);
                None
            }
        }
    }

    /// Routes a request to what answers it, behind all layers.
    pub(crate) fn route_request(self: &Arc<Self>, request: IncomingRequest<'_>) -> Option<PendingRequest> {
        // Handlers, extractors and visibility rules are user code that runs before there is a future to poll.
        let routed = catch_unwind(AssertUnwindSafe(|| route::route(self, request)));
        let routed = routed.unwrap_or_else(|payload| {
            let panic = PanicError::from_payload(&*payload);
            let cause = failure::report_panic(panic, &request.subject(), &request.request.id);
            self.keep_failure_cause(&request.request.id, Some(cause));
            Err(RpcError::Internal)
        });
        routed.unwrap_or_else(|error| {
            request.send_error(&error);
            None
        })
    }

    fn receive_message<'a>(
        self: &Arc<Self>,
        message: Result<Message<'a>, ParseError>,
        scanned: &RequestMeta<'a>,
        caller: &Caller,
        writer: &ResponseWriter,
    ) -> Option<PendingRequest> {
        let Ok(Message::Request(request)) = &message else {
            self.receive_notification_or_response(message, writer);
            return None;
        };
        match scanned.checked(request) {
            Ok(meta) => self.handle_request(ReceivedRequest::Line { request, meta: &meta, caller, writer }),
            Err(error) => {
                let error = RpcError::invalid_params(&error);
                writer.send_error(Some(&request.id), &error, self.error_revision());
                None
            }
        }
    }

    /// Handles the messages of a batch concurrently. Their responses are written together, as one array.
    fn receive_batch(
        self: &Arc<Self>,
        message: Result<Incoming<'_>, ParseError>,
        caller: &Caller,
        writer: &ResponseWriter,
    ) -> Vec<PendingRequest> {
        let decision = decide(self.phase(), self.config.revisions, &message);
        match (decision, message) {
            (StdioDecision::Batch(_), Ok(Incoming::Batch(batch))) => {
                let max_bytes = self.config.limits.max_message_bytes.saturating_mul(2);
                let writer = ResponseWriter::batch(self.outbox().clone(), max_bytes);
                let messages = batch.into_messages().into_iter();
                messages
                    .filter_map(|message| {
                        self.receive_message(message, &RequestMeta::default(), caller, &writer)
                    })
                    .collect()
            }
            (StdioDecision::Reject(error, revision), _) => {
                writer.send_error(None, &error, revision);
                Vec::new()
            }
            // Not decisions about a batch.
            (StdioDecision::Batch(_), Ok(Incoming::Single(_)) | Err(_))
            | (
                StdioDecision::Serve(_)
                | StdioDecision::Initialize(_)
                | StdioDecision::Pong
                | StdioDecision::Notification(_)
                | StdioDecision::Initialized
                | StdioDecision::Cancel(_)
                | StdioDecision::DeliverResponse
                | StdioDecision::Ignore
                | StdioDecision::ParseError(_),
                _,
            ) => Vec::new(),
        }
    }

    /// Receives a message that is not a request, or that could not be parsed.
    pub(crate) fn receive_notification_or_response(
        self: &Arc<Self>,
        message: Result<Message<'_>, ParseError>,
        writer: &ResponseWriter,
    ) {
        if let (Ok(Message::Notification(notification)), Some(handler)) =
            (&message, &self.config.notification_handler)
            && ![Cancelled::NAME, Initialized::NAME].contains(&&*notification.method)
            && self.revision().is_some()
        {
            return handler.handle_notification(self, &notification.method, notification.params);
        }
        let message = message.map(Incoming::Single);
        match (decide(self.phase(), self.config.revisions, &message), message) {
            (StdioDecision::ParseError(revision), Err(error)) => writer.send_parse_error(&error, revision),
            (StdioDecision::Initialized, _) => self.mark_ready(),
            (StdioDecision::Cancel(id), message) => self.in_flight.cancel(&id, cancel_reason(&message)),
            (StdioDecision::DeliverResponse, Ok(Incoming::Single(Message::Response(response)))) => {
                self.outgoing_requests().receive_response(response);
            }
            // The server does nothing on other notifications: it asks for the roots when it needs them.
            (StdioDecision::Notification(_) | StdioDecision::Ignore | StdioDecision::Reject(..), _) => {}
            // Not decisions about a notification, a response or a parse error.
            (
                StdioDecision::Serve(_)
                | StdioDecision::Initialize(_)
                | StdioDecision::Pong
                | StdioDecision::Batch(_)
                | StdioDecision::DeliverResponse
                | StdioDecision::ParseError(_),
                _,
            ) => {}
        }
    }

    /// Answers a line that is longer than the limit and was not read.
    pub(crate) fn reject_oversized_message(&self) {
        ResponseWriter::single(self.outbox().clone()).send_parse_error(
            &ParseError::too_long(self.config.limits.max_message_bytes),
            self.error_revision(),
        );
    }

    /// Takes the first request of a client as its `notifications/initialized`, which some clients never send.
    fn mark_ready_by_request(&self, phase: HandshakePhase, revision: Revision) {
        if !revision.is_stateless() && matches!(phase, HandshakePhase::Negotiated(_)) {
            self.mark_ready();
        }
    }

    /// Answers a request with a result that is known at once.
    pub(crate) fn send_result<M: Method>(&self, request: IncomingRequest<'_>, mut output: M::Output)
    where
        M::Output: Translate,
    {
        let (id, revision) = (&request.request.id, request.revision);
        request.writer.send_result::<M>(id, &mut output, revision, &self.config.stamp);
    }
}

/// A parsed request at the start of the pipeline.
pub(crate) enum ReceivedRequest<'a> {
    /// From a line: the connection decides which revision governs it.
    Line {
        request: &'a Request<'a>,
        meta: &'a RequestMeta<'a>,
        caller: &'a Caller,
        writer: &'a ResponseWriter,
    },
    /// From an HTTP POST: the transport has decided by its headers and its session.
    Post(IncomingRequest<'a>),
}

/// The reason in `notifications/cancelled`.
fn cancel_reason(message: &Result<Incoming<'_>, ParseError>) -> Option<String> {
    let Ok(Incoming::Single(Message::Notification(notification))) = message else { return None };
    // Every revision writes it alike.
    read_notification::<Cancelled>(notification.params(), Revision::NEWEST).ok()?.reason
}
