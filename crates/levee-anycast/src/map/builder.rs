//! A map out of replies.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use levee_policy::reroute::{SITES_MAX, SiteId, Sites};

use super::catchment::{RTT_UNKNOWN, V4_BLOCKS};
use super::{Block, CONFLICTS_MAX, CatchmentMap, Conflicts, Rtt, Seen, SiteError};

/// The most IPv6 blocks of a map, as many as there are IPv4 blocks (a bound for memory; hitlists of today hold some 100,000).
pub const V6_BLOCKS_MAX: usize = V4_BLOCKS;

/// Blocks that come into memory together: those of a /16.
const CHUNK: usize = 256;

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
/// 0 is no reply), whether other sites were seen (1 bit), the shortest time (16 bits), how many replies came to this site (39 bits).
#[derive(Clone, Copy)]
struct Cell(u64);

impl Cell {
    const EMPTY: Self = Self(0);
    const CONFLICT: u64 = 1 << 8;
    const RTT: u32 = 9;
    const REPLIES: u32 = 25;
    /// From here on the count stands still.
    const REPLIES_MAX: u64 = (1 << 39) - 1;

    fn new(reply: Reply, times: u64) -> Self {
        let site = u64::from(reply.site.0) + 1;
        let rtt = u64::from(Rtt::steps(reply.rtt));
        Self(site | rtt << Self::RTT | times.min(Self::REPLIES_MAX) << Self::REPLIES)
    }

    fn site(self) -> Option<SiteId> {
        (self.0 as u8).checked_sub(1).map(SiteId)
    }

    fn replies(self) -> u64 {
        self.0 >> Self::REPLIES
    }

    fn rtt(self) -> Option<Rtt> {
        Rtt::from_steps((self.0 >> Self::RTT) as u16)
    }

    fn conflict(self) -> bool {
        self.0 & Self::CONFLICT != 0
    }

    /// More replies to the same site.
    fn again(&mut self, rtt: Option<Rtt>, times: u64) {
        let replies = self.replies().saturating_add(times).min(Self::REPLIES_MAX);
        // Not known is the largest number.
        let rtt = Rtt::steps(rtt).min(Rtt::steps(self.rtt()));
        let rest = self.0 & (Self::CONFLICT | 0xff);
        self.0 = rest | u64::from(rtt) << Self::RTT | replies << Self::REPLIES;
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
/// It takes 2 KiB for each /16 in use: 128 MiB if all are.
pub struct Builder {
    names: Vec<String>,
    /// By /16, as a run over few networks needs few of them.
    v4: Vec<Option<Box<[Cell; CHUNK]>>>,
    v6: HashMap<u64, Cell, foldhash::fast::FixedState>,
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
            v4: vec![None; V4_BLOCKS / CHUNK],
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
        self.add_times(reply, 1);
    }

    /// Takes a reply as if it came so often.
    ///
    /// # Panics
    ///
    /// If there is no such site.
    #[inline]
    pub fn add_times(&mut self, reply: Reply, times: u64) {
        assert!(reply.site.index() < self.names.len(), "no such site");
        if times == 0 {
            return;
        }
        self.replies += times;
        self.timed |= reply.rtt.is_some();
        let cell = match reply.block {
            Block::V4(bits) => {
                let chunk = &mut self.v4[bits as usize / CHUNK];
                let chunk = chunk.get_or_insert_with(|| Box::new([Cell::EMPTY; CHUNK]));
                &mut chunk[bits as usize % CHUNK]
            }
            Block::V6(bits) => {
                if self.v6.len() == V6_BLOCKS_MAX && !self.v6.contains_key(&bits) {
                    self.refused += times;
                    return;
                }
                self.v6.entry(bits).or_insert(Cell::EMPTY)
            }
        };
        match cell.site() {
            None => {
                self.duplicates += times - 1;
                *cell = Cell::new(reply, times);
            }
            Some(site) if site == reply.site => {
                self.duplicates += times;
                cell.again(reply.rtt, times);
            }
            Some(_) => {
                self.duplicates += times;
                if !cell.conflict() {
                    cell.0 |= Cell::CONFLICT;
                    self.conflicts += 1;
                }
                self.elsewhere(reply, times);
            }
        }
    }

    #[cold]
    fn elsewhere(&mut self, reply: Reply, times: u64) {
        if self.others.len() == CONFLICTS_MAX && !self.others.contains_key(&reply.block) {
            return;
        }
        let all = self.others.entry(reply.block).or_default();
        if let Some(seen) = all.iter_mut().find(|seen| seen.site == reply.site) {
            seen.replies = seen.replies.saturating_add(times);
            seen.rtt = seen.rtt.into_iter().chain(reply.rtt).min();
        } else {
            all.push(Seen {
                site: reply.site,
                replies: times,
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
        if self.timed {
            map.v4_rtt = vec![RTT_UNKNOWN; V4_BLOCKS].into_boxed_slice();
        }
        for (i, chunk) in self.v4.iter().enumerate() {
            let cells = chunk.iter().flat_map(|chunk| chunk.iter().enumerate());
            for (j, seen) in cells.filter_map(|(j, cell)| Some((j, cell.seen()?))) {
                map.v4[i * CHUNK + j] = seen.site.0;
                if let Some(rtt) = map.v4_rtt.get_mut(i * CHUNK + j) {
                    *rtt = Rtt::steps(seen.rtt);
                }
            }
        }
        let mut v6: Vec<(u64, (u8, Option<Rtt>))> = Vec::with_capacity(self.v6.len());
        for (bits, cell) in &self.v6 {
            if let Some(seen) = cell.seen() {
                v6.push((*bits, (seen.site.0, seen.rtt)));
            }
        }
        // In any order, made one.
        v6.sort_unstable_by_key(|(bits, _)| *bits);
        map.v6 = v6.into_iter().collect();
        for (block, others) in self.others {
            let cell = match block {
                Block::V4(bits) => {
                    let chunk = self.v4[bits as usize / CHUNK].as_ref();
                    chunk.map(|chunk| chunk[bits as usize % CHUNK])
                }
                Block::V6(bits) => self.v6.get(&bits).copied(),
            };
            let mut all: Vec<Seen> = cell
                .and_then(Cell::seen)
                .into_iter()
                .chain(others)
                .collect();
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
                let total: u64 = seen.unwrap_or_default().iter().map(|s| s.replies).sum();
                let several = sites.contains('B');
                assert_eq!(total, if several { sites.len() as u64 } else { 0 });
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
        let mut builder = Builder::new(&Sites::new(["A", "B"]).unwrap());
        for (site, times) in [
            (0, 0),
            (0, u64::from(u32::MAX)),
            (0, 1),
            (0, 1 << 40),
            (1, 1 << 30),
            (0, 5),
        ] {
            let reply = Reply {
                block: Block::V4(7),
                site: SiteId(site),
                rtt: Rtt::from_ms(655.34),
            };
            builder.add_times(reply, times);
        }
        let map = builder.finish().unwrap();
        let (_, seen) = map.conflicts().iter().next().unwrap();
        let seen: Vec<_> = seen.iter().map(|s| (s.site.0, s.replies, s.rtt)).collect();
        assert_eq!(
            seen,
            [
                (0, (1 << 39) - 1, Some(Rtt::MAX)),
                (1, 1 << 30, Some(Rtt::MAX))
            ]
        );
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
