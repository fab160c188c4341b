//! The Protected Resource Metadata document (RFC 9728), by which clients find the authorization server.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CACHE_CONTROL, HOST, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use serde_json::{Map, Value, json};
use tower_service::Service;

use super::authorization::{Authorization, HostName, WELL_KNOWN, well_known_path};
use super::response_body::HttpBody;
use super::responses::{empty, json as json_response, method_not_allowed};

/// The Protected Resource Metadata of a server (RFC 9728) as a `tower` service, for a router. A server that listens itself
/// serves it without.
///
/// Mount it at each of [`paths`](Self::paths). It answers `GET` for pages of every origin.
#[derive(Clone)]
#[doc(alias("oauth-protected-resource", "well-known"))]
pub struct ResourceMetadataService(pub(super) Arc<Authorization>);

impl ResourceMetadataService {
    /// The paths at which clients look for the document, below the origin of the server.
    pub fn paths(&self) -> Vec<String> {
        self.0.metadata_paths()
    }
}

impl<B> Service<Request<B>> for ResourceMetadataService {
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = Ready<Result<Response<HttpBody>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let host = host_name(request.uri(), request.headers());
        ready(Ok(self.0.serve_metadata(request.method(), host)))
    }
}

impl std::fmt::Debug for ResourceMetadataService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResourceMetadataService").finish_non_exhaustive()
    }
}

fn host_name(uri: &Uri, headers: &HeaderMap) -> HostName {
    let authority = uri.authority().map(|authority| authority.as_str().as_bytes());
    HostName::of(authority.or_else(|| headers.get(HOST).map(HeaderValue::as_bytes)))
}

impl Authorization {
    /// The paths of the document; none without an authorization server.
    pub(super) fn metadata_paths(&self) -> Vec<String> {
        if self.resource().authorization_servers.is_empty() {
            return Vec::new();
        }
        let (public, local) = self.url().paths();
        let mut paths: Vec<_> = [public, local].iter().map(|path| well_known_path(path)).collect();
        paths.push(WELL_KNOWN.to_owned());
        paths.sort();
        paths.dedup();
        paths
    }

    pub(super) fn is_metadata_path(&self, path: &str) -> bool {
        path.starts_with(WELL_KNOWN) && self.metadata_paths().iter().any(|known| known == path)
    }

    /// Responds with the document.
    pub(super) fn serve_metadata(&self, method: &Method, host: HostName) -> Response<HttpBody> {
        let mut response = match *method {
            Method::GET | Method::HEAD => json_response(StatusCode::OK, self.metadata(host).to_string()),
            Method::OPTIONS => empty(StatusCode::NO_CONTENT),
            _ => method_not_allowed("GET, HEAD, OPTIONS"),
        };
        let headers = response.headers_mut();
        // It is public and the same for every caller, so any page may read it.
        for (name, value) in [
            ("access-control-allow-origin", "*"),
            ("access-control-allow-methods", "GET"),
            ("access-control-allow-headers", "*"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
        headers.insert(VARY, HeaderValue::from_static("host"));
        response
    }

    fn metadata(&self, host: HostName) -> Value {
        let resource = self.resource();
        let mut document = Map::new();
        document.insert("resource".to_owned(), self.url().endpoint(host).into());
        document.insert("authorization_servers".to_owned(), json!(resource.authorization_servers));
        document.insert("bearer_methods_supported".to_owned(), json!(["header"]));
        let lists = [
            ("scopes_supported", &resource.scopes_supported),
            ("dpop_signing_alg_values_supported", &resource.dpop_algorithms),
        ];
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            document.insert(name.to_owned(), json!(list));
        }
        let texts = [("resource_name", &resource.name), ("resource_documentation", &resource.documentation)];
        for (name, text) in texts {
            document.extend(text.iter().map(|text| (name.to_owned(), json!(text))));
        }
        if resource.dpop_required {
            document.insert("dpop_bound_access_tokens_required".to_owned(), true.into());
        }
        document.into()
    }
}
