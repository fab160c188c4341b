//! The head of a request, parsed once: method, path, caller and the headers that decide what happens to it.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use tsugite_core::session::http::{MirrorHeaders, RequestHeaders};

use super::access;
use super::client_address::{ClientAddr, client_address};
use super::headers::{AcceptHeader, SingleHeader, is_json};
use super::http_settings::Http;
use super::named_session::{NamedSession, SessionIdHeader};
use super::responses::StatusError;
use crate::server::limits::CallerKey;
use crate::server::principal::Caller;
use crate::server::{Headers, Principal};

/// The head of a request.
pub(super) struct RequestHead {
    pub(super) method: Method,
    pub(super) uri: Uri,
    /// All headers, which handlers may read.
    pub(super) headers: Arc<HeaderMap>,
    /// The authenticated caller, set by a layer in front of the service.
    pub(super) principal: Option<Principal>,
    /// The network address of the client.
    pub(super) address: Option<IpAddr>,
    pub(super) mcp: McpHeaders,
    host: SingleHeader,
    origin: SingleHeader,
    accept: AcceptHeader,
    is_json: bool,
}

/// The headers of the protocol.
#[derive(Default)]
pub(super) struct McpHeaders {
    pub(super) session_id: SessionIdHeader,
    pub(super) last_event_id: SingleHeader,
    protocol_version: SingleHeader,
    method: SingleHeader,
    name: SingleHeader,
}

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

impl RequestHead {
    /// Splits a request of the client at `peer` into its head and body. Fails if it has too many headers.
    pub(super) fn parse<B>(
        request: Request<B>,
        peer: Option<IpAddr>,
        http: &Http,
    ) -> Result<(Self, B), StatusError> {
        let (mut parts, body) = request.into_parts();
        if parts.headers.len() > MAX_HEADERS {
            return Err(StatusError::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "Too many headers")
                .limit(MAX_HEADERS));
        }
        let mut head = Self {
            method: parts.method,
            uri: parts.uri,
            principal: parts.extensions.remove(),
            address: peer
                .or_else(|| parts.extensions.remove::<ClientAddr>().map(|address| address.0))
                .map(|peer| client_address(peer, &parts.headers, &http.trusted_proxies)),
            headers: Arc::new(parts.headers),
            mcp: McpHeaders::default(),
            host: SingleHeader::Absent,
            origin: SingleHeader::Absent,
            accept: AcceptHeader::default(),
            is_json: false,
        };
        for (name, value) in &*head.headers {
            match name.as_str() {
                "host" => head.host.add(value),
                "origin" => head.origin.add(value),
                "content-type" => head.is_json = is_json(value.as_bytes()),
                "accept" => head.accept.add(value.as_bytes()),
                "mcp-session-id" => head.mcp.session_id.add(value),
                "mcp-protocol-version" => head.mcp.protocol_version.add(value),
                "mcp-method" => head.mcp.method.add(value),
                "mcp-name" => head.mcp.name.add(value),
                "last-event-id" => head.mcp.last_event_id.add(value),
                _ => {}
            }
        }
        Ok((head, body))
    }

    /// The caller as limits count it.
    pub(super) fn caller_key(&self) -> Option<CallerKey> {
        CallerKey::new(self.principal.as_ref(), self.address)
    }

    /// The caller, with the headers of the request.
    pub(super) fn caller(&self) -> Caller {
        Caller {
            kept: None,
            resumed_task: None,
            keyed_run: None,
            principal: self.principal.clone(),
            headers: Headers::from_source(self.headers.clone()),
            address: self.address,
        }
    }

    /// The request again, for another service.
    pub(super) fn into_request<B>(self, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = Arc::unwrap_or_clone(self.headers);
        if let Some(address) = self.address {
            request.extensions_mut().insert(ClientAddr(address));
        }
        request
    }

    pub(super) fn path(&self) -> &str {
        self.uri.path()
    }

    /// The host and port that the request names: of its URI (HTTP/2), else of its only `Host` header.
    pub(super) fn authority(&self) -> Option<&[u8]> {
        let from_uri = self.uri.authority().map(|authority| authority.as_str().as_bytes());
        from_uri.or_else(|| self.host.as_bytes())
    }

    /// Checks the host and the origin. Returns the origin if a web page sent the request.
    pub(super) fn check_access(
        &self,
        http: &Http,
        local_ip: Option<IpAddr>,
    ) -> Result<Option<&HeaderValue>, StatusError> {
        self.check_host(http, local_ip)?;
        self.check_origin(http)
    }

    /// Checks the host alone.
    pub(super) fn check_host(&self, http: &Http, local_ip: Option<IpAddr>) -> Result<(), StatusError> {
        access::check_host(self.authority(), http, local_ip)
    }

    /// Checks the origin alone. Returns it if a web page sent the request.
    pub(super) fn check_origin(&self, http: &Http) -> Result<Option<&HeaderValue>, StatusError> {
        access::check_origin(self.origin.to_text(), http)?;
        match &self.origin {
            SingleHeader::Once(origin) => Ok(Some(origin)),
            SingleHeader::Absent | SingleHeader::Repeated => Ok(None),
        }
    }

    /// Refuses a request of an element of another site, such as an image, which has no `Origin` to check.
    pub(super) fn check_fetch_site(&self) -> Result<(), StatusError> {
        let is_cross_site = self.headers.get_all("sec-fetch-site").iter().any(|site| site == "cross-site");
        match (is_cross_site, &self.origin) {
            (true, SingleHeader::Absent) => {
                let text = "Forbidden: pages of other sites may not open a stream";
                Err(StatusError::new(StatusCode::FORBIDDEN, text))
            }
            _ => Ok(()),
        }
    }

    /// Checks `Content-Type` of a POST.
    pub(super) fn check_content_type(&self) -> Result<(), StatusError> {
        match self.is_json {
            true => Ok(()),
            false => {
                let text = "Unsupported media type: `Content-Type` must be `application/json`";
                Err(StatusError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text))
            }
        }
    }

    /// Checks `Content-Type` and `Accept` of a POST to the endpoint.
    pub(super) fn check_post(&self) -> Result<(), StatusError> {
        self.check_content_type()?;
        // Without `text/event-stream` a call can be answered, but nothing can be sent before the result.
        match self.accept.allows_json() {
            true => Ok(()),
            false => {
                let text = "Not acceptable: `Accept` must take `application/json`, and `text/event-stream` for messages \
                            before the result";
                Err(StatusError::new(StatusCode::NOT_ACCEPTABLE, text))
            }
        }
    }

    /// Whether the response may be an event stream.
    pub(super) fn accepts_events(&self) -> bool {
        self.accept.allows_events()
    }
}

impl McpHeaders {
    /// The headers that decisions look at, with the session that was found.
    pub(super) fn with_session(&self, session: &NamedSession) -> RequestHeaders<'_> {
        RequestHeaders { version: self.protocol_version.to_text(), session: session.header() }
    }

    /// The headers that repeat the method and the name of the body.
    pub(super) fn mirrors(&self) -> MirrorHeaders<'_> {
        MirrorHeaders { method: self.method.to_text(), name: self.name.to_text() }
    }
}

/// The number of headers that a request may have.
const MAX_HEADERS: usize = 100;
