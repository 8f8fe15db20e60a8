//! The heaviest of very many sources, in bounded memory.

use std::collections::HashMap;

/// Counts by name, exact up to a number of names and with a known error beyond.
///
/// Misra and Gries (1982) with weights and with the decrement of a whole batch at once, by the median of the counters (Anderson
/// et al., "A High-Performance Algorithm for Identifying Frequent Items in Data Streams", 2017): when there are twice as many
/// names as the limit, the median is taken off all, and names with nothing left go. A count is never too high, and too low by at
/// most [`Frequent::error`], which is at most the sum of all counts over the limit.
#[derive(Clone, Debug)]
pub struct Frequent {
    counts: HashMap<Box<str>, u64>,
    limit: usize,
    total: u64,
    error: u64,
}

impl Frequent {
    /// Holds at least the `limit` (at least 1) heaviest names, and at most twice as many.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            counts: HashMap::new(),
            limit: limit.max(1),
            total: 0,
            error: 0,
        }
    }

    /// Adds to a name's count.
    pub fn add(&mut self, name: &str, count: u64) {
        self.total = self.total.saturating_add(count);
        if let Some(held) = self.counts.get_mut(name) {
            *held = held.saturating_add(count);
            return;
        }
        if count == 0 {
            return;
        }
        self.counts.insert(name.into(), count);
        if self.counts.len() > 2 * self.limit {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        // One more than half are at or below it, so at most `limit` stay.
        let middle = self.limit;
        let (_, &mut median, _) = counts.select_nth_unstable(middle);
        self.counts.retain(|_, count| {
            *count = count.saturating_sub(median);
            *count > 0
        });
        self.error = self.error.saturating_add(median);
    }

    /// How much a count can be too low. 0: all counts are exact.
    #[must_use]
    pub fn error(&self) -> u64 {
        self.error
    }

    /// The sum of all counts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The `n` heaviest, heaviest first; alike ones by name.
    #[must_use]
    pub fn top(&self, n: usize) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> = self
            .counts
            .iter()
            .map(|(name, count)| (&**name, *count))
            .collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        all.truncate(n);
        all
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng as _, SeedableRng as _};
    use rand_pcg::Pcg64;

    use super::*;

    /// Names by a power law: name `i` has weight `1 / (i + 1)`.
    fn stream(names: u64, rows: usize, seed: u64) -> Vec<(u64, u64)> {
        let mut rng = Pcg64::seed_from_u64(seed);
        (0..rows)
            .map(|_| {
                let u = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                let name = ((names as f64).powf(u) - 1.0) as u64;
                (name, 1 + rng.next_u64() % 3)
            })
            .collect()
    }

    #[test]
    fn counts_are_exact_below_the_limit_and_have_a_known_error_beyond() {
        for (limit, names) in [(100, 150), (100, 20_000), (7, 20_000), (1, 50)] {
            let mut truth = std::collections::BTreeMap::new();
            let mut frequent = Frequent::new(limit);
            for (name, count) in stream(names, 50_000, 1) {
                *truth.entry(name.to_string()).or_insert(0) += count;
                frequent.add(&name.to_string(), count);
                assert!(frequent.counts.len() <= 2 * limit);
            }
            let total: u64 = truth.values().sum();
            assert_eq!(frequent.total(), total);
            assert!(frequent.error() <= total / limit as u64);
            if truth.len() <= 2 * limit {
                assert_eq!(frequent.error(), 0);
            }
            for (name, count) in &truth {
                let held = frequent.counts.get(name.as_str()).copied().unwrap_or(0);
                assert!(held <= *count && count - held <= frequent.error(), "{name}");
            }
        }
    }

    #[test]
    fn the_heaviest_come_first() {
        let mut frequent = Frequent::new(4);
        for (name, count) in [("b", 5), ("a", 5), ("c", 9), ("d", 0), ("a", 0)] {
            frequent.add(name, count);
        }
        assert_eq!(frequent.top(3), [("c", 9), ("a", 5), ("b", 5)]);
        assert_eq!(frequent.top(1), [("c", 9)]);
    }
}
