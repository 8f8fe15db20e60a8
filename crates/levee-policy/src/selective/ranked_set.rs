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
        let mut count = positions.div_ceil(BLOCK_BITS).max(1);
        let words = vec![0; count * BLOCK_WORDS];
        let mut levels = vec![vec![0; count]];
        while count > FAN_OUT {
            count = count.div_ceil(FAN_OUT);
            levels.push(vec![0; count]);
        }
        Self {
            words,
            levels,
            len: 0,
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
            let mut set = RankedSet::with_positions(20_000);
            let mut model = BTreeSet::new();
            for position in toggles {
                if model.remove(&position) {
                    set.remove(position);
                } else {
                    model.insert(position);
                    set.insert(position);
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
