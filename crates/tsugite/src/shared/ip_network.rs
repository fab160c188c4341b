//! Networks of IP addresses, such as `10.0.0.0/8`.

use std::net::IpAddr;

/// An address, or all addresses with the same first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IpNetwork {
    address: IpAddr,
    bits: u32,
}

impl IpNetwork {
    /// Parses an address, or a network as in `10.0.0.0/8`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self { address, bits })
    }

    /// Whether an address is in the network. An IPv4 address that is written as IPv6 counts as IPv4.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_contains_the_addresses_with_its_first_bits() {
        let contains = |network: &str, address: &str| {
            IpNetwork::parse(network).unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("10.0.0.0/8", "10.9.8.7") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("0.0.0.0/0", "1.2.3.4") && contains("::/0", "2001:db8::1"));
        assert!(contains("192.0.2.7", "192.0.2.7") && !contains("192.0.2.7", "192.0.2.70"));
        assert!(contains("10.0.0.0/8", "::ffff:10.0.0.1") && !contains("::/0", "10.0.0.1"));
    }

    #[test]
    fn invalid_networks_are_refused() {
        for text in ["", "10.0.0.0/33", "a", "10.0.0.0/x", "::/129"] {
            assert_eq!(IpNetwork::parse(text), None, "{text}");
        }
    }
}
