//! Requests as the endpoints see them, and the responses they give.

use std::collections::HashSet;
use std::net::IpAddr;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use serde_json::{Value, json};
use tsugite::store::StoreError;
use tsugite::transport::http::HttpBody;

use crate::net::decode_pairs;

/// A request with its whole body.
pub(super) struct HttpRequest {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    /// The address of the client, if the server in front knows it.
    pub(super) client: Option<IpAddr>,
    pub(super) body: Bytes,
}

impl HttpRequest {
    /// The only header with a name. `None` if there is none, several, or one that is not text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => value.to_str().ok(),
            _ => None,
        }
    }

    pub(super) fn has_header(&self, name: &str) -> bool {
        self.headers.contains_key(name)
    }

    /// The parameters of the query. `None` if it is malformed or names one twice.
    pub(super) fn query_params(&self) -> Option<Params> {
        Params::decode(&self.query)
    }

    /// The parameters of a form in the body. `None` if it is something else.
    pub(super) fn form(&self) -> Option<Params> {
        let media_type = self.header("content-type")?.split(';').next()?.trim();
        if !media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return None;
        }
        Params::decode(std::str::from_utf8(&self.body).ok()?)
    }

    pub(super) fn cookie(&self, name: &str) -> Option<&str> {
        let headers =
            self.headers.get_all(http::header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            headers.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// The parameters of a query or a form. An empty value counts as absent (RFC 6749, 3.1).
pub(super) struct Params {
    /// Each is there once.
    single: Vec<(String, String)>,
    /// The values of `resource`, the only one that may be there several times (RFC 8707, 2).
    resources: Vec<String>,
}

impl Params {
    fn decode(text: &str) -> Option<Self> {
        let (resources, single): (Vec<_>, Vec<_>) =
            decode_pairs(text)?.into_iter().partition(|(name, _)| name == "resource");
        let mut names = HashSet::new();
        if !single.iter().all(|(name, _)| names.insert(name.as_str())) {
            return None;
        }
        let resources = resources.into_iter().map(|(_, value)| value).filter(|value| !value.is_empty());
        Some(Self { resources: resources.collect(), single })
    }

    /// The resources that the request names.
    pub(super) fn resources(&self) -> &[String] {
        &self.resources
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.single.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        found.filter(|value| !value.is_empty())
    }
}

pub(super) type HttpResponse = Response<HttpBody>;

/// Why an endpoint gives no other response.
#[derive(Debug)]
pub(super) enum EndpointError {
    /// An error of OAuth, as JSON.
    OAuth(OAuthError),
    /// The state, or a server that has to be asked, cannot be reached. The client may try again.
    Unavailable(StoreError),
}

/// An error response of OAuth 2.1.
#[derive(Debug)]
pub(super) struct OAuthError {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) description: String,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

impl OAuthError {
    pub(super) fn new(code: &'static str, description: impl Into<String>) -> Self {
        let description = description.into();
        Self { status: StatusCode::BAD_REQUEST, code, description, headers: Vec::new() }
    }

    /// A request beyond a rate limit.
    pub(super) fn too_many(wait: std::time::Duration) -> Self {
        let seconds = HeaderValue::from(wait.as_secs().max(1));
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            headers: vec![(http::header::RETRY_AFTER, seconds)],
            ..Self::new("temporarily_unavailable", "too many requests; try again later")
        }
    }
}

impl From<OAuthError> for EndpointError {
    fn from(error: OAuthError) -> Self {
        Self::OAuth(error)
    }
}

impl From<StoreError> for EndpointError {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error)
    }
}

impl From<crate::AuthError> for EndpointError {
    fn from(error: crate::AuthError) -> Self {
        Self::Unavailable(error.into())
    }
}

impl From<EndpointError> for HttpResponse {
    fn from(error: EndpointError) -> Self {
        match error {
            EndpointError::OAuth(error) => {
                let body = json!({"error": error.code, "error_description": error.description});
                let mut response = json_response(error.status, &body);
                response.headers_mut().extend(error.headers);
                response
            }
            EndpointError::Unavailable(error) => {
                tracing::error!(%error, "the authorization server cannot answer now");
                let body = json!({"error": "temporarily_unavailable"});
                let mut response = json_response(StatusCode::SERVICE_UNAVAILABLE, &body);
                response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from_static("5"));
                response
            }
        }
    }
}

/// JSON that no cache keeps.
pub(super) fn json_response(status: StatusCode, body: &Value) -> HttpResponse {
    let mut response = bytes_response(status, "application/json", body.to_string().into());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(super) fn bytes_response(status: StatusCode, content_type: &'static str, body: Bytes) -> HttpResponse {
    let mut response = Response::new(HttpBody::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub(super) fn empty_response(status: StatusCode) -> HttpResponse {
    let mut response = Response::new(HttpBody::from(Bytes::new()));
    *response.status_mut() = status;
    response
}

pub(super) fn method_not_allowed(allowed: &'static str) -> HttpResponse {
    let mut response = empty_response(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(http::header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Sends a browser to a URL with GET. No cache keeps the response, and no page is told where the browser came from.
pub(super) fn redirect(url: &str) -> HttpResponse {
    let Ok(location) = HeaderValue::try_from(url) else {
        return empty_response(StatusCode::BAD_REQUEST);
    };
    let mut response = empty_response(StatusCode::SEE_OTHER);
    let headers = response.headers_mut();
    headers.insert(LOCATION, location);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(http::header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
