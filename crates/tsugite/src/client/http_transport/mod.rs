//! Messages over Streamable HTTP and HTTP+SSE: what a request says, and how its response is read.
//!
//! - `response_stream`: responses as event streams, and how a broken stream is resumed.
//! - `standalone_stream`: the stream for messages outside of calls.
//! - `http_sse_stream`, `http_sse_messages`: the stream of HTTP+SSE, and the messages to its server.

mod http_sse_messages;
mod http_sse_stream;
mod response_stream;
mod standalone_stream;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use tsugite_core::jsonrpc::{ErrorObject, Id, Incoming, Message, parse};
use tsugite_core::protocol::lifecycle::Initialize;
use tsugite_core::protocol::subscriptions::Listen;
use tsugite_core::protocol::{Method as _, tools};
use tsugite_core::revision::Revision;

pub(super) use standalone_stream::start_standalone_stream;

use super::call_error::CallError;
use super::client_error::{ClientError, ErrorKind};
use super::client_settings::Direction;
use super::connection::ClientConnection;
use super::encoded_request::EncodedRequest;
use super::era::Era;
use super::http::{
    CallInfo, MAX_ERROR_BODY_BYTES, Repeat, RequestKind, ResponseReader, StreamableHttp, excerpt,
    message_headers, user_header,
};
use super::pending_calls::PendingCall;
use super::transport::{self, ServerReply};
use crate::lock::lock;

/// The response to a probe: the status and the complete body.
pub(super) struct ProbeResponse {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

impl StreamableHttp {
    /// Sends a request and waits for its response, on this or another stream.
    pub(super) async fn exchange(
        &self,
        connection: &Arc<ClientConnection>,
        call: &Arc<PendingCall>,
        outgoing: EncodedRequest<'_>,
    ) -> Result<ServerReply, CallError> {
        let had_session = lock(&self.session_id).is_some();
        let (revision, mut outgoing) = (connection.revision(), outgoing);
        let body = std::mem::take(&mut outgoing.bytes).into();
        let headers = || self.request_headers(connection, revision, &outgoing);
        let is_outcome = |body: &[u8]| parse_response(body, connection, call).is_some();
        let repeat = if outgoing.harmless { Repeat::Unless(&is_outcome) } else { Repeat::Never };
        let kind = request_kind(&outgoing, call);
        let response = self.endpoint.send(kind, &self.endpoint.uri, &headers, body, repeat).await?;
        let may_have_run_before = response.may_have_run_before;
        let outcome = match response.status {
            StatusCode::OK if response.is_stream() => {
                // Other calls have a timeout.
                let max_silence = connection.shared.settings.max_stream_silence();
                let max_silence = max_silence.filter(|_| outgoing.method == Listen::NAME);
                Box::pin(self.read_event_stream(connection, call, response, max_silence)).await
            }
            StatusCode::OK => {
                let body = response.read_to_end(connection.limits().max_message_bytes).await?;
                self.read_json_response(connection, call, &body).await
            }
            // The response arrives on another stream.
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
                response.discard();
                await_response(call).await
            }
            _ => {
                let session = had_session.then_some(outgoing.method);
                Box::pin(self.read_error_response(connection, call, response, session)).await
            }
        };
        outcome.map_err(|error| error.after_attempts(may_have_run_before))
    }

    /// Sends a probe or `initialize`, and returns the response without judging it.
    pub(super) async fn probe(
        &self,
        connection: &Arc<ClientConnection>,
        outgoing: EncodedRequest<'_>,
        revision: Revision,
        call: &Arc<PendingCall>,
    ) -> Result<ProbeResponse, CallError> {
        let is_initialize = outgoing.method == Initialize::NAME;
        connection.shared.trace_message(Direction::Sent, &outgoing.bytes);
        let mut outgoing = outgoing;
        let body = std::mem::take(&mut outgoing.bytes).into();
        let headers = || match is_initialize {
            true => Ok(message_headers()),
            false => self.request_headers(connection, revision, &outgoing),
        };
        let is_outcome = |body: &[u8]| parse_response(body, connection, call).is_some();
        let repeat = Repeat::Unless(&is_outcome);
        let kind = request_kind(&outgoing, call);
        let mut response = self.endpoint.send(kind, &self.endpoint.uri, &headers, body, repeat).await?;
        let status = response.status.as_u16();
        if is_initialize && response.status == StatusCode::OK {
            let session_id = response.headers.get(MCP_SESSION_ID);
            session_id.map_or(Ok(()), check_session_id)?;
            *lock(&self.session_id) = session_id.cloned();
            *lock(&self.session_subject) = self.current_subject();
        }
        if response.status == StatusCode::OK && response.is_stream() {
            let body = self.first_response(connection, call, &mut response).await?;
            connection.shared.trace_message(Direction::Received, &body);
            response.discard();
            return Ok(ProbeResponse { status, body });
        }
        let body = response.read_to_end(connection.limits().max_message_bytes).await?;
        trace_body(connection, &body);
        Ok(ProbeResponse { status, body })
    }

    /// Sends a notification or a response.
    pub(super) async fn send_message(
        &self,
        connection: &Arc<ClientConnection>,
        bytes: Vec<u8>,
    ) -> Result<(), CallError> {
        let headers = || {
            let mut headers = message_headers();
            self.insert_session_headers(&mut headers, connection, connection.revision())?;
            Ok(headers)
        };
        let response = self
            .endpoint
            .send(RequestKind::Message, &self.endpoint.uri, &headers, bytes.into(), Repeat::ALWAYS)
            .await?;
        let status = response.status;
        if status.is_success() {
            response.discard();
            return Ok(());
        }
        if status == StatusCode::NOT_FOUND && lock(&self.session_id).is_some() {
            connection.mark_disconnected(SESSION_EXPIRED);
            return Err(CallError::not_sent(SESSION_EXPIRED));
        }
        let retry_after = response.retry_after();
        let body = excerpt(&response.read_to_end(MAX_ERROR_BODY_BYTES).await.unwrap_or_default());
        Err(ClientError::status(status.as_u16(), body, retry_after).into())
    }

    /// Ends the session with DELETE.
    pub(super) async fn close(&self, connection: &Arc<ClientConnection>) {
        if lock(&self.session_id).is_none() || connection.disconnect_reason().is_some() {
            return;
        }
        let headers = || {
            let mut headers = HeaderMap::new();
            self.insert_session_headers(&mut headers, connection, connection.revision())?;
            Ok(headers)
        };
        let request = self.endpoint.send(
            RequestKind::EndSession,
            &self.endpoint.uri,
            &headers,
            Bytes::new(),
            Repeat::ALWAYS,
        );
        // 405 is normal: a server need not allow clients to end sessions (Streamable HTTP, "Session Management").
        if let Ok(Ok(response)) = tokio::time::timeout(SESSION_DELETE_TIMEOUT, request).await {
            response.discard();
        }
    }

    fn request_headers(
        &self,
        connection: &ClientConnection,
        revision: Revision,
        outgoing: &EncodedRequest<'_>,
    ) -> Result<HeaderMap, CallError> {
        let mut headers = message_headers();
        self.insert_session_headers(&mut headers, connection, revision)?;
        for (name, value) in Era::from(revision).routing_headers(outgoing.method, outgoing.name) {
            headers.insert(HeaderName::from_static(name), header_value(&value)?);
        }
        for (name, value) in &outgoing.param_headers {
            let name = HeaderName::try_from(name.as_str())
                .map_err(|_| ClientError::config(format!("{name:?} is not a valid header name")))?;
            headers.insert(name, header_value(value)?);
        }
        for (name, value) in outgoing.extra_headers {
            let (name, value) = user_header(name, value)?;
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Adds the headers of the revision and the session. Fails, and ends the connection, if the session belongs to another
    /// identity than the next request.
    fn insert_session_headers(
        &self,
        headers: &mut HeaderMap,
        connection: &ClientConnection,
        revision: Revision,
    ) -> Result<(), CallError> {
        headers.insert(MCP_PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        if Era::from(revision).has_sessions()
            && let Some(session) = &*lock(&self.session_id)
        {
            let current = self.current_subject();
            let mut known = lock(&self.session_subject);
            // The first login may come after the handshake.
            if known.is_none() {
                known.clone_from(&current);
            }
            if *known != current {
                drop(known);
                connection.mark_disconnected(IDENTITY_CHANGED);
                return Err(CallError::not_sent(IDENTITY_CHANGED));
            }
            headers.insert(MCP_SESSION_ID, session.clone());
        }
        Ok(())
    }

    /// The identity of the next request, if the authorizer knows it.
    fn current_subject(&self) -> Option<String> {
        self.endpoint.authorization.as_ref()?.subject()
    }

    /// Reads the response from a JSON body. Other messages in the body are dispatched.
    async fn read_json_response(
        &self,
        connection: &Arc<ClientConnection>,
        call: &Arc<PendingCall>,
        body: &[u8],
    ) -> Result<ServerReply, CallError> {
        trace_body(connection, body);
        match parse(body, connection.limits()) {
            Ok(Incoming::Single(Message::Response(response)))
                if response.id.as_ref().is_none_or(|id| *id == Id::from(call.id())) =>
            {
                Ok(response.outcome.map(|result| result.to_owned()))
            }
            Ok(Incoming::Single(_) | Incoming::Batch(_)) => {
                connection.dispatch(body, Some(call));
                match call.is_complete() {
                    true => await_response(call).await,
                    false => Err(ErrorKind::Protocol(
                        "the server's response does not answer the request".to_owned(),
                    )
                    .into()),
                }
            }
            Err(error) => {
                let message =
                    format!("the server's response is not a message: {:?}: {}", error.kind, excerpt(body));
                Err(ErrorKind::Protocol(message).into())
            }
        }
    }

    /// Reads a response whose status is not a success: a lost session, the outcome of the call, or an HTTP error.
    /// `session` is the method of a request that was sent in a session.
    async fn read_error_response(
        &self,
        connection: &Arc<ClientConnection>,
        call: &Arc<PendingCall>,
        response: ResponseReader,
        session: Option<&str>,
    ) -> Result<ServerReply, CallError> {
        let (status, retry_after) = (response.status, response.retry_after());
        // The status is enough: a body that is too long or cut off must not hide it.
        let body = response.read_to_end(MAX_ERROR_BODY_BYTES).await.unwrap_or_default();
        trace_body(connection, &body);
        let session = session.filter(|_| connection.era().has_sessions());
        if session.is_some() && status == StatusCode::NOT_FOUND {
            connection.mark_disconnected(SESSION_EXPIRED);
            return Err(CallError::not_sent(SESSION_EXPIRED));
        }
        if let Some(outcome) = parse_response(&body, connection, call) {
            return Ok(outcome);
        }
        let error = parse_anonymous_error(&body, connection);
        if connection.shared.settings.session_expired_on_400
            && session.is_some_and(|method| method != tools::Call::NAME)
            && error.as_ref().is_some_and(|error| is_session_expired(status, error))
        {
            connection.mark_disconnected(SESSION_EXPIRED);
            return Err(CallError::not_sent(SESSION_EXPIRED));
        }
        outcome_in_error_body(status, &body, connection, call)
            .ok_or_else(|| ClientError::status(status.as_u16(), excerpt(&body), retry_after).into())
    }
}

/// The outcome of a call in the body of a response whose status is not a success: a response under its id, or an error of a
/// server that did not read the id.
fn outcome_in_error_body(
    status: StatusCode,
    body: &[u8],
    connection: &ClientConnection,
    call: &PendingCall,
) -> Option<ServerReply> {
    let says_what_is_wrong = status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS;
    parse_response(body, connection, call)
        .or_else(|| parse_anonymous_error(body, connection).filter(|_| says_what_is_wrong).map(Err))
}

/// The kind of a request, which decides whether it waits while all connections are in use.
fn request_kind<'a>(outgoing: &EncodedRequest<'a>, call: &'a Arc<PendingCall>) -> RequestKind<'a> {
    let info = CallInfo { call, method: outgoing.method, name: outgoing.name };
    match outgoing.checks_liveness || outgoing.method == Listen::NAME {
        true => RequestKind::Unlimited(info),
        false => RequestKind::Call(info),
    }
}

/// Reports a received body to the wire callback, unless it is empty.
fn trace_body(connection: &ClientConnection, body: &[u8]) {
    if !body.trim_ascii().is_empty() {
        connection.shared.trace_message(Direction::Received, body);
    }
}

/// Waits for a response that arrives on another stream.
async fn await_response(call: &PendingCall) -> Result<ServerReply, CallError> {
    transport::into_rpc_result(call.outcome().await)
}

/// The response to this call in a body: it is the outcome, whatever the HTTP status.
fn parse_response(body: &[u8], connection: &ClientConnection, call: &PendingCall) -> Option<ServerReply> {
    match parse(body, connection.limits()) {
        Ok(Incoming::Single(Message::Response(response))) if response.id == Some(Id::from(call.id())) => {
            Some(response.outcome.map(|result| result.to_owned()))
        }
        _ => None,
    }
}

/// The JSON-RPC error in a body that names no request.
fn parse_anonymous_error(body: &[u8], connection: &ClientConnection) -> Option<ErrorObject> {
    match parse(body, connection.limits()) {
        Ok(Incoming::Single(Message::Response(response))) if response.id.is_none() => response.outcome.err(),
        _ => None,
    }
}

/// Whether a 400 means that the session has expired: some servers send it where the specification requires 404.
fn is_session_expired(status: StatusCode, error: &ErrorObject) -> bool {
    let message = error.message.to_ascii_lowercase();
    status == StatusCode::BAD_REQUEST && (message.contains("session") || message.contains("not initialized"))
}

/// Refuses a session id that is too long to be kept and sent with each request, or that holds other bytes than visible
/// ASCII (Streamable HTTP, "Session Management").
fn check_session_id(value: &HeaderValue) -> Result<(), ClientError> {
    let bytes = value.as_bytes();
    let problem = if bytes.len() > MAX_SESSION_ID_BYTES {
        format!("has {} bytes; the limit is {MAX_SESSION_ID_BYTES}", bytes.len())
    } else if bytes.is_empty() || !bytes.iter().all(u8::is_ascii_graphic) {
        "is empty, or holds other characters than visible ASCII".to_owned()
    } else {
        return Ok(());
    };
    Err(ErrorKind::Protocol(format!("the session id of the server (`Mcp-Session-Id`) {problem}")).into())
}

fn header_value(value: &str) -> Result<HeaderValue, ClientError> {
    HeaderValue::try_from(value)
        .map_err(|_| ClientError::config(format!("{value:?} is not a valid header value")))
}

const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const IDENTITY_CHANGED: &str = "the session belongs to another identity";
const SESSION_EXPIRED: &str = "the session has expired";
/// The size limit of a session id.
const MAX_SESSION_ID_BYTES: usize = 1 << 10;
/// The timeout of the DELETE that ends a session.
const SESSION_DELETE_TIMEOUT: Duration = Duration::from_secs(2);
