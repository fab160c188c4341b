//! The address of a server: an `http` or `https` URL, or `unix:PATH`. Path and query are sent byte for byte as they were
//! given.

use std::path::PathBuf;

use http::Uri;
use http::uri::Authority;

use crate::client::client_error::ClientError;

/// An `http` or `https` URL, or a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) origin: ServerOrigin,
    /// The path with its query.
    pub(super) path: String,
}

/// The scheme, host and port of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerOrigin {
    pub(super) secure: bool,
    /// The host, without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    /// The socket of a server that listens on no port.
    pub(super) unix_socket: Option<PathBuf>,
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, ClientError> {
        let invalid =
            |reason: &str| ClientError::config(format!("invalid server URL {:?}: {reason}", redacted(text)));
        if let Some(socket) = text.strip_prefix("unix:") {
            return Self::parse_unix(socket).map_err(invalid);
        }
        if !text.contains("://") {
            return Err(invalid("it must begin with http://, https:// or unix:"));
        }
        let uri: Uri = text.trim().parse().map_err(|_| invalid("it is malformed"))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) => return Err(invalid("only http and https are supported")),
            None => return Err(invalid("it has no scheme")),
        };
        let authority = uri.authority().map(Authority::as_str).unwrap_or_default();
        if authority.contains('@') {
            return Err(invalid("it must not contain credentials; send a header instead"));
        }
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(invalid("it has no host"));
        }
        let default_port = if secure { 443 } else { 80 };
        let after_host = authority.rsplit(']').next().unwrap_or_default();
        let port = match after_host.split_once(':') {
            None => default_port,
            Some((_, port)) => port.parse().map_err(|_| invalid("the port is invalid"))?,
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { origin: ServerOrigin { secure, host: host.to_owned(), port, unix_socket: None }, path })
    }

    /// Parses `SOCKET`, `//SOCKET` or `SOCKET#/PATH`, where the path of the endpoint is `/mcp` unless it is given.
    fn parse_unix(text: &str) -> Result<Self, &'static str> {
        let (socket, path) = text.split_once('#').unwrap_or((text, "/mcp"));
        let socket = socket.strip_prefix("//").unwrap_or(socket);
        if socket.is_empty() {
            return Err("it names no socket; write it as unix:/run/server.sock");
        }
        if !path.starts_with('/') || path.parse::<Uri>().is_err() {
            return Err("the path after the socket is malformed; write it as unix:/run/server.sock#/mcp");
        }
        let (host, unix_socket) = ("localhost".to_owned(), Some(socket.into()));
        Ok(Self {
            origin: ServerOrigin { secure: false, host, port: 80, unix_socket },
            path: path.to_owned(),
        })
    }

    /// Resolves `reference` against this address; `None` if it points to another server.
    pub(super) fn join(&self, reference: &str) -> Option<Self> {
        let reference = reference.trim();
        let reference = reference.split('#').next().unwrap_or_default();
        if reference.contains("://") {
            return Self::parse(reference).ok().filter(|address| address.origin == self.origin);
        }
        // `//host/path` names another host. A control character or a space is in no valid path.
        if reference.starts_with("//") || reference.chars().any(|letter| letter.is_control() || letter == ' ')
        {
            return None;
        }
        let current = self.path.split('?').next().unwrap_or_default();
        let path = match reference.chars().next() {
            None => self.path.clone(),
            Some('/') => reference.to_owned(),
            Some('?') => format!("{current}{reference}"),
            Some(_) => {
                let folder = current.rfind('/').and_then(|end| current.get(..=end)).unwrap_or("/");
                format!("{folder}{reference}")
            }
        };
        path.parse::<Uri>().ok()?;
        Some(Self { origin: self.origin.clone(), path })
    }
}

impl ServerOrigin {
    /// The value of the `Host` header.
    pub(super) fn authority(&self) -> String {
        let default_port = if self.secure { 443 } else { 80 };
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        if self.port == default_port { host } else { format!("{host}:{}", self.port) }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The query may contain a secret.
        let path = self.path.split('?').next().unwrap_or_default();
        if let Some(socket) = &self.origin.unix_socket {
            return write!(f, "unix:{}#{path}", socket.display());
        }
        let scheme = if self.origin.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{path}", self.origin.authority())
    }
}

/// The URL without the parts that may be secret, for an error message.
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
    fn path_and_query_are_kept_byte_for_byte() {
        let address = Address::parse("https://example.com:8443/a%20b/mcp?key=%41").unwrap();
        assert_eq!(address.path, "/a%20b/mcp?key=%41");
        assert_eq!((address.origin.authority().as_str(), address.origin.port), ("example.com:8443", 8443));
        assert_eq!(Address::parse("http://localhost:80").unwrap().origin.authority(), "localhost");
        assert_eq!(Address::parse("http://[::1]:3000/mcp").unwrap().origin.authority(), "[::1]:3000");
        assert_eq!(Address::parse("http://h").unwrap().path, "/");
        assert_eq!(Address::parse("http://h?x=1").unwrap().path, "/?x=1");
    }

    #[test]
    fn unix_socket_may_be_followed_by_a_path() {
        let socket = |text: &str| {
            let address = Address::parse(text).unwrap();
            (address.origin.unix_socket.unwrap().display().to_string(), address.path)
        };
        assert_eq!(socket("unix:/run/a.sock"), ("/run/a.sock".to_owned(), "/mcp".to_owned()));
        assert_eq!(socket("unix:a.sock#/x?y=1"), ("a.sock".to_owned(), "/x?y=1".to_owned()));
        assert_eq!(socket("unix:///run/a.sock#/mcp"), ("/run/a.sock".to_owned(), "/mcp".to_owned()));
        assert_eq!(Address::parse("unix:/a#/x?key=1").unwrap().to_string(), "unix:/a#/x");
        let base = Address::parse("unix:/run/a.sock#/sse").unwrap();
        assert_eq!(base.join("/messages?s=1").unwrap().origin, base.origin);
        assert_eq!(base.join("http://localhost/messages"), None);
    }

    #[test]
    fn error_of_an_invalid_url_shows_no_secret() {
        let all = [
            "",
            "unix:",
            "unix:#/mcp",
            "unix:/a#b?secret",
            "unix:/a#/b c?secret",
            "example.com/mcp",
            "ftp://h/",
            "http://",
            "http:///x",
            "http://h:99999/",
            "https://u:secret@h/",
        ];
        for text in all {
            let message = Address::parse(text).unwrap_err().to_string();
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn reference_to_another_server_is_rejected() {
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
