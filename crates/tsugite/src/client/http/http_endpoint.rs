//! One HTTP request and the head of its answer: credentials, redirects and a server that is busy are dealt with here.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body::Body;
use hyper::body::Incoming;

use super::Authorizer;
use super::address::Address;
use super::pool::{ConnectionPool, PooledConnection};
use crate::client::call_error::CallError;
use crate::client::client_error::{Challenge, ClientError, ConnectStep, ErrorKind};

/// A server's door.
pub(super) struct HttpEndpoint {
    pub(super) address: Address,
    /// Where messages go, ready to be sent.
    pub(super) uri: Uri,
    pool: ConnectionPool,
    host: HeaderValue,
    /// What goes with every request.
    headers: HeaderMap,
    authorizer: Option<Arc<dyn Authorizer>>,
    /// How long a call waits for a sign of life.
    idle_timeout: Duration,
}

/// The head of an answer, and its body to be read.
pub(super) struct ResponseReader {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Incoming,
    connection: Option<PooledConnection>,
}

impl HttpEndpoint {
    pub(super) fn new(
        address: Address,
        pool: ConnectionPool,
        headers: HeaderMap,
        authorizer: Option<Arc<dyn Authorizer>>,
        patience: Duration,
    ) -> Result<Self, ClientError> {
        let host = HeaderValue::try_from(address.origin.authority())
            .map_err(|_| ClientError::config("the host's name cannot be sent"))?;
        let endpoint = address.path.parse().map_err(|_| ClientError::config("the path cannot be sent"))?;
        Ok(Self { address, uri: endpoint, pool, host, headers, authorizer, idle_timeout: patience })
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }

    /// Sends a request, again where that may help, and gives the head of the last answer. Each attempt makes its headers:
    /// hardly any request needs a second one, and so none keeps a copy.
    pub(super) async fn send(
        &self,
        method: Method,
        to: &Uri,
        headers: &(dyn Fn() -> Result<HeaderMap, ClientError> + Sync),
        body: Bytes,
    ) -> Result<ResponseReader, CallError> {
        let mut to = to.clone();
        let (mut redirects, mut challenges, mut waits) = (0, 0, 0);
        loop {
            let reply = self.send_once(&method, &to, headers()?, body.clone()).await?;
            let path = || to.path_and_query().map_or("/", |path| path.as_str());
            match reply.status.as_u16() {
                301 | 302 | 307 | 308 if redirects < MAX_REDIRECTS => {
                    redirects += 1;
                    to = self.redirect_target(&reply, path())?;
                }
                status @ (401 | 403) => {
                    let challenge = self.challenge(status, &reply, path());
                    challenges += 1;
                    let again = match &self.authorizer {
                        Some(authorizer) if challenges <= MAX_CHALLENGES => {
                            authorizer.handle_challenge(challenge.clone()).await?
                        }
                        _ => false,
                    };
                    if !again {
                        // A refusal that is not about credentials says itself what is wrong.
                        let plain = status == 403
                            && self.authorizer.is_none()
                            && challenge.www_authenticate.is_empty();
                        return if plain {
                            Ok(reply)
                        } else {
                            Err(ErrorKind::Unauthorized(challenge).into())
                        };
                    }
                }
                429 | 503 if waits < MAX_BUSY_RETRIES => {
                    // Whoever would be gone by then hears at once that the server is busy.
                    let wait = retry_delay(&reply.headers, waits)
                        .filter(|wait| *wait <= MAX_RETRY_AFTER && *wait < self.idle_timeout);
                    let Some(wait) = wait else { return Ok(reply) };
                    waits += 1;
                    reply.discard();
                    tokio::time::sleep(wait).await;
                    continue;
                }
                _ => return Ok(reply),
            }
            reply.discard();
        }
    }

    async fn send_once(
        &self,
        method: &Method,
        to: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<ResponseReader, CallError> {
        let mut request = Request::new(body.into());
        *request.method_mut() = method.clone();
        *request.uri_mut() = to.clone();
        let all = request.headers_mut();
        *all = headers;
        all.insert(HOST, self.host.clone());
        for (name, value) in &self.headers {
            // What a call says goes before what every call says.
            if !all.contains_key(name) {
                all.insert(name, value.clone());
            }
        }
        if let Some(authorizer) = &self.authorizer
            && let Some(authorization) = authorizer.authorization().await?
        {
            let mut value = HeaderValue::try_from(authorization)
                .map_err(|_| ClientError::config("the credentials cannot stand in a header"))?;
            value.set_sensitive(true);
            all.insert(AUTHORIZATION, value);
        }
        let (response, lease) = self.pool.send(request).await?;
        Ok(ResponseReader::new(response, lease))
    }

    /// Where a redirect leads: only to the same server, since the request may carry credentials.
    fn redirect_target(&self, reply: &ResponseReader, path: &str) -> Result<Uri, ClientError> {
        let location = reply.headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let here = Address { origin: self.address.origin.clone(), path: path.to_owned() };
        let next = here.join(location).filter(|_| !location.is_empty());
        next.and_then(|address| address.path.parse().ok()).ok_or_else(|| {
            let seen = format!("a redirect ({}) to another server is not followed", reply.status.as_u16());
            ClientError::connect(ConnectStep::Http, seen)
        })
    }

    fn challenge(&self, status: u16, reply: &ResponseReader, path: &str) -> Challenge {
        let all = reply.headers.get_all(WWW_AUTHENTICATE).iter();
        let www_authenticate = all.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect();
        let url = Address { origin: self.address.origin.clone(), path: path.to_owned() }.to_string();
        Challenge { status, url, www_authenticate }
    }
}

impl ResponseReader {
    fn new(response: Response<Incoming>, lease: PooledConnection) -> Self {
        let (head, body) = response.into_parts();
        Self { status: head.status, headers: head.headers, body, connection: Some(lease) }
    }

    /// Whether it is a stream of events.
    pub(super) fn is_stream(&self) -> bool {
        let value = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
    }

    /// The next piece of the body; `None` at its end.
    pub(super) async fn chunk(&mut self) -> Option<Result<Bytes, hyper::Error>> {
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

    /// All of the body. Fails when it is larger than `most`.
    pub(super) async fn read_to_end(mut self, most: usize) -> Result<Bytes, CallError> {
        let mut all = Vec::new();
        let mut first: Option<Bytes> = None;
        while let Some(chunk) = self.chunk().await {
            let chunk = chunk
                .map_err(|error| CallError::disconnected(format!("the connection was lost: {error}")))?;
            if all.len() + first.as_ref().map_or(0, Bytes::len) + chunk.len() > most {
                return Err(ErrorKind::TooLarge(format!("the answer is larger than {most} bytes")).into());
            }
            match first.take() {
                // Most answers come in one piece, which is not copied.
                None if all.is_empty() => first = Some(chunk),
                None => all.extend_from_slice(&chunk),
                Some(begun) => {
                    all.reserve(begun.len() + chunk.len());
                    all.extend_from_slice(&begun);
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

    /// Nobody wants the rest. A short one is read, so that the connection can be used again.
    pub(super) fn discard(mut self) {
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
        if let Some(lease) = self.connection.take() {
            lease.release();
        }
    }
}

/// How long a busy server wants to be left alone.
fn retry_delay(headers: &HeaderMap, waits: u32) -> Option<Duration> {
    let Some(value) = headers.get(RETRY_AFTER) else {
        return Some(Duration::from_millis(500) * 2_u32.pow(waits));
    };
    let value = value.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// Headers of a message we send.
pub(super) fn message_headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers
}

/// Headers of a request for a stream.
pub(super) fn stream_headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers
}

/// A header somebody wants sent. What the transport itself says cannot be said differently.
pub(super) fn user_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), ClientError> {
    let unfit = |what: &str| ClientError::config(format!("{name:?} cannot be sent as a header: {what}"));
    let parsed = HeaderName::try_from(name).map_err(|_| unfit("it is no name of a header"))?;
    let taken = ["accept", "connection", "content-length", "content-type", "host", "transfer-encoding"];
    if taken.contains(&parsed.as_str()) || parsed.as_str().starts_with("mcp-") {
        return Err(unfit("the transport says it itself"));
    }
    // The value may be a secret.
    let mut value =
        HeaderValue::try_from(value).map_err(|_| unfit("its value holds what no header may hold"))?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

const MAX_REDIRECTS: u32 = 3;
const MAX_CHALLENGES: u32 = 2;
const MAX_BUSY_RETRIES: u32 = 3;
/// Whoever wants to be left alone for longer is told about, not waited for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(20);
const MAX_DRAIN_BYTES: usize = 64 << 10;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let wait = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::try_from(value).unwrap());
            retry_delay(&headers, 0)
        };
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("soon"), None);
        assert_eq!(retry_delay(&HeaderMap::new(), 1), Some(Duration::from_secs(1)));
    }

    #[test]
    fn transport_headers_cannot_be_set() {
        for name in ["Host", "mcp-session-id", "Content-Type", "", "a b", "a:b"] {
            assert!(user_header(name, "x").is_err(), "{name}");
        }
        let said = user_header("x-key", "se\ncret").unwrap_err().to_string();
        assert!(!said.contains("cret"), "{said}");
        assert!(user_header("Authorization", "Bearer x").is_ok());
    }
}
