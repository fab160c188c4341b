//! Who is let in: the host a request names, the origin of the page that sends it, and what it brings.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use tsugite_core::session::http::OptionalHeader;

use super::http_settings::Http;
use super::post::McpHeaders;
use super::response_body::HttpBody;
use super::responses::{StatusError, empty_with_headers};

/// The origin of a page, as browsers write it: scheme, host, and the port where it is not the usual one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WebOrigin(String);

impl WebOrigin {
    /// Takes nothing that a browser would not write: no capitals, no usual port, no path, no name that ends in a dot.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
        if scheme.is_empty() || !scheme.bytes().all(plain) {
            return None;
        }
        let (host, port) = split_port(authority)?;
        let usual = match scheme {
            "http" => Some("80"),
            "https" => Some("443"),
            _ => None,
        };
        if port.is_some() && port == usual || !is_host(host) {
            return None;
        }
        Some(Self(text.to_owned()))
    }

    fn host(&self) -> &str {
        let authority = self.0.split_once("://").map_or("", |(_, authority)| authority);
        split_port(authority).map_or("", |(host, _)| host)
    }
}

/// A host and its port.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let Some(colon) = authority.bytes().rposition(|byte| byte == b':' || byte == b']') else {
        return Some((authority, None));
    };
    let (host, rest) = authority.split_at_checked(colon)?;
    match rest.strip_prefix(':') {
        // An address of version 6 without a port.
        None => (rest == "]").then_some((authority, None)),
        Some(port) => {
            let is_port =
                !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
            let is_one = host.starts_with('[') == host.ends_with(']')
                && (host.starts_with('[') || !host.contains(':'));
            (is_port && is_one).then_some((host, Some(port)))
        }
    }
}

fn is_host(host: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.ends_with('.') && host.bytes().all(plain),
    }
}

fn is_loopback(host: &str) -> bool {
    LOOPBACK_HOSTS.contains(&host)
}

/// Whether a host with its port is this machine, as it calls itself: what most requests name.
fn is_loopback_authority(authority: &[u8]) -> bool {
    LOOPBACK_HOSTS.iter().any(|host| match authority.strip_prefix(host.as_bytes()) {
        Some([]) => true,
        Some([b':', port @ ..]) => matches!(port.len(), 1..=5) && port.iter().all(u8::is_ascii_digit),
        _ => false,
    })
}

const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// What the head of a request says to the door, and to whoever is behind it, read in one pass.
pub(super) struct RequestHead<'h> {
    host: SingleHeader<'h>,
    origin: OptionalHeader<'h>,
    is_json: bool,
    accept: AcceptHeader,
    pub(super) mcp_headers: McpHeaders<'h>,
}

/// A header that may stand once, as it came.
#[derive(Clone, Copy)]
pub(super) enum SingleHeader<'h> {
    Absent,
    Once(&'h [u8]),
    Repeated,
}

impl<'h> SingleHeader<'h> {
    pub(super) fn add(&mut self, value: &'h HeaderValue) {
        *self = match self {
            SingleHeader::Absent => SingleHeader::Once(value.as_bytes()),
            _ => SingleHeader::Repeated,
        };
    }
}

/// What `Accept` takes.
#[derive(Clone, Copy)]
struct AcceptHeader {
    json: bool,
    events: bool,
    /// A header that is absent takes everything.
    is_present: bool,
}

impl<'h> RequestHead<'h> {
    pub(super) fn parse(headers: &'h HeaderMap, uri: &'h Uri) -> Self {
        let mut knock = Self {
            host: SingleHeader::Absent,
            origin: OptionalHeader::Absent,
            is_json: false,
            accept: AcceptHeader { json: false, events: false, is_present: false },
            mcp_headers: McpHeaders::default(),
        };
        for (name, value) in headers {
            match name.as_str() {
                "host" => knock.host.add(value),
                "origin" => add_single_value(&mut knock.origin, value),
                "content-type" => knock.is_json = is_json(value.as_bytes()),
                "accept" => knock.accept.add(value.as_bytes()),
                name => knock.mcp_headers.add(name, value),
            }
        }
        if let Some(authority) = uri.authority() {
            knock.host = SingleHeader::Once(authority.as_str().as_bytes());
        }
        knock
    }

    /// Checks the host and the origin. Gives the origin if a page asks.
    pub(super) fn check_access(
        &self,
        http: &Http,
        own: Option<IpAddr>,
    ) -> Result<Option<&'h str>, StatusError> {
        if !http.allow_any_host && !self.is_allowed_host(http, own) {
            let text = "Forbidden: this server does not serve the host that the request names; \
                        `Http::allow_host` allows one";
            return Err(StatusError(StatusCode::FORBIDDEN, text));
        }
        self.check_origin(http)
    }

    /// Checks the origin alone. Gives it if a page asks.
    pub(super) fn check_origin(&self, http: &Http) -> Result<Option<&'h str>, StatusError> {
        let origin = match self.origin {
            OptionalHeader::Absent => return Ok(None),
            OptionalHeader::Present(origin) => origin,
            OptionalHeader::Ambiguous => "",
        };
        let allowed = http.allow_any_origin
            || WebOrigin::parse(origin)
                .is_some_and(|origin| is_loopback(origin.host()) || http.allowed_origins.contains(&origin));
        if !allowed {
            let text =
                "Forbidden: pages of this origin may not call this server; `Http::allow_origin` allows one";
            return Err(StatusError(StatusCode::FORBIDDEN, text));
        }
        Ok(Some(origin))
    }

    fn is_allowed_host(&self, http: &Http, own: Option<IpAddr>) -> bool {
        let SingleHeader::Once(authority) = self.host else { return false };
        if is_loopback_authority(authority) {
            return true;
        }
        let authority = std::str::from_utf8(authority).ok().filter(|authority| authority.is_ascii());
        let Some((host, _)) = authority.and_then(split_port) else { return false };
        let host = host.to_ascii_lowercase();
        let own = own.map(|own| if own.is_ipv6() { format!("[{own}]") } else { own.to_string() });
        is_loopback(&host) || http.allowed_hosts.contains(&host) || own.as_ref() == Some(&host)
    }

    /// What a POST must bring.
    pub(super) fn check_content_type(&self) -> Result<(), StatusError> {
        match self.is_json {
            true => Ok(()),
            false => {
                let text = "Unsupported media type: `Content-Type` must be `application/json`";
                Err(StatusError(StatusCode::UNSUPPORTED_MEDIA_TYPE, text))
            }
        }
    }

    /// What a POST must bring and must be ready to take.
    pub(super) fn check_post_headers(&self) -> Result<(), StatusError> {
        self.check_content_type()?;
        let AcceptHeader { json, events, is_present: said } = self.accept;
        if said && !(json && events) {
            let text = "Not acceptable: `Accept` must take `application/json` and `text/event-stream`";
            return Err(StatusError(StatusCode::NOT_ACCEPTABLE, text));
        }
        Ok(())
    }

    /// Whether a stream of events may be the answer.
    pub(super) fn accepts_events(&self) -> bool {
        self.accept.events || !self.accept.is_present
    }
}

fn is_json(content: &[u8]) -> bool {
    content == b"application/json" || {
        let kind = content.split(|byte| *byte == b';').next().unwrap_or_default();
        kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
    }
}

impl AcceptHeader {
    fn add(&mut self, value: &[u8]) {
        self.is_present = true;
        // What nearly everybody writes.
        if value == b"application/json, text/event-stream" {
            (self.json, self.events) = (true, true);
            return;
        }
        for range in value.split(|byte| *byte == b',') {
            let mut parts = range.split(|byte| *byte == b';');
            let name = parts.next().unwrap_or_default().trim_ascii();
            let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
            let never =
                parts.any(|part| matches!(part.trim_ascii(), b"q=0" | b"q=0.0" | b"q=0.00" | b"q=0.000"));
            if never {
                continue;
            }
            self.json |= is(b"application/json") || is(b"application/*") || is(b"*/*");
            self.events |= is(b"text/event-stream") || is(b"text/*") || is(b"*/*");
        }
    }
}

/// Adds a value of a header that may stand once.
pub(super) fn add_single_value<'h>(header: &mut OptionalHeader<'h>, value: &'h HeaderValue) {
    // What `to_str` takes, without its loop over bytes: a value has no control characters anyway.
    let text = value.as_bytes().is_ascii().then(|| std::str::from_utf8(value.as_bytes()));
    *header = match (*header, text) {
        (OptionalHeader::Absent, Some(Ok(text))) => OptionalHeader::Present(text),
        _ => OptionalHeader::Ambiguous,
    };
}

/// What a page is told of a response.
pub(super) fn add_cors_headers(http: &Http, origin: &str, response: &mut Response<HttpBody>) {
    if !http.cors {
        return;
    }
    let Ok(origin) = HeaderValue::from_str(origin) else { return };
    let headers = response.headers_mut();
    headers.insert("access-control-allow-origin", origin);
    headers.insert("access-control-expose-headers", HeaderValue::from_static(CORS_EXPOSED_HEADERS));
    headers.append("vary", HeaderValue::from_static("origin"));
}

/// The answer to a browser that asks beforehand.
pub(super) fn preflight(headers: &HeaderMap) -> Response<HttpBody> {
    let mut allowed = CORS_ALLOWED_HEADERS.to_owned();
    // Which arguments headers repeat is not known beforehand.
    let asked = headers.get("access-control-request-headers").and_then(|asked| asked.to_str().ok());
    let token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    for name in asked.unwrap_or_default().split(',').map(str::trim).take(64) {
        if name.len() > 10
            && name.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("mcp-param-"))
            && name.bytes().all(token)
        {
            allowed.push_str(", ");
            allowed.push_str(name);
        }
    }
    empty_with_headers(StatusCode::NO_CONTENT, |response| {
        response
            .header("access-control-allow-methods", "POST, GET, DELETE")
            .header("access-control-allow-headers", allowed)
            .header("access-control-max-age", "7200")
    })
}

const CORS_ALLOWED_HEADERS: &str = "authorization, content-type, accept, mcp-protocol-version, mcp-method, mcp-name, \
                       mcp-session-id, last-event-id";
const CORS_EXPOSED_HEADERS: &str = "mcp-session-id, www-authenticate";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_port_or_none() {
        for (authority, split) in [
            ("localhost", Some(("localhost", None))),
            ("localhost:80", Some(("localhost", Some("80")))),
            ("[::1]", Some(("[::1]", None))),
            ("[::1]:8080", Some(("[::1]", Some("8080")))),
            ("", Some(("", None))),
            ("localhost:", None),
            ("localhost:x", None),
            ("localhost:123456", None),
            ("localhost.evil.example", Some(("localhost.evil.example", None))),
            ("127.0.0.1:65535", Some(("127.0.0.1", Some("65535")))),
            ("127.0.0.10", Some(("127.0.0.10", None))),
            ("::1", None),
            ("a:b:1", None),
            ("[::1]x", None),
            ("]:1", None),
        ] {
            assert_eq!(split_port(authority), split, "{authority}");
            let local = split.is_some_and(|(host, _)| is_loopback(host));
            assert_eq!(is_loopback_authority(authority.as_bytes()), local, "{authority}");
        }
    }

    #[test]
    fn an_origin_is_what_a_browser_writes() {
        for origin in [
            "http://localhost",
            "https://app.example",
            "http://127.0.0.1:3000",
            "http://[::1]:1",
            "app+x://a",
        ] {
            assert!(WebOrigin::parse(origin).is_some(), "{origin}");
        }
        for other in [
            "null",
            "",
            "localhost",
            "http://",
            "HTTP://localhost",
            "http://LOCALHOST",
            "http://localhost:80",
            "https://app.example:443",
            "http://localhost.",
            "http://localhost/",
            "http://127.0.0.1@evil",
            "http://user:pw@localhost",
            "http://local host",
            "http://[::1",
            "://a",
        ] {
            assert!(WebOrigin::parse(other).is_none(), "{other}");
        }
        assert!(!is_loopback(WebOrigin::parse("http://localhost.evil.example").unwrap().host()));
    }

    #[test]
    fn accept_is_read_leniently() {
        for (value, json, events) in [
            ("application/json, text/event-stream", true, true),
            ("text/event-stream,application/json", true, true),
            ("*/*", true, true),
            ("application/*;q=0.5, text/*", true, true),
            ("Application/JSON", true, false),
            ("text/event-stream", false, true),
            ("application/json;q=0, text/event-stream", false, true),
            ("application/jsonx", false, false),
            ("", false, false),
        ] {
            let mut accepts = AcceptHeader { json: false, events: false, is_present: false };
            accepts.add(value.as_bytes());
            assert_eq!((accepts.json, accepts.events), (json, events), "{value}");
        }
    }
}
