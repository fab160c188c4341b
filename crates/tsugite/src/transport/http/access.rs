//! Access checks of a request: the host it names and the origin of the web page that sends it; CORS headers.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tsugite_core::session::http::OptionalHeader;

use super::http_settings::Http;
use super::response_body::HttpBody;
use super::responses::{StatusError, empty_with_headers};
use super::web_origin::{WebOrigin, split_port};

fn is_loopback(host: &str) -> bool {
    LOOPBACK_HOSTS.contains(&host)
}

/// Whether a host, with or without a port, is a name of the loopback interface, as in most requests.
fn is_loopback_authority(authority: &[u8]) -> bool {
    LOOPBACK_HOSTS.iter().any(|host| match authority.strip_prefix(host.as_bytes()) {
        Some([]) => true,
        Some([b':', port @ ..]) => matches!(port.len(), 1..=5) && port.iter().all(u8::is_ascii_digit),
        _ => false,
    })
}

const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Checks that the server serves the host that a request names, so that a web page cannot reach it by DNS rebinding.
pub(super) fn check_host(
    authority: Option<&[u8]>,
    http: &Http,
    local_ip: Option<IpAddr>,
) -> Result<(), StatusError> {
    if http.allow_any_host || authority.is_some_and(|authority| is_allowed_host(authority, http, local_ip)) {
        return Ok(());
    }
    let text = "Forbidden: this server does not serve the host that the request names; \
                `Http::allow_host` allows one";
    Err(StatusError::new(StatusCode::FORBIDDEN, text))
}

/// Checks that web pages of this origin may call the server.
pub(super) fn check_origin(origin: OptionalHeader<'_>, http: &Http) -> Result<(), StatusError> {
    let origin = match origin {
        OptionalHeader::Absent => return Ok(()),
        OptionalHeader::Present(origin) => origin,
        OptionalHeader::Ambiguous => "",
    };
    let is_allowed = http.allow_any_origin
        || WebOrigin::parse(origin)
            .is_some_and(|origin| is_loopback(origin.host()) || http.allowed_origins.contains(&origin));
    if is_allowed {
        return Ok(());
    }
    let text = "Forbidden: pages of this origin may not call this server; `Http::allow_origin` allows one";
    Err(StatusError::new(StatusCode::FORBIDDEN, text))
}

fn is_allowed_host(authority: &[u8], http: &Http, local_ip: Option<IpAddr>) -> bool {
    if is_loopback_authority(authority) {
        return true;
    }
    let authority = std::str::from_utf8(authority).ok().filter(|authority| authority.is_ascii());
    let Some((host, _)) = authority.and_then(split_port) else { return false };
    let host = host.to_ascii_lowercase();
    let local = local_ip.map(|ip| if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() });
    is_loopback(&host) || http.allowed_hosts.contains(&host) || local.as_ref() == Some(&host)
}

/// Lets pages of this origin read a response.
pub(super) fn add_cors_headers(origin: HeaderValue, response: &mut Response<HttpBody>) {
    let headers = response.headers_mut();
    headers.insert("access-control-allow-origin", origin);
    headers.insert("access-control-expose-headers", HeaderValue::from_static(CORS_EXPOSED_HEADERS));
    headers.append("vary", HeaderValue::from_static("origin"));
}

/// Answers a CORS preflight request. Pages may send keys in these headers.
pub(super) fn preflight(headers: &HeaderMap, key_headers: &[HeaderName]) -> Response<HttpBody> {
    let mut allowed = CORS_ALLOWED_HEADERS.to_owned();
    for name in key_headers {
        allowed.push_str(", ");
        allowed.push_str(name.as_str());
    }
    // The names of `Mcp-Param-*` headers depend on the tools, so they are allowed as requested.
    let requested =
        headers.get("access-control-request-headers").and_then(|requested| requested.to_str().ok());
    let token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    for name in requested.unwrap_or_default().split(',').map(str::trim).take(64) {
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
                       mcp-session-id, last-event-id, dpop";
const CORS_EXPOSED_HEADERS: &str = "mcp-session-id, www-authenticate, dpop-nonce";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_port_is_optional() {
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
}
