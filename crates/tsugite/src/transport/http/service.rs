//! The HTTP service: the stages of every request in the order in which they run.
//!
//! `respond` parses the head, finds the route and checks access; one function per method continues from there.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use tower_service::Service;
use tsugite_core::session::http::decide_http_sse;

use super::authorization::{Authorization, Authorized, HostName, RequestTarget, add_nonce};
use super::connections::RequestGuard;
use super::http_settings::{Http, PageRequest};
use super::http_sse_endpoints::HttpSseSession;
use super::http_state::HttpState;
use super::maybe_ready::MaybeReady;
use super::named_session::NamedSession;
use super::request_body::{discard_body, read_body};
use super::request_head::RequestHead;
use super::resource_metadata::ResourceMetadataService;
use super::response_body::HttpBody;
use super::responses::{html, http_error, json, method_not_allowed, session_unavailable, status_error};
use super::shared_session::MessageSubject;
use super::side_services::SideServices;
use super::stream_scopes::check_message;
use super::{access, get, http_sse_endpoints, post};
use crate::server::Headers;
use crate::server::principal::Caller;

/// A server as a `tower` service, for axum, hyper or anything else that mounts one. Cheap to clone; clones share their
/// sessions.
///
/// The path that it is mounted at is the endpoint. A layer in front of it that authenticates callers adds a
/// [`Principal`](crate::server::Principal) to the extensions of the request.
#[derive(Clone)]
pub struct HttpService(pub(super) Arc<HttpState>);

impl HttpService {
    /// Ends the streams that only carry notifications. Requests in progress continue.
    pub fn close(&self) {
        self.0.close();
    }

    /// The document by which clients find the authorization server, to be mounted beside this service. `None` if the
    /// verifier of [`Server::authorize`](crate::Server::authorize) names no authorization server.
    pub fn resource_metadata(&self) -> Option<ResourceMetadataService> {
        let authorization = self.0.authorization.clone()?;
        (!authorization.metadata_paths().is_empty()).then_some(ResourceMetadataService(authorization))
    }

    /// Waits for the requests that continue although their client has disconnected: those up to 2025-11-25, and calls with
    /// an idempotency key. After [`HttpService::close`] it then ends the tasks of this process: those that can run again are
    /// left for another process, all others fail.
    pub async fn drain(&self) {
        self.0.wait_for_detached().await;
        if self.0.is_closing() {
            self.0.stop_tasks().await;
        }
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
        Box::pin(HttpResponseFuture::new(RequestOrigin::Service(self.0.clone()), request.map(Box::pin)))
    }
}

impl std::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpService").finish_non_exhaustive()
    }
}

/// Where a request comes from.
pub(super) enum RequestOrigin {
    Service(Arc<HttpState>),
    Listener(RequestGuard),
}

/// The response to one request.
///
/// A response that is ready in the first poll needs no other memory than this.
pub(super) struct HttpResponseFuture<B> {
    source: Option<RequestOrigin>,
    request: Option<Request<B>>,
    pending: Option<Pin<Box<dyn Future<Output = Response<HttpBody>> + Send>>>,
}

impl<B> HttpResponseFuture<B> {
    pub(super) fn new(source: RequestOrigin, request: Request<B>) -> Self {
        Self { source: Some(source), request: Some(request), pending: None }
    }
}

impl<B: Body + Unpin + Send + 'static> Future for HttpResponseFuture<B>
where
    B::Data: Send,
{
    type Output = Result<Response<HttpBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let (Some(request), Some(source)) = (this.request.take(), &this.source) {
            let response = match source {
                RequestOrigin::Service(state) => respond(state, request, RoutingMode::Mounted, cx),
                RequestOrigin::Listener(guard) => respond(
                    &guard.connection.state,
                    request,
                    RoutingMode::Listener(guard.connection.peer),
                    cx,
                ),
            };
            match response {
                MaybeReady::Ready(response) => return Poll::Ready(Ok(this.finish(response))),
                MaybeReady::Pending(future) => this.pending = Some(future),
            }
        }
        let Some(pending) = &mut this.pending else { return Poll::Pending };
        let Poll::Ready(response) = pending.as_mut().poll(cx) else { return Poll::Pending };
        this.pending = None;
        Poll::Ready(Ok(this.finish(response)))
    }
}

impl<B> HttpResponseFuture<B> {
    /// Hands the guard of the connection to the body of the response.
    fn finish(&mut self, mut response: Response<HttpBody>) -> Response<HttpBody> {
        if let Some(RequestOrigin::Listener(guard)) = self.source.take() {
            guard.mark_polled();
            response.body_mut().attach_guard(guard);
        }
        response
    }
}

/// Responds to a request: head, route, access, caller, then the function of its method.
fn respond<B>(
    state: &Arc<HttpState>,
    request: Request<B>,
    mode: RoutingMode,
    cx: &mut Context<'_>,
) -> MaybeReady<Response<HttpBody>>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    let peer = match mode {
        RoutingMode::Listener(peer) => peer,
        RoutingMode::Mounted => None,
    };
    let (head, body) = match RequestHead::parse(request, peer, &state.http) {
        Ok(parsed) => parsed,
        Err(error) => return MaybeReady::Ready(error.into()),
    };
    let route = Route::find(state, head.path(), mode);
    if route == Route::Health {
        return MaybeReady::Ready(health(state, &head));
    }
    if let (Route::Metadata, Some(authorization)) = (route, &state.authorization) {
        return MaybeReady::Ready(metadata(state, authorization, &head));
    }
    if let Route::Service(service) = route {
        return side_service(state, service, head, body, cx);
    }
    let origin = match head.check_access(&state.http, state.local_ip.get().copied()) {
        Ok(origin) => origin.filter(|_| state.http.cors).cloned(),
        Err(error) => return MaybeReady::Ready(error.into()),
    };
    let response = match &state.authorization {
        Some(authorization) if route.needs_token(&head.method) => {
            let state = state.clone();
            let target = RequestTarget {
                method: &head.method,
                headers: &head.headers,
                host: HostName::of(head.authority()),
                path: Some(head.path()).filter(|_| route != Route::Endpoint),
            };
            let authorized = authorization.check(&target, cx);
            authorized.then(cx, move |authorized, cx| match authorized {
                Ok(authorized) => dispatch_authorized(&state, route, head, authorized, body, cx),
                Err(error) => {
                    let is_held_back = head.headers.contains_key(http::header::EXPECT);
                    discard_body(body, is_held_back, (*error).into())
                }
            })
        }
        Some(_) | None => dispatch(state, route, head, body, cx),
    };
    match origin {
        None => response,
        Some(origin) => response.map(move |mut response| {
            access::add_cors_headers(origin, &mut response);
            response
        }),
    }
}

/// Calls the function of a route and method for the owner of a token.
fn dispatch_authorized<B>(
    state: &Arc<HttpState>,
    route: Route,
    mut head: RequestHead,
    authorized: Authorized,
    body: B,
    cx: &mut Context<'_>,
) -> MaybeReady<Response<HttpBody>>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    head.principal = Some(authorized.principal);
    let response = dispatch(state, route, head, body, cx);
    match authorized.nonce {
        None => response,
        Some(nonce) => response.map(move |mut response| {
            add_nonce(&nonce, response.headers_mut());
            response
        }),
    }
}

/// Calls the function of a route and method.
fn dispatch<B>(
    state: &Arc<HttpState>,
    route: Route,
    head: RequestHead,
    body: B,
    cx: &mut Context<'_>,
) -> MaybeReady<Response<HttpBody>>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    state.server.shared.token_expiries.note(head.principal.as_ref());
    if let Some(replica) = state.replica.as_ref().filter(|replica| !replica.is_receiving()) {
        let (waited, state) = (replica.clone().wait_until_receiving(), state.clone());
        return MaybeReady::pending(waited).then(cx, move |(), cx| dispatch(&state, route, head, body, cx));
    }
    let response = match (route, &head.method) {
        (Route::Endpoint, &Method::POST) => return endpoint_post(state, head, body, cx),
        (Route::Endpoint, &Method::GET) => return endpoint_get(state, head),
        (Route::Endpoint, &Method::DELETE) => return endpoint_delete(state, head),
        (Route::HttpSseMessages, &Method::POST) => return http_sse_post(state, &head, body, cx),
        (Route::HttpSseStream, &Method::GET) => {
            let state = state.clone();
            return MaybeReady::pending(async move {
                let response = http_sse_endpoints::open_stream(&state, &head).await;
                end_with_token(&state, &head, response)
            });
        }
        (Route::Endpoint | Route::HttpSseStream | Route::HttpSseMessages, &Method::OPTIONS)
            if state.http.cors =>
        {
            let key_headers = state.authorization.as_ref().map_or(&[][..], |known| known.key_headers());
            access::preflight(&head.headers, key_headers)
        }
        (Route::Page, &Method::GET | &Method::HEAD) => page(&state.http, &head),
        (Route::Endpoint, _) => method_not_allowed(get::allowed_methods(state)),
        (Route::HttpSseStream, _) => method_not_allowed("GET"),
        (Route::HttpSseMessages, _) => method_not_allowed("POST"),
        (Route::Page, _) => method_not_allowed("GET, HEAD"),
        (Route::Health | Route::Metadata | Route::Service(_) | Route::NotFound, _) => not_found(),
    };
    MaybeReady::Ready(response)
}

/// POST: head, body, session, then decide and dispatch, then respond.
fn endpoint_post<B>(
    state: &Arc<HttpState>,
    head: RequestHead,
    body: B,
    cx: &mut Context<'_>,
) -> MaybeReady<Response<HttpBody>>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    if let Err(error) = head.check_post() {
        return MaybeReady::Ready(error.into());
    }
    let state = state.clone();
    read_body(body, &state, &head, cx).then(cx, move |body, cx| match body {
        Err(error) => MaybeReady::Ready(error.into()),
        // After the body: a session may end while the body arrives.
        Ok(body) => {
            let subject = || MessageSubject::of_body(&body, &state.config.limits);
            let found = state.find_session(head.mcp.session_id, head.principal.as_ref(), subject);
            found.then(cx, move |found, _| {
                if matches!(found.session, NamedSession::Unavailable) {
                    return MaybeReady::Ready(session_unavailable());
                }
                let dispatched = post::dispatch(&state, &head, found, &body);
                let host = match &state.authorization {
                    Some(_) => HostName::of(head.authority()),
                    None => HostName::Other,
                };
                dispatched.respond(&state, host)
            })
        }
    })
}

/// Finds the session that a request names, if it belongs to the caller.
fn find_session(state: &Arc<HttpState>, head: &RequestHead) -> MaybeReady<NamedSession> {
    let subject = MessageSubject::default;
    state.find_session(head.mcp.session_id, head.principal.as_ref(), subject).map(|found| found.session)
}

/// GET: head, session, then decide and open or resume a stream.
fn endpoint_get(state: &Arc<HttpState>, head: RequestHead) -> MaybeReady<Response<HttpBody>> {
    let state = state.clone();
    MaybeReady::pending(async move {
        match find_session(&state, &head).wait().await {
            NamedSession::Unavailable => session_unavailable(),
            session => {
                let response = get::get(&state, &head, session).await;
                end_with_token(&state, &head, response)
            }
        }
    })
}

/// Ends a stream when the token that opened it expires, unless its caller sends a newer one.
fn end_with_token(
    state: &HttpState,
    head: &RequestHead,
    mut response: Response<HttpBody>,
) -> Response<HttpBody> {
    if let Some(watch) = state.server.shared.watch_token(head.principal.as_ref()) {
        response.body_mut().end_with_token(watch);
    }
    response
}

/// DELETE: head, session, then decide and end the session.
fn endpoint_delete(state: &Arc<HttpState>, head: RequestHead) -> MaybeReady<Response<HttpBody>> {
    let state = state.clone();
    MaybeReady::pending(async move {
        match find_session(&state, &head).wait().await {
            NamedSession::Unavailable => session_unavailable(),
            session => get::delete(&state, &head, session).await,
        }
    })
}

/// POST of HTTP+SSE: head, connection, body, then receive; the response is sent on the stream.
fn http_sse_post<B>(
    state: &Arc<HttpState>,
    head: &RequestHead,
    body: B,
    cx: &mut Context<'_>,
) -> MaybeReady<Response<HttpBody>>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    if let Err(error) = head.check_content_type() {
        return MaybeReady::Ready(error.into());
    }
    if let Err(error) = decide_http_sse(&state.policy) {
        return MaybeReady::Ready(http_error(&error, None, "POST"));
    }
    let session = match http_sse_endpoints::find_session(state, head) {
        Ok(session) => session,
        Err(error) => return MaybeReady::Ready(error.into()),
    };
    let (state, caller) = (state.clone(), Caller { headers: Headers::default(), ..head.caller() });
    let host = HostName::of(head.authority());
    read_body(body, &state, head, cx).then(cx, move |body, _| match body {
        Err(error) => MaybeReady::Ready(error.into()),
        Ok(body) => MaybeReady::pending(async move {
            if let Err(response) = check_message(&state, caller.principal.as_ref(), host, &body) {
                return *response;
            }
            match session {
                HttpSseSession::Local(connection) => {
                    http_sse_endpoints::handle_message(&state, &connection, &caller, &body).await
                }
                HttpSseSession::Elsewhere(name) => {
                    http_sse_endpoints::forward_message(&state, &name, &caller, &body).await
                }
            }
        }),
    })
}

/// The Protected Resource Metadata: head, host, then the document. Pages of every origin may read it.
fn metadata(state: &HttpState, authorization: &Authorization, head: &RequestHead) -> Response<HttpBody> {
    match head.check_host(&state.http, state.local_ip.get().copied()) {
        Ok(()) => authorization.serve_metadata(&head.method, HostName::of(head.authority())),
        Err(error) => error.into(),
    }
}

/// Another service: head, host, body, then its own response. It decides which origins may use it.
fn side_service<B>(
    state: &Arc<HttpState>,
    service: usize,
    head: RequestHead,
    body: B,
    cx: &mut Context<'_>,
) -> MaybeReady<Response<HttpBody>>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    if let Err(error) = head.check_host(&state.http, state.local_ip.get().copied()) {
        return MaybeReady::Ready(error.into());
    }
    let state = state.clone();
    read_body(body, &state, &head, cx).then(cx, move |body, _| match body {
        Err(error) => MaybeReady::Ready(error.into()),
        Ok(body) => match SideServices::of(&state.http).call(service, head.into_request(body.into())) {
            Some(response) => MaybeReady::Pending(response),
            None => MaybeReady::Ready(not_found()),
        },
    })
}

/// The health endpoint. It reveals nothing, so any host may be named.
fn health(state: &HttpState, head: &RequestHead) -> Response<HttpBody> {
    match (head.check_origin(&state.http), &head.method) {
        (Err(error), _) => error.into(),
        (Ok(_), &Method::GET | &Method::HEAD) => json(StatusCode::OK, r#"{"status":"ok"}"#),
        (Ok(_), _) => method_not_allowed("GET, HEAD"),
    }
}

/// A page for people who open the address in a browser.
fn page(http: &Http, head: &RequestHead) -> Response<HttpBody> {
    let Some(page) = &http.page else { return not_found() };
    let host = head.authority().and_then(|host| std::str::from_utf8(host).ok());
    let request = PageRequest::new(host.unwrap_or_default(), head.uri.query().unwrap_or_default());
    html((page.render)(&request), http.page_policy.clone())
}

fn not_found() -> Response<HttpBody> {
    status_error(
        StatusCode::NOT_FOUND,
        "Not found: there is no MCP endpoint at this path; check the URL (the default path is `/mcp`)",
    )
}

/// How paths are interpreted.
#[derive(Clone, Copy)]
enum RoutingMode {
    /// A router in front of the service has chosen the path of the endpoint.
    Mounted,
    /// The listener serves all paths. Its client has this address.
    Listener(Option<IpAddr>),
}

/// The part of the server that a path names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Route {
    Endpoint,
    Health,
    HttpSseStream,
    HttpSseMessages,
    Page,
    /// The Protected Resource Metadata.
    Metadata,
    /// A service beside the endpoint, by its number.
    Service(usize),
    NotFound,
}

impl Route {
    /// Whether a request needs a token, where the server asks for one: those of the protocol, but for preflight requests,
    /// which have no credentials.
    fn needs_token(self, method: &Method) -> bool {
        match self {
            Route::Endpoint | Route::HttpSseStream | Route::HttpSseMessages => *method != Method::OPTIONS,
            Route::Health | Route::Page | Route::Metadata | Route::Service(_) | Route::NotFound => false,
        }
    }

    /// The route of a path that is not one of the server itself.
    fn find_beside(state: &HttpState, path: &str) -> Self {
        if state.authorization.as_ref().is_some_and(|known| known.is_metadata_path(path)) {
            return Route::Metadata;
        }
        SideServices::of(&state.http).find(path).map_or(Route::NotFound, Route::Service)
    }

    fn find(state: &HttpState, path: &str, mode: RoutingMode) -> Self {
        let is = |known: &str| match mode {
            RoutingMode::Listener(_) => path == known,
            // A router may have left a prefix in the path.
            RoutingMode::Mounted => path.ends_with(known),
        };
        if let Some(paths) = &state.http.http_sse_paths {
            if is(&paths.stream) {
                return Route::HttpSseStream;
            }
            if is(&paths.messages) {
                return Route::HttpSseMessages;
            }
        }
        match mode {
            RoutingMode::Mounted => Route::Endpoint,
            RoutingMode::Listener(_) if path == state.http.path => Route::Endpoint,
            RoutingMode::Listener(_) if state.http.health_path.as_deref() == Some(path) => Route::Health,
            RoutingMode::Listener(_) => match &state.http.page {
                Some(page) if page.path == path => Route::Page,
                Some(_) | None => Self::find_beside(state, path),
            },
        }
    }
}
