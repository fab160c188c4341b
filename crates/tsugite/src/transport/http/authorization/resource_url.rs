//! The address of the endpoint as clients and tokens name it.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::OnceLock;

use super::super::public_url::PublicUrl;

/// The name by which a request reached a loopback listener. The client chooses it; any other name is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) enum HostName {
    Localhost,
    Ipv4,
    Ipv6,
    Other,
}

impl HostName {
    /// Reads the host and port that a request names.
    pub(in super::super) fn of(authority: Option<&[u8]>) -> Self {
        let authority = authority.unwrap_or_default();
        let names = [Self::Localhost, Self::Ipv4, Self::Ipv6];
        let is = |name: &Self| {
            let rest = authority.strip_prefix(name.text().as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b":"))
        };
        names.into_iter().find(is).unwrap_or(Self::Other)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Localhost => "localhost",
            Self::Ipv4 => "127.0.0.1",
            Self::Ipv6 => "[::1]",
            Self::Other => "",
        }
    }
}

/// Where the endpoint is, for one served server.
pub(in super::super) struct ResourceUrl {
    configured: Option<PublicUrl>,
    /// The path of the endpoint at our own listener.
    path: String,
    is_tls: bool,
    /// The address of our own listener, if only this machine can reach it.
    loopback: OnceLock<SocketAddr>,
}

impl ResourceUrl {
    pub(in super::super) fn new(configured: Option<PublicUrl>, path: &str, is_tls: bool) -> Self {
        Self { configured, path: path.to_owned(), is_tls, loopback: OnceLock::new() }
    }

    /// Notes the address of the listener.
    pub(in super::super) fn set_listener(&self, address: SocketAddr) {
        if address.ip().is_loopback() {
            let _ = self.loopback.set(address);
        }
    }

    /// Whether there is an address to name.
    pub(in super::super) fn is_known(&self) -> bool {
        self.configured.is_some() || self.loopback.get().is_some()
    }

    /// The URL of the endpoint; empty if it is not known.
    pub(in super::super) fn endpoint(&self, host: HostName) -> String {
        match &self.configured {
            Some(url) => url.as_str().to_owned(),
            None => self.beside(host, &self.path),
        }
    }

    /// The URL of another path at the same origin; empty if it is not known.
    pub(in super::super) fn beside(&self, host: HostName, path: &str) -> String {
        self.origin(host).map_or_else(String::new, |origin| format!("{origin}{path}"))
    }

    /// The path of the endpoint as clients see it, and at our own listener.
    pub(in super::super) fn paths(&self) -> (&str, &str) {
        (self.configured.as_ref().map_or(&self.path, |url| url.path()), &self.path)
    }

    fn origin(&self, host: HostName) -> Option<Cow<'_, str>> {
        if let Some(url) = &self.configured {
            return Some(url.origin().into());
        }
        let address = self.loopback.get()?;
        let name = match host {
            HostName::Other => bracketed(address),
            known => known.text().to_owned(),
        };
        let scheme = if self.is_tls { "https" } else { "http" };
        // Never the port that the client names: a token for another server of this machine is not for us.
        Some(format!("{scheme}://{name}:{}", address.port()).into())
    }
}

/// The path of the metadata document for an endpoint at `path` (RFC 9728, section 3.1).
pub(in super::super) fn well_known_path(path: &str) -> String {
    format!("{WELL_KNOWN}{}", path.strip_suffix('/').unwrap_or(path))
}

pub(in super::super) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

fn bracketed(address: &SocketAddr) -> String {
    match address.ip() {
        std::net::IpAddr::V4(ip) => ip.to_string(),
        std::net::IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_address_has_the_port_of_the_listener() {
        let url = ResourceUrl::new(None, "/mcp", false);
        assert!(!url.is_known() && url.endpoint(HostName::Localhost).is_empty());
        url.set_listener(([127, 0, 0, 1], 3000).into());
        for (named, known) in [
            ("localhost:3000", "http://localhost:3000/mcp"),
            ("[::1]:3000", "http://[::1]:3000/mcp"),
            ("127.0.0.1:4000", "http://127.0.0.1:3000/mcp"),
            ("localhost.evil.example", "http://127.0.0.1:3000/mcp"),
        ] {
            assert_eq!(url.endpoint(HostName::of(Some(named.as_bytes()))), known);
        }
        let public = ResourceUrl::new(None, "/mcp", false);
        public.set_listener(([10, 0, 0, 1], 3000).into());
        assert!(!public.is_known());
    }
}
