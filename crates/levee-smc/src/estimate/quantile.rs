//! Quantiles, of one value a run and of the pooled values of all runs.

use super::distribution::{binomial_at_most, student};
use super::interval::Interval;
use super::target::Source;

/// Most values that are kept of one source: 128 MiB, and as much again while a quantile is picked from them.
pub const VALUES_MAX: usize = 1 << 24;

/// The smallest value that at least `q` of all are not above; `None` of nothing. `sorted` must be.
#[must_use]
pub fn quantile<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    sorted.get(rank(sorted.len(), q)?).copied()
}

/// Where it stands among `n` in order, from 0.
fn rank(n: usize, q: f64) -> Option<usize> {
    let rank = (q * n as f64).ceil().max(1.0) as usize;
    rank.min(n).checked_sub(1)
}

/// All values of a source, run by run.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) source: Source,
    values: Vec<f64>,
    /// Where the values of each run end.
    ends: Vec<usize>,
    values_max: usize,
    full: bool,
}

impl Store {
    pub(crate) fn new(source: Source, values_max: usize) -> Self {
        Self {
            source,
            values: Vec::new(),
            ends: Vec::new(),
            values_max,
            full: false,
        }
    }

    /// Takes on the values of the next run. After the first run that does not fit it takes no more.
    pub(crate) fn push(&mut self, run: &[f64]) {
        self.full |= self.values.len() + run.len() > self.values_max;
        if !self.full {
            self.values.extend_from_slice(run);
            self.ends.push(self.values.len());
        }
    }

    pub(crate) fn full(&self) -> bool {
        self.full
    }

    pub(crate) fn runs(&self) -> u64 {
        self.ends.len() as u64
    }

    /// The quantile, its interval, and whether all values are alike. `None` of nothing.
    pub(crate) fn estimate(&self, q: f64, confidence: f64) -> Option<(f64, Interval, bool)> {
        let mut sorted = self.values.clone();
        let estimate = pick(&mut sorted, rank(self.values.len(), q)?);
        let interval = match self.source {
            Source::Column(_) => order_statistics(&mut sorted, q, confidence),
            Source::Samples(_) => self.woodruff(&mut sorted, estimate, q, confidence),
        };
        let flat = self.values.iter().all(|&v| v == estimate);
        Some((estimate, interval, flat))
    }

    /// Woodruff's interval (JASA 47, 1952): the interval of the share of all values that are not above the estimate, a ratio estimator
    /// over the runs, is laid around `q` and mapped back to values.
    fn woodruff(&self, values: &mut [f64], estimate: f64, q: f64, confidence: f64) -> Interval {
        let (n, runs) = (self.values.len(), self.ends.len());
        if runs < 2 {
            return Interval::UNKNOWN;
        }
        let below = |run: &[f64]| run.iter().filter(|&&v| v <= estimate).count();
        let share = below(&self.values) as f64 / n as f64;
        let (mut squares, mut start) = (0.0, 0);
        for &end in &self.ends {
            let run = &self.values[start..end];
            squares += (below(run) as f64 - share * run.len() as f64).powi(2);
            start = end;
        }
        let error = (squares * runs as f64 / (runs - 1) as f64).sqrt() / n as f64;
        let half = student(1.0 - 0.5 * (1.0 - confidence), runs as u64 - 1) * error;
        let mut at = |q: f64, unknown: f64| {
            if 0.0 < q && q <= 1.0 {
                rank(n, q).map_or(unknown, |rank| pick(values, rank))
            } else {
                unknown
            }
        };
        Interval {
            low: at(q - half, f64::NEG_INFINITY),
            high: at(q + half, f64::INFINITY),
        }
    }
}

/// The value at `rank` in order, from 0.
fn pick(values: &mut [f64], rank: usize) -> f64 {
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}

/// The interval of a quantile of independent values between two of them: how many lie below the quantile is binomial, so it is exact for
/// continuous values, and wide for ties (David and Nagaraja, Order Statistics, 7.1). An end is infinite when even the outermost value
/// does not reach far enough.
fn order_statistics(values: &mut [f64], q: f64, confidence: f64) -> Interval {
    let (n, tail) = (values.len() as u64, 0.5 * (1.0 - confidence));
    // How many `k` in 0..n have at most `k` below the quantile with so small a probability: the value with so many before it.
    let before = first(n, |k| binomial_at_most(k, n, q) > tail);
    // The least `k` that is reached with so small a probability: 1 - P(at most k) <= tail.
    let after = first(n, |k| 1.0 - binomial_at_most(k, n, q) <= tail);
    Interval {
        low: match before.checked_sub(1) {
            Some(rank) => pick(values, rank as usize),
            None => f64::NEG_INFINITY,
        },
        high: if after < n {
            pick(values, after as usize)
        } else {
            f64::INFINITY
        },
    }
}

/// The first of `0..n` for which `is` holds, as it does for all above; `n` if there is none.
fn first(n: u64, is: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low + (high - low) / 2;
        if is(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let all: Vec<u32> = (1..=100).collect();
        for (q, value) in [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)] {
            assert_eq!(quantile(&all, q), Some(value), "{q}");
        }
        assert_eq!(quantile::<u32>(&[], 0.5), None);
    }

    #[test]
    fn order_statistics_against_the_table_of_the_median() {
        // Conover, Practical Nonparametric Statistics, table of the sign test: ranks of the 95% interval of the median.
        for (n, low, high) in [
            (6_u32, 1.0, 6.0),
            (10, 2.0, 9.0),
            (20, 6.0, 15.0),
            (25, 8.0, 18.0),
        ] {
            let mut store = Store::new(Source::Column(0), VALUES_MAX);
            (1..=n).for_each(|i| store.push(&[f64::from(i)]));
            let (_, interval, _) = store.estimate(0.5, 0.95).unwrap();
            assert_eq!((interval.low, interval.high), (low, high), "{n}");
        }
        // Five values do not hold the median with 95%: 2 / 2^5 > 5%. Nor do 100 hold the 99% quantile from above.
        let mut few: Vec<f64> = (0..5).map(f64::from).collect();
        assert_eq!(order_statistics(&mut few, 0.5, 0.95), Interval::UNKNOWN);
        let mut some: Vec<f64> = (0..100).map(f64::from).collect();
        let tail = order_statistics(&mut some, 0.99, 0.95);
        assert!(tail.low.is_finite() && tail.high == f64::INFINITY);
    }

    #[test]
    fn woodruff_by_hand() {
        // Four runs of ten values 0..40 dealt out in turn; the median is 19, of which 5 lie in each run: no spread, all of it at 19.
        let mut even = Store::new(Source::Samples(0), VALUES_MAX);
        for r in 0..4 {
            even.push(&(0..10).map(|i| f64::from(4 * i + r)).collect::<Vec<_>>());
        }
        let (median, interval, flat) = even.estimate(0.5, 0.95).unwrap();
        assert_eq!((median, interval.half(), flat), (19.0, 0.0, false));
        // 100 runs, half of them all 0 and half all 1..=10: below 0 lies half of all; residual +-5 each: error = 5 sqrt(100 100/99) / 1000.
        let mut clustered = Store::new(Source::Samples(0), VALUES_MAX);
        for r in 0..100 {
            clustered.push(
                &(1..=10)
                    .map(|i| if r % 2 == 0 { 0.0 } else { f64::from(i) })
                    .collect::<Vec<_>>(),
            );
        }
        let (median, interval, _) = clustered.estimate(0.5, 0.95).unwrap();
        // t(99) 1.984217 * 0.0502519 = 0.09971: the quantiles 0.40029 and 0.59971, of which the latter is 2.
        assert_eq!((median, interval.low, interval.high), (0.0, 0.0, 2.0));
    }

    #[test]
    fn a_full_store_keeps_whole_runs_only() {
        let mut store = Store::new(Source::Samples(0), 5);
        for _ in 0..3 {
            store.push(&[1.0, 2.0]);
        }
        store.push(&[3.0]);
        assert!(store.full());
        assert_eq!((store.runs(), store.values.len()), (2, 4));
    }
}
