//! The long-run mean of a series, from one long run or from several.
//!
//! Each run gives a series, observed at equal distances in time. Its beginning is left out. The rest is cut into batches; the means of long
//! batches are nearly normal and nearly independent, and Student's t does the rest (Law, Simulation Modeling and Analysis, 9.5.3).
//! Whether they are independent is looked at: when neighbours still go together, they are joined two by two, and so on. When each
//! run has become one batch, that is replication and deletion, and independent by itself.

use super::distribution::normal;
use super::interval::Interval;
use super::moments::{Form, Moments};
use super::target::Steady;

/// Fewer batches than this in all are not joined further: Student's t would widen more than the correlation is worth.
const BATCHES_MIN: u64 = 8;

/// A correlation of neighbours that may be: it makes the interval 2% too narrow.
const CORRELATION_OK: f64 = 0.02;

/// Independent batches are joined in vain with this probability, which costs little; a lesser one would miss more that are not.
const JOINED_IN_VAIN: f64 = 0.2;

/// A drift from a run's first half to its second is told with this confidence, from so many runs on.
const DRIFT: (f64, u64) = (0.999, 8);

/// Batch means of all runs, by how many batches there are in a run.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    plan: Steady,
    length: Option<usize>,
    /// From the most batches a run to one.
    levels: Vec<Level>,
    /// Of each run, the mean of its second half less that of its first.
    drift: Moments,
    scratch: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Level {
    a_run: usize,
    moments: Moments,
    /// The first batch: all are taken relative to it, so that no digits are lost.
    shift: f64,
    /// Sum of the products of neighbours.
    lagged: f64,
    /// Sum of the first and last batch of each run.
    ends: f64,
    pairs: u64,
}

impl Batches {
    pub(crate) fn new(plan: Steady) -> Self {
        let batches = plan.batches.get();
        let sizes = std::iter::successors(Some(batches), |n| (*n > 1).then_some(n / 2));
        Self {
            plan,
            length: None,
            levels: sizes.map(Level::new).collect(),
            drift: Moments::new(1),
            scratch: Vec::new(),
        }
    }

    /// Takes on the series of the next run. Err says what is wrong with its length.
    pub(crate) fn push(&mut self, series: &[f64]) -> Result<(), String> {
        let (warm_up, batches) = (self.plan.warm_up, self.plan.batches.get());
        let length = *self.length.get_or_insert(series.len());
        if series.len() != length {
            return Err(format!(
                "a series of {} values, the first run has {length}: observe each run at the same times, and let it last as long",
                series.len()
            ));
        }
        let size = length.saturating_sub(warm_up) / batches;
        if size == 0 {
            return Err(format!(
                "a series of {length} values: {warm_up} to warm up and {batches} batches need at least {}",
                warm_up.saturating_add(batches)
            ));
        }
        // What does not fill a batch warms up too.
        let rest = &series[length - size * batches..];
        self.scratch.clear();
        let means = rest.chunks_exact(size).map(mean);
        self.scratch.extend(means);
        if batches > 1 {
            let (early, late) = rest.split_at(rest.len() / 2);
            self.drift.push(&[mean(late) - mean(early)]);
        }
        for level in &mut self.levels {
            while self.scratch.len() > level.a_run {
                join(&mut self.scratch);
            }
            level.push(&self.scratch);
        }
        Ok(())
    }

    /// Estimate, interval, whether nothing varied, batches a run that it comes from, warnings.
    pub(crate) fn estimate(
        &self,
        confidence: f64,
    ) -> Option<(f64, Interval, bool, usize, Vec<String>)> {
        let mut warnings = Vec::new();
        let enough = |level: &&Level| level.moments.n() >= BATCHES_MIN;
        let independent = self.levels.iter().filter(enough).find(|l| l.independent());
        let level = independent.or_else(|| self.levels.iter().rfind(enough));
        let level = level.or(self.levels.first())?;
        let (estimate, interval, flat) = level.moments.estimate(Form::Mean([0]), confidence)?;
        let n = level.moments.n();
        if n < BATCHES_MIN {
            warnings.push(format!(
                "only {n} batches in all: whether they are independent cannot be seen; use at least {BATCHES_MIN}, better 32"
            ));
        } else if independent.is_none() {
            warnings.push(format!(
                "neighbouring batches are correlated ({:.2}): the interval is too narrow; use longer batches or more runs",
                level.correlation()
            ));
        }
        if let Some((drift, range, _)) = self.drift.estimate(Form::Mean([0]), DRIFT.0)
            && self.drift.n() >= DRIFT.1
            && !range.holds(0.0)
            && drift.abs() > interval.half()
        {
            warnings.push(format!(
                "the second half of the runs differs from the first by {drift:.3}: they had not warmed up; leave out more of their beginning"
            ));
        }
        Some((estimate, interval, flat, level.a_run, warnings))
    }
}

impl Level {
    fn new(a_run: usize) -> Self {
        Self {
            a_run,
            moments: Moments::new(1),
            shift: 0.0,
            lagged: 0.0,
            ends: 0.0,
            pairs: 0,
        }
    }

    fn push(&mut self, batches: &[f64]) {
        debug_assert_eq!(batches.len(), self.a_run);
        if self.moments.n() == 0 {
            self.shift = batches[0];
        }
        for &batch in batches {
            self.moments.push(&[batch]);
        }
        for pair in batches.windows(2) {
            self.lagged += (pair[0] - self.shift) * (pair[1] - self.shift);
            self.pairs += 1;
        }
        self.ends += batches[0] + batches[self.a_run - 1] - 2.0 * self.shift;
    }

    /// The lag-1 correlation of the batches of a run, around the mean of all; 0 if nothing varies.
    fn correlation(&self) -> f64 {
        let (n, mean) = (self.moments.n() as f64, self.moments.mean(0) - self.shift);
        let both = 2.0 * n * mean - self.ends;
        let lagged = self.lagged - mean * both + self.pairs as f64 * mean * mean;
        let spread = self.moments.squares();
        if spread > 0.0 { lagged / spread } else { 0.0 }
    }

    fn independent(&self) -> bool {
        let chance = normal(1.0 - JOINED_IN_VAIN) / (self.pairs.max(1) as f64).sqrt();
        self.a_run == 1 || self.correlation() <= chance.max(CORRELATION_OK)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Joins batches two by two; a first one without a partner is left out.
fn join(batches: &mut Vec<f64>) {
    let odd = batches.len() % 2;
    let half = batches.len() / 2;
    for i in 0..half {
        batches[i] = 0.5 * (batches[odd + 2 * i] + batches[odd + 2 * i + 1]);
    }
    batches.truncate(half);
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn plan(warm_up: usize, batches: usize) -> Steady {
        Steady {
            samples: 0,
            warm_up,
            batches: NonZeroUsize::new(batches).unwrap(),
        }
    }

    #[test]
    fn batches_by_hand() {
        // 1 left out, the next that fills no batch too: (2 4) (6 8) (10 12) (14 16), and joined (5, 13), 9.
        let mut batches = Batches::new(plan(1, 4));
        let series = [99.0, 98.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0];
        batches.push(&series).unwrap();
        let means: Vec<_> = batches
            .levels
            .iter()
            .map(|l| (l.a_run, l.moments.n(), l.moments.mean(0)))
            .collect();
        assert_eq!(means, [(4, 4, 9.0), (2, 2, 9.0), (1, 1, 9.0)]);
        // 3 7 11 15 around 9: (-6 -2 2 6): products 12 - 4 + 12 = 20 over 80.
        assert!((batches.levels[0].correlation() - 0.25).abs() < 1e-15);
        assert_eq!(batches.drift.mean(0), 8.0);
    }

    #[test]
    fn joining_leaves_out_the_first_of_an_odd_number() {
        let mut batches = vec![9.0, 1.0, 3.0, 5.0, 7.0];
        join(&mut batches);
        assert_eq!(batches, [2.0, 6.0]);
    }

    #[test]
    fn a_wrong_length_is_said() {
        let mut batches = Batches::new(plan(4, 8));
        assert!(
            batches
                .push(&[0.0; 11])
                .unwrap_err()
                .contains("need at least 12")
        );
        let mut batches = Batches::new(plan(4, 8));
        batches.push(&[0.0; 12]).unwrap();
        assert!(
            batches
                .push(&[0.0; 13])
                .unwrap_err()
                .contains("first run has 12")
        );
    }

    #[test]
    fn correlated_batches_are_joined_or_told() {
        // A series that stays at 0 or 1 for 16 values: batches of 4 go together, batches of 32 do not.
        let series = |length: usize, seed: usize| -> Vec<f64> {
            (0..length)
                .map(|i| {
                    f64::from(u8::from(
                        (i / 16 + seed).wrapping_mul(2_654_435_761) >> 7 & 1 == 1,
                    ))
                })
                .collect()
        };
        let mut long = Batches::new(plan(0, 64));
        long.push(&series(256, 0)).unwrap();
        let (.., a_run, _) = long.estimate(0.95).unwrap();
        assert!(a_run < 64, "{a_run}");
        // One run that never leaves its first trend.
        let mut trend = Batches::new(plan(0, 16));
        trend
            .push(&(0..160).map(f64::from).collect::<Vec<_>>())
            .unwrap();
        let (.., warnings) = trend.estimate(0.95).unwrap();
        assert!(warnings[0].contains("correlated"), "{warnings:?}");
        // Many such runs: the interval is wide enough, for halves that differ are not correlated; but they drift, and that is told.
        let mut many = Batches::new(plan(0, 16));
        for r in 0..20 {
            many.push(&(0..160).map(|i| f64::from(i + r)).collect::<Vec<_>>())
                .unwrap();
        }
        let (.., a_run, warnings) = many.estimate(0.95).unwrap();
        assert!(a_run <= 2, "{a_run}");
        assert!(warnings[0].contains("warmed up"), "{warnings:?}");
    }
}
