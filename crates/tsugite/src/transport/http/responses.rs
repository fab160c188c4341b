//! Responses that are complete from the start: JSON, HTML, errors and empty ones.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::response::Builder;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use tsugite_core::jsonrpc::{Id, ParseError, write};
use tsugite_core::revision::{ErrorText, Revision, RpcError};
use tsugite_core::session::http::{HttpError, status_for_code};

use super::authorization::TokenError;
use super::response_body::HttpBody;
use crate::error::Chain;
use crate::server::limits::LimitError;
use crate::shared::log;

/// Checked at compile time, not for each response.
static JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A JSON response.
pub(super) fn json(status: StatusCode, bytes: impl Into<Bytes>) -> Response<HttpBody> {
    with_content_type(status, JSON.clone(), HttpBody::full(bytes))
}

/// An HTML page that cannot be shown in a frame.
pub(super) fn html(page: String, policy: HeaderValue) -> Response<HttpBody> {
    let content = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = with_content_type(StatusCode::OK, content, HttpBody::full(page));
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    // The URL of the page may contain a token.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // For browsers that do not know `frame-ancestors`.
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

/// An event stream.
pub(super) fn sse(body: HttpBody) -> Response<HttpBody> {
    let mut response = with_content_type(StatusCode::OK, HeaderValue::from_static("text/event-stream"), body);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Tells nginx not to buffer the response, which would delay events.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

fn with_content_type(status: StatusCode, content: HeaderValue, body: HttpBody) -> Response<HttpBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content);
    response
}

/// A status without a body.
pub(super) fn empty(status: StatusCode) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::empty());
    *response.status_mut() = status;
    response
}

/// A request that is rejected before its body is parsed.
pub(super) struct StatusError {
    status: StatusCode,
    text: ErrorText,
}

impl StatusError {
    pub(super) fn new(status: StatusCode, text: &'static str) -> Self {
        Self { status, text: text.into() }
    }

    /// Tells the client the limit that its request exceeds.
    pub(super) fn limit(self, limit: usize) -> Self {
        Self { text: self.text.with("limit", limit), ..self }
    }
}

impl From<StatusError> for Response<HttpBody> {
    fn from(StatusError { status, text }: StatusError) -> Self {
        status_error(status, text)
    }
}

impl From<TokenError> for Response<HttpBody> {
    fn from(TokenError { status, text, headers }: TokenError) -> Self {
        let mut response = status_error(status, text);
        response.headers_mut().extend(headers);
        response
    }
}

impl From<LimitError> for StatusError {
    fn from(error: LimitError) -> Self {
        match error {
            LimitError::Caller => StatusError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many requests: this caller uses its share of the server; try again later",
            ),
            LimitError::Total => StatusError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many requests: the server has as many as it takes; try again later",
            ),
        }
    }
}

/// An error response to a request whose body was not parsed.
pub(super) fn status_error(status: StatusCode, text: impl Into<ErrorText>) -> Response<HttpBody> {
    let error = match status {
        StatusCode::PAYLOAD_TOO_LARGE => RpcError::TooLarge(text.into()),
        _ => RpcError::InvalidRequest(text.into()),
    };
    http_error(&HttpError::new(status.as_u16(), error, Revision::NEWEST), None, "")
}

/// The response to a request that needs state which the store cannot give now. The reason is logged.
pub(super) fn store_unavailable(
    error: &(dyn std::error::Error + Send + Sync + 'static),
) -> Response<HttpBody> {
    if log::is_first("store", &error.to_string()) {
        log::error!(error = %Chain(error), "the store failed");
    }
    session_unavailable()
}

/// The response to a request whose session cannot be looked up now.
pub(super) fn session_unavailable() -> Response<HttpBody> {
    let text = "Service unavailable: the state of the session cannot be reached now; try again later";
    status_error(StatusCode::SERVICE_UNAVAILABLE, text)
}

/// The response to a `Last-Event-ID` that cannot be resumed from.
pub(super) fn unknown_event() -> Response<HttpBody> {
    let text = "`Last-Event-ID` is not a stored event of this session; open a new stream without the header";
    status_error(StatusCode::BAD_REQUEST, text)
}

/// A response with headers and no body.
pub(super) fn empty_with_headers(
    status: StatusCode,
    set: impl FnOnce(Builder) -> Builder,
) -> Response<HttpBody> {
    set(Response::builder().status(status)).body(HttpBody::empty()).unwrap_or_else(|_| empty(status))
}

/// 405, with the methods that are served.
pub(super) fn method_not_allowed(allow: &'static str) -> Response<HttpBody> {
    let mut response =
        status_error(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed: use one of the `Allow` header");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// The response to a request that a decision rejects.
pub(super) fn http_error(error: &HttpError, id: Option<&Id<'_>>, allow: &'static str) -> Response<HttpBody> {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_REQUEST);
    let mut out = Vec::new();
    let object = error.error.to_error_object(error.revision);
    write::error(&mut out, id, error.revision.writes_null_id(), &object);
    let mut response = json(status, out);
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    }
    response
}

/// The response to a body that could not be parsed.
pub(super) fn parse_error(error: &ParseError, revision: Revision) -> Response<HttpBody> {
    let Some((id, error)) = error.error_response() else { return empty(StatusCode::BAD_REQUEST) };
    let mut out = Vec::new();
    write::error(&mut out, id, revision.writes_null_id(), &error);
    let status = StatusCode::from_u16(status_for_code(error.code)).unwrap_or(StatusCode::BAD_REQUEST);
    json(if status == StatusCode::OK { StatusCode::BAD_REQUEST } else { status }, out)
}
