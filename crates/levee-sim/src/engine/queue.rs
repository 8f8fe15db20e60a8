//! The queue of timers: a hierarchical timing wheel that hands out exact order.
//!
//! Time goes forward only, so the queue need not sort what is far off. A message goes to a *slot* by the highest digit, to
//! base 64, in which its time differs from the wheel's; when the wheel comes to a slot of more than [`LOAD_MAX`] messages
//! it deals them out to the slots of the level below, and a smaller slot is sorted into *near*, from which messages are
//! taken. That is a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, 1990) to base 64 whose last levels are a sort, or the
//! hierarchical wheel of Varghese and Lauck (1987) without its rounding. A message is moved once for each level between
//! its slot and the first slot that is small: one to four times, and always next to its neighbours, where a heap of a
//! million messages looks at twenty places far apart.
//!
//! Chosen by measurement: nanoseconds of processor time to take one message and push another, 32 bytes each, with
//! exponential delays, on a busy machine, medians of nine turns. `cargo bench -p levee-sim` measures the first and the last.
//!
//! | pending | standard heap | heap of 4 children, packed keys | this |
//! |--:|--:|--:|--:|
//! | 24 | 31 | 22 | 23 |
//! | 1,000 | 47 | 35 | 31 |
//! | 100,000 | 414 | 195 | 53 |
//! | 1,000,000 | 1,436 | 670 | 109 |
//!
//! Base 32 or 16 and blocks of 4 or 8 were slower with many pending, as were slots of 32 or 8 to be sorted.
//!
//! Slots are chains of blocks from one arena, which grows to the largest number of messages ever pending and is used
//! again.

/// Messages of one slot that are sorted at once. A sort of this many is by insertion.
const LOAD_MAX: u32 = 16;
/// Messages in `near` beyond which they go back to the wheel: insertion there takes time in proportion.
const NEAR_MAX: usize = 48;
/// Bits of a digit: a level's slots fill one word of a bit set.
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
/// Digits of a time.
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;
/// Messages of a block: with fewer, many pending take longer; with more, each of few has a block of its own to itself.
const BLOCK: usize = 16;
/// The end of a chain of blocks.
const NONE: u32 = u32::MAX;

/// Order of messages: time, then tie.
pub(super) type Key = u128;

/// What is due when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<T> {
    /// Nanoseconds. Never `u64::MAX`.
    pub(super) at: u64,
    /// Unique among messages of one time.
    pub(super) tie: u64,
    pub(super) what: T,
}

impl<T> Entry<T> {
    pub(super) fn key(&self) -> Key {
        u128::from(self.at) << 64 | u128::from(self.tie)
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The block that is being filled; full ones hang behind it.
    head: u32,
    len: u32,
}

const EMPTY: Slot = Slot { head: NONE, len: 0 };

/// A priority queue for times that only go forward.
#[derive(Clone, Debug)]
pub(super) struct TimerQueue<T> {
    /// The next messages; the first is at the end.
    near: Vec<Entry<T>>,
    /// All that is due before it is in `near`, all else in the wheel.
    near_end: u64,
    /// The wheel's time: not after anything in the wheel, nor after anything that may yet be pushed.
    base: u64,
    /// A bit for each level that holds something, then one for each slot of a level that does.
    levels: u32,
    occupied: [u64; LEVELS],
    slots: Vec<Slot>,
    arena: Vec<Entry<T>>,
    /// The block behind each.
    next: Vec<u32>,
    /// Blocks that were given back; then those from `fresh` on.
    free: u32,
    fresh: u32,
}

impl<T: Copy> TimerQueue<T> {
    pub(super) fn new() -> Self {
        Self {
            near: Vec::with_capacity(2 * NEAR_MAX),
            near_end: 0,
            base: 0,
            levels: 0,
            occupied: [0; LEVELS],
            slots: vec![EMPTY; LEVELS * SLOTS],
            arena: Vec::new(),
            next: Vec::new(),
            free: NONE,
            fresh: 0,
        }
    }

    /// Empties it, back to time zero.
    pub(super) fn clear(&mut self) {
        self.near.clear();
        self.near_end = 0;
        self.base = 0;
        for (level, bits) in self.occupied.iter_mut().enumerate() {
            while *bits != 0 {
                self.slots[level * SLOTS + bits.trailing_zeros() as usize] = EMPTY;
                *bits &= *bits - 1;
            }
        }
        self.levels = 0;
        self.free = NONE;
        self.fresh = 0;
    }

    /// Adds an entry that is due at or after `now`. No entry due before `now` may follow.
    #[inline]
    pub(super) fn push(&mut self, now: u64, entry: Entry<T>) {
        debug_assert!(now <= entry.at && entry.at < u64::MAX);
        if entry.at < self.near_end {
            self.insert(now, entry);
        } else {
            self.put(entry);
        }
    }

    /// The key of the first entry, if it is due at or before `bound`; a later one may not be seen.
    /// No entry due before `bound` or before the first entry may then be pushed until one of these is over.
    #[inline]
    pub(super) fn peek(&mut self, bound: u64) -> Option<Key> {
        if self.near.is_empty() && self.levels != 0 {
            self.refill(bound);
        }
        self.near.last().map(Entry::key)
    }

    /// Takes the entry that [`TimerQueue::peek`] saw.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Entry<T>> {
        self.near.pop()
    }

    fn insert(&mut self, now: u64, entry: Entry<T>) {
        let key = entry.key();
        let later = self.near.iter().rposition(|other| other.key() > key);
        self.near.insert(later.map_or(0, |at| at + 1), entry);
        // Messages of one instant have no finer slot to go to.
        if self.near.len() > NEAR_MAX && self.near[0].at > now {
            self.spill(now);
        }
    }

    /// Moves `near` to the wheel, below the level that it came from: `now` lies in the slot that was loaded last.
    #[cold]
    fn spill(&mut self, now: u64) {
        self.base = now;
        self.near_end = now;
        let mut near = std::mem::take(&mut self.near);
        for entry in near.drain(..) {
            self.put(entry);
        }
        self.near = near;
    }

    /// Puts an entry into its slot.
    #[inline]
    fn put(&mut self, entry: Entry<T>) {
        debug_assert!(self.base <= entry.at);
        // With the lowest bit set the highest exists, and the level is the same.
        let level = ((entry.at ^ self.base) | 1).ilog2() / DIGIT_BITS;
        let digit = (entry.at >> (level * DIGIT_BITS)) as usize % SLOTS;
        let level = level as usize;
        self.levels |= 1 << level;
        self.occupied[level] |= 1 << digit;
        let index = level * SLOTS + digit;
        let Slot { mut head, len } = self.slots[index];
        let filled = len as usize % BLOCK;
        if filled == 0 {
            head = self.block(head, entry);
        }
        self.arena[head as usize * BLOCK + filled] = entry;
        self.slots[index] = Slot { head, len: len + 1 };
    }

    /// A block before `behind`. New memory is filled with some entry.
    #[inline]
    fn block(&mut self, behind: u32, filler: Entry<T>) -> u32 {
        let block = if self.free != NONE {
            let block = self.free;
            self.free = self.next[block as usize];
            block
        } else {
            let block = self.fresh;
            self.fresh += 1;
            if self.next.len() == block as usize {
                self.next.push(NONE);
                self.arena.resize(self.arena.len() + BLOCK, filler);
            }
            block
        };
        self.next[block as usize] = behind;
        block
    }

    /// Loads the next slot into `near`, unless it begins after `bound`.
    fn refill(&mut self, bound: u64) {
        while self.levels != 0 {
            let level = self.levels.trailing_zeros();
            let shift = level * DIGIT_BITS;
            let bits = &mut self.occupied[level as usize];
            let digit = bits.trailing_zeros();
            // Of the level's digits none is below the wheel's own, and the digits above are the wheel's.
            let above = self.base >> shift >> DIGIT_BITS << DIGIT_BITS;
            let start = (above | u64::from(digit)) << shift;
            if start > bound {
                return;
            }
            *bits &= *bits - 1;
            if *bits == 0 {
                self.levels &= self.levels - 1;
            }
            let index = level as usize * SLOTS + digit as usize;
            let slot = std::mem::replace(&mut self.slots[index], EMPTY);
            self.base = start;
            if slot.len <= LOAD_MAX || level == 0 {
                self.load(slot);
                self.near_end = start.saturating_add(1 << shift);
                return;
            }
            self.deal(slot);
        }
    }

    fn load(&mut self, slot: Slot) {
        let mut block = slot.head;
        let mut left = slot.len as usize;
        while left > 0 {
            let first = block as usize * BLOCK;
            let filled = (left - 1) % BLOCK + 1;
            self.near
                .extend_from_slice(&self.arena[first..first + filled]);
            left -= filled;
            block = self.give_back(block);
        }
        self.near
            .sort_unstable_by_key(|entry| std::cmp::Reverse(entry.key()));
    }

    fn deal(&mut self, slot: Slot) {
        let mut block = slot.head;
        let mut left = slot.len as usize;
        while left > 0 {
            let first = block as usize * BLOCK;
            let filled = (left - 1) % BLOCK + 1;
            for at in first..first + filled {
                self.put(self.arena[at]);
            }
            left -= filled;
            block = self.give_back(block);
        }
    }

    /// Frees a block, and says which was behind it.
    fn give_back(&mut self, block: u32) -> u32 {
        std::mem::replace(
            &mut self.next[block as usize],
            std::mem::replace(&mut self.free, block),
        )
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng as _, SeedableRng as _};
    use rand_pcg::Pcg64;

    use super::*;

    /// Holds 5,000 entries for a while, and says what memory that took: of `near`, and blocks.
    fn hold(queue: &mut TimerQueue<[u32; 3]>, seed: u64) -> (usize, usize) {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut now = 0;
        for tie in 0..100_000 {
            if tie >= 5_000 {
                assert!(queue.peek(u64::MAX).is_some());
                now = queue.pop().unwrap().at;
            }
            // Short, long and very long ones.
            let delay = rng.next_u64() >> (20 + rng.next_u64() % 30);
            let entry = Entry {
                at: now + delay,
                tie,
                what: [0; 3],
            };
            queue.push(now, entry);
        }
        assert_eq!(queue.arena.len(), queue.next.len() * BLOCK);
        (queue.near.capacity(), queue.next.len())
    }

    #[test]
    fn memory_is_bounded_by_what_is_pending_and_used_again() {
        let mut queue = TimerQueue::new();
        let (near, blocks) = hold(&mut queue, 1);
        assert_eq!(near, TimerQueue::<[u32; 3]>::new().near.capacity());
        // One block of each slot may have room left, and one is read while its entries are dealt out.
        let most = 5_000 / BLOCK + LEVELS * SLOTS + 1;
        assert!(blocks <= most, "{blocks} of {most}");
        for _ in 0..3 {
            queue.clear();
            assert_eq!(hold(&mut queue, 1), (near, blocks));
        }
    }
}
