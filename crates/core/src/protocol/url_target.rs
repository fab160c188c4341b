//! The server that a URL of an elicitation leads to.

use super::elicitation::UrlParams;

/// The server that a URL leads to, for the user who decides whether to open it.
///
/// ```
/// use tsugite_core::protocol::UrlParams;
///
/// let page = UrlParams::new("Pay here", "http://xn--pple-43d.example:8080/login");
/// let target = page.target().unwrap();
/// assert_eq!(target.host, "xn--pple-43d.example");
/// assert!(target.is_international && !target.is_encrypted);
/// assert_eq!(UrlParams::new("", "https://bank.example@evil.example/").target(), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UrlTarget {
    /// The host in lower case, without the port. An IPv6 address has brackets.
    pub host: String,
    /// Whether the page is sent over `https`. Over plain `http` others can read and change it.
    pub is_encrypted: bool,
    /// Whether the host has letters beyond ASCII, as they are or as Punycode (`xn--`). They may look like the letters of another
    /// host.
    pub is_international: bool,
}

impl UrlParams {
    /// The server that the URL leads to. `None` if the URL is not `http` or `https`, names a user, as in
    /// `https://bank.example@evil.example`, or is malformed. Such a URL should not be opened.
    pub fn target(&self) -> Option<UrlTarget> {
        let url = self.url.as_str();
        // Browsers read a backslash as a slash, and drop some of the others.
        if url.chars().any(|letter| letter.is_control() || letter.is_whitespace() || letter == '\\') {
            return None;
        }
        let (scheme, rest) = url.split_once("://")?;
        let is_encrypted = scheme.eq_ignore_ascii_case("https");
        if !is_encrypted && !scheme.eq_ignore_ascii_case("http") {
            return None;
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains(['@', '%']) {
            return None;
        }
        let (host, port) = match authority.find(']') {
            Some(end) => authority.split_at(end + 1),
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port_is_valid =
            port.strip_prefix(':').map_or(port.is_empty(), |port| port.parse::<u16>().is_ok());
        if host.is_empty() || !port_is_valid {
            return None;
        }
        let host = host.to_lowercase();
        let is_international = host.split('.').any(|label| label.starts_with("xn--") || !label.is_ascii());
        Some(UrlTarget { host, is_encrypted, is_international })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Option<UrlTarget> {
        UrlParams::new("", url).target()
    }

    #[test]
    fn target_names_the_host_and_its_risks() {
        // ELIC-042, F-14
        for (url, host, is_encrypted, is_international) in [
            ("https://example.com/a?b=c@d", "example.com", true, false),
            ("HTTPS://Example.COM:8443", "example.com", true, false),
            ("http://localhost:1/", "localhost", false, false),
            ("https://[::1]:8443/x", "[::1]", true, false),
            ("https://XN--pple-43d.example/", "xn--pple-43d.example", true, true),
            ("https://\u{430}pple.example#x", "\u{430}pple.example", true, true),
        ] {
            let host = host.to_owned();
            assert_eq!(target(url), Some(UrlTarget { host, is_encrypted, is_international }), "{url}");
        }
    }

    #[test]
    fn misleading_urls_have_no_target() {
        for url in [
            "",
            "example.com",
            "javascript:alert(1)",
            "javascript://example.com/%0Aalert(1)",
            "file:///etc/passwd",
            "https://",
            "https:///x",
            "https://:443/",
            "https://a:b/",
            "https://a:99999/",
            "https://a b",
            "https://a\n",
            "https://bank.example@evil.example/",
            "https://bank.example:443@evil.example/",
            "https://evil.example\\@bank.example/",
            "https://bank%2Eexample/",
        ] {
            assert_eq!(target(url), None, "{url}");
        }
    }
}
