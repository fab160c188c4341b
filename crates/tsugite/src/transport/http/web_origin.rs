//! The origin of a web page, and the host and port in it.

/// The origin of a web page as browsers write it: scheme, host, and the port unless it is the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WebOrigin(String);

impl WebOrigin {
    /// Accepts only the form that browsers write: no capitals, default port, path or trailing dot.
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

    pub(super) fn host(&self) -> &str {
        let authority = self.0.split_once("://").map_or("", |(_, authority)| authority);
        split_port(authority).map_or("", |(host, _)| host)
    }
}

/// Splits a host and its port.
pub(super) fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let Some(colon) = authority.bytes().rposition(|byte| byte == b':' || byte == b']') else {
        return Some((authority, None));
    };
    let (host, rest) = authority.split_at_checked(colon)?;
    match rest.strip_prefix(':') {
        // An IPv6 address without a port.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_must_be_in_browser_form() {
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
        assert_eq!(
            WebOrigin::parse("http://localhost.evil.example").unwrap().host(),
            "localhost.evil.example"
        );
    }
}
