//! When to look at what again: one deadline per key, kept lazily.
//!
//! A transaction changes its deadline with every message, mostly to a later one. So a key has one entry in the heap, which
//! stays where it is when the deadline moves back; when it comes up too early it is put in again. Cost is O(log n) for
//! each entry that comes up, and nothing for a deadline that moves back.
//!
//! An entry outlives its key, and its deadline when that moves forward: a call that ends at once leaves one behind for its
//! longest duration. [`Wakeups::prune`] keeps such entries from piling up.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use core::time::Duration;

/// Stale entries that are left alone: fewer are not worth a pass over the heap.
const STALE_MIN: usize = 1024;

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

    /// Drops the entries that `keep` does not want when they are more than half of all, as they must be if there are more
    /// than twice as many entries as `live` keys (and some). Called after each push it costs O(1) amortised, and holds the
    /// heap to a size in proportion to the keys. `keep` gets an entry's time and key, and should want one entry a key.
    pub fn prune(&mut self, live: usize, mut keep: impl FnMut(Duration, &K) -> bool) {
        if self.heap.len() > live.saturating_mul(2).saturating_add(STALE_MIN) {
            self.heap.retain(|Reverse((at, key))| keep(*at, key));
        }
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

#[cfg(test)]
mod tests {
    use alloc::collections::{BTreeMap, BTreeSet};
    use alloc::vec::Vec;

    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Keys with deadlines, kept as the proxy keeps them: an entry is pushed only when a deadline comes before the armed one.
    #[derive(Default)]
    struct Armed {
        wakeups: Wakeups<u8>,
        keys: BTreeMap<u8, (Duration, Duration)>,
    }

    impl Armed {
        fn set(&mut self, key: u8, deadline: Duration) {
            let entry = self.keys.entry(key).or_insert((deadline, Duration::MAX));
            entry.0 = deadline;
            if deadline < entry.1 {
                entry.1 = deadline;
                self.wakeups.push(deadline, key);
            }
        }

        fn due(&mut self, now: Duration) -> BTreeSet<u8> {
            let mut out = BTreeSet::new();
            while let Some((at, key)) = self.wakeups.pop_due(now) {
                assert!(at <= now);
                let Some(&(deadline, armed)) = self.keys.get(&key) else {
                    continue;
                };
                if armed != at {
                    continue;
                }
                if deadline <= now {
                    self.keys.remove(&key);
                    out.insert(key);
                } else {
                    self.keys.insert(key, (deadline, Duration::MAX));
                    self.set(key, deadline);
                }
            }
            out
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(u8, u32),
        Gone(u8),
        Due(u32),
        Prune,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (any::<u8>(), 0..500u32).prop_map(|(k, ms)| Step::Set(k % 16, ms)),
            1 => any::<u8>().prop_map(|k| Step::Gone(k % 16)),
            2 => (0..100u32).prop_map(Step::Due),
            1 => Just(Step::Prune),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a map of deadlines that is searched through each time: what is due comes up, once, and nothing else does.
        #[test]
        fn what_is_due_comes_up_once(steps in prop::collection::vec(step(), 1..200)) {
            let mut now = Duration::ZERO;
            let mut armed = Armed::default();
            let mut model: BTreeMap<u8, Duration> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Set(key, ms) => {
                        armed.set(key, now + MS * ms);
                        model.insert(key, now + MS * ms);
                    }
                    Step::Gone(key) => {
                        armed.keys.remove(&key);
                        model.remove(&key);
                    }
                    Step::Due(ms) => {
                        now += MS * ms;
                        let want: BTreeSet<u8> =
                            model.iter().filter(|(_, at)| **at <= now).map(|(k, _)| *k).collect();
                        model.retain(|_, at| *at > now);
                        prop_assert_eq!(armed.due(now), want);
                    }
                    Step::Prune => {
                        let Armed { wakeups, keys } = &mut armed;
                        // As if there were so many that it pays.
                        wakeups.heap.retain(|Reverse((at, k))| keys.get(k).is_some_and(|e| e.1 == *at));
                    }
                }
                if let Some(first) = model.values().min() {
                    prop_assert!(armed.wakeups.next().is_some_and(|at| at <= *first));
                }
            }
        }
    }

    #[test]
    fn the_earliest_comes_first_and_none_before_its_time() {
        let mut w = Wakeups::default();
        assert!(w.is_empty());
        assert_eq!((w.next(), w.pop_due(Duration::MAX)), (None, None));
        for (ms, key) in [(30, 'c'), (10, 'a'), (20, 'b'), (10, 'd')] {
            w.push(MS * ms, key);
        }
        assert_eq!(w.next(), Some(MS * 10));
        assert_eq!(w.pop_due(MS * 10 - Duration::from_nanos(1)), None);
        let up_to_20: Vec<char> =
            core::iter::from_fn(|| w.pop_due(MS * 20).map(|(_, key)| key)).collect();
        assert_eq!(up_to_20, ['a', 'd', 'b']);
        assert_eq!((w.len(), w.next()), (1, Some(MS * 30)));
    }

    #[test]
    fn entries_of_the_dead_do_not_pile_up() {
        let (mut w, mut looked_at, mut longest) = (Wakeups::default(), 0u64, 0);
        let pushes = 100_000u64;
        // Ten keys are live at any time; each leaves an entry a day ahead.
        for key in 0..pushes {
            w.push(Duration::from_secs(86_400 + key), key);
            w.prune(10, |_, k| {
                looked_at += 1;
                k + 10 > key
            });
            longest = longest.max(w.len());
        }
        assert!(longest <= 2 * 10 + STALE_MIN, "{longest}");
        assert!(looked_at < 2 * pushes, "{looked_at}");
        assert!((pushes - 10..pushes).all(|k| w.heap.iter().any(|Reverse((_, key))| *key == k)));
    }
}
