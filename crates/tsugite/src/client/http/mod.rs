//! Over HTTP: [`StreamableHttp`] speaks Streamable HTTP, [`HttpSse`] the two-part transport of 2024-11-05.
//!
//! - `address`: where a server is. `dial`, `tls`: a new connection. `pool`: connections that are used again.
//! - `send`: one request and the head of its answer, with credentials, redirects and busy servers dealt with.
//! - `stream`: answers that come as events, and how a broken stream is taken up again.
//! - `open`: which revision, and the handshake. `hear`: the stream on which a server says what belongs to no call.

mod address;
mod authorizer;
mod connector;
mod full_body;
mod http_endpoint;
mod http_sse;
mod pool;
mod probe;
mod response_stream;
mod standalone_stream;
#[cfg(feature = "tls")]
#[path = "tls_with.rs"]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "tls_without.rs"]
mod tls;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, StatusCode};
use tsugite_core::jsonrpc::{ErrorObject, Id, Incoming, Message, parse};
use tsugite_core::protocol::Method as _;
use tsugite_core::protocol::lifecycle::Initialize;
use tsugite_core::revision::Revision;

pub use authorizer::Authorizer;
pub(super) use http_sse::HttpSse;
pub(super) use probe::{open, start_standalone_stream};
pub(super) use tls::Tls;

use super::call_error::CallError;
use super::client_error::{ClientError, ErrorKind, truncate};
use super::client_settings::Direction;
use super::connection::ClientConnection;
use super::era::Era;
use super::pending_calls::PendingCall;
use super::transport::{self, EncodedRequest, ServerReply};
use crate::lock::lock;
use address::Address;
use http_endpoint::{HttpEndpoint, ResponseReader, message_headers};
use pool::ConnectionPool;

/// How to reach a server over HTTP.
#[derive(Clone)]
pub(super) struct HttpConfig {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    /// Certificates that are trusted besides those of this machine.
    pub(super) root_certificates: Vec<PathBuf>,
    /// How long each step of connecting may take.
    pub(super) connect_timeout: Duration,
    /// Whether only HTTP+SSE is to be spoken.
    pub(super) sse_only: bool,
    /// Whether only Streamable HTTP is to be spoken.
    pub(super) streamable_only: bool,
    /// What encrypts, once it was needed: reading what this machine trusts takes its time.
    tls: Arc<OnceLock<Tls>>,
}

impl HttpConfig {
    pub(super) fn new(url: String) -> Self {
        let connect_timeout = Duration::from_secs(10);
        Self {
            url,
            headers: Vec::new(),
            authorizer: None,
            root_certificates: Vec::new(),
            connect_timeout,
            sse_only: false,
            streamable_only: false,
            tls: Arc::default(),
        }
    }

    fn tls(&self) -> Result<Tls, ClientError> {
        match self.tls.get() {
            Some(tls) => Ok(tls.clone()),
            None => {
                let tls = Tls::new(&self.root_certificates)
                    .map_err(|error| ClientError::config(error.to_string()))?;
                Ok(self.tls.get_or_init(|| tls).clone())
            }
        }
    }

    fn endpoint(&self, patience: Duration) -> Result<HttpEndpoint, ClientError> {
        let address = Address::parse(&self.url)?;
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tsugite/", env!("CARGO_PKG_VERSION"))));
        for (name, value) in &self.headers {
            let (name, value) = http_endpoint::user_header(name, value)?;
            headers.insert(name, value);
        }
        let tls = match address.origin.secure {
            true => Some(self.tls()?),
            false => None,
        };
        let pool = ConnectionPool::new(address.origin.clone(), tls, self.connect_timeout);
        HttpEndpoint::new(address, pool, headers, self.authorizer.clone(), patience)
    }
}

/// Streamable HTTP to one server.
pub(super) struct StreamableHttp {
    endpoint: HttpEndpoint,
    /// Given by the server with its answer to `initialize`, up to 2025-11-25.
    session_id: Mutex<Option<HeaderValue>>,
}

/// What came back for a question about the revision: read whole, judged by whoever asked.
pub(super) struct ProbeResponse {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

impl StreamableHttp {
    pub(super) fn new(url: &HttpConfig, patience: Duration) -> Result<Self, ClientError> {
        Ok(Self { endpoint: url.endpoint(patience)?, session_id: Mutex::default() })
    }

    /// Sends a request and waits for its answer, wherever it comes.
    pub(super) async fn exchange(
        &self,
        link: &Arc<ClientConnection>,
        waiting: &Arc<PendingCall>,
        outgoing: EncodedRequest<'_>,
    ) -> Result<ServerReply, CallError> {
        let had_session = lock(&self.session_id).is_some();
        let (revision, mut outgoing) = (link.revision(), outgoing);
        let body = std::mem::take(&mut outgoing.bytes).into();
        let headers = || self.request_headers(revision, &outgoing);
        let reply = self.endpoint.send(Method::POST, &self.endpoint.uri, &headers, body).await?;
        match reply.status {
            StatusCode::OK if reply.is_stream() => {
                Box::pin(self.read_event_stream(link, waiting, reply)).await
            }
            StatusCode::OK => {
                let body = reply.read_to_end(link.limits().max_message_bytes).await?;
                self.read_json_response(link, waiting, &body).await
            }
            // The answer comes on another stream.
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
                reply.discard();
                await_response(waiting).await
            }
            _ => Box::pin(self.read_error_response(link, waiting, reply, had_session)).await,
        }
    }

    /// Asks which revision the server speaks, or opens a session: whatever comes back is given as it is.
    pub(super) async fn probe(
        &self,
        link: &Arc<ClientConnection>,
        outgoing: EncodedRequest<'_>,
        revision: Revision,
        waiting: &Arc<PendingCall>,
    ) -> Result<ProbeResponse, CallError> {
        let opens = outgoing.method == Initialize::NAME;
        link.shared.trace_message(Direction::Sent, &outgoing.bytes);
        let mut outgoing = outgoing;
        let body = std::mem::take(&mut outgoing.bytes).into();
        let headers = || match opens {
            true => Ok(message_headers()),
            false => self.request_headers(revision, &outgoing),
        };
        let mut reply = self.endpoint.send(Method::POST, &self.endpoint.uri, &headers, body).await?;
        let status = reply.status.as_u16();
        if opens && reply.status == StatusCode::OK {
            *lock(&self.session_id) = reply.headers.get(MCP_SESSION_ID).cloned();
        }
        if reply.status == StatusCode::OK && reply.is_stream() {
            let body = self.first_response(link, waiting, &mut reply).await?;
            link.shared.trace_message(Direction::Received, &body);
            reply.discard();
            return Ok(ProbeResponse { status, body });
        }
        let body = reply.read_to_end(link.limits().max_message_bytes).await?;
        trace_body(link, &body);
        Ok(ProbeResponse { status, body })
    }

    /// Sends a notification or an answer.
    pub(super) async fn send_message(
        &self,
        link: &Arc<ClientConnection>,
        bytes: Vec<u8>,
    ) -> Result<(), CallError> {
        let headers = || {
            let mut headers = message_headers();
            self.insert_session_headers(&mut headers, link.revision());
            Ok(headers)
        };
        let reply = self.endpoint.send(Method::POST, &self.endpoint.uri, &headers, bytes.into()).await?;
        let status = reply.status;
        if status.is_success() {
            reply.discard();
            return Ok(());
        }
        if status == StatusCode::NOT_FOUND && lock(&self.session_id).is_some() {
            link.mark_disconnected(SESSION_EXPIRED);
            return Err(CallError::not_sent(SESSION_EXPIRED));
        }
        let said = excerpt(&reply.read_to_end(MAX_ERROR_BODY_BYTES).await.unwrap_or_default());
        Err(ErrorKind::Status { status: status.as_u16(), body: said }.into())
    }

    /// Ends the session.
    pub(super) async fn close(&self, link: &Arc<ClientConnection>) {
        if lock(&self.session_id).is_none() || link.disconnect_reason().is_some() {
            return;
        }
        let headers = || {
            let mut headers = HeaderMap::new();
            self.insert_session_headers(&mut headers, link.revision());
            Ok(headers)
        };
        let ended = self.endpoint.send(Method::DELETE, &self.endpoint.uri, &headers, Bytes::new());
        // 405 is normal: not every server lets its sessions be ended.
        if let Ok(Ok(reply)) = tokio::time::timeout(SESSION_DELETE_TIMEOUT, ended).await {
            reply.discard();
        }
    }

    pub(super) fn kill(&self) {
        self.endpoint.close();
    }

    fn request_headers(
        &self,
        revision: Revision,
        outgoing: &EncodedRequest<'_>,
    ) -> Result<HeaderMap, ClientError> {
        let mut headers = message_headers();
        self.insert_session_headers(&mut headers, revision);
        for (name, value) in Era::from(revision).routing_headers(outgoing.method, outgoing.name) {
            headers.insert(HeaderName::from_static(name), header_value(&value)?);
        }
        for (name, value) in &outgoing.param_headers {
            let name = HeaderName::try_from(name.as_str())
                .map_err(|_| ClientError::config(format!("{name:?} is no name of a header")))?;
            headers.insert(name, header_value(value)?);
        }
        for (name, value) in outgoing.extra_headers {
            let (name, value) = http_endpoint::user_header(name, value)?;
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Which revision is spoken, and in which session.
    fn insert_session_headers(&self, headers: &mut HeaderMap, revision: Revision) {
        headers.insert(MCP_PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        if Era::from(revision).has_sessions()
            && let Some(session) = &*lock(&self.session_id)
        {
            headers.insert(MCP_SESSION_ID, session.clone());
        }
    }

    /// Finds the answer in a body of JSON. What else stands there is heard.
    async fn read_json_response(
        &self,
        link: &Arc<ClientConnection>,
        waiting: &Arc<PendingCall>,
        body: &[u8],
    ) -> Result<ServerReply, CallError> {
        trace_body(link, body);
        match parse(body, link.limits()) {
            Ok(Incoming::Single(Message::Response(response)))
                if response.id.as_ref().is_none_or(|id| *id == Id::from(waiting.id())) =>
            {
                Ok(response.outcome.map(|result| result.to_owned()))
            }
            Ok(Incoming::Single(_) | Incoming::Batch(_)) => {
                link.dispatch(body, Some(waiting));
                match waiting.is_complete() {
                    true => await_response(waiting).await,
                    false => Err(ErrorKind::Protocol(
                        "the server answered something else than was asked".to_owned(),
                    )
                    .into()),
                }
            }
            Err(fault) => {
                let seen = format!("the server's answer is no message: {:?}: {}", fault.kind, excerpt(body));
                Err(ErrorKind::Protocol(seen).into())
            }
        }
    }

    /// An answer whose status is no success: an error of the protocol, a lost session, or something else.
    async fn read_error_response(
        &self,
        link: &Arc<ClientConnection>,
        waiting: &Arc<PendingCall>,
        reply: ResponseReader,
        had_session: bool,
    ) -> Result<ServerReply, CallError> {
        let status = reply.status;
        // The status says enough; a body that is too long, or cut, must not hide it.
        let body = reply.read_to_end(MAX_ERROR_BODY_BYTES).await.unwrap_or_default();
        trace_body(link, &body);
        let error = parse_error_response(&body, link, waiting);
        let in_session = had_session && link.era().has_sessions();
        if in_session && (status == StatusCode::NOT_FOUND || is_session_expired(status, error.as_ref())) {
            link.mark_disconnected(SESSION_EXPIRED);
            return Err(CallError::not_sent(SESSION_EXPIRED));
        }
        match error {
            Some(error) => Ok(Err(error)),
            None => Err(ErrorKind::Status { status: status.as_u16(), body: excerpt(&body) }.into()),
        }
    }
}

/// A body has come; an empty one says nothing.
fn trace_body(link: &ClientConnection, body: &[u8]) {
    if !body.trim_ascii().is_empty() {
        link.shared.trace_message(Direction::Received, body);
    }
}

/// Waits for an answer that comes elsewhere.
async fn await_response(waiting: &PendingCall) -> Result<ServerReply, CallError> {
    transport::into_rpc_result(waiting.outcome().await)
}

/// The error in a body, if it is an answer to this call or to nobody in particular.
fn parse_error_response(body: &[u8], link: &ClientConnection, waiting: &PendingCall) -> Option<ErrorObject> {
    match parse(body, link.limits()) {
        Ok(Incoming::Single(Message::Response(response)))
            if response.id.as_ref().is_none_or(|id| *id == Id::from(waiting.id())) =>
        {
            response.outcome.err()
        }
        _ => None,
    }
}

/// Servers in the field answer 400 where the specification wants 404.
fn is_session_expired(status: StatusCode, error: Option<&ErrorObject>) -> bool {
    status == StatusCode::BAD_REQUEST
        && error.is_some_and(|error| {
            let message = error.message.to_ascii_lowercase();
            message.contains("session") || message.contains("not initialized")
        })
}

fn header_value(value: &str) -> Result<HeaderValue, ClientError> {
    HeaderValue::try_from(value)
        .map_err(|_| ClientError::config(format!("{value:?} cannot stand in a header")))
}

/// The beginning of a body, for an error.
pub(super) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..MAX_EXCERPT_BYTES).unwrap_or(body));
    truncate(text.trim(), MAX_EXCERPT_BYTES).to_owned()
}

const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION_EXPIRED: &str = "the server has forgotten the session";
const MAX_EXCERPT_BYTES: usize = 300;
/// Bytes of a body that is no success.
const MAX_ERROR_BODY_BYTES: usize = 1 << 20;
/// How long a server may take over the end of a session.
const SESSION_DELETE_TIMEOUT: Duration = Duration::from_secs(2);
