//! Whether victims are drawn by the law of their strategy.

use levee_policy::selective::{DropFactor, Strategy};
use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::{Candidate, none_of, weights};

/// The error of one test.
pub const ALPHA: f64 = 1e-6;
/// Cells with less than this many expected draws are put together.
const EXPECTED_MIN: f64 = 10.0;

/// Fails unless the counts go with the probabilities.
pub fn chi_square(counts: &[u64], probabilities: &[f64], what: &str) {
    let draws = counts.iter().sum::<u64>() as f64;
    let (mut statistic, mut cells) = (0.0, 0);
    let (mut rest, mut rest_expected) = (0.0, 0.0);
    for (count, probability) in counts.iter().zip(probabilities) {
        let (count, expected) = (*count as f64, probability * draws);
        assert!(
            expected > 0.0 || count == 0.0,
            "{what}: drawn though impossible"
        );
        if expected < EXPECTED_MIN {
            rest += count;
            rest_expected += expected;
        } else {
            statistic += (count - expected).powi(2) / expected;
            cells += 1;
        }
    }
    if rest_expected >= EXPECTED_MIN {
        statistic += (rest - rest_expected).powi(2) / rest_expected;
        cells += 1;
    } else {
        // Too few for a cell: a Poisson count of mean below 10 passes 40 with less than 10^-12.
        assert!(
            rest <= 40.0,
            "{what}: {rest} draws of calls that expect {rest_expected}"
        );
    }
    if cells < 2 {
        return;
    }
    let p = ChiSquared::new(f64::from(cells - 1)).unwrap().sf(statistic);
    assert!(
        p > ALPHA,
        "{what}: chi-square {statistic} over {cells} cells, p = {p:e}\n{counts:?}\n{probabilities:?}"
    );
}

/// Where a victim lies on the line of all probabilities, calls in the order of their drop factors: from where, and how far.
pub fn interval(
    strategy: Strategy,
    capacity: u32,
    calls: &[Candidate],
    d: &DropFactor,
    victim: usize,
) -> (f64, f64) {
    let m = calls.len();
    let weights = weights(calls, d);
    let own = weights[victim];
    let above = |index: usize| weights[index] > own || (weights[index] == own && index < victim);
    match strategy {
        Strategy::Uniform => (
            (0..m).filter(|index| above(*index)).count() as f64 / m as f64,
            1.0 / m as f64,
        ),
        Strategy::Roulette => {
            let sum: f64 = weights.iter().sum();
            (
                (0..m)
                    .filter(|index| above(*index))
                    .map(|index| weights[index])
                    .sum::<f64>()
                    / sum,
                own / sum,
            )
        }
        Strategy::Tournament { size } => {
            let n = size.unwrap_or(capacity / 2) as usize;
            let larger = weights.iter().filter(|weight| **weight > own).count();
            let same = weights.iter().filter(|weight| **weight == own).count();
            let before = (0..m).filter(|index| above(*index)).count() - larger;
            let (from, to) = (
                1.0 - none_of(m, n, larger),
                1.0 - none_of(m, n, larger + same),
            );
            let share = (to - from) / same as f64;
            (from + share * before as f64, share)
        }
    }
}
