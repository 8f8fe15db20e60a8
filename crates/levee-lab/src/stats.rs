//! Shares of what was counted, with their 95% intervals.

use levee_smc::estimate::{Interval, ratio, wilson};
use serde::Serialize;

/// Of all intervals of a report.
const CONFIDENCE: f64 = 0.95;

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
        let interval = wilson(part, whole, CONFIDENCE);
        (whole > 0).then(|| Self::with(part as f64 / whole as f64, interval))
    }

    /// The sum of the parts of the sum of the wholes, with an interval from how the runs differ ([`ratio`]). Runs are independent,
    /// whatever calls of one run do to each other.
    ///
    /// `None` for fewer than two runs, or when there is no whole. Ends beyond 0 and 1 are cut off; runs that are all alike,
    /// such as all 0, give an interval of no width.
    #[must_use]
    pub fn over_runs(runs: &[(u64, u64)]) -> Option<Self> {
        let runs = runs
            .iter()
            .map(|&(part, whole)| (part as f64, whole as f64));
        ratio(runs, CONFIDENCE).map(|(estimate, interval)| Self::with(estimate, interval))
    }

    fn with(estimate: f64, interval: Interval) -> Self {
        Self {
            estimate,
            low: interval.low,
            high: interval.high,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_counts_and_of_runs() {
        // Newcombe (1998), table I, 15/148 by method 3.
        let share = Share::of(15, 148).unwrap();
        assert!((share.low - 0.0624).abs() < 5e-5 && (share.high - 0.1605).abs() < 5e-5);
        assert_eq!(Share::of(0, 0), None);
        // By hand: R = 0.5, residuals 2, -2: variance = 8 * 2/1 / 400 = 0.04, t = 12.706.
        let two = Share::over_runs(&[(7, 10), (3, 10)]).unwrap();
        assert_eq!((two.estimate, two.low, two.high), (0.5, 0.0, 1.0));
        let alike = Share::over_runs(&[(5, 10), (10, 20)]).unwrap();
        assert_eq!((alike.low, alike.high), (0.5, 0.5));
        assert_eq!(Share::over_runs(&[(5, 10)]), None);
        assert_eq!(Share::over_runs(&[(0, 0), (0, 0)]), None);
    }
}
