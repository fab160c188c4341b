//! The `tower` service: reads a request, finds its endpoint, and adds the headers that all responses of it need.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body::Body;
use serde_json::json;
use tower_service::Service;
use tsugite::transport::http::{ClientAddr, Http, HttpBody};

use super::http_message::{
    HttpRequest, HttpResponse, bytes_response, empty_response, json_response, method_not_allowed,
};
use super::{AuthorizationServer, AuthorizationState};

impl<B> Service<Request<B>> for AuthorizationServer
where
    B: Body + Send + 'static,
    B::Data: Send,
{
    type Response = http::Response<HttpBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = match tokio::time::timeout(BODY_TIMEOUT, read_body(body)).await {
                Ok(Some(body)) => body,
                Ok(None) => return Ok(refused(StatusCode::PAYLOAD_TOO_LARGE)),
                Err(_) => return Ok(refused(StatusCode::REQUEST_TIMEOUT)),
            };
            let request = HttpRequest {
                client: head.extensions.get::<ClientAddr>().map(|address| address.0),
                method: head.method,
                path: head.uri.path().to_owned(),
                query: head.uri.query().unwrap_or_default().to_owned(),
                headers: head.headers,
                body,
            };
            Ok(server.0.respond(&request).await)
        })
    }
}

impl AuthorizationServer {
    /// Serves this authorization server beside an MCP server that listens itself.
    ///
    /// ```no_run
    /// # fn f(auth: tsugite_auth::authorization_server::AuthorizationServer) {
    /// use tsugite::Server;
    /// use tsugite::transport::http::Http;
    ///
    /// let server = Server::new("notes", "1.0.0").authorize(auth.verifier()).http(auth.beside(Http::new()));
    /// # }
    /// ```
    #[must_use]
    pub fn beside(&self, http: Http) -> Http {
        self.paths().iter().fold(http, |http, path| http.route_service(path, self.clone()))
    }

    /// The paths that the server answers at, for a router that needs them one by one.
    pub fn paths(&self) -> Vec<String> {
        let base = &self.0.base_path;
        let endpoints = PAGES.iter().chain(&ENDPOINTS).map(|endpoint| format!("{base}{endpoint}"));
        endpoints.chain([format!("{METADATA}{base}")]).collect()
    }
}

impl AuthorizationState {
    async fn respond(self: &Arc<Self>, request: &HttpRequest) -> HttpResponse {
        self.purge_timer.purge(self.records.store(), self.clock.seconds());
        // A router may have taken away the path of the issuer.
        let endpoint = match request.path.strip_prefix(METADATA) {
            Some(rest) if rest == self.base_path || rest.is_empty() || rest == "/" => METADATA,
            _ => {
                let rest = request.path.strip_prefix(&self.base_path).filter(|rest| rest.starts_with('/'));
                rest.unwrap_or(&request.path)
            }
        };
        let mut response = match (endpoint, &request.method) {
            ("/authorize", &Method::GET) => self.authorize(request).await,
            ("/login", &Method::POST) => self.log_in(request).await,
            ("/consent", &Method::POST) => self.consent(request).await,
            ("/callback", &Method::GET) => self.provider_callback(request).await,
            ("/authorize" | "/callback", _) => method_not_allowed("GET"),
            ("/login" | "/consent", _) => method_not_allowed("POST"),
            // Only endpoints that no page of ours uses may be read by pages of other origins.
            (METADATA | "/jwks" | "/token" | "/register" | "/revoke", &Method::OPTIONS) => preflight(),
            (METADATA, &Method::GET) => self.metadata(),
            ("/jwks", &Method::GET) => self.key_set().await,
            ("/token", &Method::POST) => self.token(request).await.unwrap_or_else(Into::into),
            ("/register", &Method::POST) => self.register(request).await.unwrap_or_else(Into::into),
            ("/revoke", &Method::POST) => self.revoke(request).await.unwrap_or_else(Into::into),
            (METADATA | "/jwks", _) => method_not_allowed("GET, OPTIONS"),
            ("/token" | "/register" | "/revoke", _) => method_not_allowed("POST, OPTIONS"),
            _ => bytes_response(StatusCode::NOT_FOUND, "text/plain", Bytes::from_static(b"not found\n")),
        };
        if endpoint == METADATA || ENDPOINTS.contains(&endpoint) {
            let headers = response.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            let exposed = HeaderValue::from_static("dpop-nonce, retry-after, www-authenticate");
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
        response
    }
}

fn preflight() -> HttpResponse {
    let mut response = empty_response(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    let allowed = "authorization, content-type, dpop, mcp-protocol-version";
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

fn refused(status: StatusCode) -> HttpResponse {
    json_response(status, &json!({"error": "invalid_request"}))
}

/// Reads a body; `None` if it is too large or breaks off.
async fn read_body<B: Body>(body: B) -> Option<Bytes> {
    let mut body = Box::pin(body);
    let mut bytes = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let Ok(mut data) = frame.ok()?.into_data() else { continue };
        if bytes.len() + data.remaining() > MAX_BODY_BYTES {
            return None;
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            bytes.extend_from_slice(chunk);
            let length = chunk.len();
            data.advance(length);
        }
    }
    Some(bytes.freeze())
}

const METADATA: &str = "/.well-known/oauth-authorization-server";
/// Endpoints for browsers: no page of another origin can read them.
const PAGES: [&str; 4] = ["/authorize", "/login", "/consent", "/callback"];
/// Endpoints for programs, which may run in pages of other origins.
const ENDPOINTS: [&str; 4] = ["/jwks", "/token", "/register", "/revoke"];
const MAX_BODY_BYTES: usize = 64 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
