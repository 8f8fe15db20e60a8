//! The distance of Kolmogorov and Smirnov, and what it means when the parameters come from the same data.
//!
//! The tables of that distance hold for a law that was known beforehand. One that was fitted lies closer, so those tables
//! call almost every fit good (Lilliefors 1967). The p-value here is that of the fitted law's own samples, each fitted
//! again: a parametric bootstrap. Its refit is one step of the method of scoring, which is as good as the whole climb in
//! the limit of many calls (Le Cam), and turns a replicate into one sum: the process of Durbin (1973).

use rand_core::{Rng, SeedableRng as _};
use rand_pcg::Pcg64;

use super::estimate::inverse;
use super::law::{Family, Law};
use super::sample::Sample;

/// Replicates of the bootstrap: the least p-value that it can tell is 0.001.
const REPLICATES: u32 = 999;
/// Calls in a replicate at most. The distance times the square root of their number hardly depends on it from 100 on.
const CALLS_MAX: u64 = 1_000;
/// Cells that the durations are sorted into for the bootstrap; both distances are taken at their edges.
const CELLS: f64 = 1_000.0;
/// Edges that are looked at: beyond every bin of a month in microseconds.
const EDGES_MAX: usize = 1 << 16;

/// How far a law is from the data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// The largest difference of the two distribution functions, at the edges of what was written down.
    pub ks: f64,
    /// The probability of a distance at least as large if the durations came from this law, with the parameters fitted
    /// anew to each sample. From 0.001; `None` where the fit did not converge.
    pub p_value: Option<f64>,
}

/// Measures the law at `at`. Without a seed there is no p-value.
pub(super) fn measure(
    sample: &Sample,
    family: Family,
    at: [f64; 2],
    seed: Option<u64>,
) -> Distance {
    let law = Law::at(family, at);
    Distance {
        ks: largest(sample, &law),
        p_value: seed.and_then(|seed| {
            let cells = Cells::new(sample, family, at)?;
            cells.p_value(sample, seed)
        }),
    }
}

fn largest(sample: &Sample, law: &Law) -> f64 {
    let n = sample.len() as f64;
    let mut below = 0;
    let mut largest: f64 = 0.0;
    for bin in sample.occupied() {
        let before = 1.0 - sample.recorded(law, bin.low) - below as f64 / n;
        below += bin.n;
        let after = 1.0 - sample.recorded(law, bin.high) - below as f64 / n;
        largest = largest.max(before.abs()).max(after.abs());
    }
    largest
}

/// The fitted law in cells of about equal probability.
struct Cells {
    /// The first value of each cell.
    edges: Vec<u64>,
    /// Probability of what is below the end of each cell.
    below: Vec<f64>,
    /// How that changes with each coordinate.
    slope: Vec<[f64; 2]>,
    /// How far one call in a cell moves the estimate, times the number of calls.
    pull: Vec<[f64; 2]>,
}

impl Cells {
    fn new(sample: &Sample, family: Family, at: [f64; 2]) -> Option<Self> {
        let law = Law::at(family, at);
        let mut edges = Vec::new();
        let mut below = Vec::new();
        let mut last = 0.0;
        for edge in sample.edges().take(EDGES_MAX) {
            let under = 1.0 - sample.recorded(&law, edge);
            if edges.is_empty() {
                edges.push(edge);
            } else if under - last >= 1.0 / CELLS {
                edges.push(edge);
                below.push(under);
                last = under;
            }
            if 1.0 - under < 0.5 / CELLS {
                break;
            }
        }
        below.push(1.0);
        let slope = slopes(sample, family, at, &edges);
        let mut cells = Self {
            edges,
            below,
            slope,
            pull: Vec::new(),
        };
        cells.pull = cells.pulls(family.parameters())?;
        Some(cells)
    }

    /// Scores times the inverse of the information that the cells hold.
    fn pulls(&self, dimensions: usize) -> Option<Vec<[f64; 2]>> {
        let mut information = [[0.0; 2]; 2];
        let mut scores = Vec::with_capacity(self.below.len());
        let (mut under, mut slope_under) = (0.0, [0.0; 2]);
        for (&below, &slope) in self.below.iter().zip(&self.slope) {
            let mass: f64 = below - under;
            let score = [0, 1].map(|i| (slope[i] - slope_under[i]) / mass.max(f64::MIN_POSITIVE));
            for (row, left) in information.iter_mut().zip(score) {
                for (entry, right) in row.iter_mut().zip(score) {
                    *entry += mass * left * right;
                }
            }
            scores.push(score);
            (under, slope_under) = (below, slope);
        }
        let m = inverse(information, dimensions);
        // One cell alone says nothing about the parameters.
        (m[0][0] > 0.0).then(|| {
            let turn = |s: [f64; 2]| m.map(|row| row[0] * s[0] + row[1] * s[1]);
            scores.into_iter().map(turn).collect()
        })
    }

    fn p_value(&self, sample: &Sample, seed: u64) -> Option<f64> {
        let n = sample.len();
        let mut counts = vec![0; self.edges.len()];
        for bin in sample.occupied() {
            let cell = self.edges.partition_point(|edge| *edge <= bin.low);
            *counts.get_mut(cell.checked_sub(1)?)? += bin.n;
        }
        let observed = self.distance(&counts, n, [0.0; 2]) * libm::sqrt(n as f64);
        let calls = n.min(CALLS_MAX);
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut as_far = 1;
        for _ in 0..REPLICATES {
            let far = self.replicate(calls, &mut counts, &mut rng);
            as_far += u32::from(far * libm::sqrt(calls as f64) >= observed);
        }
        Some(f64::from(as_far) / f64::from(REPLICATES + 1))
    }

    /// The distance of so many calls drawn from the law to the law fitted to them.
    fn replicate(&self, calls: u64, counts: &mut [u64], rng: &mut Pcg64) -> f64 {
        counts.fill(0);
        let mut moved = [0.0; 2];
        for _ in 0..calls {
            let u = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            let cell = self.below.partition_point(|below| *below <= u);
            if let (Some(count), Some(pull)) = (counts.get_mut(cell), self.pull.get(cell)) {
                *count += 1;
                moved[0] += pull[0];
                moved[1] += pull[1];
            }
        }
        self.distance(counts, calls, moved.map(|m| m / calls as f64))
    }

    /// Largest difference at the edges of cells, with the law moved by this much.
    fn distance(&self, counts: &[u64], n: u64, moved: [f64; 2]) -> f64 {
        let mut seen = 0;
        let mut largest: f64 = 0.0;
        for ((count, below), slope) in counts.iter().zip(&self.below).zip(&self.slope) {
            seen += count;
            let law = below + slope[0] * moved[0] + slope[1] * moved[1];
            largest = largest.max((seen as f64 / n as f64 - law).abs());
        }
        largest
    }
}

/// Derivatives of the probability below the end of each cell, by central differences.
fn slopes(sample: &Sample, family: Family, at: [f64; 2], edges: &[u64]) -> Vec<[f64; 2]> {
    const STEP: f64 = 1e-5;
    let moved = |i: usize, by: f64| {
        let mut to = at;
        if let Some(coordinate) = to.get_mut(i) {
            *coordinate += by;
        }
        Law::at(family, to)
    };
    let laws = [0, 1].map(|i| (moved(i, STEP), moved(i, -STEP)));
    let ends = edges.iter().skip(1).map(|edge| {
        laws.map(|(up, down)| {
            (sample.recorded(&down, *edge) - sample.recorded(&up, *edge)) / (2.0 * STEP)
        })
    });
    // Whatever the parameters, all is below the end of the last.
    ends.chain([[0.0; 2]]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::estimate;
    use super::super::sample::Rounding;
    use super::*;
    use crate::fit::tests::draw;

    fn cells(family: Family, grain: f64) -> (Sample, Cells) {
        let sample = Sample::new(grain, Rounding::Nearest);
        let cells = Cells::new(&sample, family, [4.0, 0.0]).unwrap();
        (sample, cells)
    }

    /// Five percent of the samples of an exponential, and of a lognormal, lie further from their own fit than the known
    /// points of Stephens (1974), 1.094 and 0.895 over the square root of their number.
    #[test]
    fn the_bootstrap_meets_the_known_points_of_fitted_laws() {
        for (family, point) in [(Family::Exponential, 1.094), (Family::Lognormal, 0.895)] {
            let (_, cells) = cells(family, 1e-3);
            let mut rng = Pcg64::seed_from_u64(1);
            let mut counts = vec![0; cells.edges.len()];
            let (runs, calls) = (2_000, 1_000u32);
            let beyond = (0..runs)
                .filter(|_| {
                    let far = cells.replicate(calls.into(), &mut counts, &mut rng);
                    far * f64::from(calls).sqrt() > point
                })
                .count();
            let share = beyond as f64 / f64::from(runs);
            // Five standard errors, and 1% of the point for 1,000 calls and cells instead of ever more: 0.4% of share.
            let tolerance = 5.0 * (0.05 * 0.95 / f64::from(runs)).sqrt() + 0.004;
            assert!((share - 0.05).abs() < tolerance, "{family:?}: {share}");
        }
    }

    /// Under the law itself p-values are uniform: the coarse seconds, the one step and the capped size do no harm.
    #[test]
    fn p_values_of_a_true_law_are_uniform() {
        let law = Law::Gamma {
            shape: 1.7,
            scale: 30.0,
        };
        let runs = 150;
        let mut rng = Pcg64::seed_from_u64(9);
        let mut sum = 0.0;
        let mut small = 0;
        for run in 0..runs {
            let mut sample = Sample::new(5.0, Rounding::Down);
            for _ in 0..250 {
                sample.add((draw(&law, &mut rng) / 5.0) as u64);
            }
            let p = estimate::one(&sample, Family::Gamma, Some(run))
                .distance
                .p_value
                .unwrap();
            sum += p;
            small += u32::from(p <= 0.1);
        }
        let n = runs as f64;
        assert!(
            (sum / n - 0.5).abs() < 5.0 * (1.0 / 12.0 / n).sqrt(),
            "{}",
            sum / n
        );
        assert!(
            (f64::from(small) / n - 0.1).abs() < 5.0 * (0.1 * 0.9 / n).sqrt(),
            "{small}"
        );
    }

    #[test]
    fn another_law_is_found_out() {
        let law = Law::Lognormal {
            mu: 4.0,
            sigma: 1.0,
        };
        let mut rng = Pcg64::seed_from_u64(2);
        let mut sample = Sample::new(1.0, Rounding::Down);
        (0..3_000).for_each(|_| sample.add(draw(&law, &mut rng) as u64));
        let wrong = estimate::one(&sample, Family::Exponential, Some(1)).distance;
        let right = estimate::one(&sample, Family::Lognormal, Some(1)).distance;
        assert_eq!(wrong.p_value, Some(0.001));
        assert!(right.p_value.unwrap() > 0.01, "{right:?}");
        assert!(wrong.ks > 4.0 * right.ks, "{wrong:?} {right:?}");
    }
}
