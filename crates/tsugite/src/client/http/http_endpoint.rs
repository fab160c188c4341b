//! Sends one HTTP request and reads the head of its response. Handles credentials, redirects and busy servers.

use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{
    ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body::Body;
use hyper::body::Incoming;

use super::MAX_ERROR_BODY_BYTES;
use super::address::Address;
use super::authorization::{Authorization, ChallengeCounts, challenge};
use super::authorizer::Credentials;
use super::pool::{ConnectionPool, PooledConnection, RequestKind};
use crate::client::call_error::CallError;
use crate::client::client_error::{ClientError, ConnectStep, ErrorKind};

/// The HTTP endpoint of one server.
pub(in crate::client) struct HttpEndpoint {
    pub(super) address: Address,
    /// The path and query that messages are sent to.
    pub(in crate::client) uri: Uri,
    pool: ConnectionPool,
    host: HeaderValue,
    /// Headers of every request.
    headers: HeaderMap,
    pub(in crate::client) authorization: Option<Authorization>,
    /// The idle timeout of a call.
    idle_timeout: Duration,
    /// Where a permanent redirect has led requests for `uri`.
    moved_to: OnceLock<Uri>,
}

/// The head of a response, and a reader of its body.
pub(in crate::client) struct ResponseReader {
    pub(in crate::client) status: StatusCode,
    pub(in crate::client) headers: HeaderMap,
    body: Incoming,
    /// The body, if it was read already.
    buffered: Option<Bytes>,
    /// Whether the request was sent before, and may have run then.
    pub(in crate::client) may_have_run_before: bool,
    connection: Option<PooledConnection>,
}

/// Builds the headers of one attempt to send a request.
pub(in crate::client) type HeadersFn<'a> = &'a (dyn Fn() -> Result<HeaderMap, CallError> + Sync);

/// Whether a request may be sent again when the server is busy or redirects it without saying that it did not process it.
#[derive(Clone, Copy)]
pub(in crate::client) enum Repeat<'a> {
    /// No: it may have run.
    Never,
    /// Yes, unless the function says that the body of the response is the outcome of the request.
    Unless(&'a (dyn Fn(&[u8]) -> bool + Sync)),
}

impl Repeat<'_> {
    /// Yes: no response is the outcome of the request.
    pub(in crate::client) const ALWAYS: Repeat<'static> = Repeat::Unless(&|_| false);
}

impl HttpEndpoint {
    pub(super) fn new(
        address: Address,
        pool: ConnectionPool,
        headers: HeaderMap,
        authorization: Option<Authorization>,
        idle_timeout: Duration,
    ) -> Result<Self, ClientError> {
        let host = HeaderValue::try_from(address.origin.authority())
            .map_err(|_| ClientError::config("the host of the URL is not a valid header value"))?;
        let uri = address.path.parse().map_err(|_| ClientError::config("the path of the URL is invalid"))?;
        Ok(Self { address, uri, pool, host, headers, authorization, idle_timeout, moved_to: OnceLock::new() })
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }

    /// Sends a request, again after a redirect, a challenge or, if `repeat` allows it, a busy response, and returns the head
    /// of the last response. Each attempt builds its headers, because few requests need a second one and a copy would cost every
    /// request.
    pub(in crate::client) async fn send(
        &self,
        kind: RequestKind<'_>,
        uri: &Uri,
        headers: HeadersFn<'_>,
        body: Bytes,
        repeat: Repeat<'_>,
    ) -> Result<ResponseReader, CallError> {
        let mut may_have_run = false;
        let outcome = self.send_attempts(kind, uri, headers, body, repeat, &mut may_have_run).await;
        match outcome {
            Ok(mut response) => {
                response.may_have_run_before = may_have_run;
                Ok(response)
            }
            Err(error) => Err(error.after_attempts(may_have_run)),
        }
    }

    /// Sends a request as [`Self::send`] does. Sets `may_have_run` when it repeats an attempt that may have run.
    async fn send_attempts(
        &self,
        kind: RequestKind<'_>,
        uri: &Uri,
        headers: HeadersFn<'_>,
        body: Bytes,
        repeat: Repeat<'_>,
        may_have_run: &mut bool,
    ) -> Result<ResponseReader, CallError> {
        let mut uri = match self.moved_to.get() {
            Some(moved_to) if *uri == self.uri => moved_to.clone(),
            _ => uri.clone(),
        };
        let (mut redirects, mut challenges, mut retries) = (0, ChallengeCounts::default(), 0);
        loop {
            let (mut response, credentials) = self.send_once(kind, &uri, headers()?, body.clone()).await?;
            let path = || uri.path_and_query().map_or("/", |path| path.as_str());
            match response.status.as_u16() {
                status @ (301 | 302 | 307 | 308)
                    if redirects < MAX_REDIRECTS
                        // Of the four only 307 and 308 ask for the same request at another place.
                        && (status >= 307 || matches!(repeat, Repeat::Unless(_))) =>
                {
                    redirects += 1;
                    *may_have_run |= status < 307;
                    let target = self.redirect_target(&response, path())?;
                    if matches!(status, 301 | 308) && uri == self.uri {
                        let _ = self.moved_to.set(target.clone());
                    }
                    uri = target;
                }
                // The server did not process the request (RFC 9110, 15.5.20; RFC 8470, 5.2).
                421 | 425 if retries < MAX_BUSY_RETRIES => retries += 1,
                403 if !response.headers.contains_key(WWW_AUTHENTICATE) => return Ok(response),
                // Whatever the body says: a proxy in front of the server may have written it.
                status @ (401 | 403) => {
                    let mut challenge = challenge(status, self.shown_url(path()), &response.headers);
                    challenge.remote_address =
                        response.connection.as_ref().and_then(|connection| connection.remote_address);
                    let (url, verb) = (self.request_url(path()), verb(kind));
                    let retry = match &self.authorization {
                        Some(authorization) => {
                            let info = authorization.request_info(kind, verb.as_str(), &url);
                            authorization
                                .handle_challenge(kind, info, &credentials, &challenge, &mut challenges)
                                .await?
                        }
                        None => false,
                    };
                    if !retry {
                        return Err(ErrorKind::Unauthorized(challenge).into());
                    }
                }
                429 | 503 if retries < MAX_BUSY_RETRIES => {
                    let Repeat::Unless(is_outcome) = repeat else { return Ok(response) };
                    // A delay beyond the caller's timeout is not worth waiting for.
                    let delay = retry_delay(&response.headers, retries)
                        .filter(|delay| *delay <= MAX_RETRY_AFTER && *delay < self.idle_timeout);
                    let Some(delay) = delay else { return Ok(response) };
                    if is_outcome(response.buffer(MAX_ERROR_BODY_BYTES).await) {
                        return Ok(response);
                    }
                    retries += 1;
                    *may_have_run = true;
                    tokio::time::sleep(delay).await;
                    continue;
                }
                _ => return Ok(response),
            }
            response.discard();
        }
    }

    async fn send_once(
        &self,
        kind: RequestKind<'_>,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(ResponseReader, Credentials), CallError> {
        let mut request = Request::new(body.into());
        *request.method_mut() = verb(kind);
        *request.uri_mut() = uri.clone();
        let all = request.headers_mut();
        *all = headers;
        all.insert(HOST, self.host.clone());
        for (name, value) in &self.headers {
            // A header of the call overrides one of the client.
            if !all.contains_key(name) {
                all.insert(name, value.clone());
            }
        }
        let Some(authorization) = &self.authorization else {
            let (response, connection) = self.pool.send(request, kind).await?;
            return Ok((ResponseReader::new(response, connection), Credentials::none()));
        };
        let verb = verb(kind);
        let url = self.request_url(uri.path_and_query().map_or("/", |path| path.as_str()));
        let info = authorization.request_info(kind, verb.as_str(), &url);
        let credentials = authorization.authorize(kind, info, all).await?;
        let (response, connection) = self.pool.send(request, kind).await?;
        authorization.observe(info, response.status().as_u16(), response.headers());
        Ok((ResponseReader::new(response, connection), credentials))
    }

    /// The URL of a request.
    fn request_url(&self, path: &str) -> String {
        let scheme = if self.address.origin.secure { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.address.origin.authority())
    }

    /// The URL of a request without its query, which may contain a secret.
    fn shown_url(&self, path: &str) -> String {
        Address { origin: self.address.origin.clone(), path: path.to_owned() }.to_string()
    }

    /// The target of a redirect, which must be on the same server because the request may contain credentials.
    fn redirect_target(&self, response: &ResponseReader, path: &str) -> Result<Uri, ClientError> {
        let location =
            response.headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let base = Address { origin: self.address.origin.clone(), path: path.to_owned() };
        let next = base.join(location).filter(|_| !location.is_empty());
        next.and_then(|address| address.path.parse().ok()).ok_or_else(|| {
            let reason = format!("refused a redirect ({}) to another server", response.status.as_u16());
            ClientError::connect(ConnectStep::Http, reason)
        })
    }
}

/// The HTTP method of a request.
fn verb(kind: RequestKind<'_>) -> Method {
    match kind {
        RequestKind::Call(_) | RequestKind::Unlimited(_) | RequestKind::Message => Method::POST,
        RequestKind::Stream => Method::GET,
        RequestKind::EndSession => Method::DELETE,
    }
}

impl ResponseReader {
    fn new(response: Response<Incoming>, connection: PooledConnection) -> Self {
        let (head, body) = response.into_parts();
        let (status, headers) = (head.status, head.headers);
        let connection = Some(connection);
        Self { status, headers, body, buffered: None, may_have_run_before: false, connection }
    }

    /// How long the server asks to wait before the next request.
    pub(in crate::client) fn retry_after(&self) -> Option<Duration> {
        parse_retry_after(self.headers.get(RETRY_AFTER)?)
    }

    /// Reads the body and keeps it. Empty if it cannot be read or is larger than `max_bytes`.
    async fn buffer(&mut self, max_bytes: usize) -> &[u8] {
        let body = self.read_body(max_bytes).await.unwrap_or_default();
        self.buffered.insert(body)
    }

    /// Whether the body is an event stream.
    pub(in crate::client) fn is_stream(&self) -> bool {
        self.has_content_type("text/event-stream")
    }

    /// Whether the body is JSON.
    pub(in crate::client) fn is_json(&self) -> bool {
        self.has_content_type("application/json")
    }

    fn has_content_type(&self, expected: &str) -> bool {
        let value = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(expected)
    }

    /// The next chunk of the body; `None` at its end.
    pub(in crate::client) async fn chunk(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await;
            match frame {
                None => {
                    self.release_connection();
                    return None;
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
                Some(Err(error)) => {
                    self.connection = None;
                    return Some(Err(error));
                }
            }
        }
    }

    /// Reads the whole body. Fails if it is larger than `max_bytes`.
    pub(in crate::client) async fn read_to_end(mut self, max_bytes: usize) -> Result<Bytes, CallError> {
        match self.buffered.take() {
            Some(body) => Ok(body),
            None => self.read_body(max_bytes).await,
        }
    }

    async fn read_body(&mut self, max_bytes: usize) -> Result<Bytes, CallError> {
        let mut all = Vec::new();
        let mut first: Option<Bytes> = None;
        while let Some(chunk) = self.chunk().await {
            let chunk = chunk
                .map_err(|error| CallError::disconnected(format!("the connection was lost: {error}")))?;
            if all.len() + first.as_ref().map_or(0, Bytes::len) + chunk.len() > max_bytes {
                return Err(ErrorKind::TooLarge(format!(
                    "the response is larger than {max_bytes} bytes (`max_message_bytes`)"
                ))
                .into());
            }
            match first.take() {
                // Most bodies arrive in one chunk, which is not copied.
                None if all.is_empty() => first = Some(chunk),
                None => all.extend_from_slice(&chunk),
                Some(first_chunk) => {
                    all.reserve(first_chunk.len() + chunk.len());
                    all.extend_from_slice(&first_chunk);
                    all.extend_from_slice(&chunk);
                }
            }
            if self.body.is_end_stream() {
                break;
            }
        }
        self.release_connection();
        Ok(first.unwrap_or_else(|| all.into()))
    }

    /// Drops the rest of the body. A short rest is read, so that the connection can be reused.
    pub(in crate::client) fn discard(mut self) {
        if self.body.is_end_stream() {
            return self.release_connection();
        }
        tokio::spawn(async move {
            let drained = async {
                let mut read = 0;
                while let Some(Ok(chunk)) = self.chunk().await {
                    read += chunk.len();
                    if read > MAX_DRAIN_BYTES {
                        break;
                    }
                }
            };
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, drained).await;
        });
    }

    fn release_connection(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.release();
        }
    }
}

/// The delay before a busy server is tried again: the one it asks for, else a random one that doubles with each attempt.
/// `None` if `Retry-After` is malformed.
fn retry_delay(headers: &HeaderMap, retries: u32) -> Option<Duration> {
    match headers.get(RETRY_AFTER) {
        Some(value) => parse_retry_after(value),
        None => {
            Some((Duration::from_millis(500) * 2_u32.pow(retries)).mul_f64(0.5 + random_fraction() / 2.0))
        }
    }
}

/// A random number from 0 to 1, so that clients do not come back all at once.
fn random_fraction() -> f64 {
    f64::from(RandomState::new().hash_one(0_u8) as u32) / f64::from(u32::MAX)
}

fn parse_retry_after(value: &HeaderValue) -> Option<Duration> {
    let value = value.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// The headers of a POST with a message.
pub(in crate::client) fn message_headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers
}

/// The headers of a request for an event stream.
pub(in crate::client) fn stream_headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers
}

/// Parses a header that the user set. Headers that the transport sets itself are refused.
pub(in crate::client) fn user_header(
    name: &str,
    value: &str,
) -> Result<(HeaderName, HeaderValue), ClientError> {
    let invalid = |problem: &str| ClientError::config(format!("cannot send the header {name:?}: {problem}"));
    let parsed = HeaderName::try_from(name).map_err(|_| invalid("the name is invalid"))?;
    let reserved = ["accept", "connection", "content-length", "content-type", "host", "transfer-encoding"];
    if reserved.contains(&parsed.as_str()) || parsed.as_str().starts_with("mcp-") {
        return Err(invalid("it is set by the transport"));
    }
    // The value may be a secret.
    let mut value =
        HeaderValue::try_from(value).map_err(|_| invalid("the value contains invalid characters"))?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

const MAX_REDIRECTS: u32 = 3;
const MAX_BUSY_RETRIES: u32 = 3;
/// A longer `Retry-After` is reported as an error at once.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(20);
const MAX_DRAIN_BYTES: usize = 64 << 10;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let delay = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::try_from(value).unwrap());
            retry_delay(&headers, 0)
        };
        assert_eq!(delay("7"), Some(Duration::from_secs(7)));
        assert_eq!(delay("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(delay("soon"), None);
        let backoff = retry_delay(&HeaderMap::new(), 1).unwrap();
        assert!((Duration::from_millis(500)..=Duration::from_secs(1)).contains(&backoff), "{backoff:?}");
    }

    #[test]
    fn headers_of_the_transport_cannot_be_set() {
        for name in ["Host", "mcp-session-id", "Content-Type", "", "a b", "a:b"] {
            assert!(user_header(name, "x").is_err(), "{name}");
        }
        let message = user_header("x-key", "se\ncret").unwrap_err().to_string();
        assert!(!message.contains("cret"), "{message}");
        assert!(user_header("Authorization", "Bearer x").is_ok());
    }
}
