//! A map in memory.

use std::collections::BTreeMap;

use levee_policy::reroute::{SiteId, Sites};

use super::Block;

/// How many IPv4 /24s there are.
const V4_BLOCKS: usize = 1 << 24;
/// In a byte of the map: no reply from this block.
const UNKNOWN: u8 = u8::MAX;

/// A round-trip time in steps of 10 microseconds, at most 0.65 s; longer ones are kept as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rtt(pub u16);

/// Which block reaches which site: one byte for each IPv4 /24 (16 MiB), and a sorted table for IPv6.
#[derive(Clone, Debug)]
pub struct CatchmentMap {
    sites: Sites,
    v4: Box<[u8]>,
    v6: BTreeMap<u64, (u8, Option<Rtt>)>,
}

impl CatchmentMap {
    /// A map of no block.
    #[must_use]
    pub fn new(sites: Sites) -> Self {
        Self {
            sites,
            v4: vec![UNKNOWN; V4_BLOCKS].into_boxed_slice(),
            v6: BTreeMap::new(),
        }
    }

    /// The sites.
    #[must_use]
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// Where a block goes.
    #[must_use]
    pub fn site(&self, block: Block) -> Option<SiteId> {
        let site = match block {
            Block::V4(bits) => self.v4[bits as usize],
            Block::V6(bits) => self.v6.get(&bits).map_or(UNKNOWN, |(site, _)| *site),
        };
        (site != UNKNOWN).then_some(SiteId(site))
    }

    /// All blocks that go somewhere, in the order of [`Block`].
    pub fn iter(&self) -> impl Iterator<Item = (Block, SiteId)> {
        let v4 = self
            .v4
            .iter()
            .enumerate()
            .filter(|(_, site)| **site != UNKNOWN)
            .map(|(bits, site)| (Block::V4(bits as u32), SiteId(*site)));
        v4.chain(
            self.v6
                .iter()
                .map(|(bits, (site, _))| (Block::V6(*bits), SiteId(*site))),
        )
    }

    /// Where all IPv4 /24s go, by their number: a [`SiteId`], or 255 where that is not known.
    #[must_use]
    pub fn v4(&self) -> &[u8] {
        &self.v4
    }

    /// Where all IPv6 /48s go that are known, in their order.
    pub fn v6(&self) -> impl ExactSizeIterator<Item = (u64, SiteId)> {
        self.v6
            .iter()
            .map(|(bits, (site, _))| (*bits, SiteId(*site)))
    }

    /// Sets where a block goes, whatever was known of it.
    pub fn set(&mut self, block: Block, site: SiteId) {
        match block {
            Block::V4(bits) => self.v4[bits as usize] = site.0,
            Block::V6(bits) => {
                self.v6.insert(bits, (site.0, None));
            }
        }
    }
}
