//! Blocks that were seen at several sites.

use std::collections::BTreeMap;

use levee_policy::reroute::SiteId;

use super::{Block, Rtt};

/// The most blocks of which the sites are kept: more are only counted. A healthy map has a few in a thousand; a map with more
/// of them than this is a measurement that saw a change of routes, which the number tells as well.
pub const CONFLICTS_MAX: usize = 65_536;

/// A site at which a block was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The site.
    pub site: SiteId,
    /// Replies from the block that came in there.
    pub replies: u64,
    /// The shortest of their round-trip times.
    pub rtt: Option<Rtt>,
}

/// Blocks that were seen at several sites: within a /24 that is routed in parts, by load balancing over unequal paths, by a
/// change of routes while it was measured, or since the block is anycast itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts {
    pub(super) blocks: u64,
    pub(super) table: BTreeMap<Block, Vec<Seen>>,
}

impl Conflicts {
    /// How many blocks were seen at several sites, those beyond [`CONFLICTS_MAX`] too.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Where a block was seen, the site that the map has for it first. `None` if at one site only, or beyond [`CONFLICTS_MAX`].
    #[must_use]
    pub fn seen(&self, block: Block) -> Option<&[Seen]> {
        self.table.get(&block).map(Vec::as_slice)
    }

    /// All of which the sites are known, in the order of [`Block`].
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Block, &[Seen])> {
        self.table
            .iter()
            .map(|(block, seen)| (*block, seen.as_slice()))
    }

    /// Puts the site with the most replies first. Of equals the one that was seen first stays so.
    pub(super) fn order(seen: &mut [Seen]) {
        seen.sort_by_key(|seen| std::cmp::Reverse(seen.replies));
    }

    /// Forgets a block, whose site is set by other means.
    pub(super) fn forget(&mut self, block: Block) {
        if self.table.remove(&block).is_some() {
            self.blocks -= 1;
        }
    }
}
