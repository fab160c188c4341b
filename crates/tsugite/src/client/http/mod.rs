//! Over HTTP: [`Http`] speaks Streamable HTTP, [`Sse`] the two-part transport of 2024-11-05.
//!
//! - `address`: where a server is. `dial`, `tls`: a new connection. `pool`: connections that are used again.
//! - `send`: one request and the head of its answer, with credentials, redirects and busy servers dealt with.
//! - `stream`: answers that come as events, and how a broken stream is taken up again.
//! - `open`: which revision, and the handshake. `hear`: the stream on which a server says what belongs to no call.

mod address;
mod authorize;
mod body;
mod dial;
mod hear;
mod open;
mod pool;
mod send;
mod sse;
mod stream;
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
use tsugite_core::session::header;

pub use authorize::Authorizer;
pub(super) use open::{open, start_hearing as hear};
pub(super) use sse::Sse;
pub(super) use tls::Tls;

use super::calls::Waiting;
use super::carrier::{self, Answered, Outgoing};
use super::error::{Error, Kind, clip};
use super::link::{Link, Trouble};
use super::settings::Direction;
use crate::lock::lock;
use address::Address;
use pool::Pool;
use send::{Door, Reply, message_headers};

/// How to reach a server over HTTP.
#[derive(Clone)]
pub(super) struct Url {
    pub(super) text: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    /// Certificates that are trusted besides those of this machine.
    pub(super) trusted: Vec<PathBuf>,
    /// How long each step of connecting may take.
    pub(super) limit: Duration,
    /// Whether only HTTP+SSE is to be spoken.
    pub(super) only_sse: bool,
    /// Whether only Streamable HTTP is to be spoken.
    pub(super) only_streamable: bool,
    /// What encrypts, once it was needed: reading what this machine trusts takes its time.
    tls: Arc<OnceLock<Tls>>,
}

impl Url {
    pub(super) fn new(text: String) -> Self {
        let limit = Duration::from_secs(10);
        Self {
            text,
            headers: Vec::new(),
            authorizer: None,
            trusted: Vec::new(),
            limit,
            only_sse: false,
            only_streamable: false,
            tls: Arc::default(),
        }
    }

    fn tls(&self) -> Result<Tls, Error> {
        match self.tls.get() {
            Some(tls) => Ok(tls.clone()),
            None => {
                let tls = Tls::new(&self.trusted).map_err(|error| Error::setting(error.to_string()))?;
                Ok(self.tls.get_or_init(|| tls).clone())
            }
        }
    }

    fn door(&self, patience: Duration) -> Result<Door, Error> {
        let address = Address::parse(&self.text)?;
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tsugite/", env!("CARGO_PKG_VERSION"))));
        for (name, value) in &self.headers {
            let (name, value) = send::user_header(name, value)?;
            headers.insert(name, value);
        }
        let tls = match address.origin.secure {
            true => Some(self.tls()?),
            false => None,
        };
        let pool = Pool::new(address.origin.clone(), tls, self.limit);
        Door::new(address, pool, headers, self.authorizer.clone(), patience)
    }
}

/// Streamable HTTP to one server.
pub(super) struct Http {
    door: Door,
    /// Given by the server with its answer to `initialize`, up to 2025-11-25.
    session: Mutex<Option<HeaderValue>>,
}

/// What came back for a question about the revision: read whole, judged by whoever asked.
pub(super) struct Probed {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

impl Http {
    pub(super) fn new(url: &Url, patience: Duration) -> Result<Self, Error> {
        Ok(Self { door: url.door(patience)?, session: Mutex::default() })
    }

    /// Sends a request and waits for its answer, wherever it comes.
    pub(super) async fn exchange(
        &self,
        link: &Arc<Link>,
        waiting: &Arc<Waiting>,
        outgoing: Outgoing<'_>,
    ) -> Result<Answered, Trouble> {
        let had_session = lock(&self.session).is_some();
        let (revision, mut outgoing) = (link.revision(), outgoing);
        let body = std::mem::take(&mut outgoing.bytes).into();
        let headers = || self.headers_of(revision, &outgoing);
        let reply = self.door.send(Method::POST, &self.door.endpoint, &headers, body).await?;
        match reply.status {
            StatusCode::OK if reply.is_stream() => Box::pin(self.follow(link, waiting, reply)).await,
            StatusCode::OK => {
                let body = reply.whole(link.limits().max_message_bytes).await?;
                self.take_answer(link, waiting, &body).await
            }
            // The answer comes on another stream.
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
                reply.discard();
                settled(waiting).await
            }
            _ => Box::pin(self.refused(link, waiting, reply, had_session)).await,
        }
    }

    /// Asks which revision the server speaks, or opens a session: whatever comes back is given as it is.
    pub(super) async fn probe(
        &self,
        link: &Arc<Link>,
        outgoing: Outgoing<'_>,
        revision: Revision,
        waiting: &Arc<Waiting>,
    ) -> Result<Probed, Trouble> {
        let opens = outgoing.method == Initialize::NAME;
        link.shared.wire(Direction::Sent, &outgoing.bytes);
        let mut outgoing = outgoing;
        let body = std::mem::take(&mut outgoing.bytes).into();
        let headers = || match opens {
            true => Ok(message_headers()),
            false => self.headers_of(revision, &outgoing),
        };
        let mut reply = self.door.send(Method::POST, &self.door.endpoint, &headers, body).await?;
        let status = reply.status.as_u16();
        if opens && reply.status == StatusCode::OK {
            *lock(&self.session) = reply.headers.get(SESSION).cloned();
        }
        if reply.status == StatusCode::OK && reply.is_stream() {
            let body = self.first_answer(link, waiting, &mut reply).await?;
            link.shared.wire(Direction::Received, &body);
            reply.discard();
            return Ok(Probed { status, body });
        }
        let body = reply.whole(link.limits().max_message_bytes).await?;
        hear_body(link, &body);
        Ok(Probed { status, body })
    }

    /// Sends a notification or an answer.
    pub(super) async fn tell(&self, link: &Arc<Link>, bytes: Vec<u8>) -> Result<(), Trouble> {
        let headers = || {
            let mut headers = message_headers();
            self.mark(&mut headers, link.revision());
            Ok(headers)
        };
        let reply = self.door.send(Method::POST, &self.door.endpoint, &headers, bytes.into()).await?;
        let status = reply.status;
        if status.is_success() {
            reply.discard();
            return Ok(());
        }
        if status == StatusCode::NOT_FOUND && lock(&self.session).is_some() {
            link.lose(SESSION_GONE);
            return Err(Trouble::not_run(SESSION_GONE));
        }
        let said = excerpt(&reply.whole(ERROR_BYTES).await.unwrap_or_default());
        Err(Kind::Status { status: status.as_u16(), said }.into())
    }

    /// Ends the session.
    pub(super) async fn close(&self, link: &Arc<Link>) {
        if lock(&self.session).is_none() || link.lost().is_some() {
            return;
        }
        let headers = || {
            let mut headers = HeaderMap::new();
            self.mark(&mut headers, link.revision());
            Ok(headers)
        };
        let ended = self.door.send(Method::DELETE, &self.door.endpoint, &headers, Bytes::new());
        // 405 is normal: not every server lets its sessions be ended.
        if let Ok(Ok(reply)) = tokio::time::timeout(GOODBYE, ended).await {
            reply.discard();
        }
    }

    pub(super) fn kill(&self) {
        self.door.close();
    }

    fn headers_of(&self, revision: Revision, outgoing: &Outgoing<'_>) -> Result<HeaderMap, Error> {
        let mut headers = message_headers();
        self.mark(&mut headers, revision);
        if revision.is_stateless() {
            headers.insert(METHOD, mirrored(outgoing.method)?);
            if let Some(name) = outgoing.name {
                headers.insert(NAME, mirrored(&header::encode(name))?);
            }
        }
        for (name, value) in &outgoing.headers {
            let name = HeaderName::try_from(name.as_str())
                .map_err(|_| Error::setting(format!("{name:?} is no name of a header")))?;
            headers.insert(name, mirrored(value)?);
        }
        for (name, value) in outgoing.extra {
            let (name, value) = send::user_header(name, value)?;
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Which revision is spoken, and in which session.
    fn mark(&self, headers: &mut HeaderMap, revision: Revision) {
        headers.insert(VERSION, HeaderValue::from_static(revision.as_str()));
        if !revision.is_stateless()
            && let Some(session) = &*lock(&self.session)
        {
            headers.insert(SESSION, session.clone());
        }
    }

    /// Finds the answer in a body of JSON. What else stands there is heard.
    async fn take_answer(
        &self,
        link: &Arc<Link>,
        waiting: &Arc<Waiting>,
        body: &[u8],
    ) -> Result<Answered, Trouble> {
        hear_body(link, body);
        match parse(body, link.limits()) {
            Ok(Incoming::Single(Message::Response(response)))
                if response.id.as_ref().is_none_or(|id| *id == Id::from(waiting.id())) =>
            {
                Ok(response.outcome.map(|result| result.to_owned()))
            }
            Ok(Incoming::Single(_) | Incoming::Batch(_)) => {
                link.take_in(body, Some(waiting));
                match waiting.is_settled() {
                    true => settled(waiting).await,
                    false => {
                        Err(Kind::Revision("the server answered something else than was asked".to_owned())
                            .into())
                    }
                }
            }
            Err(fault) => {
                let seen = format!("the server's answer is no message: {:?}: {}", fault.kind, excerpt(body));
                Err(Kind::Revision(seen).into())
            }
        }
    }

    /// An answer whose status is no success: an error of the protocol, a lost session, or something else.
    async fn refused(
        &self,
        link: &Arc<Link>,
        waiting: &Arc<Waiting>,
        reply: Reply,
        had_session: bool,
    ) -> Result<Answered, Trouble> {
        let status = reply.status;
        // The status says enough; a body that is too long, or cut, must not hide it.
        let body = reply.whole(ERROR_BYTES).await.unwrap_or_default();
        hear_body(link, &body);
        let error = error_in(&body, link, waiting);
        let in_session = had_session && !link.revision().is_stateless();
        if in_session && (status == StatusCode::NOT_FOUND || says_session_is_gone(status, error.as_ref())) {
            link.lose(SESSION_GONE);
            return Err(Trouble::not_run(SESSION_GONE));
        }
        match error {
            Some(error) => Ok(Err(error)),
            None => Err(Kind::Status { status: status.as_u16(), said: excerpt(&body) }.into()),
        }
    }
}

/// A body has come; an empty one says nothing.
fn hear_body(link: &Link, body: &[u8]) {
    if !body.trim_ascii().is_empty() {
        link.shared.wire(Direction::Received, body);
    }
}

/// Waits for an answer that comes elsewhere.
async fn settled(waiting: &Waiting) -> Result<Answered, Trouble> {
    carrier::answered(waiting.outcome().await)
}

/// The error in a body, if it is an answer to this call or to nobody in particular.
fn error_in(body: &[u8], link: &Link, waiting: &Waiting) -> Option<ErrorObject> {
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
fn says_session_is_gone(status: StatusCode, error: Option<&ErrorObject>) -> bool {
    status == StatusCode::BAD_REQUEST
        && error.is_some_and(|error| {
            let message = error.message.to_ascii_lowercase();
            message.contains("session") || message.contains("not initialized")
        })
}

fn mirrored(value: &str) -> Result<HeaderValue, Error> {
    HeaderValue::try_from(value).map_err(|_| Error::setting(format!("{value:?} cannot stand in a header")))
}

/// The beginning of a body, for an error.
pub(super) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..EXCERPT).unwrap_or(body));
    clip(text.trim(), EXCERPT).to_owned()
}

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION_GONE: &str = "the server has forgotten the session";
const EXCERPT: usize = 300;
/// Bytes of a body that is no success.
const ERROR_BYTES: usize = 1 << 20;
/// How long a server may take over the end of a session.
const GOODBYE: Duration = Duration::from_secs(2);
