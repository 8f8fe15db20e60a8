//! What the sites announce.

mod text;

use alloc::{collections::BTreeMap, format, string::String, vec, vec::Vec};
use core::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

pub use self::text::{NotARouting, ROUTING_NAME_MAX};
use super::Sites;
use crate::{ConfigError, config_error::ensure};

/// The longest AS path by default, in ASes: longer ones are filtered at the edge of the Internet, by the paper.
pub const PATH_LENGTH_MAX: usize = 10;

/// The most communities on an announcement by default: what the PEERING testbed lets through.
pub const COMMUNITIES_MAX: usize = 5;

/// What the neighbours let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The longest AS path of an announcement, in ASes, the origin's own included. [`PATH_LENGTH_MAX`] by default.
    pub path_length: usize,
    /// The most communities on an announcement. [`COMMUNITIES_MAX`] by default.
    pub communities: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            path_length: PATH_LENGTH_MAX,
            communities: COMMUNITIES_MAX,
        }
    }
}

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

    /// All that is announced, and to whom; `None`: to every neighbour that is not named.
    pub fn paths(&self) -> impl Iterator<Item = (Option<Asn>, &Path)> {
        let everyone = self.everyone.iter().map(|path| (None, path));
        let named = self.neighbours.iter();
        everyone.chain(named.filter_map(|(asn, path)| Some((Some(*asn), path.as_ref()?))))
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

    /// Checks that every neighbour would take it.
    ///
    /// # Errors
    ///
    /// When a path is longer, or has more communities, than the limits say, or when no site announces anything: the service would
    /// be gone. What is not known is not refused.
    pub fn validate(&self, sites: &Sites, limits: &Limits) -> Result<(), ConfigError> {
        let Some(announcements) = &self.announcements else {
            return Ok(());
        };
        for (site, announcement) in sites.ids().zip(announcements) {
            for (asn, path) in announcement.paths() {
                let whom = asn.map_or_else(String::new, |asn| format!(" to AS{asn}"));
                let key = format!("{} ({}{whom})", self.name, sites.name(site));
                let (length, most) = (path.length(), limits.path_length);
                let value = format!("a path of {length} ASes");
                ensure(&key, length <= most, &value, &format!("at most {most}"))?;
                let (length, most) = (path.communities.len(), limits.communities);
                let value = format!("announced with {length} communities");
                ensure(&key, length <= most, &value, &format!("at most {most}"))?;
            }
        }
        let announced = announcements.iter().any(|a| a.paths().next().is_some());
        ensure(
            &self.name,
            announced,
            &"announced nowhere",
            "a site that announces",
        )
    }

    /// The number of sites whose announcement differs; `None` where one of the two is not known.
    #[must_use]
    pub fn changes(&self, other: &Self) -> Option<usize> {
        if self == other {
            return Some(0);
        }
        let (Some(ours), Some(theirs)) = (&self.announcements, &other.announcements) else {
            return None;
        };
        Some(ours.iter().zip(theirs).filter(|(a, b)| a != b).count())
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

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    fn sites() -> Sites {
        Sites::new(["AMS", "BOS", "CNF"]).unwrap()
    }

    fn routing(name: &str) -> Routing {
        Routing::parse(name, &sites()).unwrap()
    }

    #[test]
    fn what_neighbours_filter_is_refused() {
        let many = |n: usize| {
            let parts: Vec<String> = (1..=n).map(|i| format!("1:{i}xBOS")).collect();
            parts.join(",")
        };
        for (name, expect) in [
            ("baseline", Ok(())),
            ("+9xAMS", Ok(())),
            (
                "+10xAMS",
                Err("`+10xAMS (AMS)` is a path of 11 ASes, expected at most 10"),
            ),
            ("+7xAMS,poison-174xAMS", Ok(())),
            ("+8xAMS,poison-174xAMS", Err("path of 11 ASes")),
            ("-10xCNF", Err("`-10xCNF (AMS)`")),
            ("+10@174xAMS", Err("`+10@174xAMS (AMS to AS174)`")),
            (&many(5), Ok(())),
            (&many(6), Err("6 communities, expected at most 5")),
            ("0xAMS,0xBOS", Ok(())),
            ("0xAMS,0xBOS,0xCNF", Err("announced nowhere")),
            ("0xAMS,0xBOS,0xCNF,plain@174xCNF", Ok(())),
        ] {
            match (routing(name).validate(&sites(), &Limits::default()), expect) {
                (Ok(()), Ok(())) => {}
                (Err(error), Err(says)) => assert!(error.to_string().contains(says), "{error}"),
                (result, _) => panic!("{name}: {result:?}"),
            }
        }
        let tight = Limits {
            path_length: 1,
            communities: 0,
        };
        assert!(routing("baseline").validate(&sites(), &tight).is_ok());
        assert!(routing("+1xAMS").validate(&sites(), &tight).is_err());
        assert!(routing("1:2xAMS").validate(&sites(), &tight).is_err());
    }

    #[test]
    fn changes_are_counted_by_site() {
        for (a, b, expect) in [
            ("baseline", "baseline", 0),
            ("baseline", "+1xAMS", 1),
            ("+1xAMS", "1xAMS", 0),
            ("+1xAMS", "+2xAMS,1:2xAMS", 1),
            ("-1xAMS", "+1xBOS", 1),
            ("-1xAMS", "-1xBOS", 2),
            ("0xAMS", "-2xCNF", 2),
            ("baseline", "0@174xBOS", 1),
        ] {
            assert_eq!(routing(a).changes(&routing(b)), Some(expect), "{a} {b}");
            assert_eq!(routing(b).changes(&routing(a)), Some(expect), "{b} {a}");
        }
        let unknown = Routing {
            name: String::from("1xampath-nodes"),
            announcements: None,
        };
        assert_eq!(unknown.changes(&routing("baseline")), None);
        assert_eq!(unknown.changes(&unknown), Some(0));
    }

    #[test]
    fn a_poison_is_as_long_as_two_prepends() {
        let path = |name: &str| {
            let announcements = routing(name).announcements.unwrap();
            announcements[0].everyone.clone().unwrap()
        };
        let poison = path("poison-174xAMS").as_path(Asn(1149));
        assert_eq!(poison, [1149, 174, 1149].map(Asn));
        let prepend = path("+2xAMS").as_path(Asn(1149));
        assert_eq!(prepend, [1149, 1149, 1149].map(Asn));
        let both = path("+1xAMS,poison-63221-24115xAMS");
        assert_eq!(
            both.as_path(Asn(1149)),
            [1149, 1149, 63221, 24115, 1149].map(Asn)
        );
        assert_eq!(both.length(), 5);
    }

    #[test]
    fn an_announcement_reads_as_json() {
        for (text, name) in [
            ("{}", "baseline"),
            (r#"{"everyone":null}"#, "0xAMS"),
            (r#"{"everyone":{"prepend":2}}"#, "+2xAMS"),
            (
                r#"{"neighbours":{"174":null,"3356":{"communities":["1:2"]}}}"#,
                "0@174xAMS,1:2@3356xAMS",
            ),
        ] {
            let expect = &routing(name).announcements.unwrap()[0];
            let got: Announcement = serde_json::from_str(text).unwrap();
            assert_eq!(got, *expect, "{text}");
            let written = serde_json::to_string(expect).unwrap();
            assert_eq!(
                serde_json::from_str::<Announcement>(&written).unwrap(),
                *expect
            );
        }
    }
}
