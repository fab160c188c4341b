//! HTTP+SSE, the transport of 2024-11-05: one stream for all messages of the server and a path to POST to.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use http::{Response, StatusCode};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use tsugite_core::base64;
use tsugite_core::jsonrpc::{Incoming, Message, parse};
use tsugite_core::session::http::{decide_http_sse, decide_http_sse_discover};
use tsugite_core::session::request_meta::{RequestMeta, parse_with_meta};

use super::http_state::HttpState;
use super::request_head::RequestHead;
use super::response_body::HttpBody;
use super::responses::{StatusError, empty, http_error, parse_error, sse, status_error, store_unavailable};
use super::shared_session::{SESSION_FIELD, http_sse_key};
use super::sse_body::{KeepAlive, SseBody};
use crate::replica::{OtherMembers, RecordError, ReplicaMessage, digest};
use crate::server::connection::ServerConnection;
use crate::server::dispatch::ReceivedRequest;
use crate::server::incoming_request::{IncomingRequest, Tracking};
use crate::server::limits::LimitPermit;
use crate::server::pending::PendingRequest;
use crate::server::principal::Caller;
use crate::server::{DeclaredCapabilities, Headers, Principal, ResponseWriter};
use crate::shared::boxed::boxed;
use crate::shared::principal::{CallerIdentity, is_same_caller};
use crate::store::{Precondition, Recipient, StoreError, Write};

/// Opens a stream: its first event says where to post, all messages of the server follow.
pub(super) async fn open_stream(state: &Arc<HttpState>, head: &RequestHead) -> Response<HttpBody> {
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
    let name = state.is_shared().then(|| digest(id.as_bytes()));
    if let Some(name) = &name
        && let Err(error) = store_session(state, name, &connection).await
    {
        return store_unavailable(&*error);
    }
    state.http_sse_sessions.insert(id.clone(), name, connection.clone());
    state.start_sweeper();
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

/// The session that a POST names.
pub(super) enum HttpSseSession {
    Local(Arc<ServerConnection>),
    /// Perhaps at another replica, under this name in the store.
    Elsewhere(String),
}

/// Finds the session that a POST names.
pub(super) fn find_session(state: &HttpState, head: &RequestHead) -> Result<HttpSseSession, StatusError> {
    let query = head.uri.query().unwrap_or_default();
    let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
    let found = id.and_then(|id| state.http_sse_sessions.find(id, head.principal.as_ref()));
    match (found, id) {
        (Some(connection), _) => Ok(HttpSseSession::Local(connection)),
        (None, Some(id)) if state.is_shared() && id.len() <= MAX_ID => {
            Ok(HttpSseSession::Elsewhere(digest(id.as_bytes())))
        }
        (None, _) => Err(session_not_found()),
    }
}

fn session_not_found() -> StatusError {
    StatusError::new(StatusCode::NOT_FOUND, "Session not found")
}

/// A session as it is stored: the replica that has its stream, and the caller who opened it.
#[derive(Serialize, Deserialize)]
struct HttpSseRecord {
    replica: String,
    principal: Option<CallerIdentity>,
    #[serde(flatten)]
    other: OtherMembers,
}

/// Stores a new session, so that other replicas can pass its messages on.
async fn store_session(
    state: &HttpState,
    name: &str,
    connection: &ServerConnection,
) -> Result<(), StoreError> {
    let Some(replica) = &state.replica else { return Ok(()) };
    replica.start();
    let principal = connection.caller.principal.as_ref();
    let record = HttpSseRecord {
        replica: replica.name().to_owned(),
        principal: principal.map(Principal::identity),
        other: OtherMembers::default(),
    };
    let key = http_sse_key(name);
    let write = Write::Set {
        key: &key,
        field: SESSION_FIELD,
        value: replica.seal_record(&key, SESSION_FIELD, &record)?,
        precondition: Precondition::None,
        ttl: state.session_ttl(),
    };
    state.store.commit(&[write]).await?.map(drop).map_err(|_| "the session exists already".into())
}

/// Stores a message for the replica that has the stream of its session.
pub(super) async fn forward_message(
    state: &HttpState,
    name: &str,
    caller: &Caller,
    bytes: &[u8],
) -> Response<HttpBody> {
    if let Err(wrong) = parse(bytes, &state.config.limits) {
        return parse_error(&wrong, state.config.revisions.error_fallback());
    }
    let Some(replica) = &state.replica else { return session_not_found().into() };
    let key = http_sse_key(name);
    let fields = match state.store.read(&key, &[SESSION_FIELD]).await {
        Ok(fields) => fields.unwrap_or_default(),
        Err(error) => return store_unavailable(&*error),
    };
    let Some(sealed) = fields.into_iter().next().flatten() else { return session_not_found().into() };
    let record: HttpSseRecord = match replica.open_record(&key, SESSION_FIELD, &sealed.value) {
        Ok(record) => record,
        Err(error @ RecordError::Newer(_)) => return store_unavailable(&error),
        Err(RecordError::Sealed | RecordError::Malformed) => return session_not_found().into(),
    };
    let opener = record.principal.as_ref().map(CallerIdentity::to_principal);
    if !is_same_caller(opener.as_ref(), caller.principal.as_ref()) {
        return session_not_found().into();
    }
    let message = String::from_utf8_lossy(bytes).into_owned();
    let principal = caller.principal.as_ref();
    let scopes = principal.map(|principal| principal.scopes().to_vec()).unwrap_or_default();
    let expires_at = principal.and_then(Principal::expires_at);
    let message = ReplicaMessage::HttpSseMessage { session: name.to_owned(), message, scopes, expires_at };
    let Some(write) = replica.send(Recipient::Replica(&record.replica), &message) else {
        return session_not_found().into();
    };
    match state.store.commit(&[write]).await {
        Ok(_) => empty(StatusCode::ACCEPTED),
        Err(error) => store_unavailable(&*error),
    }
}

/// Handles a message that another replica has received from the caller of the session, with the scopes and the expiry of the
/// token that it came with.
pub(super) async fn handle_forwarded(
    state: &HttpState,
    name: &str,
    bytes: &[u8],
    scopes: &[String],
    expires_at: Option<SystemTime>,
) {
    if let Some(connection) = state.http_sse_sessions.find_by_name(name) {
        let mut caller = connection.caller.clone();
        let principal = caller.principal.map(|principal| principal.with_scopes(scopes.iter().cloned()));
        caller.principal = match expires_at {
            Some(expires_at) => principal.map(|principal| principal.with_expiry(expires_at)),
            None => principal,
        };
        state.server.shared.token_expiries.note(caller.principal.as_ref());
        connection.note_principal(caller.principal.as_ref());
        drop(handle_message(state, &connection, &caller, bytes).await);
    }
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

    fn can_end(&self) -> bool {
        !self.connection.has_in_flight()
    }
}

impl Drop for HttpSseBody {
    fn drop(&mut self) {
        let name = self.state.http_sse_sessions.remove(&self.id);
        self.connection.abort_all();
        if let (Some(name), Ok(runtime)) = (name, tokio::runtime::Handle::try_current()) {
            let (store, key) = (self.state.store.clone(), http_sse_key(&name));
            runtime.spawn(boxed(async move { drop(store.commit(&[Write::Delete { key: &key }]).await) }));
        }
    }
}

/// The longest id of a session that is looked up.
const MAX_ID: usize = 128;
