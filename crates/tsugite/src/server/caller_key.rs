//! The caller that limits count for: the authenticated principal, else the network address.

use std::net::IpAddr;

use crate::shared::principal::{CallerIdentity, Principal};

/// Identifies a caller: the authenticated principal, else the network address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum CallerKey {
    Principal(CallerIdentity),
    Address(IpAddr),
}

impl CallerKey {
    /// `None` if nothing is known about the caller. Then only the totals hold.
    pub(crate) fn new(principal: Option<&Principal>, address: Option<IpAddr>) -> Option<Self> {
        match principal {
            Some(principal) => Some(Self::Principal(principal.identity())),
            None => address.map(|address| Self::Address(network(address))),
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
