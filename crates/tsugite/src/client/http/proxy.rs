//! HTTP proxies: which one a server needs, by a setting or by `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, and how
//! requests pass through it.
//!
//! A plain `http` request is sent to the proxy with its whole URL; for `https` the proxy opens a tunnel (`CONNECT`). A
//! server on the loopback interface is never reached through a proxy.

use std::io;
use std::net::IpAddr;

use http::header::{HeaderValue, PROXY_AUTHORIZATION};
use http::{Request, Uri};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tsugite_core::base64;

use super::address::ServerOrigin;
use super::full_body::FullBody;
use crate::client::client_error::ClientError;
use crate::shared::ip_network::IpNetwork;

/// Which proxy a client uses.
#[derive(Clone, Default)]
pub(in crate::client) enum ProxySetting {
    /// None.
    #[default]
    None,
    /// The proxy at a URL, for every server that is not on the loopback interface.
    Url(String),
    /// The proxies of the environment.
    Environment,
}

/// An HTTP proxy.
pub(super) struct Proxy {
    /// The host, without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    /// The value of `Proxy-Authorization`.
    authorization: Option<HeaderValue>,
}

impl ProxySetting {
    /// The proxy for a server, if it needs one.
    pub(super) fn proxy_for(&self, origin: &ServerOrigin) -> Result<Option<Proxy>, ClientError> {
        self.proxy_with(origin, |name| std::env::var(name).ok())
    }

    /// Like [`Self::proxy_for`], with the environment as an argument.
    fn proxy_with(
        &self,
        origin: &ServerOrigin,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Proxy>, ClientError> {
        if is_loopback(&origin.host) {
            return Ok(None);
        }
        // The lower-case name first, as in curl.
        let either = |name: &str| {
            let found = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
            found(&name.to_ascii_lowercase()).or_else(|| found(name))
        };
        let (source, url) = match self {
            Self::None => return Ok(None),
            Self::Url(url) => ("the proxy URL", url.clone()),
            Self::Environment => {
                let name = if origin.secure { "HTTPS_PROXY" } else { "HTTP_PROXY" };
                // In a CGI program a request header `Proxy` sets `HTTP_PROXY` (CVE-2016-5385).
                let value = match name == "HTTP_PROXY" && variable("REQUEST_METHOD").is_some() {
                    true => variable("http_proxy"),
                    false => either(name),
                };
                let Some(value) = value.filter(|value| !value.trim().is_empty()) else { return Ok(None) };
                if either("NO_PROXY").is_some_and(|excluded| is_excluded(&excluded, origin)) {
                    return Ok(None);
                }
                (name, value)
            }
        };
        Proxy::parse(url.trim())
            .map(Some)
            .map_err(|reason| ClientError::config(format!("{source} is invalid: {reason}")))
    }
}

impl Proxy {
    /// Parses `[http://][user:password@]host[:port]`. The error shows nothing of the text, which may contain a password.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some(_) => return Err("only proxies with the scheme `http` are supported"),
            None => text,
        };
        let (credentials, host) = match rest.rsplit_once('@') {
            Some((credentials, host)) => (Some(credentials), host),
            None => (None, rest),
        };
        let uri: Uri = format!("http://{}", host.trim_end_matches('/'))
            .parse()
            .map_err(|_| "write it as http://HOST:PORT")?;
        if uri.path() != "/" || uri.query().is_some() {
            return Err("a proxy has no path; write it as http://HOST:PORT");
        }
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let authorization = credentials.map(basic_authorization).transpose()?;
        Ok(Self { host, port: uri.port_u16().unwrap_or(80), authorization })
    }

    /// Addresses a plain `http` request to a server behind the proxy.
    pub(super) fn address_request(&self, request: &mut Request<FullBody>, origin: &ServerOrigin) {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        if let Ok(uri) = format!("http://{}{path}", origin.authority()).parse() {
            *request.uri_mut() = uri;
        }
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
    }

    /// Asks the proxy for a tunnel to a server.
    pub(super) async fn open_tunnel(&self, socket: &mut TcpStream, origin: &ServerOrigin) -> io::Result<()> {
        let host = match origin.host.contains(':') {
            true => format!("[{}]", origin.host),
            false => origin.host.clone(),
        };
        let target = format!("{host}:{}", origin.port);
        let mut head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
        if let Some(authorization) = &self.authorization {
            head.extend_from_slice(b"Proxy-Authorization: ");
            head.extend_from_slice(authorization.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        socket.write_all(&head).await?;
        let response = self.read_response_head(socket).await?;
        let status_line = response.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let status_line = String::from_utf8_lossy(status_line);
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
        match (status_line.starts_with("HTTP/1."), status) {
            (true, Some(200..=299)) => Ok(()),
            (true, Some(407)) => {
                Err(self.error("it requires credentials (407); put user:password@ into its URL"))
            }
            (true, Some(status)) => Err(self.error(&format!("it refused a tunnel to {target} ({status})"))),
            _ => Err(self.error("its response is not HTTP")),
        }
    }

    /// Reads up to the empty line after the headers. The server behind the tunnel sends nothing before the client does.
    async fn read_response_head(&self, socket: &mut TcpStream) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        let mut chunk = [0; 512];
        while !head.ends_with(b"\r\n\r\n") {
            let read = socket.read(&mut chunk).await?;
            if read == 0 {
                return Err(self.error("it closed the connection"));
            }
            head.extend_from_slice(chunk.get(..read).unwrap_or_default());
            if head.len() > MAX_RESPONSE_HEAD_BYTES {
                return Err(self.error("its response is too long"));
            }
        }
        Ok(head)
    }

    fn error(&self, reason: &str) -> io::Error {
        io::Error::other(format!("proxy {}:{}: {reason}", self.host, self.port))
    }
}

/// The value of `Proxy-Authorization` for `user:password`, both percent-encoded.
fn basic_authorization(credentials: &str) -> Result<HeaderValue, &'static str> {
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let mut plain = percent_decode(user);
    plain.push(b':');
    plain.extend(percent_decode(password));
    let mut value = HeaderValue::try_from(format!("Basic {}", base64::encode(&plain)))
        .map_err(|_| "its credentials are invalid")?;
    value.set_sensitive(true);
    Ok(value)
}

fn percent_decode(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| first == b'%');
        let value = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(value.unwrap_or(first));
        rest = if value.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    decoded
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|address| address.is_loopback())
        }
        Ok(IpAddr::V4(address)) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// Whether a `NO_PROXY` list names a server: `*`, a domain with all its subdomains, an address, or a network such as
/// `10.0.0.0/8`; each name and address with an optional port.
fn is_excluded(list: &str, origin: &ServerOrigin) -> bool {
    let host = origin.host.trim_end_matches('.').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        if entry == "*" {
            return true;
        }
        if entry.contains('/') {
            let network = IpNetwork::parse(entry);
            return network.zip(address).is_some_and(|(network, address)| network.contains(address));
        }
        let (name, port) = split_port(entry);
        if port.is_some_and(|port| port != origin.port) {
            return false;
        }
        let name = name.trim_start_matches("*.").trim_start_matches('.').to_ascii_lowercase();
        match (name.parse::<IpAddr>(), address) {
            (Ok(named), Some(address)) => named == address,
            (Ok(_), None) => false,
            (Err(_), _) => host == name || host.strip_suffix(&name).is_some_and(|rest| rest.ends_with('.')),
        }
    })
}

/// Splits `host:port`, `[::1]:port` or a plain host or address.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some((address, rest)) = entry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (address, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match entry.split_once(':') {
        Some((name, port)) if !port.contains(':') => (name, port.parse().ok()),
        _ => (entry, None),
    }
}

const MAX_RESPONSE_HEAD_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::http::address::Address;

    fn proxy_for(url: &str, variables: &[(&str, &str)]) -> Result<Option<String>, ClientError> {
        let origin = Address::parse(url).unwrap().origin;
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let proxy = ProxySetting::Environment.proxy_with(&origin, variable)?;
        Ok(proxy.map(|proxy| format!("{}:{}", proxy.host, proxy.port)))
    }

    #[test]
    fn scheme_selects_the_variable() {
        let both = [("HTTP_PROXY", "http://a:1"), ("HTTPS_PROXY", "b:2")];
        assert_eq!(proxy_for("http://example.com/", &both).unwrap().as_deref(), Some("a:1"));
        assert_eq!(proxy_for("https://example.com/", &both).unwrap().as_deref(), Some("b:2"));
        assert_eq!(proxy_for("https://example.com/", &[("HTTP_PROXY", "a:1")]).unwrap(), None);
        let lower_case = [("HTTP_PROXY", "http://a:1"), ("http_proxy", "http://c")];
        assert_eq!(proxy_for("http://example.com/", &lower_case).unwrap().as_deref(), Some("c:80"));
        assert_eq!(proxy_for("http://example.com/", &[("HTTP_PROXY", " ")]).unwrap(), None);
        assert_eq!(proxy_for("http://e/", &[("HTTP_PROXY", "[::2]:3")]).unwrap().as_deref(), Some("::2:3"));
    }

    #[test]
    fn cgi_program_ignores_the_variable_that_a_client_can_set() {
        let cgi = [("HTTP_PROXY", "http://a:1"), ("REQUEST_METHOD", "GET")];
        assert_eq!(proxy_for("http://example.com/", &cgi).unwrap(), None);
    }

    #[test]
    fn loopback_needs_no_proxy() {
        let set = [("HTTP_PROXY", "http://a:1")];
        for url in [
            "http://localhost:3000/mcp",
            "http://x.localhost/",
            "http://127.8.0.1/",
            "http://[::1]:3000/",
            "http://[::ffff:127.0.0.1]/",
            "http://LOCALHOST./",
        ] {
            assert_eq!(proxy_for(url, &set).unwrap(), None, "{url}");
        }
    }

    #[test]
    fn no_proxy_names_hosts_domains_addresses_and_networks() {
        let list =
            "intra.example, .corp.example:8080,*.lab.example,10.0.0.0/8,fd00::/8,192.0.2.7,[2001:db8::1]:99";
        let set = [("HTTP_PROXY", "http://a:1"), ("NO_PROXY", list)];
        for direct in [
            "http://intra.example/",
            "http://a.INTRA.example/",
            "http://x.corp.example:8080/",
            "http://b.lab.example/",
            "http://10.9.8.7/",
            "http://[fd12::1]/",
            "http://192.0.2.7/",
            "http://[2001:db8::1]:99/",
        ] {
            assert_eq!(proxy_for(direct, &set).unwrap(), None, "{direct}");
        }
        for proxied in [
            "http://notintra.example/",
            "http://x.corp.example/",
            "http://11.0.0.1/",
            "http://192.0.2.70/",
            "http://[2001:db8::1]/",
        ] {
            assert!(proxy_for(proxied, &set).unwrap().is_some(), "{proxied}");
        }
        assert_eq!(proxy_for("http://e/", &[("HTTP_PROXY", "a:1"), ("no_proxy", "*")]).unwrap(), None);
    }

    #[test]
    fn invalid_proxy_is_an_error_without_its_password() {
        for value in
            ["socks5://u:secret@h:1", "https://u:secret@h", "http://u:secret@", "http://u:secret@h/x"]
        {
            let message = proxy_for("http://example.com/", &[("HTTP_PROXY", value)]).unwrap_err().to_string();
            assert!(message.contains("HTTP_PROXY") && !message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn credentials_are_percent_decoded() {
        let proxy = Proxy::parse("http://us%65r:p%40ss%@h:1").unwrap();
        let authorization = proxy.authorization.unwrap();
        assert_eq!(authorization.to_str().unwrap(), format!("Basic {}", base64::encode(b"user:p@ss%")));
    }
}
