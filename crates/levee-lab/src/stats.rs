//! Intervals and quantiles of what was counted.

use serde::Serialize;

/// 97.5% quantile of the standard normal: two-sided 95%.
const Z: f64 = 1.959_963_984_540_054;

/// A share of a count with its 95% interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// What was found.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Share {
    /// `part` of `whole` with Wilson's interval; `None` when there is no whole.
    ///
    /// The interval is conditional on `whole` and takes each of it as independent of the others. Calls of one run are not:
    /// they meet the same full server. It is then too narrow, and [`Share::over_runs`] is the honest one.
    #[must_use]
    pub fn of(part: u64, whole: u64) -> Option<Self> {
        if whole == 0 {
            return None;
        }
        let (n, p) = (whole as f64, part as f64 / whole as f64);
        let z2 = Z * Z;
        let centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let half = Z / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
        Some(Self {
            estimate: p,
            // At the ends the formula gives 0 and 1 but for rounding.
            low: if part == 0 { 0.0 } else { centre - half },
            high: if part == whole { 1.0 } else { centre + half },
        })
    }
}

impl Share {
    /// The sum of the parts of the sum of the wholes, with an interval from how the runs differ: the ratio estimator with its
    /// variance by the delta method and Student's t. Runs are independent, whatever calls of one run do to each other.
    ///
    /// `None` for fewer than two runs, or when there is no whole. Ends beyond 0 and 1 are cut off; runs that are all alike,
    /// such as all 0, give an interval of no width.
    #[must_use]
    pub fn over_runs(runs: &[(u64, u64)]) -> Option<Self> {
        let (m, whole) = (runs.len(), runs.iter().map(|r| r.1).sum::<u64>() as f64);
        if m < 2 || whole == 0.0 {
            return None;
        }
        let estimate = runs.iter().map(|r| r.0).sum::<u64>() as f64 / whole;
        let squares = runs
            .iter()
            .map(|&(part, n)| (part as f64 - estimate * n as f64).powi(2));
        let variance = squares.sum::<f64>() * m as f64 / (m - 1) as f64 / (whole * whole);
        let half = student_975(m - 1) * variance.sqrt();
        Some(Self {
            estimate,
            low: (estimate - half).max(0.0),
            high: (estimate + half).min(1.0),
        })
    }
}

/// 97.5% quantile of Student's t.
fn student_975(freedom: usize) -> f64 {
    /// Exact up to 9 degrees; above, three terms of the expansion around the normal (Abramowitz and Stegun 26.7.5) are
    /// right to four digits.
    const FEW: [f64; 9] = [
        12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622,
    ];
    let exact = freedom.checked_sub(1).and_then(|i| FEW.get(i));
    exact.copied().unwrap_or_else(|| {
        let (n, z) = (freedom as f64, Z);
        let g1 = (z.powi(3) + z) / 4.0;
        let g2 = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
        let g3 = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
        z + g1 / n + g2 / (n * n) + g3 / n.powi(3)
    })
}

/// The smallest value that at least `q` of all are not above; `None` of nothing. `sorted` must be.
#[must_use]
pub fn quantile<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng as _, SeedableRng as _};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn wilson_against_known_values() {
        // Newcombe (1998), table I: 81/263, 15/148, 0/20, 1/29 by method 3.
        for (part, whole, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let s = Share::of(part, whole).unwrap();
            assert!((s.low - low).abs() < 5e-5, "{part}/{whole}: {s:?}");
            assert!((s.high - high).abs() < 5e-5, "{part}/{whole}: {s:?}");
        }
        assert_eq!(Share::of(0, 0), None);
        assert_eq!(Share::of(7, 7).unwrap().high, 1.0);
    }

    #[test]
    fn student_against_the_table() {
        for (freedom, t) in [
            (1, 12.706),
            (9, 2.262),
            (10, 2.228),
            (20, 2.086),
            (120, 1.980),
        ] {
            assert!((student_975(freedom) - t).abs() < 6e-4, "{freedom}");
        }
    }

    #[test]
    fn runs_that_differ_widen_the_interval_and_equal_ones_do_not() {
        // By hand: R = 0.5, residuals 2, -2: variance = 8 * 2/1 / 400 = 0.04, t = 12.706.
        let two = Share::over_runs(&[(7, 10), (3, 10)]).unwrap();
        assert_eq!((two.estimate, two.low, two.high), (0.5, 0.0, 1.0));
        // R = 0.5, residuals 1, -1 four times: variance = 8 * 8/7 / 6400, t(7) = 2.3646.
        let eight: Vec<_> = (0..8).map(|i| (5 + 2 * (i % 2) - 1, 10)).collect();
        let eight = Share::over_runs(&eight).unwrap();
        let half = 2.3646 * (8.0 * 8.0 / 7.0 / 6_400.0_f64).sqrt();
        assert!(
            (eight.high - eight.estimate - half).abs() < 1e-12,
            "{eight:?}"
        );
        let alike = Share::over_runs(&[(5, 10), (10, 20)]).unwrap();
        assert_eq!((alike.low, alike.high), (0.5, 0.5));
        assert_eq!(Share::over_runs(&[(5, 10)]), None);
        assert_eq!(Share::over_runs(&[(0, 0), (0, 0)]), None);
    }

    #[test]
    fn an_interval_over_runs_covers_where_wilson_does_not() {
        // Calls of a run share its luck: the share of each run is 0.2 or 0.8. 200 studies of 20 runs of 50 calls.
        let mut rng = Pcg64::seed_from_u64(1);
        let (mut covered, mut covered_by_wilson) = (0, 0);
        for _ in 0..200 {
            let runs: Vec<(u64, u64)> = (0..20)
                .map(|_| {
                    if rng.next_u32() % 2 == 0 {
                        (10, 50)
                    } else {
                        (40, 50)
                    }
                })
                .collect();
            let holds = |s: Share| u32::from(s.low <= 0.5 && 0.5 <= s.high);
            covered += holds(Share::over_runs(&runs).unwrap());
            covered_by_wilson += holds(Share::of(runs.iter().map(|r| r.0).sum(), 1_000).unwrap());
        }
        // 190 expected, 5 standard deviations of a binomial.
        assert!(
            f64::from(covered) > 190.0 - 5.0 * (200.0 * 0.95 * 0.05_f64).sqrt(),
            "{covered}"
        );
        assert!(covered_by_wilson < 100, "{covered_by_wilson}");
    }

    #[test]
    fn quantiles() {
        let all: Vec<u32> = (1..=100).collect();
        assert_eq!(quantile(&all, 0.5), Some(50));
        assert_eq!(quantile(&all, 0.99), Some(99));
        assert_eq!(quantile(&all, 1.0), Some(100));
        assert_eq!(quantile(&all, 0.0), Some(1));
        assert_eq!(quantile::<u32>(&[], 0.5), None);
    }
}
