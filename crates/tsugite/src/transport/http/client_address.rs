//! The network address of a client: that of its connection, or behind a trusted proxy the one that the proxy forwards.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::FORWARDED;

use crate::shared::ip_network::IpNetwork;

/// The network address of a client, as an extension of a request. Insert it in front of a mounted service, so that limits
/// for one caller apply to clients without a [`Principal`](crate::server::Principal).
///
/// ```
/// use std::net::SocketAddr;
/// use tsugite::transport::http::ClientAddr;
///
/// fn mark(request: &mut http::Request<()>, peer: SocketAddr) {
///     request.extensions_mut().insert(ClientAddr(peer.ip()));
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientAddr(
    /// The address.
    pub IpAddr,
);

/// Whether an address is that of a trusted proxy.
pub(super) fn is_trusted(address: IpAddr, trusted: &[IpNetwork]) -> bool {
    trusted.iter().any(|network| network.contains(address))
}

/// The address of the client behind `peer`: the last forwarded address that is not a trusted proxy itself. A client can
/// write any address before that one.
pub(super) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNetwork]) -> IpAddr {
    if !is_trusted(peer, trusted) {
        return peer;
    }
    let mut client = peer;
    for address in forwarded_addresses(headers).into_iter().rev() {
        // A proxy that hides the address, or writes something else: what is known is the proxy.
        let Some(address) = address else { return client };
        client = address;
        if !is_trusted(address, trusted) {
            break;
        }
    }
    client
}

/// The addresses of `X-Forwarded-For`, or of `Forwarded` if there is none, in order. `None` for one that cannot be read.
fn forwarded_addresses(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let values = |name: &http::HeaderName| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).map(str::trim).map(str::to_owned).collect::<Vec<_>>()
    };
    let listed = values(&http::HeaderName::from_static("x-forwarded-for"));
    if !listed.is_empty() {
        return listed.iter().map(|address| parse_address(address)).collect();
    }
    let for_parameter = |element: &String| {
        element.split(';').map(str::trim).find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.eq_ignore_ascii_case("for").then(|| parse_address(value.trim_matches('"')))?
        })
    };
    values(&FORWARDED).iter().map(for_parameter).collect()
}

/// Parses an address with or without a port: `1.2.3.4`, `1.2.3.4:80`, `::1`, `[::1]`, `[::1]:80`.
fn parse_address(text: &str) -> Option<IpAddr> {
    if let Some((address, _)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address.parse().ok();
    }
    text.parse().ok().or_else(|| text.rsplit_once(':').and_then(|(address, _)| address.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(peer: &str, headers: &[(&'static str, &str)], trusted: &[&str]) -> String {
        let trusted: Vec<_> = trusted.iter().map(|text| IpNetwork::parse(text).unwrap()).collect();
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(*name, value.parse().unwrap());
        }
        client_address(peer.parse().unwrap(), &all, &trusted).to_string()
    }

    #[test]
    fn forwarded_address_counts_only_from_a_trusted_proxy() {
        let forwarded = [("x-forwarded-for", "203.0.113.9")];
        assert_eq!(address("10.0.0.1", &forwarded, &["10.0.0.0/8"]), "203.0.113.9");
        assert_eq!(address("11.0.0.1", &forwarded, &["10.0.0.0/8"]), "11.0.0.1");
        assert_eq!(address("10.0.0.1", &forwarded, &[]), "10.0.0.1");
        assert_eq!(address("10.0.0.1", &[], &["10.0.0.1"]), "10.0.0.1");
    }

    #[test]
    fn addresses_that_the_client_wrote_are_not_believed() {
        let forged = [("x-forwarded-for", "1.1.1.1, 203.0.113.9"), ("x-forwarded-for", "10.0.0.7")];
        assert_eq!(address("10.0.0.1", &forged, &["10.0.0.0/8"]), "203.0.113.9");
        let unknown = [("x-forwarded-for", "1.1.1.1, unknown")];
        assert_eq!(address("10.0.0.1", &unknown, &["10.0.0.0/8"]), "10.0.0.1");
    }

    #[test]
    fn forwarded_header_and_ports_are_read() {
        let standard = [("forwarded", "for=1.1.1.1, proto=https;For=\"[2001:db8::1]:4711\"")];
        assert_eq!(address("::1", &standard, &["::1"]), "2001:db8::1");
        assert_eq!(address("::1", &[("x-forwarded-for", "203.0.113.9:80")], &["::1"]), "203.0.113.9");
    }
}
