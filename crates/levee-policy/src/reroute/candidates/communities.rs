//! Communities, and what upstreams do with them.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
};
use core::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::reroute::{Asn, Community};

/// To whom an upstream does, or does not, pass an announcement on; as text `everyone`, `providers`, `peers`, `customers` or an
/// ASN such as `AS174`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// All its neighbours.
    Everyone,
    /// All its providers.
    Providers,
    /// All its peers.
    Peers,
    /// All its customers.
    Customers,
    /// This neighbour.
    As(Asn),
}

/// How an upstream ranks a route against the others that it has to the same prefix (RFC 1998).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// As one from a customer, which is how it ranks without a community.
    Customer,
    /// As one from a peer.
    Peer,
    /// As one from a provider.
    Provider,
    /// Below all others: used when there is no other.
    Last,
}

/// What an upstream does with an announcement of its customer that carries a community.
///
/// As text in TOML: `{ no_export_to = "peers" }`, `{ export_only_to = "AS174" }`, `{ prepend_to = { target = "everyone",
/// times = 2 } }`, `{ prefer_as = "peer" }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// It does not pass it on to these.
    NoExportTo(Target),
    /// It passes it on to these and to no others.
    ExportOnlyTo(Target),
    /// It repeats its own ASN so often, besides the one that it always adds, in what it passes on to these.
    PrependTo {
        /// To whom.
        target: Target,
        /// How often, at least 1.
        times: u8,
    },
    /// It ranks the route so.
    PreferAs(Preference),
}

/// Which communities each upstream offers to its customers, and what they do there. Elsewhere they do nothing.
///
/// In TOML a table of tables: `[communities.20473]` with `"20473:6001" = { prepend_to = { target = "everyone", times = 1 } }`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommunityTable(BTreeMap<Asn, BTreeMap<Community, Effect>>);

impl CommunityTable {
    /// Adds what an upstream offers; gives back what it was said to do before.
    pub fn insert(
        &mut self,
        upstream: Asn,
        community: Community,
        effect: Effect,
    ) -> Option<Effect> {
        self.0
            .entry(upstream)
            .or_default()
            .insert(community, effect)
    }

    /// What this community does at this upstream.
    #[must_use]
    pub fn effect(&self, upstream: Asn, community: Community) -> Option<Effect> {
        self.0.get(&upstream)?.get(&community).copied()
    }

    /// All that this upstream offers, in the order of the communities.
    pub fn offered_by(&self, upstream: Asn) -> impl Iterator<Item = (Community, Effect)> + '_ {
        let table = self.0.get(&upstream).into_iter().flatten();
        table.map(|(community, effect)| (*community, *effect))
    }

    /// The upstreams that offer any, in order.
    pub fn upstreams(&self) -> impl Iterator<Item = Asn> + '_ {
        self.0.keys().copied()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everyone => f.write_str("everyone"),
            Self::Providers => f.write_str("providers"),
            Self::Peers => f.write_str("peers"),
            Self::Customers => f.write_str("customers"),
            Self::As(asn) => write!(f, "AS{asn}"),
        }
    }
}

impl FromStr for Target {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "everyone" => Self::Everyone,
            "providers" => Self::Providers,
            "peers" => Self::Peers,
            "customers" => Self::Customers,
            _ => Self::As(text.parse().map_err(|_| {
                format!("{text:?} is no target, expected everyone, providers, peers, customers or an ASN such as AS174")
            })?),
        })
    }
}

impl Serialize for Target {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_string())
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn a_table_of_communities_reads_as_toml_and_as_json() {
        let text = r#"
            [20473]
            "20473:6001" = { prepend_to = { target = "everyone", times = 1 } }
            "20473:6601" = { no_export_to = "peers" }
            [64500]
            "64500:1:2" = { export_only_to = "AS174" }
            "64500:70" = { prefer_as = "last" }
        "#;
        let table: CommunityTable = toml::from_str(text).unwrap();
        let effect =
            |upstream, community: &str| table.effect(Asn(upstream), community.parse().unwrap());
        let target = Target::Everyone;
        let prepend = Effect::PrependTo { target, times: 1 };
        assert_eq!(effect(20473, "20473:6001"), Some(prepend));
        let no_export = Effect::NoExportTo(Target::Peers);
        assert_eq!(effect(20473, "20473:6601"), Some(no_export));
        let only = Effect::ExportOnlyTo(Target::As(Asn(174)));
        assert_eq!(effect(64500, "64500:1:2"), Some(only));
        let last = Effect::PreferAs(Preference::Last);
        assert_eq!(effect(64500, "64500:70"), Some(last));
        assert_eq!(effect(64500, "20473:6001"), None, "another upstream");
        assert_eq!(table.offered_by(Asn(20473)).count(), 2);

        let json = serde_json::to_string(&table).unwrap();
        assert_eq!(
            serde_json::from_str::<CommunityTable>(&json).unwrap(),
            table
        );
        let again: CommunityTable = toml::from_str(&toml::to_string(&table).unwrap()).unwrap();
        assert_eq!(again, table);
    }

    #[test]
    fn a_table_that_says_something_else_is_refused() {
        for (text, says) in [
            ("[AS]\n", "an ASN"),
            (
                "[20473]\n\"20473\" = { no_export_to = \"peers\" }",
                "two numbers",
            ),
            (
                "[20473]\n\"20473:1\" = { no_export_to = \"friends\" }",
                "is no target",
            ),
            (
                "[20473]\n\"20473:1\" = { blackhole = true }",
                "unknown variant",
            ),
            (
                "[20473]\n\"20473:1\" = { prepend_to = { target = \"peers\" } }",
                "times",
            ),
        ] {
            let error = toml::from_str::<CommunityTable>(text)
                .unwrap_err()
                .to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
