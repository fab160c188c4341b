//! The caller that limits count for: the authenticated principal, else the network address.

use std::net::IpAddr;

use crate::shared::principal::{CallerIdentity, Principal};

/// Identifies a caller: the authenticated principal, unless it has neither a subject nor a client, else the network address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum CallerKey {
    Principal(CallerIdentity),
    Address(IpAddr),
}

impl CallerKey {
    /// `None` if nothing is known about the caller. Then only the totals hold.
    pub(crate) fn new(principal: Option<&Principal>, address: Option<IpAddr>) -> Option<Self> {
        match principal {
            Some(principal) if principal.is_identified() => Some(Self::Principal(principal.identity())),
            _ => address.map(|address| Self::Address(network(address))),
        }
    }
}

/// The network that counts as one caller: an IPv4 address, or the /64 of an IPv6 address, which is what one host gets.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let bits = address.to_bits() & (u128::MAX << 64);
            std::net::Ipv6Addr::from_bits(bits).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn principal_that_names_nobody_counts_by_address() {
        let address = |last| Some(Ipv4Addr::new(203, 0, 113, last).into());
        let unnamed = Principal::new("");
        assert_ne!(CallerKey::new(Some(&unnamed), address(1)), CallerKey::new(Some(&unnamed), address(2)));
        assert_eq!(CallerKey::new(Some(&unnamed), None), None);
        let ann = Principal::new("ann");
        assert_eq!(CallerKey::new(Some(&ann), address(1)), CallerKey::new(Some(&ann), address(2)));
    }
}
