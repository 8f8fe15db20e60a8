//! A histogram of times with fixed bounds.

use serde::Serialize;

/// Upper bounds of the latency buckets, in microseconds: a hop costs tens of them, a stall thousands.
const LATENCY_BOUNDS_US: [u64; 12] = [
    5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000,
];
/// The same for waits of people: from what nobody notices to what nobody endures.
const WAIT_BOUNDS_US: [u64; 12] = [
    1_000, 5_000, 10_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 60_000_000,
];

/// A histogram of times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// Upper bounds in microseconds, ascending.
    pub bounds_us: Vec<u64>,
    /// How many fell at or below each bound and above the one before; one more for those above all.
    pub counts: Vec<u64>,
    /// Sum in microseconds.
    pub sum_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::with_bounds(&LATENCY_BOUNDS_US)
    }
}

impl Histogram {
    /// An empty one for times that people wait: 1 ms to 60 s.
    #[must_use]
    pub fn of_waits() -> Self {
        Self::with_bounds(&WAIT_BOUNDS_US)
    }

    fn with_bounds(bounds_us: &[u64]) -> Self {
        Self {
            bounds_us: bounds_us.to_vec(),
            counts: vec![0; bounds_us.len() + 1],
            sum_us: 0,
        }
    }

    /// Notes a time.
    pub fn note(&mut self, us: u64) {
        let at = self.bounds_us.partition_point(|b| *b < us);
        self.counts[at] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// Adds what another of the same bounds has noted.
    pub fn add(&mut self, other: &Self) {
        debug_assert_eq!(self.bounds_us, other.bounds_us);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_histograms_add_to_the_one_of_all_times() {
        let (mut a, mut b, mut all) = (
            Histogram::of_waits(),
            Histogram::of_waits(),
            Histogram::of_waits(),
        );
        for (at, us) in [0, 1_000, 1_001, 59_999_999, 60_000_001, u64::MAX]
            .into_iter()
            .enumerate()
        {
            if at % 2 == 0 { &mut a } else { &mut b }.note(us);
            all.note(us);
        }
        a.add(&b);
        assert_eq!(a, all);
        assert_eq!(a.counts.iter().sum::<u64>(), 6);
        assert_eq!(a.counts[0], 2, "a bound belongs to its own bucket");
    }
}
