//! How many blocks each AS originates, and which: out of a prefix-to-AS file, a routing table (MRT), or a CSV of counts.
//!
//! A block belongs to the origin of the longest prefix that covers it, and is counted once however many prefixes do. A prefix of
//! several origins belongs to the one that most of its sources name, then to the first. Prefixes longer than a block are not
//! routed between ASes, and very short ones are default routes: both are counted in [`Reading`], and left out.
//!
//! What it leaves out: whether anybody answers from a block. A measured map has responding blocks only, some 40% of these
//! (3.4 million of 10, in 2022), which is why shares compare better than counts.

mod mrt;
mod read;
mod table;
mod text;

use std::collections::BTreeMap;

use levee_policy::reroute::{Asn, SiteId, Sites};

pub use self::{
    read::{BYTES_MAX, BlocksError, Cut, PREFIXES_MAX, Reading, Unit},
    text::LINE_MAX,
};
use crate::map::{Block, CatchmentMap};

/// IPv4, whose blocks are /24s, or IPv6, whose blocks are /48s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// /24s.
    #[default]
    Ipv4,
    /// /48s.
    Ipv6,
}

impl Family {
    /// The prefix length of a block.
    #[must_use]
    pub const fn block_length(self) -> u8 {
        match self {
            Self::Ipv4 => 24,
            Self::Ipv6 => 48,
        }
    }

    /// Shorter prefixes are default routes and the like: no registry gives out more than a /8, or a /16.
    const fn length_min(self) -> u8 {
        match self {
            Self::Ipv4 => 8,
            Self::Ipv6 => 16,
        }
    }

    fn block(self, number: u64) -> Block {
        match self {
            Self::Ipv4 => Block::V4(number as u32),
            Self::Ipv6 => Block::V6(number),
        }
    }
}

/// Blocks one after another that belong to one AS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of the first: its first 24 or 48 bits.
    pub first: u64,
    /// How many.
    pub len: u64,
    /// Whose.
    pub asn: Asn,
}

/// How many blocks each AS originates and, where that is known, which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    family: Family,
    counts: Vec<(Asn, u64)>,
    runs: Option<Vec<Run>>,
}

impl Blocks {
    /// So many for each AS, without which. What is said twice of an AS adds up.
    #[must_use]
    pub fn of_counts(family: Family, counts: impl IntoIterator<Item = (Asn, u64)>) -> Self {
        let mut sums = BTreeMap::<Asn, u64>::new();
        for (asn, count) in counts {
            let sum = sums.entry(asn).or_default();
            *sum = sum.saturating_add(count);
        }
        sums.retain(|_, count| *count > 0);
        Self {
            family,
            counts: sums.into_iter().collect(),
            runs: None,
        }
    }

    /// These, in order and none twice.
    fn of_runs(family: Family, runs: Vec<Run>) -> Self {
        let mut blocks = Self::of_counts(family, runs.iter().map(|run| (run.asn, run.len)));
        blocks.runs = Some(runs);
        blocks
    }

    /// Made-up IPv4 blocks, one after another from 1.0.0.0 up, for ASes of which only the number of blocks is known; without
    /// which where there is no room for all of them below 224.0.0.0.
    #[must_use]
    pub fn laid_out(counts: impl IntoIterator<Item = (Asn, u64)>) -> Self {
        const FIRST: u64 = 1 << 16;
        const END: u64 = 224 << 16;
        let blocks = Self::of_counts(Family::Ipv4, counts);
        if blocks.total() > END - FIRST {
            return blocks;
        }
        let mut first = FIRST;
        let runs = blocks.counts.iter().map(|(asn, len)| {
            first += len;
            Run {
                first: first - len,
                len: *len,
                asn: *asn,
            }
        });
        Self {
            runs: Some(runs.collect()),
            ..blocks
        }
    }

    /// Which kind of blocks.
    #[must_use]
    pub fn family(&self) -> Family {
        self.family
    }

    /// How many an AS has.
    #[must_use]
    pub fn count(&self, asn: Asn) -> u64 {
        let found = self.counts.binary_search_by_key(&asn, |(asn, _)| *asn);
        found.map_or(0, |place| self.counts[place].1)
    }

    /// Those that have any, ascending, with how many.
    #[must_use]
    pub fn counts(&self) -> &[(Asn, u64)] {
        &self.counts
    }

    /// All blocks.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// Which, ascending; `None` where only counts are known.
    #[must_use]
    pub fn runs(&self) -> Option<&[Run]> {
        self.runs.as_deref()
    }

    /// Whose a block is.
    #[must_use]
    pub fn origin(&self, block: Block) -> Option<Asn> {
        let number = match (self.family, block) {
            (Family::Ipv4, Block::V4(bits)) => u64::from(bits),
            (Family::Ipv6, Block::V6(bits)) => bits,
            _ => return None,
        };
        let runs = self.runs.as_ref()?;
        let after = runs.partition_point(|run| run.first <= number);
        let run = runs.get(after.checked_sub(1)?)?;
        (number - run.first < run.len).then_some(run.asn)
    }

    /// A map in which each block goes where its AS does; `None` where it is not known which blocks there are, or where they are
    /// IPv6 and more than [`MAP_V6_MAX`].
    #[must_use]
    pub fn map(&self, sites: &Sites, site: impl Fn(Asn) -> Option<SiteId>) -> Option<CatchmentMap> {
        let runs = self.runs.as_ref()?;
        if self.family == Family::Ipv6 && self.total() > MAP_V6_MAX {
            return None;
        }
        let mut map = CatchmentMap::new(sites.clone());
        for run in runs {
            if let Some(site) = site(run.asn) {
                for number in run.first..run.first + run.len {
                    map.set(self.family.block(number), site);
                }
            }
        }
        Some(map)
    }
}

/// The most /48s of a map: one announced /20 alone has 268 million, of which next to none is used.
pub const MAP_V6_MAX: u64 = 1 << 22;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_mrt;
