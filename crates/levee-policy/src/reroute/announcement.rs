//! What the sites announce.

use alloc::{collections::BTreeMap, string::String, vec, vec::Vec};
use core::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The number of an autonomous system.
///
/// Read from a number, or from text with or without `AS` before it, which is what keys of JSON and TOML are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Asn(pub u32);

impl fmt::Display for Asn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Asn {
    type Err = NotAnAsn;
    fn from_str(text: &str) -> Result<Self, NotAnAsn> {
        let number = text.strip_prefix("AS").unwrap_or(text);
        digits(number).map(Self).ok_or(NotAnAsn)
    }
}

impl<'de> Deserialize<'de> for Asn {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Asn;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&NotAnAsn, f)
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Asn, E> {
                let number = u32::try_from(number).map_err(|_| E::custom(NotAnAsn))?;
                Ok(Asn(number))
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Asn, E> {
                let number = u32::try_from(number).map_err(|_| E::custom(NotAnAsn))?;
                Ok(Asn(number))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Asn, E> {
                text.parse()
                    .map_err(|error| E::custom(format_args!("{text:?} is no ASN: {error}")))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A text that is no ASN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnAsn;

impl fmt::Display for NotAnAsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected an ASN of 32 bits, such as 174 or AS174")
    }
}

impl core::error::Error for NotAnAsn {}

/// A BGP community, as text `20473:6001` (RFC 1997) or `64500:1:2` (RFC 8092).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Community {
    /// RFC 1997.
    Standard(u16, u16),
    /// RFC 8092.
    Large(u32, u32, u32),
}

/// How an announcement looks: its AS path and communities.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// How often the origin is repeated before itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prepend: u8,
    /// ASes named in the path, so that their loop detection drops it: `origin x (1 + prepend), poison..., origin`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub poison: Vec<Asn>,
    /// For the neighbour to act on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub communities: Vec<Community>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(n: &u8) -> bool {
    *n == 0
}

impl Path {
    /// The AS path as the neighbour gets it.
    #[must_use]
    pub fn as_path(&self, origin: Asn) -> Vec<Asn> {
        let mut path = vec![origin; 1 + usize::from(self.prepend)];
        if !self.poison.is_empty() {
            path.extend(&self.poison);
            path.push(origin);
        }
        path
    }

    /// How many ASes that path has.
    #[must_use]
    pub fn length(&self) -> usize {
        let poison = self.poison.len();
        1 + usize::from(self.prepend) + if poison > 0 { poison + 1 } else { 0 }
    }
}

/// What one site announces, to whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Announcement {
    /// To every neighbour that is not named below; `None`, in text `null`: not announced. Plain where it is not said.
    #[serde(default = "plain")]
    pub everyone: Option<Path>,
    /// To these neighbours instead.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub neighbours: BTreeMap<Asn, Option<Path>>,
}

fn plain() -> Option<Path> {
    Some(Path::default())
}

impl Default for Announcement {
    /// Plain, to everyone.
    fn default() -> Self {
        Self {
            everyone: plain(),
            neighbours: BTreeMap::new(),
        }
    }
}

impl Announcement {
    /// No neighbour gets it.
    #[must_use]
    pub fn withdrawn() -> Self {
        Self {
            everyone: None,
            neighbours: BTreeMap::new(),
        }
    }

    /// What this neighbour gets.
    #[must_use]
    pub fn to(&self, neighbour: Asn) -> Option<&Path> {
        self.neighbours
            .get(&neighbour)
            .unwrap_or(&self.everyone)
            .as_ref()
    }
}

/// A routing configuration: what every site announces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// Its name, such as `baseline`, `+1xAMS`, `-2xIAD` (all others prepend 2), `0xLHR` (withdrawn).
    pub name: String,
    /// One for each site, in the order of their numbers; `None` where a playbook of others tells no more than the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announcements: Option<Vec<Announcement>>,
}

impl Routing {
    /// All sites announce plainly.
    #[must_use]
    pub fn baseline(sites: usize) -> Self {
        Self {
            name: String::from("baseline"),
            announcements: Some(vec![Announcement::default(); sites]),
        }
    }
}

impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Standard(a, b) => write!(f, "{a}:{b}"),
            Self::Large(a, b, c) => write!(f, "{a}:{b}:{c}"),
        }
    }
}

impl FromStr for Community {
    type Err = NotACommunity;
    fn from_str(text: &str) -> Result<Self, NotACommunity> {
        let parts: Vec<&str> = text.split(':').collect();
        let community = match *parts {
            [a, b] => digits(a).zip(digits(b)).map(|(a, b)| Self::Standard(a, b)),
            [a, b, c] => match (digits(a), digits(b), digits(c)) {
                (Some(a), Some(b), Some(c)) => Some(Self::Large(a, b, c)),
                _ => None,
            },
            _ => None,
        };
        community.ok_or(NotACommunity)
    }
}

/// A number without sign and spaces, which `parse` alone would take.
fn digits<N: FromStr>(text: &str) -> Option<N> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

/// A text that is no community.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotACommunity;

impl fmt::Display for NotACommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected two numbers below 65536, as in 20473:6001, or three, as in 64500:1:2")
    }
}

impl core::error::Error for NotACommunity {}

impl Serialize for Community {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Community {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
