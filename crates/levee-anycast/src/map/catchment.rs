//! A map in memory.

use std::collections::BTreeMap;
use std::fmt;

use levee_policy::ConfigError;
use levee_policy::reroute::{SITES_MAX, SiteId, Sites};

use super::{Block, CONFLICTS_MAX, Conflicts, Seen};

/// How many IPv4 /24s there are.
pub(super) const V4_BLOCKS: usize = 1 << 24;
/// In a byte of the map: no reply from this block.
pub(super) const UNKNOWN: u8 = u8::MAX;
/// In place of a round-trip time that is not known.
pub(super) const RTT_UNKNOWN: u16 = u16::MAX;

/// A round-trip time in steps of 10 microseconds, at most [`Rtt::MAX`]; longer ones are kept as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rtt(u16);

impl Rtt {
    /// 655.34 ms, or longer.
    pub const MAX: Self = Self(RTT_UNKNOWN - 1);

    /// Of milliseconds, to the nearest step. `None` of what is no time: negative, infinite or not a number.
    #[must_use]
    pub fn from_ms(ms: f64) -> Option<Self> {
        if !(ms.is_finite() && ms >= 0.0) {
            return None;
        }
        // As a cast saturates, what is too long is the longest.
        let steps = libm::round(ms * 100.0) as u16;
        Some(Self(steps.min(Self::MAX.0)))
    }

    /// In milliseconds.
    #[must_use]
    pub fn ms(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    pub(super) fn from_steps(steps: u16) -> Option<Self> {
        (steps != RTT_UNKNOWN).then_some(Self(steps))
    }

    pub(super) fn steps(rtt: Option<Self>) -> u16 {
        rtt.map_or(RTT_UNKNOWN, |rtt| rtt.0)
    }
}

/// Sites that do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// A site that is not among those that were named.
    #[error("there is no site {name:?}, expected one of {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The sites there are.
        known: String,
    },
    /// A site too many.
    #[error("site {name:?} comes after {SITES_MAX} others, expected at most {SITES_MAX}")]
    TooMany {
        /// The first that does not fit.
        name: String,
    },
    /// Nothing to compare.
    #[error("no map, expected one at least")]
    NoMap,
    /// No site at all, or a name that a site cannot have.
    #[error(transparent)]
    Name(#[from] ConfigError),
}

/// Which block reaches which site: one byte for each IPv4 /24 (16 MiB), two more where round-trip times are known, and a sorted
/// table for IPv6.
#[derive(Clone, PartialEq)]
pub struct CatchmentMap {
    sites: Sites,
    pub(super) v4: Box<[u8]>,
    /// Empty until a time is known.
    pub(super) v4_rtt: Box<[u16]>,
    pub(super) v6: BTreeMap<u64, (u8, Option<Rtt>)>,
    pub(super) conflicts: Conflicts,
}

/// How many blocks each site has: the blocks themselves would fill a screen a thousand times.
impl fmt::Debug for CatchmentMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        map.entries(self.sites.names().zip(self.counts())).finish()
    }
}

impl CatchmentMap {
    /// A map of no block.
    #[must_use]
    pub fn new(sites: Sites) -> Self {
        Self {
            sites,
            v4: vec![UNKNOWN; V4_BLOCKS].into_boxed_slice(),
            v4_rtt: Box::default(),
            v6: BTreeMap::new(),
            conflicts: Conflicts::default(),
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

    /// The round-trip time to a block, where it is known.
    #[must_use]
    pub fn rtt(&self, block: Block) -> Option<Rtt> {
        match block {
            Block::V4(bits) => Rtt::from_steps(*self.v4_rtt.get(bits as usize)?),
            Block::V6(bits) => self.v6.get(&bits)?.1,
        }
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

    /// How many blocks go to each site, in the order of the sites.
    #[must_use]
    pub fn counts(&self) -> Vec<u64> {
        let mut all = [0u64; 256];
        for site in &self.v4 {
            all[usize::from(*site)] += 1;
        }
        for (site, _) in self.v6.values() {
            all[usize::from(*site)] += 1;
        }
        all[..self.sites.len()].to_vec()
    }

    /// How many blocks go somewhere.
    #[must_use]
    pub fn known(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// The blocks that were seen at several sites. Each is in the map at the site that got the most replies from it.
    #[must_use]
    pub fn conflicts(&self) -> &Conflicts {
        &self.conflicts
    }

    /// Sets where a block goes, whatever was known of it.
    ///
    /// # Panics
    ///
    /// If there is no such site.
    pub fn set(&mut self, block: Block, site: SiteId) {
        self.set_with(block, site, None);
    }

    /// Sets where a block goes and how far it is, whatever was known of it.
    ///
    /// # Panics
    ///
    /// If there is no such site.
    pub fn set_with(&mut self, block: Block, site: SiteId, rtt: Option<Rtt>) {
        assert!(
            site.index() < self.sites.len(),
            "{site} of {}",
            self.sites.len()
        );
        match block {
            Block::V4(bits) => {
                if rtt.is_some() && self.v4_rtt.is_empty() {
                    self.v4_rtt = vec![RTT_UNKNOWN; V4_BLOCKS].into_boxed_slice();
                }
                if let Some(cell) = self.v4_rtt.get_mut(bits as usize) {
                    *cell = Rtt::steps(rtt);
                }
                self.v4[bits as usize] = site.0;
            }
            Block::V6(bits) => {
                self.v6.insert(bits, (site.0, rtt));
            }
        }
        self.conflicts.forget(block);
    }

    /// Takes a block out.
    pub fn unset(&mut self, block: Block) {
        match block {
            Block::V4(bits) => {
                self.v4[bits as usize] = UNKNOWN;
                if let Some(cell) = self.v4_rtt.get_mut(bits as usize) {
                    *cell = RTT_UNKNOWN;
                }
            }
            Block::V6(bits) => {
                self.v6.remove(&bits);
            }
        }
        self.conflicts.forget(block);
    }

    /// The same map with the numbers that `sites` gives, which may have more sites.
    ///
    /// # Errors
    ///
    /// If a site of this map is not among them.
    pub fn remap(&self, sites: &Sites) -> Result<Self, SiteError> {
        let mut to = [UNKNOWN; 256];
        for id in self.sites.ids() {
            let name = self.sites.name(id);
            let Some(new) = sites.find(name) else {
                let names: Vec<&str> = sites.names().collect();
                return Err(SiteError::Unknown {
                    name: name.to_owned(),
                    known: names.join(", "),
                });
            };
            to[id.index()] = new.0;
        }
        let mut map = self.clone();
        map.sites = sites.clone();
        for site in &mut map.v4 {
            *site = to[usize::from(*site)];
        }
        for (site, _) in map.v6.values_mut() {
            *site = to[usize::from(*site)];
        }
        for seen in map.conflicts.table.values_mut().flatten() {
            seen.site = SiteId(to[seen.site.index()]);
        }
        Ok(map)
    }

    /// Adds another map of the same announcement, such as that of another site or of other blocks. The sites of both come
    /// together by their names. A block that is at different sites in both is a conflict; it stays where it is here, unless more
    /// replies are known of it there.
    ///
    /// # Errors
    ///
    /// If there are more than [`SITES_MAX`] sites together.
    pub fn merge(&mut self, other: &Self) -> Result<(), SiteError> {
        let own = self.sites.names();
        let new = other
            .sites
            .names()
            .filter(|name| self.sites.find(name).is_none());
        let sites = Sites::new(own.chain(new))?;
        // Its numbers stay, as new sites come last.
        self.sites = sites;
        let other = other.remap(&self.sites)?;
        for (block, site) in other.iter() {
            let one = [Seen {
                site,
                replies: 1,
                rtt: other.rtt(block),
            }];
            self.see(block, other.conflicts.seen(block).unwrap_or(&one));
        }
        self.conflicts.blocks += other.conflicts.blocks - other.conflicts.table.len() as u64;
        Ok(())
    }

    /// Adds replies from a block to those that are known of it. Of a block that was seen at one site it is not known how many
    /// there were: it counts as one.
    pub(super) fn see(&mut self, block: Block, new: &[Seen]) {
        let known = self.site(block).map(|site| Seen {
            site,
            replies: 1,
            rtt: self.rtt(block),
        });
        let known_conflict = self.conflicts.seen(block);
        let mut all: Vec<Seen> = match known_conflict {
            Some(seen) => seen.to_vec(),
            None => known.into_iter().collect(),
        };
        let was_conflict = known_conflict.is_some();
        for new in new {
            if let Some(seen) = all.iter_mut().find(|seen| seen.site == new.site) {
                seen.replies = seen.replies.saturating_add(new.replies);
                seen.rtt = seen.rtt.into_iter().chain(new.rtt).min();
            } else {
                all.push(*new);
            }
        }
        Conflicts::order(&mut all);
        let Some(first) = all.first() else { return };
        self.set_with(block, first.site, first.rtt);
        if all.len() > 1 {
            self.conflicts.blocks += 1;
            if was_conflict || self.conflicts.table.len() < CONFLICTS_MAX {
                self.conflicts.table.insert(block, all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(names: &[&str]) -> Sites {
        Sites::new(names.iter().copied()).unwrap()
    }

    fn block(text: &str) -> Block {
        text.parse().unwrap()
    }

    fn map(names: &[&str], blocks: &[(&str, u8, f64)]) -> CatchmentMap {
        let mut map = CatchmentMap::new(sites(names));
        for (text, site, ms) in blocks {
            map.set_with(block(text), SiteId(*site), Rtt::from_ms(*ms));
        }
        map
    }

    #[test]
    fn times_are_kept_to_ten_microseconds_and_up_to_the_longest() {
        for (ms, expect) in [
            (0.0, Some(0.0)),
            (0.004, Some(0.0)),
            (0.006, Some(0.01)),
            (128.481_701, Some(128.48)),
            (655.34, Some(655.34)),
            (655.36, Some(655.34)),
            (7_409.9, Some(655.34)),
            (-0.1, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ] {
            assert_eq!(Rtt::from_ms(ms).map(Rtt::ms), expect, "{ms}");
        }
    }

    #[test]
    fn what_is_set_is_found_counted_and_taken_out() {
        let mut map = map(
            &["AMS", "BOS"],
            &[("192.0.2.0", 1, f64::NAN), ("2001:db8::", 0, 3.5)],
        );
        assert!(map.v4_rtt.is_empty(), "no time, no room for times");
        map.set_with(block("0.0.0.0"), SiteId(0), Rtt::from_ms(1.0));
        map.set(block("255.255.255.255"), SiteId(0));
        let all: Vec<_> = map.iter().map(|(b, s)| (b.to_string(), s.0)).collect();
        let expect = [
            ("0.0.0.0/24", 0),
            ("192.0.2.0/24", 1),
            ("255.255.255.0/24", 0),
            ("2001:db8::/48", 0),
        ];
        assert_eq!(all, expect.map(|(b, s)| (b.to_owned(), s)));
        assert_eq!(map.counts(), [3, 1]);
        let rtt = |map: &CatchmentMap, text| map.rtt(block(text)).map(Rtt::ms);
        assert_eq!(rtt(&map, "0.0.0.0"), Some(1.0));
        assert_eq!(rtt(&map, "192.0.2.0"), None);
        assert_eq!(rtt(&map, "2001:db8::"), Some(3.5));
        map.unset(block("0.0.0.0"));
        map.unset(block("2001:db8::"));
        assert_eq!(map.known(), 2);
        assert_eq!(rtt(&map, "0.0.0.0"), None);
        assert_eq!(map.site(block("2001:db8::")), None);
    }

    #[test]
    #[should_panic(expected = "2 of 2")]
    fn a_site_that_is_none_is_a_mistake_of_ours() {
        map(&["AMS", "BOS"], &[]).set(Block::V4(0), SiteId(2));
    }

    #[test]
    fn other_numbers_leave_the_blocks_where_they_are() {
        let map = map(
            &["AMS", "BOS"],
            &[
                ("192.0.2.0", 1, 1.0),
                ("198.51.100.0", 0, 2.0),
                ("2001:db8::", 1, 3.0),
            ],
        );
        let other = map.remap(&sites(&["BOS", "CNF", "AMS"])).unwrap();
        let named = |map: &CatchmentMap| -> Vec<_> {
            map.iter()
                .map(|(b, s)| (b, map.sites().name(s).to_owned(), map.rtt(b)))
                .collect()
        };
        assert_eq!(named(&other), named(&map));
        assert_eq!(other.counts(), [2, 0, 1]);
        let error = map.remap(&sites(&["BOS"])).unwrap_err().to_string();
        assert_eq!(error, "there is no site \"AMS\", expected one of BOS");
    }

    #[test]
    fn maps_of_several_sites_come_together() {
        let mut a = map(
            &["AMS"],
            &[
                ("192.0.2.0", 0, 9.0),
                ("198.51.100.0", 0, 2.0),
                ("2001:db8::", 0, 3.0),
            ],
        );
        let b = map(
            &["BOS", "AMS"],
            &[
                ("192.0.2.0", 1, 8.0),
                ("198.51.100.0", 0, 1.0),
                ("203.0.113.0", 0, 5.0),
            ],
        );
        a.merge(&b).unwrap();
        assert_eq!(a.sites(), &sites(&["AMS", "BOS"]));
        assert_eq!(a.counts(), [3, 1]);
        // The shortest of both.
        assert_eq!(a.rtt(block("192.0.2.0")).map(Rtt::ms), Some(8.0));
        assert_eq!(a.conflicts().blocks(), 1);
        let at = |map: &CatchmentMap| {
            let seen = map.conflicts().seen(block("198.51.100.0")).unwrap();
            seen.iter()
                .map(|s| (s.site.0, s.replies))
                .collect::<Vec<_>>()
        };
        assert_eq!(at(&a), [(0, 1), (1, 1)]);
        // Once more: now more replies are known at BOS.
        a.merge(&map(&["BOS"], &[("198.51.100.0", 0, 1.5)]))
            .unwrap();
        assert_eq!(at(&a), [(1, 2), (0, 1)]);
        assert_eq!(a.counts(), [2, 2]);
        assert_eq!(a.conflicts().blocks(), 1);
        assert_eq!(a.rtt(block("198.51.100.0")).map(Rtt::ms), Some(1.0));
        // What is set by hand is no conflict any more.
        a.set(block("198.51.100.0"), SiteId(0));
        assert_eq!(a.conflicts(), &Conflicts::default());
    }
}
