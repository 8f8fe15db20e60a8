//! When to look at what again: one deadline per key, kept lazily.
//!
//! A transaction changes its deadline with every message, mostly to a later one. So a key has one entry in the heap, which
//! stays where it is when the deadline moves back; when it comes up too early it is put in again. Cost is O(log n) for
//! each entry that comes up, and nothing for a deadline that moves back.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use core::time::Duration;

/// A heap of deadlines for keys of type `K`.
#[derive(Debug)]
pub struct Wakeups<K> {
    heap: BinaryHeap<Reverse<(Duration, K)>>,
}

impl<K: Ord + Copy> Default for Wakeups<K> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
        }
    }
}

impl<K: Ord + Copy> Wakeups<K> {
    /// Asks for `key` at `at`.
    pub fn push(&mut self, at: Duration, key: K) {
        self.heap.push(Reverse((at, key)));
    }

    /// The first entry's time.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes one entry that is due. Its key may be gone, or its deadline may have moved: the caller looks, and pushes it
    /// again if so.
    pub fn pop_due(&mut self, now: Duration) -> Option<(Duration, K)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(e)| e)
    }

    /// Entries in the heap.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}
