//! Blocks: what routing tells apart.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Bits of an IPv4 block.
const V4_LENGTH: u8 = 24;
/// Bits of an IPv6 block.
const V6_LENGTH: u8 = 48;

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
            Self::V4(_) => V4_LENGTH,
            Self::V6(_) => V6_LENGTH,
        };
        write!(f, "{}/{length}", self.first())
    }
}

/// A text is neither an address nor a prefix that lies in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an IPv4 or IPv6 address, or a prefix of /24 or longer (/48 or longer for IPv6)")]
pub struct NotABlock;

/// Of an address, or of a prefix that lies in one block. Bits behind the prefix do not matter.
impl FromStr for Block {
    type Err = NotABlock;

    fn from_str(text: &str) -> Result<Self, NotABlock> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse().map_err(|_| NotABlock)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotABlock)?;
        let lengths = match address {
            IpAddr::V4(_) => V4_LENGTH..=32,
            IpAddr::V6(_) => V6_LENGTH..=128,
        };
        match length {
            Some(length) if !lengths.contains(&length) => Err(NotABlock),
            _ => Ok(Self::of(address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for (text, expect) in [
            ("192.0.2.0/24", Some("192.0.2.0/24")),
            ("192.0.2.77", Some("192.0.2.0/24")),
            ("192.0.2.128/25", Some("192.0.2.0/24")),
            ("::ffff:192.0.2.1", Some("192.0.2.0/24")),
            ("255.255.255.255", Some("255.255.255.0/24")),
            ("2001:db8:1::/48", Some("2001:db8:1::/48")),
            ("2001:db8:1:2::3", Some("2001:db8:1::/48")),
            ("192.0.2.0/23", None),
            ("192.0.2.0/33", None),
            ("2001:db8::/47", None),
            ("2001:db8::/129", None),
            ("192.0.2.0/", None),
            ("192.0.2", None),
            ("", None),
        ] {
            let block = text.parse::<Block>().map(|block| block.to_string());
            assert_eq!(block.ok().as_deref(), expect, "{text:?}");
        }
    }
}
