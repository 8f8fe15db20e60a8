//! The tables of a deployment file as they are written, with types and defaults but no checks of their meaning.

use std::fmt;

use levee_policy::reroute::Asn;
use levee_policy::reroute::candidates::{CommunityTable, PREPEND_MAX};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::blocks::{Family, Unit};
use crate::simulate::{AsSet, LinkKind, Policies, Tie};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    pub(super) origin: Asn,
    pub(super) graph: Option<RawGraph>,
    pub(super) blocks: Option<RawBlocks>,
    pub(super) load: Option<String>,
    pub(super) site: Vec<RawSite>,
    #[serde(default)]
    pub(super) filters: RawFilters,
    #[serde(default)]
    pub(super) candidates: RawCandidates,
    #[serde(default)]
    pub(super) communities: CommunityTable,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSite {
    pub(super) name: String,
    pub(super) capacity: Option<f64>,
    pub(super) asn: Option<Asn>,
    pub(super) links: Vec<RawLink>,
    #[serde(default)]
    pub(super) candidate: bool,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLink {
    #[serde(rename = "as")]
    pub(super) neighbour: Asn,
    #[serde(default)]
    pub(super) kind: LinkKind,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawFilters {
    pub(super) tie: RawTie,
    pub(super) tier1: RawAses,
    pub(super) loops_taken: RawAses,
    pub(super) communities_stripped: RawAses,
    pub(super) path_max_transit: u16,
    pub(super) path_max_edge: u16,
    pub(super) seed: u64,
}

impl Default for RawFilters {
    fn default() -> Self {
        let policies = Policies::default();
        Self {
            tie: RawTie::LowestNeighbour,
            tier1: RawAses::Everyone,
            loops_taken: RawAses::Nobody,
            communities_stripped: RawAses::Nobody,
            path_max_transit: policies.path_max_transit,
            path_max_edge: policies.path_max_edge,
            seed: 1,
        }
    }
}

#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawTie {
    LowestNeighbour,
    Oldest,
}

impl RawTie {
    pub(super) const fn tie(self) -> Tie {
        match self {
            Self::LowestNeighbour => Tie::LowestNeighbour,
            Self::Oldest => Tie::Oldest,
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawCandidates {
    pub(super) prepend_max: u8,
    pub(super) negative: bool,
    pub(super) withdraw: bool,
    pub(super) pairs: bool,
    pub(super) selective: bool,
    pub(super) communities: bool,
    pub(super) poison: Vec<Asn>,
}

impl Default for RawCandidates {
    fn default() -> Self {
        Self {
            prepend_max: PREPEND_MAX,
            negative: true,
            withdraw: true,
            pairs: false,
            selective: false,
            communities: true,
            poison: Vec::new(),
        }
    }
}

/// `"as-rel.txt.gz"`, or `{ generate = { ases = 5000, seed = 1 } }`.
pub(super) enum RawGraph {
    File(String),
    Generate { ases: usize, seed: u64 },
}

impl<'de> Deserialize<'de> for RawGraph {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GraphVisitor)
    }
}

struct GraphVisitor;

impl<'de> Visitor<'de> for GraphVisitor {
    type Value = RawGraph;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the name of a file of AS relationships, or { generate = { ases = 5000, seed = 1 } }",
        )
    }

    fn visit_str<E: de::Error>(self, file: &str) -> Result<RawGraph, E> {
        Ok(RawGraph::File(file.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawGraph, A::Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            generate: Generate,
        }
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Generate {
            ases: usize,
            #[serde(default = "one")]
            seed: u64,
        }
        let Generate { ases, seed } = Table::deserialize(MapAccessDeserializer::new(map))?.generate;
        Ok(RawGraph::Generate { ases, seed })
    }
}

fn one() -> u64 {
    1
}

/// `"ipasn.dat.gz"`, or `{ file = "counts.csv", unit = "addresses", family = "ipv4" }`.
#[derive(Clone)]
pub(super) struct RawBlocks {
    pub(super) file: String,
    pub(super) unit: Unit,
    pub(super) family: Family,
}

impl<'de> Deserialize<'de> for RawBlocks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BlocksVisitor)
    }
}

struct BlocksVisitor;

impl<'de> Visitor<'de> for BlocksVisitor {
    type Value = RawBlocks;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a file of prefixes or counts, or { file = \"counts.csv\", unit = \"addresses\" }")
    }

    fn visit_str<E: de::Error>(self, file: &str) -> Result<RawBlocks, E> {
        Ok(RawBlocks {
            file: file.to_owned(),
            unit: Unit::default(),
            family: Family::default(),
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawBlocks, A::Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            file: String,
            #[serde(default)]
            unit: Unit,
            #[serde(default)]
            family: Family,
        }
        let Table { file, unit, family } = Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(RawBlocks { file, unit, family })
    }
}

/// `"everyone"`, `"nobody"`, a share such as `0.3`, or a list of ASNs.
pub(super) enum RawAses {
    Everyone,
    Nobody,
    Share(f64),
    These(Vec<Asn>),
}

impl RawAses {
    pub(super) fn set(self, seed: u64) -> AsSet {
        match self {
            Self::Everyone => AsSet::Everyone,
            Self::Nobody => AsSet::Nobody,
            Self::Share(share) => AsSet::Share { share, seed },
            Self::These(asns) => AsSet::These(asns),
        }
    }
}

impl<'de> Deserialize<'de> for RawAses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AsesVisitor)
    }
}

struct AsesVisitor;

impl<'de> Visitor<'de> for AsesVisitor {
    type Value = RawAses;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"everyone\", \"nobody\", a share from 0 to 1, or a list of ASNs")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<RawAses, E> {
        match text {
            "everyone" => Ok(RawAses::Everyone),
            "nobody" => Ok(RawAses::Nobody),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_f64<E: de::Error>(self, share: f64) -> Result<RawAses, E> {
        if (0.0..=1.0).contains(&share) {
            Ok(RawAses::Share(share))
        } else {
            Err(E::invalid_value(de::Unexpected::Float(share), &self))
        }
    }

    fn visit_i64<E: de::Error>(self, share: i64) -> Result<RawAses, E> {
        match share {
            0 => Ok(RawAses::Share(0.0)),
            1 => Ok(RawAses::Share(1.0)),
            _ => Err(E::invalid_value(de::Unexpected::Signed(share), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawAses, A::Error> {
        let mut asns = Vec::new();
        while let Some(asn) = list.next_element()? {
            asns.push(asn);
        }
        Ok(RawAses::These(asns))
    }
}
