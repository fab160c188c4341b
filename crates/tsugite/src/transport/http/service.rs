//! The service: what arrives is let in, and goes to whoever answers it.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::HOST;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use tower_service::Service;

use super::answer::{Refused, bare, html, json, not_allowed, refuse};
use super::body::HttpBody;
use super::guests::Visit;
use super::hub::Hub;
use super::settings::Page;
use super::{door, get, post, sse};
use crate::server::Principal;

/// A server as a `tower` service, for axum, hyper or anything else that mounts one. Cheap to clone; clones share their
/// sessions.
///
/// Whatever path it is mounted at is the endpoint. Whoever is authenticated in front of it says so by a
/// [`Principal`](crate::server::Principal) among the extensions of the request.
#[derive(Clone)]
pub struct HttpService(pub(super) Arc<Hub>);

impl HttpService {
    /// Ends streams of changes politely. What is being answered goes on.
    pub fn close(&self) {
        self.0.close();
    }

    /// Waits until no call goes on whose client has hung up, as calls up to 2025-11-25 may.
    pub async fn settled(&self) {
        self.0.settled().await;
    }
}

impl<B> Service<Request<B>> for HttpService
where
    B: Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<HttpBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(Answering::new(Host::Mounted(self.0.clone()), request.map(Box::pin)))
    }
}

impl std::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpService").finish_non_exhaustive()
    }
}

/// Who lets a request in.
pub(super) enum Host {
    Mounted(Arc<Hub>),
    Own(Visit),
}

/// Whether paths are ours to judge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    /// Some router has done so.
    Mounted,
    /// We listen ourselves.
    Own,
}

enum Place<'h> {
    Endpoint,
    Health,
    OldStream(&'h str),
    OldMessages,
    Page(&'h Page),
    Nowhere,
}

/// A request that is being answered. What can be answered at once, is, and needs no memory for waiting.
pub(super) struct Answering<B> {
    host: Option<Host>,
    request: Option<Request<B>>,
    rest: Option<Rest>,
}

/// What takes longer.
pub(super) type Rest = Pin<Box<dyn Future<Output = Response<HttpBody>> + Send>>;

impl<B> Answering<B> {
    pub(super) fn new(host: Host, request: Request<B>) -> Self {
        Self { host: Some(host), request: Some(request), rest: None }
    }
}

impl<B: Body + Unpin + Send + 'static> Future for Answering<B>
where
    B::Data: Send,
{
    type Output = Result<Response<HttpBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let begun = match (this.request.take(), &this.host) {
            (Some(request), Some(Host::Mounted(hub))) => begin(hub, request, Where::Mounted, cx),
            (Some(request), Some(Host::Own(visit))) => begin(&visit.0.hub, request, Where::Own, cx),
            (Some(_), None) => return Poll::Pending,
            (None, _) => match this.rest.take() {
                Some(rest) => Err(rest),
                None => return Poll::Pending,
            },
        };
        let mut response = match begun {
            Ok(response) => response,
            Err(mut rest) => match rest.as_mut().poll(cx) {
                Poll::Ready(response) => response,
                Poll::Pending => {
                    this.rest = Some(rest);
                    return Poll::Pending;
                }
            },
        };
        if let Some(Host::Own(visit)) = this.host.take() {
            response.body_mut().keep(visit);
        }
        Poll::Ready(Ok(response))
    }
}

/// Lets a request in and answers it, as far as that can be done at once.
fn begin<B>(
    hub: &Arc<Hub>,
    request: Request<B>,
    at: Where,
    cx: &mut Context<'_>,
) -> Result<Response<HttpBody>, Rest>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    let (mut parts, body) = request.into_parts();
    if parts.headers.len() > MOST_HEADERS {
        return Ok(refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "Too many headers"));
    }
    let headers = Arc::new(std::mem::take(&mut parts.headers));
    let knock = door::Knock::read(&headers, &parts.uri);
    let place = place(hub, parts.uri.path(), at);
    // Whoever looks after the process may name it as they like; there is nothing to see.
    if matches!(place, Place::Health) {
        return Ok(match (knock.page(&hub.http), &parts.method) {
            (Err(refused), _) => refused.into(),
            (Ok(_), &Method::GET | &Method::HEAD) => json(StatusCode::OK, r#"{"status":"ok"}"#),
            (Ok(_), _) => not_allowed("GET, HEAD"),
        });
    }
    let origin = match knock.enter(&hub.http, hub.own.get().copied()) {
        Ok(origin) => origin.map(str::to_owned),
        Err(refused) => return Ok(refused.into()),
    };
    let (json_taken, events_taken) = (knock.takes_json(), knock.takes_events());
    let json_brought = knock.brings_json();
    let is_post = parts.method == Method::POST && matches!(place, Place::Endpoint);
    // A session may have begun at another replica.
    let answered = match is_post && !hub.store.is_shared() {
        true => match json_taken {
            Ok(()) => {
                let who = parts.extensions.get::<Principal>().cloned();
                post::begin(hub, who, &headers, &knock.said, body, cx)
            }
            Err(refused) => Ok(refused.into()),
        },
        false => {
            let hub = hub.clone();
            parts.headers = Arc::unwrap_or_clone(headers);
            Err(Box::pin(async move {
                other(&hub, parts, body, at, (json_taken, json_brought), events_taken).await
            }) as Rest)
        }
    };
    let Some(origin) = origin else { return answered };
    let http = hub.http.clone();
    match answered {
        Ok(mut response) => {
            door::let_read(&http, &origin, &mut response);
            Ok(response)
        }
        Err(rest) => Err(Box::pin(async move {
            let mut response = rest.await;
            door::let_read(&http, &origin, &mut response);
            response
        })),
    }
}

/// Answers what is rare enough to take its time.
async fn other<B>(
    hub: &Arc<Hub>,
    parts: Parts,
    body: B,
    at: Where,
    (json_taken, json_brought): (Result<(), Refused>, Result<(), Refused>),
    events_taken: bool,
) -> Response<HttpBody>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    if hub.store.is_shared()
        && let Some(id) = post::session_id(&parts.headers)
    {
        hub.recall(id, parts.extensions.get::<Principal>()).await;
    }
    match (place(hub, parts.uri.path(), at), parts.method.clone()) {
        (Place::Endpoint, Method::POST) => {
            if let Err(refused) = json_taken {
                return refused.into();
            }
            let (headers, mut body) = (Arc::new(parts.headers), Some(body));
            let (said, who) = (post::Said::read(&headers), parts.extensions.get::<Principal>());
            let begun = poll_fn(|cx| {
                Poll::Ready(body.take().map(|body| post::begin(hub, who.cloned(), &headers, &said, body, cx)))
            });
            match begun.await {
                Some(Ok(response)) => response,
                Some(Err(rest)) => rest.await,
                None => bare(StatusCode::INTERNAL_SERVER_ERROR),
            }
        }
        (Place::Endpoint, Method::GET) => get::get(hub, parts, events_taken).await,
        (Place::Endpoint, Method::DELETE) => get::delete(hub, parts).await,
        (Place::Endpoint, Method::OPTIONS) if hub.http.cors => door::preflight(&parts.headers),
        (Place::Endpoint, _) => not_allowed(get::allowed(hub)),
        (Place::OldStream(messages), Method::GET) => sse::stream(hub, &parts, messages, events_taken),
        (Place::OldStream(_), Method::OPTIONS) if hub.http.cors => door::preflight(&parts.headers),
        (Place::OldStream(_), _) => not_allowed("GET"),
        (Place::OldMessages, Method::POST) => match json_brought {
            Ok(()) => sse::message(hub, parts, body).await,
            Err(refused) => refused.into(),
        },
        (Place::OldMessages, Method::OPTIONS) if hub.http.cors => door::preflight(&parts.headers),
        (Place::OldMessages, _) => not_allowed("POST"),
        (Place::Page(page), Method::GET | Method::HEAD) => {
            let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
            let host = parts.uri.authority().map(|authority| authority.as_str()).or(host);
            html((page.write)(host.unwrap_or_default()))
        }
        (Place::Page(_), _) => not_allowed("GET, HEAD"),
        (Place::Health | Place::Nowhere, _) => {
            refuse(StatusCode::NOT_FOUND, "Not found: the endpoint has another path")
        }
    }
}

fn place<'h>(hub: &'h Hub, path: &str, at: Where) -> Place<'h> {
    let is = |known: &str| match at {
        Where::Own => path == known,
        // A router may have left some of the path in front.
        Where::Mounted => path.ends_with(known),
    };
    if let Some((stream, messages)) = &hub.http.sse {
        if is(stream) {
            return Place::OldStream(messages);
        }
        if is(messages) {
            return Place::OldMessages;
        }
    }
    match at {
        Where::Mounted => Place::Endpoint,
        Where::Own if path == hub.http.path => Place::Endpoint,
        Where::Own if hub.http.health.as_deref() == Some(path) => Place::Health,
        Where::Own => match &hub.http.page {
            Some(page) if page.path == path => Place::Page(page),
            _ => Place::Nowhere,
        },
    }
}

/// How many headers a request may have.
const MOST_HEADERS: usize = 100;
