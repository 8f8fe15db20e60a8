//! Blocks: what routing tells apart.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A block: an IPv4 /24 or an IPv6 /48, since longer prefixes are not routed between ASes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Block {
    /// The first 24 bits of an IPv4 address.
    V4(u32),
    /// The first 48 bits of an IPv6 address.
    V6(u64),
}

impl Block {
    /// The block of an address; an IPv4 address mapped into IPv6 is an IPv4 address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(u32::from(address) >> 8),
            IpAddr::V6(address) => Self::V6((u128::from(address) >> 80) as u64),
        }
    }

    /// Its first address.
    #[must_use]
    pub fn first(self) -> IpAddr {
        match self {
            Self::V4(bits) => IpAddr::V4(Ipv4Addr::from(bits << 8)),
            Self::V6(bits) => IpAddr::V6(Ipv6Addr::from(u128::from(bits) << 80)),
        }
    }
}

/// As a prefix: `192.0.2.0/24`, `2001:db8::/48`.
impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = match self {
            Self::V4(_) => 24,
            Self::V6(_) => 48,
        };
        write!(f, "{}/{length}", self.first())
    }
}
