//! A map out of replies.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use levee_policy::reroute::{SITES_MAX, SiteId, Sites};

use super::catchment::V4_BLOCKS;
use super::{Block, CONFLICTS_MAX, CatchmentMap, Conflicts, Rtt, Seen, SiteError};

/// The most IPv6 blocks of a map, as many as there are IPv4 blocks (a bound for memory; hitlists of today hold some 100,000).
pub const V6_BLOCKS_MAX: usize = V4_BLOCKS;

/// A reply to a probe, or a packet of a client.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// Whose it is.
    pub block: Block,
    /// The site that got it.
    pub site: SiteId,
    /// How long it took, where that is known.
    pub rtt: Option<Rtt>,
}

/// What is known of a block, in one word, so that a reply costs one access to memory: the number of the site plus one (8 bits;
/// 0 is no reply), whether other sites were seen (1 bit), how many replies came to this site (7 bits), the shortest time (16 bits).
#[derive(Clone, Copy)]
struct Cell(u32);

impl Cell {
    const CONFLICT: u32 = 1 << 8;
    const REPLY: u32 = 1 << 9;
    /// From here on the count stands still.
    const REPLIES_MAX: u32 = 127;

    fn new(reply: Reply) -> Self {
        let site = u32::from(reply.site.0) + 1;
        Self(site | Self::REPLY | u32::from(Rtt::steps(reply.rtt)) << 16)
    }

    fn site(self) -> Option<SiteId> {
        (self.0 & 0xff)
            .checked_sub(1)
            .map(|site| SiteId(site as u8))
    }

    fn replies(self) -> u32 {
        self.0 >> 9 & Self::REPLIES_MAX
    }

    fn rtt(self) -> Option<Rtt> {
        Rtt::from_steps((self.0 >> 16) as u16)
    }

    fn conflict(self) -> bool {
        self.0 & Self::CONFLICT != 0
    }

    /// Another reply to the same site.
    fn again(&mut self, rtt: Option<Rtt>) {
        if self.replies() < Self::REPLIES_MAX {
            self.0 += Self::REPLY;
        }
        let steps = Rtt::steps(rtt);
        // Not known is the largest number.
        if u32::from(steps) < self.0 >> 16 {
            self.0 = self.0 & 0xffff | u32::from(steps) << 16;
        }
    }

    fn seen(self) -> Option<Seen> {
        Some(Seen {
            site: self.site()?,
            replies: self.replies(),
            rtt: self.rtt(),
        })
    }
}

/// Takes replies in any order and makes a map of them. A block goes to the site that got the most replies from it; of equals, to
/// that which got the first. Other sites are kept as [`Conflicts`].
///
/// It takes 64 MiB.
pub struct Builder {
    names: Vec<String>,
    /// A [`Cell`] each. As plain numbers they come zeroed from the system, page by page as they are used.
    v4: Box<[u32]>,
    v6: HashMap<u64, u32, foldhash::fast::FixedState>,
    /// The sites but the first of each block in conflict.
    others: BTreeMap<Block, Vec<Seen>>,
    conflicts: u64,
    replies: u64,
    duplicates: u64,
    refused: u64,
    /// Whether a reply had a time.
    timed: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new(&Sites::default())
    }
}

impl Builder {
    /// With these sites to begin with, which may be none.
    #[must_use]
    pub fn new(sites: &Sites) -> Self {
        Self {
            names: sites.names().map(str::to_owned).collect(),
            v4: vec![0; V4_BLOCKS].into_boxed_slice(),
            v6: HashMap::default(),
            others: BTreeMap::new(),
            conflicts: 0,
            replies: 0,
            duplicates: 0,
            refused: 0,
            timed: false,
        }
    }

    /// The site of this name, which is a new one if there is none yet.
    ///
    /// # Errors
    ///
    /// If the name cannot be one of a site, or if there are [`SITES_MAX`] already.
    pub fn site(&mut self, name: &str) -> Result<SiteId, SiteError> {
        if let Some(id) = self.names.iter().position(|known| known == name) {
            return Ok(SiteId(id as u8));
        }
        // It knows which names are good.
        Sites::new([name])?;
        if self.names.len() == SITES_MAX {
            return Err(SiteError::TooMany {
                name: name.to_owned(),
            });
        }
        self.names.push(name.to_owned());
        Ok(SiteId((self.names.len() - 1) as u8))
    }

    /// The names of the sites so far, in the order of their numbers.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Takes a reply.
    ///
    /// # Panics
    ///
    /// If there is no such site.
    #[inline]
    pub fn add(&mut self, reply: Reply) {
        assert!(reply.site.index() < self.names.len(), "no such site");
        self.replies += 1;
        self.timed |= reply.rtt.is_some();
        let word = match reply.block {
            Block::V4(bits) => &mut self.v4[bits as usize],
            Block::V6(bits) => {
                if self.v6.len() == V6_BLOCKS_MAX && !self.v6.contains_key(&bits) {
                    self.refused += 1;
                    return;
                }
                self.v6.entry(bits).or_insert(0)
            }
        };
        let mut cell = Cell(*word);
        match cell.site() {
            None => cell = Cell::new(reply),
            Some(site) if site == reply.site => {
                self.duplicates += 1;
                cell.again(reply.rtt);
            }
            Some(_) => {
                self.duplicates += 1;
                if !cell.conflict() {
                    cell.0 |= Cell::CONFLICT;
                    self.conflicts += 1;
                    *word = cell.0;
                }
                self.elsewhere(reply);
                return;
            }
        }
        *word = cell.0;
    }

    #[cold]
    fn elsewhere(&mut self, reply: Reply) {
        if self.others.len() == CONFLICTS_MAX && !self.others.contains_key(&reply.block) {
            return;
        }
        let all = self.others.entry(reply.block).or_default();
        if let Some(seen) = all.iter_mut().find(|seen| seen.site == reply.site) {
            seen.replies = seen.replies.saturating_add(1);
            seen.rtt = seen.rtt.into_iter().chain(reply.rtt).min();
        } else {
            all.push(Seen {
                site: reply.site,
                replies: 1,
                rtt: reply.rtt,
            });
        }
    }

    /// How many replies were taken.
    #[must_use]
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// How many of them were from a block that was known by then.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// How many were not kept, since there were [`V6_BLOCKS_MAX`] IPv6 blocks already.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// How many blocks were seen at several sites.
    #[must_use]
    pub fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// The map.
    ///
    /// # Errors
    ///
    /// If there is no site.
    pub fn finish(self) -> Result<CatchmentMap, SiteError> {
        let mut map = CatchmentMap::new(Sites::new(self.names)?);
        for (word, site) in self.v4.iter().zip(&mut map.v4) {
            // No reply is 0, and as 255 what a map has for it.
            *site = (*word as u8).wrapping_sub(1);
        }
        if self.timed {
            let time = |word: &u32| Cell(*word).seen().and_then(|seen| seen.rtt);
            map.v4_rtt = self.v4.iter().map(|word| Rtt::steps(time(word))).collect();
        }
        let mut v6: Vec<(u64, (u8, Option<Rtt>))> = Vec::with_capacity(self.v6.len());
        for (bits, word) in &self.v6 {
            if let Some(seen) = Cell(*word).seen() {
                v6.push((*bits, (seen.site.0, seen.rtt)));
            }
        }
        // In any order, made one.
        v6.sort_unstable_by_key(|(bits, _)| *bits);
        map.v6 = v6.into_iter().collect();
        for (block, others) in self.others {
            let word = match block {
                Block::V4(bits) => self.v4[bits as usize],
                Block::V6(bits) => self.v6.get(&bits).copied().unwrap_or(0),
            };
            let mut all: Vec<Seen> = Cell(word).seen().into_iter().chain(others).collect();
            Conflicts::order(&mut all);
            map.set_with(block, all[0].site, all[0].rtt);
            map.conflicts.table.insert(block, all);
        }
        map.conflicts.blocks = self.conflicts;
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(replies: &[(&str, &str, Option<f64>)]) -> (CatchmentMap, u64) {
        let mut builder = Builder::default();
        for (text, site, ms) in replies {
            let site = builder.site(site).unwrap();
            builder.add(Reply {
                block: text.parse().unwrap(),
                site,
                rtt: ms.and_then(Rtt::from_ms),
            });
        }
        let duplicates = builder.duplicates();
        assert_eq!(builder.replies(), replies.len() as u64);
        (builder.finish().unwrap(), duplicates)
    }

    fn at(map: &CatchmentMap, text: &str) -> (String, Option<f64>) {
        let block = text.parse().unwrap();
        let site = map.site(block).map_or("", |site| map.sites().name(site));
        (site.to_owned(), map.rtt(block).map(Rtt::ms))
    }

    #[test]
    fn the_most_replies_win_and_of_equals_the_first() {
        let cases = [
            ("A", "A"),
            ("AB", "A"),
            ("ABB", "B"),
            ("ABBA", "A"),
            ("ABCCB", "B"),
            ("ABCC", "C"),
            ("AAAAB", "A"),
        ];
        let blocks = |i: usize| [format!("192.0.{i}.1"), format!("2001:db8:{i}::1")];
        let mut builder = Builder::default();
        for (i, (sites, _)) in cases.iter().enumerate() {
            for (block, at) in blocks(i)
                .iter()
                .flat_map(|b| sites.chars().map(move |at| (b, at)))
            {
                let site = builder.site(&at.to_string()).unwrap();
                let block = block.parse().unwrap();
                builder.add(Reply {
                    block,
                    site,
                    rtt: None,
                });
            }
        }
        let all: usize = cases.iter().map(|(sites, _)| 2 * sites.len()).sum();
        assert_eq!(builder.replies(), all as u64);
        assert_eq!(builder.duplicates(), (all - 2 * cases.len()) as u64);
        let map = builder.finish().unwrap();
        assert_eq!(map.conflicts().blocks(), 12);
        for (i, (sites, expect)) in cases.iter().enumerate() {
            for block in blocks(i) {
                assert_eq!(at(&map, &block).0, *expect, "{sites}");
                let seen = map.conflicts().seen(block.parse().unwrap());
                let total: u32 = seen.unwrap_or_default().iter().map(|s| s.replies).sum();
                let several = sites.contains('B');
                assert_eq!(total, if several { sites.len() as u32 } else { 0 });
            }
        }
    }

    #[test]
    fn the_shortest_time_of_the_site_that_wins() {
        let (map, _) = built(&[
            ("192.0.2.1", "A", Some(9.0)),
            ("192.0.2.2", "B", Some(4.0)),
            ("192.0.2.3", "B", Some(3.0)),
            ("192.0.2.4", "A", Some(5.0)),
            ("192.0.2.4", "A", Some(7.0)),
            ("198.51.100.1", "B", None),
            ("2001:db8::1", "B", Some(2.0)),
            ("2001:db8::1", "B", Some(1.5)),
        ]);
        assert_eq!(at(&map, "192.0.2.0"), ("A".to_owned(), Some(5.0)));
        assert_eq!(at(&map, "198.51.100.0"), ("B".to_owned(), None));
        assert_eq!(at(&map, "2001:db8::"), ("B".to_owned(), Some(1.5)));
        assert_eq!(at(&map, "0.0.0.0"), (String::new(), None));
    }

    #[test]
    fn a_count_that_is_full_stands_still() {
        let many = vec![("192.0.2.1", "A", None); 1_000];
        let (map, duplicates) = built(&many);
        assert_eq!(duplicates, 999);
        assert_eq!(map.counts(), [1]);
        let (map, _) = built(&[&many[..], &[("192.0.2.1", "B", None)]].concat());
        assert_eq!(map.conflicts().iter().next().unwrap().1[0].replies, 127);
    }

    #[test]
    fn conflicts_beyond_the_bound_are_counted() {
        let sites = Sites::new(["A", "B"]).unwrap();
        let mut builder = Builder::new(&sites);
        let many = CONFLICTS_MAX as u32 + 10;
        for site in [0, 1, 1] {
            for block in 0..many {
                builder.add(Reply {
                    block: Block::V4(block),
                    site: SiteId(site),
                    rtt: None,
                });
            }
        }
        let map = builder.finish().unwrap();
        assert_eq!(map.conflicts().blocks(), u64::from(many));
        assert_eq!(map.conflicts().iter().len(), CONFLICTS_MAX);
        assert_eq!(map.counts(), [10, CONFLICTS_MAX as u64]);
    }

    #[test]
    fn names_of_sites() {
        let mut builder = Builder::default();
        assert!(builder.site("").is_err());
        assert!(builder.site("a,b").is_err());
        for i in 0..SITES_MAX {
            assert_eq!(builder.site(&i.to_string()).unwrap().index(), i);
        }
        assert_eq!(builder.site("249").unwrap(), SiteId(249));
        let error = builder.site("250").unwrap_err().to_string();
        assert_eq!(
            error,
            "site \"250\" comes after 250 others, expected at most 250"
        );
        assert!(Builder::default().finish().is_err());
    }
}
