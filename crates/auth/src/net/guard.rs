//! The guard over URLs that a server names: a client must not be led to addresses that only it can reach (SSRF).
//!
//! The check of the URL comes first; the check of the address stands where the connection is made, on the address that is
//! connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tsugite::client::AddressFilter;

use super::url::Url;
use crate::error::{AuthError, AuthErrorKind, Result};

/// The part of the network that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressClass {
    /// The Internet.
    Public,
    /// A private network.
    Private,
    /// This machine.
    Loopback,
    /// The local link, the metadata service of a cloud, and everything that is not a host.
    Forbidden,
}

impl AddressClass {
    /// Classifies an address. IPv4 addresses inside IPv6 addresses count as what they are.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    /// Classifies the host of a URL; `None` if that takes a resolver.
    pub(crate) fn of_host(url: &Url) -> Option<Self> {
        match url.host.parse() {
            Ok(address) => Some(Self::of(address)),
            Err(_) => is_localhost(&url.host).then_some(Self::Loopback),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [first, second, ..] = address.octets();
        match (first, second) {
            // Metadata services in ranges that look ordinary: Alibaba, Azure, Oracle.
            _ if METADATA_V4.contains(&address) => Self::Forbidden,
            (127, _) => Self::Loopback,
            (10, _) | (172, 16..=31) | (192, 168) | (100, 64..=127) => Self::Private,
            (0, _) | (169, 254) | (192, 0) | (198, 18 | 19) | (224..=255, _) => Self::Forbidden,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let segments = address.segments();
        let embedded = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Self::of_v4(Ipv4Addr::new(a, b, c, d))
        };
        match segments {
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            [0xfd00, 0x0ec2, ..] => Self::Forbidden,
            [0, 0, 0, 0, 0, 0, ..] => Self::Forbidden,
            // NAT64 and 6to4.
            [0x0064, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
            // Teredo, and NAT64 prefixes of a local network, whose form is not known.
            [0x2001, 0, ..] | [0x0064, 0xff9b, 1, ..] => Self::Forbidden,
            [0xfc00..=0xfdff, ..] => Self::Private,
            [0xfe80..=0xffff, ..] => Self::Forbidden,
            _ => Self::Public,
        }
    }
}

/// Metadata services outside of the link-local range.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];

/// The addresses beyond the Internet that may be connected to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Trust {
    pub(crate) loopback: bool,
    pub(crate) private: bool,
}

impl Trust {
    /// Everything but forbidden addresses, for URLs that the user has named.
    pub(crate) const USER: Self = Self { loopback: true, private: true };

    /// The trust that follows from where the server of the user is.
    pub(crate) fn of_server(server: &Url, connected: Option<IpAddr>) -> Self {
        let class = connected.map(AddressClass::of).or_else(|| AddressClass::of_host(server));
        match class.unwrap_or(AddressClass::Public) {
            AddressClass::Loopback => Self::USER,
            AddressClass::Private => Self { loopback: false, private: true },
            AddressClass::Public | AddressClass::Forbidden => Self::default(),
        }
    }

    pub(crate) fn allow_private(mut self, allowed: bool) -> Self {
        self.private |= allowed;
        self.loopback |= allowed;
        self
    }

    /// Checks a URL before a request, or before a browser opens it.
    pub(crate) fn check_url(self, url: &Url) -> Result<()> {
        let class = AddressClass::of_host(url);
        let may_be_plain = class == Some(AddressClass::Loopback) && self.loopback;
        if !url.secure && !may_be_plain {
            return Err(refused(url, "it is not https"));
        }
        match class {
            Some(class) => self.check(class).map_err(|reason| refused(url, reason)),
            None => Ok(()),
        }
    }

    /// The filter for the connection to a URL.
    pub(crate) fn filter(self, url: &Url) -> impl AddressFilter + use<> {
        ConnectionFilter { trust: self, secure: url.secure }
    }

    fn check(self, class: AddressClass) -> Result<(), &'static str> {
        match class {
            AddressClass::Public => Ok(()),
            AddressClass::Loopback if self.loopback => Ok(()),
            AddressClass::Private if self.private => Ok(()),
            AddressClass::Loopback => Err("it is on the loopback interface, and the server is not"),
            AddressClass::Private => Err("it is in a private network, and the server is not"),
            AddressClass::Forbidden => Err("it is a link-local, metadata or reserved address"),
        }
    }
}

/// Checks the addresses of one connection.
struct ConnectionFilter {
    trust: Trust,
    secure: bool,
}

impl AddressFilter for ConnectionFilter {
    fn check_address(&self, _: &str, address: IpAddr) -> Result<(), String> {
        let class = AddressClass::of(address);
        if !self.secure && class != AddressClass::Loopback {
            return Err("refused: plain http is for the loopback interface only".to_owned());
        }
        self.trust.check(class).map_err(|reason| format!("refused: {reason}"))
    }

    fn check_proxied_host(&self, host: &str) -> Result<(), String> {
        let class = match host.parse() {
            Ok(address) => AddressClass::of(address),
            Err(_) if is_localhost(host) => AddressClass::Loopback,
            // Such a name is an address in another notation: decimal, octal or hexadecimal.
            Err(_) if ends_in_a_number(host) => AddressClass::Forbidden,
            Err(_) => AddressClass::Public,
        };
        self.trust.check(class).map_err(|reason| format!("refused: {reason}"))
    }
}

fn is_localhost(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

fn ends_in_a_number(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    last.starts_with("0x") || !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit())
}

fn refused(url: &Url, reason: &str) -> AuthError {
    AuthError::new(AuthErrorKind::Refused, format!("refused the URL {:?}: {reason}", url.without_query()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> AddressClass {
        AddressClass::of(text.parse().unwrap())
    }

    #[test]
    fn addresses_are_classified() {
        // C-14
        use AddressClass::{Forbidden, Loopback, Private, Public};
        let all: [(AddressClass, &[&str]); 4] = [
            (
                Public,
                &["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1", "64:ff9b::808:808", "2002:808:808::1"],
            ),
            (
                Private,
                &[
                    "10.0.0.1",
                    "172.16.0.1",
                    "172.31.9.9",
                    "192.168.1.1",
                    "100.64.0.1",
                    "fc00::1",
                    "fd12::1",
                    "::ffff:10.0.0.1",
                    "64:ff9b::a00:1",
                    "2002:c0a8:101::1",
                ],
            ),
            (Loopback, &["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]),
            (
                Forbidden,
                &[
                    "169.254.169.254",
                    "0.0.0.0",
                    "::",
                    "fe80::1",
                    "fec0::1",
                    "ff02::1",
                    "224.0.0.1",
                    "255.255.255.255",
                    "100.100.100.200",
                    "168.63.129.16",
                    "fd00:ec2::254",
                    "::ffff:169.254.169.254",
                    "::169.254.169.254",
                    "2001::1",
                    "64:ff9b:1::808:808",
                    "192.0.0.192",
                    "198.18.0.1",
                ],
            ),
        ];
        for (expected, texts) in all {
            for text in texts {
                assert_eq!(class(text), expected, "{text}");
            }
        }
    }

    #[test]
    fn trust_follows_the_server() {
        let trust = |url: &str, address: Option<&str>| {
            Trust::of_server(&Url::parse(url).unwrap(), address.map(|text| text.parse().unwrap()))
        };
        assert_eq!(trust("http://localhost:1", None), Trust::USER);
        assert_eq!(trust("https://mcp.corp", Some("10.0.0.1")), Trust { loopback: false, private: true });
        assert_eq!(trust("https://mcp.corp", None), Trust::default());
        // The address that was connected to counts, not the name.
        assert_eq!(trust("http://localhost:1", Some("1.1.1.1")), Trust::default());
        assert_eq!(Trust::default().allow_private(true), Trust::USER);
    }

    #[test]
    fn urls_that_a_server_names_are_checked() {
        // ACL-061, C-14
        let check = |trust: Trust, url: &str| trust.check_url(&Url::parse(url).unwrap()).is_ok();
        let public = Trust::default();
        assert!(check(public, "https://as.example.com/token"));
        for url in [
            "http://as.example.com/",
            "https://10.0.0.1/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "http://localhost/",
            "https://169.254.169.254/",
            "https://[::ffff:192.168.0.1]/",
        ] {
            assert!(!check(public, url), "{url}");
        }
        for url in ["http://localhost:1/", "http://127.0.0.1:1/", "https://10.0.0.1/", "http://[::1]/"] {
            assert!(check(Trust::USER, url), "{url}");
        }
        for url in ["http://10.0.0.1/", "http://169.254.169.254/", "https://169.254.169.254/", "http://h/"] {
            assert!(!check(Trust::USER, url), "{url}");
        }
    }

    #[test]
    fn hosts_behind_a_proxy_are_checked_by_name() {
        let filter = |trust: Trust| trust.filter(&Url::parse("https://h").unwrap());
        for host in [
            "10.0.0.1",
            "localhost",
            "a.localhost.",
            "2130706433",
            "0x7f000001",
            "127.1",
            "0177.0.0.1",
            "::1",
        ] {
            assert!(filter(Trust::default()).check_proxied_host(host).is_err(), "{host}");
        }
        assert!(filter(Trust::default()).check_proxied_host("as.example.com").is_ok());
        assert!(filter(Trust::USER).check_proxied_host("10.0.0.1").is_ok());
        assert!(filter(Trust::USER).check_proxied_host("2130706433").is_err());
    }
}
