//! The loopback address that the answer to a login is redirected to.
//!
//! It accepts one answer: requests to other paths, for other hosts or without the right `state` are refused and do not end
//! the login.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::request::{Answer, AuthorizationRequest};
use crate::error::{AuthError, Result};
use crate::jose::random_text;
use crate::net::Url;
use crate::secret::Secret;

/// The redirect URI to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RedirectTarget {
    /// A free port and an unguessable path, for a client that is registered with it.
    Random,
    /// A free port and a fixed path, for a client whose registration allows any port (RFC 8252, 7.3).
    AnyPort,
    /// Exactly this URI, with the host `127.0.0.1`, `[::1]` or `localhost`.
    Fixed(String),
}

/// A listener that is bound before the browser opens.
pub(crate) struct RedirectListener {
    listener: TcpListener,
    pub(crate) redirect_uri: String,
    place: RedirectPlace,
}

/// The host and path that answers are accepted at.
#[derive(Clone)]
struct RedirectPlace {
    /// The value of the `Host` header.
    host: String,
    path: String,
}

impl RedirectListener {
    pub(crate) async fn bind(target: &RedirectTarget) -> Result<Self> {
        let (address, name, path) = match target {
            RedirectTarget::Random => (LOOPBACK, None, format!("/callback/{}", random_text()?)),
            RedirectTarget::AnyPort => (LOOPBACK, None, "/callback".to_owned()),
            RedirectTarget::Fixed(uri) => {
                let url = Url::parse(uri)?;
                let address = match url.host.as_str() {
                    "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                    host => host.parse().ok().filter(IpAddr::is_loopback),
                };
                let address =
                    address.filter(|_| !url.secure && !uri.contains(['?', '#'])).ok_or_else(|| {
                        AuthError::config(format!(
                            "the redirect URI {uri:?} is not http on the loopback interface"
                        ))
                    })?;
                let authority = url.origin().split_once("://").map_or("", |(_, authority)| authority);
                (SocketAddr::new(address, url.port), Some(authority.to_owned()), url.path().to_owned())
            }
        };
        let failed = |error: std::io::Error| {
            AuthError::login(format!("cannot listen on {address} for the answer to the login: {error}"))
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let host = name.unwrap_or_else(|| bound.to_string());
        let redirect_uri = match target {
            RedirectTarget::Fixed(uri) => uri.clone(),
            RedirectTarget::Random | RedirectTarget::AnyPort => format!("http://{host}{path}"),
        };
        Ok(Self { listener, redirect_uri, place: RedirectPlace { host, path } })
    }

    /// Waits for the answer. Connections are served at the same time: browsers open some that they do not use.
    pub(crate) async fn answer(&self, request: &Arc<AuthorizationRequest>) -> Result<Secret> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                Some(served) = connections.join_next() => match served.ok().flatten() {
                    Some(Answer::Code(code)) => return Ok(code),
                    Some(Answer::Failed(error)) => return Err(error),
                    Some(Answer::Unrelated) | None => {}
                },
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                    Ok((socket, _)) => {
                        let served = self.place.clone().serve(socket, Arc::clone(request));
                        connections.spawn(async { tokio::time::timeout(REQUEST_TIMEOUT, served).await.ok()? });
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
                },
            }
        }
    }
}

impl RedirectPlace {
    async fn serve(self, mut socket: TcpStream, request: Arc<AuthorizationRequest>) -> Option<Answer> {
        let socket = &mut socket;
        let head = read_head(socket).await?;
        let answer = self.read_answer(&head, &request);
        let (status, text) = match &answer {
            Answer::Code(_) => ("200 OK", "You are logged in. This window may be closed."),
            Answer::Failed(_) => ("400 Bad Request", "The login has failed. This window may be closed."),
            Answer::Unrelated => ("404 Not Found", "This is no answer to a login."),
        };
        let page = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Login</title><p>{text}</p></html>"
        );
        // Nothing of the request is repeated, and the code leaves no trace in the referrer.
        let response = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
             content-security-policy: default-src 'none'\r\nreferrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\n\
             connection: close\r\n\r\n{page}",
            page.len()
        );
        let _ = socket.write_all(response.as_bytes()).await;
        let _ = socket.shutdown().await;
        Some(answer)
    }

    /// The answer in the head of a request: GET, to the path and the host of the redirect URI.
    fn read_answer(&self, head: &str, request: &AuthorizationRequest) -> Answer {
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some("GET"), Some(target)) = (words.next(), words.next()) else { return Answer::Unrelated };
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then(|| value.trim().to_owned())
        };
        let host = lines.find_map(header).unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match path == self.path && host.eq_ignore_ascii_case(&self.host) {
            true => request.check(query),
            false => Answer::Unrelated,
        }
    }
}

/// Reads up to the empty line after the headers.
async fn read_head(socket: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let length = socket.read(&mut buffer).await.ok().filter(|length| *length > 0)?;
        head.extend_from_slice(buffer.get(..length)?);
        if head.len() > MAX_HEAD_BYTES {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const MAX_CONNECTIONS: usize = 64;
const MAX_HEAD_BYTES: usize = 64 << 10;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
