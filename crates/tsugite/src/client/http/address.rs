//! Where a server is, byte for byte as it was given.

use http::Uri;
use http::uri::Authority;

use crate::client::client_error::ClientError;

/// An address of http or https.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) origin: ServerOrigin,
    /// The path with its query.
    pub(super) path: String,
}

/// Whom to talk to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerOrigin {
    pub(super) secure: bool,
    /// Without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, ClientError> {
        let unusable =
            |why: &str| ClientError::config(format!("{:?} is no address of a server: {why}", redacted(text)));
        if !text.contains("://") {
            return Err(unusable("it must begin with http:// or https://"));
        }
        let uri: Uri = text.trim().parse().map_err(|_| unusable("it cannot be read as a URL"))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) => return Err(unusable("only http and https are spoken")),
            None => return Err(unusable("it names no scheme")),
        };
        let authority = uri.authority().map(Authority::as_str).unwrap_or_default();
        if authority.contains('@') {
            return Err(unusable("a name and a password do not belong into it; send a header instead"));
        }
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(unusable("it names no host"));
        }
        let usual = if secure { 443 } else { 80 };
        let after_host = authority.rsplit(']').next().unwrap_or_default();
        let port = match after_host.split_once(':') {
            None => usual,
            Some((_, port)) => port.parse().map_err(|_| unusable("its port is no port"))?,
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { origin: ServerOrigin { secure, host: host.to_owned(), port }, path })
    }

    /// Where `reference`, found at this address, leads; `None` if it leads to another server.
    pub(super) fn join(&self, reference: &str) -> Option<Self> {
        let reference = reference.trim();
        let reference = reference.split('#').next().unwrap_or_default();
        if reference.contains("://") {
            return Self::parse(reference).ok().filter(|address| address.origin == self.origin);
        }
        // `//host/path` names a host, and `scheme:` something that is no path.
        if reference.starts_with("//") || reference.chars().any(|letter| letter.is_control() || letter == ' ')
        {
            return None;
        }
        let here = self.path.split('?').next().unwrap_or_default();
        let path = match reference.chars().next() {
            None => self.path.clone(),
            Some('/') => reference.to_owned(),
            Some('?') => format!("{here}{reference}"),
            Some(_) => {
                let folder = here.rfind('/').and_then(|end| here.get(..=end)).unwrap_or("/");
                format!("{folder}{reference}")
            }
        };
        path.parse::<Uri>().ok()?;
        Some(Self { origin: self.origin.clone(), path })
    }
}

impl ServerOrigin {
    /// What stands in `RequestSource`.
    pub(super) fn authority(&self) -> String {
        let usual = if self.secure { 443 } else { 80 };
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.origin.secure { "https" } else { "http" };
        // A query may hold a secret.
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.origin.authority())
    }
}

/// An address as an error may show it: without what may be secret.
fn redacted(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let shown = match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            format!("{}://…{}", text.get(..scheme).unwrap_or_default(), text.get(at..).unwrap_or_default())
        }
        _ => text.to_owned(),
    };
    crate::client::client_error::truncate(&shown, 200).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_kept_byte_for_byte() {
        let address = Address::parse("https://example.com:8443/a%20b/mcp?key=%41").unwrap();
        assert_eq!(address.path, "/a%20b/mcp?key=%41");
        assert_eq!((address.origin.authority().as_str(), address.origin.port), ("example.com:8443", 8443));
        assert_eq!(Address::parse("http://localhost:80").unwrap().origin.authority(), "localhost");
        assert_eq!(Address::parse("http://[::1]:3000/mcp").unwrap().origin.authority(), "[::1]:3000");
        assert_eq!(Address::parse("http://h").unwrap().path, "/");
        assert_eq!(Address::parse("http://h?x=1").unwrap().path, "/?x=1");
    }

    #[test]
    fn invalid_url_error_contains_no_secrets() {
        let all = [
            "",
            "example.com/mcp",
            "ftp://h/",
            "http://",
            "http:///x",
            "http://h:99999/",
            "https://u:secret@h/",
        ];
        for text in all {
            let said = Address::parse(text).unwrap_err().to_string();
            assert!(!said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn relative_reference_stays_on_its_server() {
        let base = Address::parse("http://h:1/dir/sse?x=1").unwrap();
        let path = |reference: &str| base.join(reference).map(|address| address.path);
        assert_eq!(path("/messages?s=1").as_deref(), Some("/messages?s=1"));
        assert_eq!(path("messages").as_deref(), Some("/dir/messages"));
        assert_eq!(path("?s=2").as_deref(), Some("/dir/sse?s=2"));
        assert_eq!(path("http://h:1/m").as_deref(), Some("/m"));
        for elsewhere in ["http://h:2/m", "https://h:1/m", "//evil/m", "http://evil/", "/a b", "/a\nb"] {
            assert_eq!(path(elsewhere), None, "{elsewhere}");
        }
    }
}
