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

use super::connections::RequestGuard;
use super::http_settings::{HttpSsePaths, Page};
use super::http_state::HttpState;
use super::response_body::HttpBody;
use super::responses::{StatusError, empty, html, json, method_not_allowed, status_error};
use super::{access, get, http_sse_endpoints, post};
use crate::server::Principal;

/// A server as a `tower` service, for axum, hyper or anything else that mounts one. Cheap to clone; clones share their
/// sessions.
///
/// Whatever path it is mounted at is the endpoint. Whoever is authenticated in front of it says so by a
/// [`Principal`](crate::server::Principal) among the extensions of the request.
#[derive(Clone)]
pub struct HttpService(pub(super) Arc<HttpState>);

impl HttpService {
    /// Ends streams of changes politely. What is being answered goes on.
    pub fn close(&self) {
        self.0.close();
    }

    /// Waits until no call goes on whose client has hung up, as calls up to 2025-11-25 may.
    pub async fn drain(&self) {
        self.0.wait_for_detached().await;
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
        Box::pin(HttpResponseFuture::new(RequestSource::Service(self.0.clone()), request.map(Box::pin)))
    }
}

impl std::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpService").finish_non_exhaustive()
    }
}

/// Who lets a request in.
pub(super) enum RequestSource {
    Service(Arc<HttpState>),
    Listener(RequestGuard),
}

/// Whether paths are ours to judge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RoutingMode {
    /// Some router has done so.
    Mounted,
    /// We listen ourselves.
    Listener,
}

enum HttpRoute<'h> {
    Endpoint,
    Health,
    HttpSseStream(&'h str),
    HttpSseMessages,
    Page(&'h Page),
    NotFound,
}

/// A request that is being answered. What can be answered at once, is, and needs no memory for waiting.
pub(super) struct HttpResponseFuture<B> {
    source: Option<RequestSource>,
    request: Option<Request<B>>,
    pending: Option<BoxHttpResponseFuture>,
}

/// What takes longer.
pub(super) type BoxHttpResponseFuture = Pin<Box<dyn Future<Output = Response<HttpBody>> + Send>>;

impl<B> HttpResponseFuture<B> {
    pub(super) fn new(host: RequestSource, request: Request<B>) -> Self {
        Self { source: Some(host), request: Some(request), pending: None }
    }
}

impl<B: Body + Unpin + Send + 'static> Future for HttpResponseFuture<B>
where
    B::Data: Send,
{
    type Output = Result<Response<HttpBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let begun = match (this.request.take(), &this.source) {
            (Some(request), Some(RequestSource::Service(hub))) => {
                dispatch(hub, request, RoutingMode::Mounted, cx)
            }
            (Some(request), Some(RequestSource::Listener(visit))) => {
                dispatch(&visit.0.state, request, RoutingMode::Listener, cx)
            }
            (Some(_), None) => return Poll::Pending,
            (None, _) => match this.pending.take() {
                Some(rest) => Err(rest),
                None => return Poll::Pending,
            },
        };
        let mut response = match begun {
            Ok(response) => response,
            Err(mut rest) => match rest.as_mut().poll(cx) {
                Poll::Ready(response) => response,
                Poll::Pending => {
                    this.pending = Some(rest);
                    return Poll::Pending;
                }
            },
        };
        if let Some(RequestSource::Listener(visit)) = this.source.take() {
            response.body_mut().attach_guard(visit);
        }
        Poll::Ready(Ok(response))
    }
}

/// Lets a request in and answers it, as far as that can be done at once.
fn dispatch<B>(
    hub: &Arc<HttpState>,
    request: Request<B>,
    at: RoutingMode,
    cx: &mut Context<'_>,
) -> Result<Response<HttpBody>, BoxHttpResponseFuture>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    let (mut parts, body) = request.into_parts();
    if parts.headers.len() > MAX_HEADERS {
        return Ok(status_error(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "Too many headers"));
    }
    let headers = Arc::new(std::mem::take(&mut parts.headers));
    let knock = access::RequestHead::parse(&headers, &parts.uri);
    let place = route(hub, parts.uri.path(), at);
    // Whoever looks after the process may name it as they like; there is nothing to see.
    if matches!(place, HttpRoute::Health) {
        return Ok(match (knock.check_origin(&hub.http), &parts.method) {
            (Err(refused), _) => refused.into(),
            (Ok(_), &Method::GET | &Method::HEAD) => json(StatusCode::OK, r#"{"status":"ok"}"#),
            (Ok(_), _) => method_not_allowed("GET, HEAD"),
        });
    }
    let origin = match knock.check_access(&hub.http, hub.local_ip.get().copied()) {
        Ok(origin) => origin.map(str::to_owned),
        Err(refused) => return Ok(refused.into()),
    };
    let (json_taken, events_taken) = (knock.check_post_headers(), knock.accepts_events());
    let json_brought = knock.check_content_type();
    let is_post = parts.method == Method::POST && matches!(place, HttpRoute::Endpoint);
    // A session may have begun at another replica.
    let answered = match is_post && !hub.store.is_shared() {
        true => match json_taken {
            Ok(()) => {
                let who = parts.extensions.get::<Principal>().cloned();
                post::handle(hub, who, &headers, &knock.mcp_headers, body, cx)
            }
            Err(refused) => Ok(refused.into()),
        },
        false => {
            let hub = hub.clone();
            parts.headers = Arc::unwrap_or_clone(headers);
            Err(Box::pin(async move {
                dispatch_async(&hub, parts, body, at, (json_taken, json_brought), events_taken).await
            }) as BoxHttpResponseFuture)
        }
    };
    let Some(origin) = origin else { return answered };
    let http = hub.http.clone();
    match answered {
        Ok(mut response) => {
            access::add_cors_headers(&http, &origin, &mut response);
            Ok(response)
        }
        Err(rest) => Err(Box::pin(async move {
            let mut response = rest.await;
            access::add_cors_headers(&http, &origin, &mut response);
            response
        })),
    }
}

/// Answers what is rare enough to take its time.
async fn dispatch_async<B>(
    hub: &Arc<HttpState>,
    parts: Parts,
    body: B,
    at: RoutingMode,
    (json_taken, json_brought): (Result<(), StatusError>, Result<(), StatusError>),
    events_taken: bool,
) -> Response<HttpBody>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    if hub.store.is_shared()
        && let Some(id) = post::session_id(&parts.headers)
    {
        hub.restore_session(id, parts.extensions.get::<Principal>()).await;
    }
    match (route(hub, parts.uri.path(), at), parts.method.clone()) {
        (HttpRoute::Endpoint, Method::POST) => {
            if let Err(refused) = json_taken {
                return refused.into();
            }
            let (headers, mut body) = (Arc::new(parts.headers), Some(body));
            let (said, who) = (post::McpHeaders::parse(&headers), parts.extensions.get::<Principal>());
            let begun = poll_fn(|cx| {
                Poll::Ready(
                    body.take().map(|body| post::handle(hub, who.cloned(), &headers, &said, body, cx)),
                )
            });
            match begun.await {
                Some(Ok(response)) => response,
                Some(Err(rest)) => rest.await,
                None => empty(StatusCode::INTERNAL_SERVER_ERROR),
            }
        }
        (HttpRoute::Endpoint, Method::GET) => get::get(hub, parts, events_taken).await,
        (HttpRoute::Endpoint, Method::DELETE) => get::delete(hub, parts).await,
        (HttpRoute::Endpoint, Method::OPTIONS) if hub.http.cors => access::preflight(&parts.headers),
        (HttpRoute::Endpoint, _) => method_not_allowed(get::allowed_methods(hub)),
        (HttpRoute::HttpSseStream(messages), Method::GET) => {
            http_sse_endpoints::open_stream(hub, &parts, messages, events_taken)
        }
        (HttpRoute::HttpSseStream(_), Method::OPTIONS) if hub.http.cors => access::preflight(&parts.headers),
        (HttpRoute::HttpSseStream(_), _) => method_not_allowed("GET"),
        (HttpRoute::HttpSseMessages, Method::POST) => match json_brought {
            Ok(()) => http_sse_endpoints::handle_message(hub, parts, body).await,
            Err(refused) => refused.into(),
        },
        (HttpRoute::HttpSseMessages, Method::OPTIONS) if hub.http.cors => access::preflight(&parts.headers),
        (HttpRoute::HttpSseMessages, _) => method_not_allowed("POST"),
        (HttpRoute::Page(page), Method::GET | Method::HEAD) => {
            let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
            let host = parts.uri.authority().map(|authority| authority.as_str()).or(host);
            html((page.render)(host.unwrap_or_default()))
        }
        (HttpRoute::Page(_), _) => method_not_allowed("GET, HEAD"),
        (HttpRoute::Health | HttpRoute::NotFound, _) => {
            status_error(StatusCode::NOT_FOUND, "Not found: the endpoint has another path")
        }
    }
}

fn route<'h>(hub: &'h HttpState, path: &str, at: RoutingMode) -> HttpRoute<'h> {
    let is = |known: &str| match at {
        RoutingMode::Listener => path == known,
        // A router may have left some of the path in front.
        RoutingMode::Mounted => path.ends_with(known),
    };
    if let Some(HttpSsePaths { stream, messages }) = &hub.http.http_sse_paths {
        if is(stream) {
            return HttpRoute::HttpSseStream(messages);
        }
        if is(messages) {
            return HttpRoute::HttpSseMessages;
        }
    }
    match at {
        RoutingMode::Mounted => HttpRoute::Endpoint,
        RoutingMode::Listener if path == hub.http.path => HttpRoute::Endpoint,
        RoutingMode::Listener if hub.http.health_path.as_deref() == Some(path) => HttpRoute::Health,
        RoutingMode::Listener => match &hub.http.page {
            Some(page) if page.path == path => HttpRoute::Page(page),
            _ => HttpRoute::NotFound,
        },
    }
}

/// How many headers a request may have.
const MAX_HEADERS: usize = 100;
