//! A heap of timers for thousands of calls in one thread.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Timers in the order in which they fall due; those of the same instant in the order in which they were set.
///
/// A timer is not cancelled: its owner notes in `T` what it was set for, and ignores one that no longer fits.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    heap: BinaryHeap<Entry<T>>,
    set: u64,
}

impl<T> Timers<T> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            set: 0,
        }
    }

    pub(crate) fn set(&mut self, at: Duration, what: T) {
        self.set += 1;
        self.heap.push(Entry {
            at,
            order: self.set,
            what,
        });
    }

    /// Takes one timer that is due.
    pub(crate) fn due(&mut self, now: Duration) -> Option<T> {
        if self.heap.peek()?.at > now {
            return None;
        }
        self.heap.pop().map(|e| e.what)
    }

    pub(crate) fn next(&self) -> Option<Duration> {
        self.heap.peek().map(|e| e.at)
    }
}

#[derive(Debug)]
struct Entry<T> {
    at: Duration,
    order: u64,
    what: T,
}

impl<T> Entry<T> {
    fn rank(&self) -> (Duration, u64) {
        (self.at, self.order)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// Reversed: the heap gives its greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank().cmp(&self.rank())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_order_and_not_early() {
        let ms = Duration::from_millis;
        let mut t = Timers::new();
        for (at, what) in [(30, 'c'), (10, 'a'), (30, 'd'), (20, 'b')] {
            t.set(ms(at), what);
        }
        assert_eq!(t.due(ms(9)), None);
        assert_eq!(t.next(), Some(ms(10)));
        let drained: String = std::iter::from_fn(|| t.due(ms(30))).collect();
        assert_eq!(drained, "abcd");
        assert_eq!(t.next(), None);
    }
}
