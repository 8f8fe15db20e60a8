//! A play's sites, block after block. A row is a block that some play knows.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;

use levee_policy::reroute::{Classes, Routing};

use super::in_pieces;
use crate::map::{Block, CatchmentMap};

/// No site.
const NOWHERE: u8 = Classes::NOWHERE;

pub(super) trait Columns: Sync {
    fn plays(&self) -> usize;
    fn rows(&self) -> usize;
    fn block(&self, row: u32) -> Block;
    fn site(&self, play: usize, row: u32) -> u8;
    /// The sites of the rows from `from` on.
    fn fill(&self, play: usize, from: usize, sites: &mut [u8]);
}

/// Of maps in memory: nothing is copied.
pub(super) struct Resident<'a> {
    maps: &'a [(Routing, CatchmentMap)],
    v4: Vec<u32>,
    v6: Vec<u64>,
}

impl<'a> Resident<'a> {
    pub(super) fn new(maps: &'a [(Routing, CatchmentMap)], threads: NonZeroUsize) -> Self {
        // 64 Ki blocks of a hundred maps fit the cache that a processor has for itself.
        const PIECE: usize = 1 << 16;
        let blocks = maps.first().map_or(0, |(_, map)| map.v4().len());
        let v4 = in_pieces(threads, blocks.div_ceil(PIECE), |piece| {
            let range = piece * PIECE..blocks.min((piece + 1) * PIECE);
            let mut known = vec![false; range.len()];
            for (_, map) in maps {
                for (known, site) in known.iter_mut().zip(&map.v4()[range.clone()]) {
                    *known |= *site != NOWHERE;
                }
            }
            let known = known.iter().enumerate().filter(|(_, known)| **known);
            known
                .map(|(i, _)| (range.start + i) as u32)
                .collect::<Vec<u32>>()
        });
        let v6 = maps
            .iter()
            .flat_map(|(_, map)| map.v6().map(|(bits, _)| bits));
        let mut v6: Vec<u64> = v6.collect();
        v6.sort_unstable();
        v6.dedup();
        Self {
            maps,
            v4: v4.concat(),
            v6,
        }
    }
}

impl Columns for Resident<'_> {
    fn plays(&self) -> usize {
        self.maps.len()
    }

    fn rows(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    fn block(&self, row: u32) -> Block {
        let row = row as usize;
        match self.v4.get(row) {
            Some(bits) => Block::V4(*bits),
            None => Block::V6(self.v6[row - self.v4.len()]),
        }
    }

    fn site(&self, play: usize, row: u32) -> u8 {
        let site = self.maps[play].1.site(self.block(row));
        site.map_or(NOWHERE, |site| site.0)
    }

    fn fill(&self, play: usize, from: usize, sites: &mut [u8]) {
        let map = &self.maps[play].1;
        let column = map.v4();
        let v4 = self.v4.get(from..).unwrap_or_default();
        let (in_v4, in_v6) = sites.split_at_mut(v4.len().min(sites.len()));
        for (site, bits) in in_v4.iter_mut().zip(v4) {
            *site = column[*bits as usize];
        }
        let v6_from = from.saturating_sub(self.v4.len());
        for (site, bits) in in_v6.iter_mut().zip(&self.v6[v6_from..]) {
            *site = map.site(Block::V6(*bits)).map_or(NOWHERE, |site| site.0);
        }
    }
}

/// Of maps that are gone: a byte for each block that was known when the map came. Rows are in the order in which blocks came.
pub(super) struct Stored {
    /// Of each row its block: [`key`].
    rows: Vec<u64>,
    v4_known: Box<[bool]>,
    v6_known: BTreeSet<u64>,
    /// Of each play; rows that came later are not there.
    sites: Vec<Vec<u8>>,
}

/// In a [`key`]: the block is of IPv6. Its number has 48 bits.
const V6: u64 = 1 << 63;

fn key(block: Block) -> u64 {
    match block {
        Block::V4(bits) => u64::from(bits),
        Block::V6(bits) => bits | V6,
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored")
            .field("plays", &self.sites.len())
            .field("rows", &self.rows.len())
            .finish_non_exhaustive()
    }
}

impl Stored {
    pub(super) fn new() -> Self {
        Self {
            rows: Vec::new(),
            v4_known: Box::default(),
            v6_known: BTreeSet::new(),
            sites: Vec::new(),
        }
    }

    /// How many bytes are kept of maps.
    pub(super) fn cells(&self) -> usize {
        self.sites.iter().map(Vec::len).sum()
    }

    pub(super) fn push(&mut self, map: &CatchmentMap) {
        self.add_rows(map);
        let column = map.v4();
        let site = |key: &u64| match column.get(*key as usize) {
            Some(site) => *site,
            None => map
                .site(Block::V6(*key & !V6))
                .map_or(NOWHERE, |site| site.0),
        };
        self.sites.push(self.rows.iter().map(site).collect());
    }

    /// Rows for the blocks that no map before knew.
    fn add_rows(&mut self, map: &CatchmentMap) {
        // Few parts of a later map have a block that is new, so most are passed over many blocks at a time.
        const PART: usize = 256;
        let column = map.v4();
        if self.v4_known.len() < column.len() {
            self.v4_known = vec![false; column.len()].into_boxed_slice();
        }
        let parts = self.v4_known.chunks_mut(PART).zip(column.chunks(PART));
        for (part, (known, sites)) in parts.enumerate() {
            let mut new = false;
            for (known, site) in known.iter().zip(sites) {
                new |= (*site != NOWHERE) & !*known;
            }
            if !new {
                continue;
            }
            for (i, (known, site)) in known.iter_mut().zip(sites).enumerate() {
                if *site != NOWHERE && !*known {
                    *known = true;
                    self.rows.push((part * PART + i) as u64);
                }
            }
        }
        for (bits, _) in map.v6() {
            if self.v6_known.insert(bits) {
                self.rows.push(key(Block::V6(bits)));
            }
        }
    }
}

impl Columns for Stored {
    fn plays(&self) -> usize {
        self.sites.len()
    }

    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn block(&self, row: u32) -> Block {
        let key = self.rows[row as usize];
        if key & V6 == 0 {
            Block::V4(key as u32)
        } else {
            Block::V6(key & !V6)
        }
    }

    fn site(&self, play: usize, row: u32) -> u8 {
        self.sites[play]
            .get(row as usize)
            .copied()
            .unwrap_or(NOWHERE)
    }

    fn fill(&self, play: usize, from: usize, sites: &mut [u8]) {
        let column = self.sites[play].get(from..).unwrap_or_default();
        let (known, rest) = sites.split_at_mut(column.len().min(sites.len()));
        known.copy_from_slice(&column[..known.len()]);
        rest.fill(NOWHERE);
    }
}
