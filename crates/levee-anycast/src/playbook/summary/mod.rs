//! A playbook out of catchment maps: shares of each play, and which blocks go together in all of them.
//!
//! Millions of blocks under a hundred configurations are few *classes*: blocks with the same site as each other in every play.
//! They are found in four passes over the columns (a play's sites, block after block), each shared out over the threads by pieces
//! that do not depend on how many threads there are:
//!
//! 1. a 64-bit sum of random numbers, one for each play and site, is formed for each block;
//! 2. blocks of one sum are put into one class;
//! 3. play after play, each block is compared with the first of its class. Two vectors of one sum would show here (a chance of one
//!    in a million for 6 million vectors), and passes 1 and 2 begin again with other numbers: classes are exact;
//! 4. classes beyond the limit are thinned (`thin.rs`).
//!
//! A measurement loses some replies each time, so many blocks are a class of their own only because of what was lost.

mod columns;
mod thin;

#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use levee_policy::ConfigError;
use levee_policy::reroute::{PLAYS_MAX, Play, Playbook, Routing, Sites};

use self::columns::{Columns, Resident, Stored};
use super::mark_partial;
use crate::map::{CatchmentMap, LoadMap};

/// Classes that a playbook keeps unless told otherwise: the planner looks at each of them in each play, and what the rest adds
/// to the error of a share is about half of `1 / sqrt` of half of this, of the share of the rest: under 0.6% of it.
pub const CLASSES_MAX: usize = 1 << 14;
/// Bytes that a [`Summary`] may keep of its maps, one for each block and play: 700 plays of 6 million blocks.
pub const CELLS_MAX: usize = 1 << 32;
/// How often the sums are drawn anew when two vectors have the same.
const DRAWS_MAX: u64 = 8;
/// Rows that are worked on at once: their sums and sites stay in the nearest cache.
const ROWS: usize = 4_096;
/// Pieces of the rows that threads take one after the other.
const PIECE: usize = 16 * ROWS;

/// How a summary is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads; the result does not depend on them.
    pub threads: NonZeroUsize,
    /// The most classes, at least 1.
    pub classes_max: usize,
}

impl Default for Options {
    /// As many threads as the machine has processors, and [`CLASSES_MAX`].
    fn default() -> Self {
        Self {
            threads: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            classes_max: CLASSES_MAX,
        }
    }
}

/// A playbook, and what its classes leave out.
#[derive(Clone, Debug)]
pub struct Summarised {
    /// Shares and classes.
    pub playbook: Playbook,
    /// How many classes there are before they are thinned.
    pub classes_exact: usize,
    /// The largest error of a share of all blocks, over all plays and sites, when it is counted from the classes instead of the
    /// blocks; 0 where they were not thinned. The plays' own figures are exact.
    pub error_max: f64,
}

/// Why there is no summary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryError {
    /// A map is of other sites, or of the same in another order.
    #[error(
        "the map of {play} has the sites {found}, expected {expected} in this order; read it with these sites"
    )]
    OtherSites {
        /// The name of the configuration.
        play: String,
        /// The map's sites.
        found: String,
        /// The summary's.
        expected: String,
    },
    /// More than is kept.
    #[error(
        "{plays} maps of {blocks} blocks are more than is summarised at once ({PLAYS_MAX} maps, {CELLS_MAX} blocks of all maps together); take fewer maps"
    )]
    TooMuch {
        /// Maps so far.
        plays: usize,
        /// Blocks of all of them.
        blocks: usize,
    },
    /// The plays are no playbook.
    #[error(transparent)]
    Playbook(#[from] ConfigError),
    /// The sums of two vectors were equal in each of several draws, which chance does not do.
    #[error(
        "blocks could not be told apart in {DRAWS_MAX} draws; this is a fault of Levee, please report it"
    )]
    Draws,
}

/// A playbook from maps that are all in memory, the first of them the baseline.
///
/// # Errors
///
/// Without a map, with maps of different sites, with two configurations of one name.
pub fn summarise(
    maps: &[(Routing, CatchmentMap)],
    load: Option<&LoadMap>,
    options: Options,
) -> Result<Summarised, SummaryError> {
    let sites = maps
        .first()
        .map_or_else(Sites::default, |(_, map)| map.sites().clone());
    for (routing, map) in maps {
        same_sites(&sites, routing, map)?;
    }
    let routings = maps.iter().map(|(routing, _)| routing.clone()).collect();
    let columns = Resident::new(maps, options.threads);
    conclude(sites, routings, &columns, load, options)
}

/// A playbook from maps that come one after the other, so that only one whole map (16 MiB) is in memory at a time. Of each, a byte
/// for each block that was known up to then is kept.
#[derive(Debug)]
pub struct Summary {
    sites: Sites,
    routings: Vec<Routing>,
    columns: Stored,
}

impl Summary {
    /// Of no map yet.
    #[must_use]
    pub fn new(sites: Sites) -> Self {
        Self {
            sites,
            routings: Vec::new(),
            columns: Stored::new(),
        }
    }

    /// Takes the map of the next configuration; the first is the baseline.
    ///
    /// # Errors
    ///
    /// With a map of other sites, and beyond [`PLAYS_MAX`] and [`CELLS_MAX`]. What was taken before stays.
    pub fn push(&mut self, routing: Routing, map: &CatchmentMap) -> Result<(), SummaryError> {
        same_sites(&self.sites, &routing, map)?;
        let (plays, blocks) = (self.routings.len() + 1, self.columns.cells());
        if plays > PLAYS_MAX || blocks > CELLS_MAX {
            return Err(SummaryError::TooMuch { plays, blocks });
        }
        self.columns.push(map);
        self.routings.push(routing);
        Ok(())
    }

    /// The playbook of all maps.
    ///
    /// # Errors
    ///
    /// Without a map, and with two configurations of one name.
    pub fn finish(
        self,
        load: Option<&LoadMap>,
        options: Options,
    ) -> Result<Summarised, SummaryError> {
        conclude(self.sites, self.routings, &self.columns, load, options)
    }
}

fn same_sites(sites: &Sites, routing: &Routing, map: &CatchmentMap) -> Result<(), SummaryError> {
    if map.sites() == sites {
        return Ok(());
    }
    let list = |sites: &Sites| sites.names().collect::<Vec<_>>().join(", ");
    Err(SummaryError::OtherSites {
        play: routing.name.clone(),
        found: list(map.sites()),
        expected: list(sites),
    })
}

fn conclude(
    sites: Sites,
    routings: Vec<Routing>,
    columns: &impl Columns,
    load: Option<&LoadMap>,
    options: Options,
) -> Result<Summarised, SummaryError> {
    let (groups, counts) = (0..DRAWS_MAX)
        .find_map(|draw| {
            let sums = sums(columns, draw, options.threads);
            let groups = Groups::new(&sums, columns, load);
            let counts = count(columns, &groups, options.threads)?;
            Some((groups, counts))
        })
        .ok_or(SummaryError::Draws)?;
    let (classes, error_max) = thin::classes(columns, &groups, &counts, options);
    let plays = routings.into_iter().zip(counts).map(|(routing, count)| {
        let known: u64 = count.blocks[..sites.len()].iter().sum();
        Play {
            routing,
            blocks: count.blocks[..sites.len()].to_vec(),
            unknown: columns.rows() as u64 - known,
            load: count.load.map(|load| load[..sites.len()].to_vec()),
            partial: false,
            ineffective: false,
        }
    });
    let mut plays: Vec<Play> = plays.collect();
    mark_partial(&mut plays);
    Ok(Summarised {
        playbook: Playbook::new(sites, plays, Some(classes))?,
        classes_exact: groups.len(),
        error_max,
    })
}

/// The sum of each row.
fn sums(columns: &impl Columns, draw: u64, threads: NonZeroUsize) -> Vec<u64> {
    let rows = columns.rows();
    let pieces = in_pieces(threads, rows.div_ceil(PIECE), |piece| {
        let range = piece * PIECE..rows.min((piece + 1) * PIECE);
        let mut sums = vec![0u64; range.len()];
        let mut sites = [0u8; ROWS];
        for (i, part) in sums.chunks_mut(ROWS).enumerate() {
            let from = range.start + i * ROWS;
            for play in 0..columns.plays() {
                let numbers = numbers(draw, play);
                columns.fill(play, from, &mut sites[..part.len()]);
                for (sum, site) in part.iter_mut().zip(&sites) {
                    *sum = sum.wrapping_add(numbers[usize::from(*site)]);
                }
            }
        }
        sums
    });
    pieces.concat()
}

/// A random number for each site in a play. Sums of such numbers are equal for two given vectors with a chance of `2^-64`.
fn numbers(draw: u64, play: usize) -> [u64; 256] {
    // SplitMix64 (Steele, Lea and Flood 2014): its states are far apart for each play and draw.
    let mut state = (draw << 32 | play as u64).wrapping_mul(0xd134_2543_de82_ef95);
    std::array::from_fn(|_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// Rows in groups of the same sum.
struct Groups {
    /// The group of each row.
    of: Vec<u32>,
    /// Of each group, the row of its first block.
    first: Vec<u32>,
    /// Of each group, its blocks.
    blocks: Vec<u32>,
    /// Of each group, the load of its blocks; empty where it is not known.
    load: Vec<f64>,
}

impl Groups {
    fn new(sums: &[u64], columns: &impl Columns, load: Option<&LoadMap>) -> Self {
        let mut groups = Self {
            of: Vec::with_capacity(sums.len()),
            first: Vec::new(),
            blocks: Vec::new(),
            load: Vec::new(),
        };
        let mut known: HashMap<u64, u32, Identity> =
            HashMap::with_capacity_and_hasher(sums.len(), Identity);
        for (row, sum) in sums.iter().enumerate() {
            let row = row as u32;
            let group = match known.entry(*sum) {
                Entry::Occupied(entry) => {
                    let group = *entry.get();
                    let first = &mut groups.first[group as usize];
                    if columns.block(row) < columns.block(*first) {
                        *first = row;
                    }
                    groups.blocks[group as usize] += 1;
                    group
                }
                Entry::Vacant(entry) => {
                    let group = groups.first.len() as u32;
                    entry.insert(group);
                    groups.first.push(row);
                    groups.blocks.push(1);
                    groups.load.extend(load.map(|_| 0.0));
                    group
                }
            };
            if let Some(load) = load {
                groups.load[group as usize] += load.load(columns.block(row));
            }
            groups.of.push(group);
        }
        groups
    }

    fn len(&self) -> usize {
        self.first.len()
    }

    /// Load where it is known, blocks otherwise.
    fn weight(&self, group: usize) -> f64 {
        let blocks = || f64::from(self.blocks[group]);
        self.load.get(group).copied().unwrap_or_else(blocks)
    }
}

/// The sums are random already.
#[derive(Clone, Copy)]
struct Identity;

impl std::hash::BuildHasher for Identity {
    type Hasher = Sum;
    fn build_hasher(&self) -> Sum {
        Sum(0)
    }
}

struct Sum(u64);

impl std::hash::Hasher for Sum {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write_u64(&mut self, sum: u64) {
        self.0 = sum;
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64");
    }
}

/// What reaches each site in a play, by the number of the site.
struct Count {
    blocks: [u64; 256],
    load: Option<Box<[f64; 256]>>,
}

/// Counts all plays; `None` if a row goes elsewhere than the first of its group.
fn count(columns: &impl Columns, groups: &Groups, threads: NonZeroUsize) -> Option<Vec<Count>> {
    let counts = in_pieces(threads, columns.plays(), |play| {
        // Groups have their numbers in the order in which rows show them, so a number that is not there yet is the next one.
        let mut site_of: Vec<u8> = Vec::with_capacity(groups.len());
        let mut together = true;
        let mut sites = [0u8; ROWS];
        for (i, part) in groups.of.chunks(ROWS).enumerate() {
            columns.fill(play, i * ROWS, &mut sites[..part.len()]);
            for (group, site) in part.iter().zip(&sites) {
                match site_of.get(*group as usize) {
                    Some(known) => together &= known == site,
                    None => site_of.push(*site),
                }
            }
        }
        let mut count = Count {
            blocks: [0; 256],
            load: (!groups.load.is_empty()).then(|| Box::new([0.0; 256])),
        };
        for (site, blocks) in site_of.iter().zip(&groups.blocks) {
            count.blocks[usize::from(*site)] += u64::from(*blocks);
        }
        if let Some(sums) = &mut count.load {
            for (site, load) in site_of.iter().zip(&groups.load) {
                sums[usize::from(*site)] += load;
            }
        }
        together.then_some(count)
    });
    counts.into_iter().collect()
}

/// `work` of each piece, in their order, done by several threads.
fn in_pieces<T: Send>(
    threads: NonZeroUsize,
    pieces: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces {
                return done;
            }
            done.push((piece, work(piece)));
        }
    };
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get().min(pieces))
            .map(|_| scope.spawn(take))
            .collect();
        let mut done = take();
        for other in others {
            // A panic of a thread is one of the caller's.
            done.extend(
                other
                    .join()
                    .unwrap_or_else(|p| std::panic::resume_unwind(p)),
            );
        }
        done
    });
    done.sort_unstable_by_key(|(piece, _)| *piece);
    done.into_iter().map(|(_, value)| value).collect()
}
