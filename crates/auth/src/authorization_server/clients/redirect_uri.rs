//! Redirect URIs: which may be registered, and which of a request is one of them.
//!
//! They are compared as text. Only the port of a loopback address may differ, because a native client listens on a free
//! port (RFC 8252, 7.3).

use crate::net::{AddressClass, Url};

/// The place a browser is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::authorization_server) enum RedirectKind {
    /// A web server, whose identity TLS proves.
    Https,
    /// This machine. Any program on it may listen there.
    Loopback,
    /// An application that has claimed a scheme. Another one may have claimed it, too.
    PrivateScheme,
}

/// The kind of a redirect URI; `None` for one that is never redirected to.
pub(in crate::authorization_server) fn redirect_kind(uri: &str) -> Option<RedirectKind> {
    let is_clean = uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}*".contains(&byte));
    if uri.len() > MAX_URI_BYTES || uri.contains('#') || !is_clean {
        return None;
    }
    let (scheme, rest) = uri.split_once(':')?;
    match scheme.to_ascii_lowercase().as_str() {
        "https" => Url::parse(uri).ok().map(|url| match AddressClass::of_host(&url) {
            Some(AddressClass::Loopback) => RedirectKind::Loopback,
            _ => RedirectKind::Https,
        }),
        "http" => loopback_parts(uri).filter(|_| Url::parse(uri).is_ok()).map(|_| RedirectKind::Loopback),
        scheme if FORBIDDEN_SCHEMES.contains(&scheme) => None,
        scheme => {
            let mut letters = scheme.chars();
            let is_scheme = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
                && letters.all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
            (is_scheme && rest.starts_with('/')).then_some(RedirectKind::PrivateScheme)
        }
    }
}

/// Whether the redirect URI of a request is a registered one.
pub(in crate::authorization_server) fn is_registered(registered: &str, requested: &str) -> bool {
    registered == requested
        || match (loopback_parts(registered), loopback_parts(requested)) {
            (Some(one), Some(two)) => one == two && redirect_kind(requested).is_some(),
            _ => false,
        }
}

/// The host of a redirect URI as a page shows it: with the scheme, where it is not https.
pub(in crate::authorization_server) fn shown_host(uri: &str) -> String {
    match (redirect_kind(uri), Url::parse(uri)) {
        (Some(RedirectKind::Https), Ok(url)) if url.port == 443 => url.host,
        (Some(RedirectKind::Https), Ok(url)) => format!("{}:{}", url.host, url.port),
        (_, Ok(url)) => url.host,
        (_, Err(_)) => uri.split('?').next().unwrap_or_default().to_owned(),
    }
}

/// The host and what follows the port, of an http URI on the loopback interface.
fn loopback_parts(uri: &str) -> Option<(&str, &str)> {
    let rest = uri.strip_prefix("http://")?;
    let host = LOOPBACK_HOSTS.into_iter().find(|host| rest.starts_with(host))?;
    let rest = rest.strip_prefix(host)?;
    let tail = match rest.strip_prefix(':') {
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (port, tail) = rest.split_at_checked(digits)?;
            port.parse::<u16>().ok()?;
            tail
        }
        None => rest,
    };
    matches!(tail.bytes().next(), None | Some(b'/' | b'?')).then_some((host, tail))
}

const LOOPBACK_HOSTS: [&str; 3] = ["127.0.0.1", "[::1]", "localhost"];
const MAX_URI_BYTES: usize = 2_048;

/// Schemes that run code or read files in a browser, or that are not those of an application.
const FORBIDDEN_SCHEMES: [&str; 16] = [
    "about",
    "blob",
    "chrome",
    "data",
    "file",
    "filesystem",
    "ftp",
    "intent",
    "javascript",
    "jar",
    "mailto",
    "resource",
    "vbscript",
    "view-source",
    "ws",
    "wss",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_uris_are_compared_as_text() {
        // AAS-017, SEC-008, P-06
        let registered = "https://good.example/callback";
        assert!(is_registered(registered, registered));
        for trick in [
            "https://good.example.evil/callback",
            "https://good.example/callback/",
            "https://good.example/callback/x",
            "https://good.example/callback/../x",
            "https://good.example/callback?x=1",
            "https://good.example/callback#x",
            "https://good.example:443/callback",
            "https://GOOD.example/callback",
            "https://good.example/Callback",
            "https://good.example@evil.example/callback",
            "https://evil.example/https://good.example/callback",
            "http://good.example/callback",
            "https://good.example/%63allback",
            "",
        ] {
            assert!(!is_registered(registered, trick), "{trick}");
        }
    }

    #[test]
    fn port_of_a_loopback_address_may_differ() {
        for host in LOOPBACK_HOSTS {
            assert!(is_registered(&format!("http://{host}/cb"), &format!("http://{host}:49152/cb")));
            assert!(is_registered(&format!("http://{host}:1/cb?a=1"), &format!("http://{host}:2/cb?a=1")));
        }
        for (registered, requested) in [
            ("http://127.0.0.1/cb", "http://localhost:1/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:1/other"),
            ("http://127.0.0.1/cb", "http://127.0.0.1.evil.example/cb"),
            ("http://localhost/cb", "http://localhost.evil.example/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:1@evil.example/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:99999/cb"),
            ("http://127.0.0.1/cb", "https://127.0.0.1:1/cb"),
            ("https://127.0.0.1/cb", "https://127.0.0.1:1/cb"),
        ] {
            assert!(!is_registered(registered, requested), "{requested}");
        }
    }

    #[test]
    fn dangerous_uris_are_never_redirected_to() {
        for uri in [
            "javascript:alert(1)",
            "javascript://x/%0aalert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "http://example.com/cb",
            "https://h/cb#f",
            "https://u:p@h/cb",
            "https://h/ cb",
            "https://*.h/cb",
            "https://",
            "cb",
            "",
            "app:cb",
            "1app:/cb",
            "view-source:https://h/",
        ] {
            assert_eq!(redirect_kind(uri), None, "{uri}");
        }
        assert_eq!(redirect_kind("https://h/cb"), Some(RedirectKind::Https));
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "127.1.2.3", "[::1]:1", "app.localhost"] {
            let uri = format!("https://{host}/cb");
            assert_eq!(redirect_kind(&uri), Some(RedirectKind::Loopback), "{uri}");
        }
        assert_eq!(redirect_kind("http://[::1]:1/cb"), Some(RedirectKind::Loopback));
        assert_eq!(redirect_kind("com.example.app:/cb"), Some(RedirectKind::PrivateScheme));
        assert_eq!(redirect_kind("cursor://anysphere/cb"), Some(RedirectKind::PrivateScheme));
    }
}
