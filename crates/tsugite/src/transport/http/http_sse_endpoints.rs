//! HTTP+SSE, the transport of 2024-11-05: one stream for all messages of the server and a path to POST to.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Response, StatusCode};
use ring::rand::{SecureRandom, SystemRandom};
use tsugite_core::base64;
use tsugite_core::jsonrpc::{Incoming, Message, parse};
use tsugite_core::session::http::{decide_http_sse, decide_http_sse_discover};
use tsugite_core::session::request_meta::{RequestMeta, parse_with_meta};

use super::http_state::HttpState;
use super::request_head::RequestHead;
use super::response_body::HttpBody;
use super::responses::{StatusError, empty, http_error, parse_error, sse, status_error};
use super::sse_body::{KeepAlive, SseBody};
use crate::server::connection::ServerConnection;
use crate::server::dispatch::ReceivedRequest;
use crate::server::incoming_request::{IncomingRequest, Tracking};
use crate::server::limits::LimitPermit;
use crate::server::pending::PendingRequest;
use crate::server::principal::Caller;
use crate::server::{DeclaredCapabilities, Headers, ResponseWriter};

/// Opens a stream: its first event says where to post, all messages of the server follow.
pub(super) fn open_stream(state: &Arc<HttpState>, head: &RequestHead) -> Response<HttpBody> {
    let Some(paths) = &state.http.http_sse_paths else { return empty(StatusCode::NOT_FOUND) };
    let messages = &paths.messages;
    if let Err(error) = decide_http_sse(&state.policy) {
        return http_error(&error, None, "GET");
    }
    if let Err(error) = head.check_fetch_site() {
        return error.into();
    }
    if !head.accepts_events() {
        return status_error(
            StatusCode::NOT_ACCEPTABLE,
            "A stream is `text/event-stream`: `Accept` must say so",
        );
    }
    let open = match state.open_stream(head.caller_key()) {
        Ok(open) => open,
        Err(error) => return StatusError::from(error).into(),
    };
    let mut bits = [0; 24];
    if SystemRandom::new().fill(&mut bits).is_err() {
        return status_error(StatusCode::INTERNAL_SERVER_ERROR, "No session could be opened");
    }
    let id = base64::encode_url(&bits);
    let connection = ServerConnection::with_limits(
        &state.server,
        state.http_sse_config.clone(),
        Caller { headers: Headers::default(), ..head.caller() },
        &state.limits,
    );
    connection.outbox();
    state.http_sse_sessions.insert(id.clone(), connection.clone());
    let first = Some(Bytes::from(format!("event: endpoint\ndata: {messages}?sessionId={id}\n\n")));
    sse(HttpBody::sse(HttpSseBody {
        keep_alive: KeepAlive::new(state),
        state: state.clone(),
        id,
        connection,
        endpoint_event: first,
        _open_stream: open,
    }))
}

/// Finds the connection that a POST names.
pub(super) fn find_connection(
    state: &HttpState,
    head: &RequestHead,
) -> Result<Arc<ServerConnection>, StatusError> {
    let query = head.uri.query().unwrap_or_default();
    let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
    let found = id.and_then(|id| state.http_sse_sessions.find(id, head.principal.as_ref()));
    found.ok_or(StatusError::new(StatusCode::NOT_FOUND, "Session not found"))
}

/// Handles a message of a caller. The response is sent on the stream.
pub(super) async fn handle_message(
    state: &HttpState,
    connection: &Arc<ServerConnection>,
    caller: &Caller,
    bytes: &[u8],
) -> Response<HttpBody> {
    if let Err(wrong) = parse(bytes, &state.config.limits) {
        return parse_error(&wrong, state.config.revisions.error_fallback());
    }
    // A client that does not read its responses cannot send more requests.
    connection.outbox().wait_for_capacity().await;
    if let Err(error) = state.limits.check_pending(caller, bytes.len()) {
        return StatusError::from(error).into();
    }
    let pending = match answer_bare_discover(state, connection, caller, bytes) {
        Some(pending) => pending.into_iter().collect(),
        None => connection.receive_from(caller, bytes),
    };
    connection.spawn(pending);
    empty(StatusCode::ACCEPTED)
}

/// Answers `mcp/discover` without `_meta`, at any time. `None` if the message is another one.
fn answer_bare_discover(
    state: &HttpState,
    connection: &Arc<ServerConnection>,
    caller: &Caller,
    bytes: &[u8],
) -> Option<Option<PendingRequest>> {
    let mut meta = RequestMeta::default();
    let parsed = parse_with_meta(bytes, &state.config.limits, &mut meta);
    let Ok(Incoming::Single(Message::Request(request))) = &parsed else { return None };
    let revision = decide_http_sse_discover(&state.policy, request, &meta)?;
    let writer = ResponseWriter::single(connection.outbox().clone());
    Some(state.stateless.handle_request(ReceivedRequest::Post(IncomingRequest {
        request,
        meta: &meta,
        revision,
        writer: &writer,
        caller,
        declared: DeclaredCapabilities::default(),
        tracking: Tracking::Untracked,
    })))
}

struct HttpSseBody {
    state: Arc<HttpState>,
    id: String,
    connection: Arc<ServerConnection>,
    endpoint_event: Option<Bytes>,
    keep_alive: KeepAlive,
    _open_stream: LimitPermit,
}

impl SseBody for HttpSseBody {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.endpoint_event.take() {
            return Poll::Ready(Some(first));
        }
        let outbox = self.connection.outbox().clone();
        let mut messages = Vec::new();
        loop {
            if outbox.take_all(&mut messages) {
                self.keep_alive.reset();
                let mut text = Vec::with_capacity(messages.len() + 64);
                for line in messages.split_inclusive(|byte| *byte == b'\n') {
                    text.extend_from_slice(b"event: message\n");
                    super::event_stream::write_event(&mut text, line);
                }
                return Poll::Ready(Some(Bytes::from(text)));
            }
            if outbox.is_closed() || self.state.is_closing() && !self.connection.has_in_flight() {
                return Poll::Ready(None);
            }
            if outbox.poll_readable(cx).is_pending() {
                return self.keep_alive.poll(cx).map(Some);
            }
        }
    }
}

impl Drop for HttpSseBody {
    fn drop(&mut self) {
        self.state.http_sse_sessions.remove(&self.id);
        self.connection.abort_all();
    }
}
