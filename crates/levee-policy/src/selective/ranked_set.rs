//! A set of positions that knows ranks: the r-th member, and how many members lie before a position.
//!
//! A bit per position, and counts above the bits in a tree of fan-out 16. For a million positions a set is 140 kB, so that
//! the sets of a table stay in the second-level cache and a look-up misses it nowhere.

use alloc::{vec, vec::Vec};

const WORD_BITS: usize = 64;
/// Words under one count of the lowest level: one cache line.
const BLOCK_WORDS: usize = 8;
const BLOCK_BITS: usize = WORD_BITS * BLOCK_WORDS;
/// Counts under one count of the next level: one cache line of `u32`.
const FAN_OUT: usize = 16;

#[derive(Clone, Debug, Default)]
pub(super) struct RankedSet {
    words: Vec<u64>,
    /// `levels[0]` counts blocks, each further level sixteen counts of the one below; the last has at most sixteen.
    levels: Vec<Vec<u32>>,
    len: u32,
}

impl RankedSet {
    /// An empty set over at least `positions` positions.
    pub(super) fn with_positions(positions: usize) -> Self {
        let blocks = positions.div_ceil(BLOCK_BITS).max(1);
        let mut set = Self {
            words: vec![0; blocks * BLOCK_WORDS],
            levels: vec![vec![0; blocks]],
            len: 0,
        };
        set.raise_levels();
        set
    }

    /// Takes all members out, and keeps the positions.
    pub(super) fn clear(&mut self) {
        self.words.fill(0);
        for level in &mut self.levels {
            level.fill(0);
        }
        self.len = 0;
    }

    /// Doubles the positions.
    pub(super) fn grow(&mut self) {
        let words = self.words.len() * 2;
        self.words.resize(words, 0);
        self.levels.truncate(1);
        self.levels[0].resize(words / BLOCK_WORDS, 0);
        self.raise_levels();
    }

    /// Sets up the levels over the lowest one.
    fn raise_levels(&mut self) {
        while let Some(top) = self.levels.last().filter(|top| top.len() > FAN_OUT) {
            let sums = top.chunks(FAN_OUT).map(|counts| counts.iter().sum());
            let sums = sums.collect();
            self.levels.push(sums);
        }
    }

    pub(super) fn positions(&self) -> usize {
        self.words.len() * WORD_BITS
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn contains(&self, position: u32) -> bool {
        let position = position as usize;
        self.words[position / WORD_BITS] >> (position % WORD_BITS) & 1 == 1
    }

    /// Adds a position that is not a member.
    pub(super) fn insert(&mut self, position: u32) {
        debug_assert!(!self.contains(position));
        let position = position as usize;
        self.words[position / WORD_BITS] |= 1 << (position % WORD_BITS);
        let mut index = position / BLOCK_BITS;
        for level in &mut self.levels {
            level[index] += 1;
            index /= FAN_OUT;
        }
        self.len += 1;
    }

    /// Takes out a member.
    pub(super) fn remove(&mut self, position: u32) {
        debug_assert!(self.contains(position));
        let position = position as usize;
        self.words[position / WORD_BITS] &= !(1 << (position % WORD_BITS));
        let mut index = position / BLOCK_BITS;
        for level in &mut self.levels {
            level[index] -= 1;
            index /= FAN_OUT;
        }
        self.len -= 1;
    }

    /// Puts a position that is not a member in the place of a member.
    pub(super) fn relocate(&mut self, from: u32, to: u32) {
        debug_assert!(self.contains(from) && !self.contains(to));
        let (from, to) = (from as usize, to as usize);
        self.words[from / WORD_BITS] &= !(1 << (from % WORD_BITS));
        self.words[to / WORD_BITS] |= 1 << (to % WORD_BITS);
        let (mut from, mut to) = (from / BLOCK_BITS, to / BLOCK_BITS);
        for level in &mut self.levels {
            if from == to {
                break;
            }
            level[from] -= 1;
            level[to] += 1;
            from /= FAN_OUT;
            to /= FAN_OUT;
        }
    }

    /// The member with `rank` members before it.
    pub(super) fn select(&self, rank: u32) -> Option<u32> {
        if rank >= self.len {
            return None;
        }
        let mut left = rank;
        let mut index = 0;
        for level in self.levels.iter().rev() {
            index *= FAN_OUT;
            while left >= level[index] {
                left -= level[index];
                index += 1;
            }
        }
        let mut word = index * BLOCK_WORDS;
        loop {
            let ones = self.words[word].count_ones();
            if left < ones {
                break;
            }
            left -= ones;
            word += 1;
        }
        Some((word * WORD_BITS) as u32 + nth_one(self.words[word], left))
    }

    /// How many members lie before `position`.
    pub(super) fn rank(&self, position: u32) -> u32 {
        let position = position as usize;
        if position >= self.positions() {
            return self.len;
        }
        let mut rank = 0;
        let mut index = position / BLOCK_BITS;
        for level in &self.levels {
            rank += level[index / FAN_OUT * FAN_OUT..index].iter().sum::<u32>();
            index /= FAN_OUT;
        }
        let word = position / WORD_BITS;
        rank += self.words[word / BLOCK_WORDS * BLOCK_WORDS..word]
            .iter()
            .map(|word| word.count_ones())
            .sum::<u32>();
        rank + (self.words[word] & ((1 << (position % WORD_BITS)) - 1)).count_ones()
    }
}

/// The index of the set bit of `word` that has `left` set bits below it; there must be one.
fn nth_one(word: u64, mut left: u32) -> u32 {
    let mut shift = 0;
    for width in [32, 16, 8, 4, 2, 1] {
        let low = ((word >> shift) & ((1 << width) - 1)).count_ones();
        if left >= low {
            left -= low;
            shift += width;
        }
    }
    shift
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nth_one_finds_every_bit() {
        for word in [
            1,
            u64::MAX,
            1 << 63,
            0xAAAA_5555_F00F_1234,
            0x8000_0000_0000_0001,
        ] {
            let bits = (0..64).filter(|bit| word >> bit & 1 == 1);
            for (rank, bit) in bits.enumerate() {
                assert_eq!(nth_one(word, rank as u32), bit);
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_set(toggles in prop::collection::vec(0_u32..20_000, 1..400), probe in 0_u32..21_000) {
            let mut set = RankedSet::with_positions(1);
            let mut model = BTreeSet::new();
            for position in toggles {
                while position as usize >= set.positions() {
                    set.grow();
                }
                if model.remove(&position) {
                    set.remove(position);
                } else {
                    model.insert(position);
                    set.insert(position);
                }
            }
            // Every other member moves to the nearest place before it that is free.
            for position in model.clone().into_iter().step_by(2) {
                if let Some(to) = (0..position).rev().find(|to| !model.contains(to)) {
                    set.relocate(position, to);
                    model.remove(&position);
                    model.insert(to);
                }
            }
            prop_assert_eq!(set.len() as usize, model.len());
            for (rank, position) in model.iter().enumerate() {
                prop_assert_eq!(set.select(rank as u32), Some(*position));
                prop_assert_eq!(set.rank(*position), rank as u32);
                prop_assert!(set.contains(*position));
            }
            prop_assert_eq!(set.select(set.len()), None);
            prop_assert_eq!(set.rank(probe) as usize, model.range(..probe).count());
        }
    }
}
