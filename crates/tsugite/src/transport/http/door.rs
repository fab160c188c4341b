//! Who is let in: the host a request names, the origin of the page that sends it, and what it brings.

use std::net::IpAddr;

use http::header::{ACCEPT, CONTENT_TYPE, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Response, StatusCode};

use super::answer::{Refused, refuse_with};
use super::body::HttpBody;
use super::settings::Http;

/// The origin of a page, as browsers write it: scheme, host, and the port where it is not the usual one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin(String);

impl Origin {
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
    let end = authority.find(']').map_or(0, |end| end + 1);
    match authority.get(end..)?.split_once(':') {
        None => Some((authority, None)),
        Some((before, port)) => {
            let is_port =
                !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
            is_port.then_some((authority.get(..end + before.len())?, Some(port)))
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
    matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

/// Checks the host and the origin. Gives the origin if a page asks.
pub(super) fn enter<'h>(
    http: &Http,
    own: Option<IpAddr>,
    parts: &'h Parts,
) -> Result<Option<&'h str>, Refused> {
    if !http.any_host {
        let named = match (parts.uri.authority(), once(&parts.headers, &HOST)) {
            (Some(authority), _) => Some(authority.as_str()),
            (None, Ok(host)) => host,
            (None, Err(Twice)) => None,
        };
        let host = named.and_then(split_port).map(|(host, _)| host.to_ascii_lowercase());
        let own = || own.map(|own| if own.is_ipv6() { format!("[{own}]") } else { own.to_string() });
        if !host.as_deref().is_some_and(|host| {
            is_loopback(host)
                || http.hosts.iter().any(|known| known == host)
                || own().as_deref() == Some(host)
        }) {
            let text = "Forbidden: this server does not serve the host that the request names; \
                        `Http::allow_host` allows one";
            return Err(Refused(StatusCode::FORBIDDEN, text));
        }
    }
    let origin = match once(&parts.headers, &ORIGIN) {
        Ok(None) => return Ok(None),
        Ok(Some(origin)) => origin,
        Err(Twice) => "",
    };
    let allowed = http.any_origin
        || Origin::parse(origin)
            .is_some_and(|origin| is_loopback(origin.host()) || http.origins.contains(&origin));
    if !allowed {
        let text =
            "Forbidden: pages of this origin may not call this server; `Http::allow_origin` allows one";
        return Err(Refused(StatusCode::FORBIDDEN, text));
    }
    Ok(Some(origin))
}

/// What a POST must bring and must be ready to take.
pub(super) fn takes_json(headers: &HeaderMap) -> Result<(), Refused> {
    let content = headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    let is_json = content.is_some_and(|content| {
        content == b"application/json" || {
            let kind = content.split(|byte| *byte == b';').next().unwrap_or_default();
            kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
        }
    });
    if !is_json {
        let text = "Unsupported media type: `Content-Type` must be `application/json`";
        return Err(Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    if !(accepts(headers, "application/json") && accepts(headers, "text/event-stream")) {
        let text = "Not acceptable: `Accept` must take `application/json` and `text/event-stream`";
        return Err(Refused(StatusCode::NOT_ACCEPTABLE, text));
    }
    Ok(())
}

/// Whether `Accept` takes a media type. A header that is absent takes everything.
pub(super) fn accepts(headers: &HeaderMap, media: &str) -> bool {
    let family = media.split_once('/').map_or("", |(family, _)| family);
    let mut said = false;
    for value in headers.get_all(ACCEPT) {
        said = true;
        let Ok(value) = value.to_str() else { continue };
        for range in value.split(',') {
            let mut parts = range.split(';');
            let name = parts.next().unwrap_or_default().trim();
            let takes = name.eq_ignore_ascii_case(media)
                || name == "*/*"
                || name.strip_suffix("/*").is_some_and(|range| range.eq_ignore_ascii_case(family));
            let never =
                || parts.clone().any(|part| matches!(part.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
            if takes && !never() {
                return true;
            }
        }
    }
    !said
}

/// A header that may stand once.
pub(super) fn once<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Twice> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| Twice),
        _ => Err(Twice),
    }
}

/// It stands there more than once, or is no text.
pub(super) struct Twice;

/// What a page is told of a response.
pub(super) fn let_read(http: &Http, origin: &str, response: &mut Response<HttpBody>) {
    if !http.cors {
        return;
    }
    let Ok(origin) = http::HeaderValue::from_str(origin) else { return };
    let headers = response.headers_mut();
    headers.insert("access-control-allow-origin", origin);
    headers.insert("access-control-expose-headers", http::HeaderValue::from_static(EXPOSED));
    headers.append("vary", http::HeaderValue::from_static("origin"));
}

/// The answer to a browser that asks beforehand.
pub(super) fn preflight(headers: &HeaderMap) -> Response<HttpBody> {
    let mut allowed = ALLOWED.to_owned();
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
    refuse_with(StatusCode::NO_CONTENT, |response| {
        response
            .header("access-control-allow-methods", "POST, GET, DELETE")
            .header("access-control-allow-headers", allowed)
            .header("access-control-max-age", "7200")
    })
}

const ALLOWED: &str = "authorization, content-type, accept, mcp-protocol-version, mcp-method, mcp-name, \
                       mcp-session-id, last-event-id";
const EXPOSED: &str = "mcp-session-id, www-authenticate";
