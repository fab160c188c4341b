//! HTTP transports: [`StreamableHttp`], and [`HttpSse`], the transport of 2024-11-05.
//!
//! - `address`, `connector`, `tls`, `pool`: the URL of a server, and connections to it that are reused.
//! - `http_endpoint`: one request and the head of its response, with credentials, redirects and busy servers.
//! - `response_stream`: responses as event streams, and how a broken stream is resumed.
//! - `probe`: the revision and the handshake. `standalone_stream`: the stream for messages outside of calls.

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

/// The settings of an HTTP connection.
#[derive(Clone)]
pub(super) struct HttpConfig {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    /// Trusted certificates, in addition to those of this machine.
    pub(super) root_certificates: Vec<PathBuf>,
    /// The timeout of each step of connecting.
    pub(super) connect_timeout: Duration,
    /// Whether to use only HTTP+SSE.
    pub(super) sse_only: bool,
    /// Whether to use only Streamable HTTP.
    pub(super) streamable_only: bool,
    /// Created on first use, because reading the trusted certificates of this machine is slow.
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

    fn endpoint(&self, idle_timeout: Duration) -> Result<HttpEndpoint, ClientError> {
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
        HttpEndpoint::new(address, pool, headers, self.authorizer.clone(), idle_timeout)
    }
}

/// A Streamable HTTP connection to one server.
pub(super) struct StreamableHttp {
    endpoint: HttpEndpoint,
    /// The session id from the response to `initialize`, up to 2025-11-25.
    session_id: Mutex<Option<HeaderValue>>,
}

/// The response to a probe: the status and the complete body.
pub(super) struct ProbeResponse {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

impl StreamableHttp {
    pub(super) fn new(config: &HttpConfig, idle_timeout: Duration) -> Result<Self, ClientError> {
        Ok(Self { endpoint: config.endpoint(idle_timeout)?, session_id: Mutex::default() })
    }

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
        let headers = || self.request_headers(revision, &outgoing);
        let response = self.endpoint.send(Method::POST, &self.endpoint.uri, &headers, body).await?;
        match response.status {
            StatusCode::OK if response.is_stream() => {
                Box::pin(self.read_event_stream(connection, call, response)).await
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
            _ => Box::pin(self.read_error_response(connection, call, response, had_session)).await,
        }
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
            false => self.request_headers(revision, &outgoing),
        };
        let mut response = self.endpoint.send(Method::POST, &self.endpoint.uri, &headers, body).await?;
        let status = response.status.as_u16();
        if is_initialize && response.status == StatusCode::OK {
            *lock(&self.session_id) = response.headers.get(MCP_SESSION_ID).cloned();
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
            self.insert_session_headers(&mut headers, connection.revision());
            Ok(headers)
        };
        let response = self.endpoint.send(Method::POST, &self.endpoint.uri, &headers, bytes.into()).await?;
        let status = response.status;
        if status.is_success() {
            response.discard();
            return Ok(());
        }
        if status == StatusCode::NOT_FOUND && lock(&self.session_id).is_some() {
            connection.mark_disconnected(SESSION_EXPIRED);
            return Err(CallError::not_sent(SESSION_EXPIRED));
        }
        let body = excerpt(&response.read_to_end(MAX_ERROR_BODY_BYTES).await.unwrap_or_default());
        Err(ErrorKind::Status { status: status.as_u16(), body }.into())
    }

    /// Ends the session with DELETE.
    pub(super) async fn close(&self, connection: &Arc<ClientConnection>) {
        if lock(&self.session_id).is_none() || connection.disconnect_reason().is_some() {
            return;
        }
        let headers = || {
            let mut headers = HeaderMap::new();
            self.insert_session_headers(&mut headers, connection.revision());
            Ok(headers)
        };
        let request = self.endpoint.send(Method::DELETE, &self.endpoint.uri, &headers, Bytes::new());
        // 405 is normal: a server need not allow clients to end sessions (Streamable HTTP, "Session Management").
        if let Ok(Ok(response)) = tokio::time::timeout(SESSION_DELETE_TIMEOUT, request).await {
            response.discard();
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
                .map_err(|_| ClientError::config(format!("{name:?} is not a valid header name")))?;
            headers.insert(name, header_value(value)?);
        }
        for (name, value) in outgoing.extra_headers {
            let (name, value) = http_endpoint::user_header(name, value)?;
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Adds the headers of the revision and the session.
    fn insert_session_headers(&self, headers: &mut HeaderMap, revision: Revision) {
        headers.insert(MCP_PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        if Era::from(revision).has_sessions()
            && let Some(session) = &*lock(&self.session_id)
        {
            headers.insert(MCP_SESSION_ID, session.clone());
        }
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

    /// Reads a response whose status is not a success: a JSON-RPC error, a lost session, or an HTTP error.
    async fn read_error_response(
        &self,
        connection: &Arc<ClientConnection>,
        call: &Arc<PendingCall>,
        response: ResponseReader,
        had_session: bool,
    ) -> Result<ServerReply, CallError> {
        let status = response.status;
        // The status is enough: a body that is too long or cut off must not hide it.
        let body = response.read_to_end(MAX_ERROR_BODY_BYTES).await.unwrap_or_default();
        trace_body(connection, &body);
        let error = parse_error_response(&body, connection, call);
        let in_session = had_session && connection.era().has_sessions();
        if in_session && (status == StatusCode::NOT_FOUND || is_session_expired(status, error.as_ref())) {
            connection.mark_disconnected(SESSION_EXPIRED);
            return Err(CallError::not_sent(SESSION_EXPIRED));
        }
        match error {
            Some(error) => Ok(Err(error)),
            None => Err(ErrorKind::Status { status: status.as_u16(), body: excerpt(&body) }.into()),
        }
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

/// The JSON-RPC error in a body, if its id is missing or that of this call.
fn parse_error_response(
    body: &[u8],
    connection: &ClientConnection,
    call: &PendingCall,
) -> Option<ErrorObject> {
    match parse(body, connection.limits()) {
        Ok(Incoming::Single(Message::Response(response)))
            if response.id.as_ref().is_none_or(|id| *id == Id::from(call.id())) =>
        {
            response.outcome.err()
        }
        _ => None,
    }
}

/// Whether a 400 means that the session has expired: some servers send it where the specification requires 404.
fn is_session_expired(status: StatusCode, error: Option<&ErrorObject>) -> bool {
    status == StatusCode::BAD_REQUEST
        && error.is_some_and(|error| {
            let message = error.message.to_ascii_lowercase();
            message.contains("session") || message.contains("not initialized")
        })
}

fn header_value(value: &str) -> Result<HeaderValue, ClientError> {
    HeaderValue::try_from(value)
        .map_err(|_| ClientError::config(format!("{value:?} is not a valid header value")))
}

/// The beginning of a body, for an error message.
pub(super) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..MAX_EXCERPT_BYTES).unwrap_or(body));
    truncate(text.trim(), MAX_EXCERPT_BYTES).to_owned()
}

const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION_EXPIRED: &str = "the session has expired";
const MAX_EXCERPT_BYTES: usize = 300;
/// The size limit of the body of an error response.
const MAX_ERROR_BODY_BYTES: usize = 1 << 20;
/// The timeout of the DELETE that ends a session.
const SESSION_DELETE_TIMEOUT: Duration = Duration::from_secs(2);
