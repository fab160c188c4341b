//! The service: what arrives is let in, and goes to whoever answers it.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use tower_service::Service;

use super::answer::{json, not_allowed, refuse};
use super::body::HttpBody;
use super::hub::Hub;
use super::post::ALLOW;
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
        let hub = self.0.clone();
        Box::pin(async move { Ok(answer(&hub, request, Where::Mounted).await) })
    }
}

impl std::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpService").finish_non_exhaustive()
    }
}

/// Whether paths are ours to judge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
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
    Nowhere,
}

/// Answers whatever arrives.
pub(super) async fn answer<B: Body>(hub: &Arc<Hub>, request: Request<B>, at: Where) -> Response<HttpBody> {
    let (parts, body) = request.into_parts();
    if parts.headers.len() > MOST_HEADERS {
        return refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "Too many headers");
    }
    let knock = door::Knock::read(&parts);
    let origin = match knock.enter(&hub.http, hub.own.get().copied()) {
        Ok(origin) => origin.map(str::to_owned),
        Err(refused) => return refused.into(),
    };
    let (json_taken, events_taken) = (knock.takes_json(), knock.takes_events());
    // A session may have begun at another replica.
    if hub.store.is_shared()
        && let Some(id) = post::session_id(&parts.headers)
    {
        Box::pin(hub.recall(id, parts.extensions.get::<Principal>())).await;
    }
    let mut response = match (place(hub, parts.uri.path(), at), parts.method.clone()) {
        (Place::Endpoint, Method::POST) => match json_taken {
            Ok(()) => post::post(hub, parts, body).await,
            Err(refused) => refused.into(),
        },
        (Place::Endpoint, Method::GET) => Box::pin(get::get(hub, parts, events_taken)).await,
        (Place::Endpoint, Method::DELETE) => Box::pin(get::delete(hub, parts)).await,
        (Place::Endpoint, Method::OPTIONS) if hub.http.cors => door::preflight(&parts.headers),
        (Place::Endpoint, _) => not_allowed(ALLOW),
        (Place::Health, Method::GET) => json(StatusCode::OK, r#"{"status":"ok"}"#),
        (Place::Health, _) => not_allowed("GET"),
        (Place::OldStream(messages), Method::GET) => sse::stream(hub, &parts, messages, events_taken),
        (Place::OldStream(_), Method::OPTIONS) if hub.http.cors => door::preflight(&parts.headers),
        (Place::OldStream(_), _) => not_allowed("GET"),
        (Place::OldMessages, Method::POST) => Box::pin(sse::message(hub, parts, body)).await,
        (Place::OldMessages, Method::OPTIONS) if hub.http.cors => door::preflight(&parts.headers),
        (Place::OldMessages, _) => not_allowed("POST"),
        (Place::Nowhere, _) => refuse(StatusCode::NOT_FOUND, "Not found: the endpoint has another path"),
    };
    if let Some(origin) = origin {
        door::let_read(&hub.http, &origin, &mut response);
    }
    response
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
        Where::Own => Place::Nowhere,
    }
}

/// How many headers a request may have.
const MOST_HEADERS: usize = 128;
