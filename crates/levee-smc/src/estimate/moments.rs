//! Functions of means, with their intervals: means, ratios, and differences of either over the same runs.
//!
//! One pass, in the order of the runs: what comes out does not depend on who did the runs.

use super::interval::{Interval, student_half};

/// Most columns that one estimate is made of: two of each of two ratios.
const COLUMNS_MAX: usize = 4;

/// A spread this much smaller than what it is the difference of is rounding.
const ROUNDING: f64 = 1e-13;

/// Which function of the means of some columns is estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// `E[0]`.
    Mean([usize; 1]),
    /// `E[0] / E[1]`.
    Ratio([usize; 2]),
    /// `E[0] - E[1]`.
    Difference([usize; 2]),
    /// `E[0] / E[1] - E[2] / E[3]`.
    RatioDifference([usize; 4]),
}

impl Form {
    pub(crate) fn columns(&self) -> &[usize] {
        match self {
            Self::Mean(columns) => columns,
            Self::Ratio(columns) | Self::Difference(columns) => columns,
            Self::RatioDifference(columns) => columns,
        }
    }

    /// Its value at these means, and its derivatives there.
    fn at(&self, mean: &[f64; COLUMNS_MAX]) -> (f64, [f64; COLUMNS_MAX]) {
        let [a, b, c, d] = *mean;
        match self {
            Self::Mean(_) => (a, [1.0, 0.0, 0.0, 0.0]),
            Self::Ratio(_) => (a / b, [1.0 / b, -a / (b * b), 0.0, 0.0]),
            Self::Difference(_) => (a - b, [1.0, -1.0, 0.0, 0.0]),
            Self::RatioDifference(_) => (
                a / b - c / d,
                [1.0 / b, -a / (b * b), -1.0 / d, c / (d * d)],
            ),
        }
    }
}

/// Means of a few columns and the products of their deviations (Welford 1962, for several columns).
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    columns: usize,
    n: u64,
    mean: [f64; COLUMNS_MAX],
    /// Sum over runs of `(x_i - mean_i) (x_j - mean_j)`, for `j <= i`.
    products: [[f64; COLUMNS_MAX]; COLUMNS_MAX],
}

impl Moments {
    pub(crate) fn new(columns: usize) -> Self {
        assert!((1..=COLUMNS_MAX).contains(&columns));
        Self {
            columns,
            n: 0,
            mean: [0.0; COLUMNS_MAX],
            products: [[0.0; COLUMNS_MAX]; COLUMNS_MAX],
        }
    }

    pub(crate) fn push(&mut self, values: &[f64]) {
        debug_assert_eq!(values.len(), self.columns);
        self.n += 1;
        let n = self.n as f64;
        let mut before = [0.0; COLUMNS_MAX];
        for (i, &value) in values.iter().enumerate() {
            before[i] = value - self.mean[i];
            self.mean[i] += before[i] / n;
            let after = value - self.mean[i];
            let others = before[..=i].iter();
            for (product, before) in self.products[i].iter_mut().zip(others) {
                *product += after * before;
            }
        }
    }

    pub(crate) fn n(&self) -> u64 {
        self.n
    }

    pub(crate) fn mean(&self, column: usize) -> f64 {
        self.mean[column]
    }

    /// Sum of the squared deviations of the first column.
    pub(crate) fn squares(&self) -> f64 {
        self.products[0][0]
    }

    /// Sample variance of the sum of the columns weighted so; 0 if it is no more than rounding.
    fn variance(&self, weights: &[f64; COLUMNS_MAX]) -> f64 {
        let (mut sum, mut greatest) = (0.0, 0.0);
        for i in 0..self.columns {
            let own = weights[i] * weights[i] * self.products[i][i];
            sum += own;
            greatest += own;
            for j in 0..i {
                sum += 2.0 * weights[i] * weights[j] * self.products[i][j];
            }
        }
        if sum <= ROUNDING * greatest || self.n < 2 {
            return 0.0;
        }
        sum / (self.n - 1) as f64
    }

    /// Estimate and interval of `form` of these columns: exact for normal means, else by the delta method. `None` of nothing, or of 0 / 0.
    pub(crate) fn estimate(&self, form: Form, confidence: f64) -> Option<(f64, Interval, bool)> {
        debug_assert_eq!(form.columns().len(), self.columns);
        let (estimate, slope) = form.at(&self.mean);
        if self.n == 0 || !estimate.is_finite() {
            return None;
        }
        let variance = self.variance(&slope);
        let half = student_half(variance, self.n, confidence);
        let interval = if half.is_finite() {
            Interval {
                low: estimate - half,
                high: estimate + half,
            }
        } else {
            Interval::UNKNOWN
        };
        Some((estimate, interval, variance == 0.0))
    }
}

/// The sum of the parts over the sum of the wholes of independent runs, with its interval: for a share of a random count, such as of the
/// calls of a run, which depend on each other. Its variance is by the delta method (Cochran, Sampling Techniques, 6.4).
///
/// The estimate is off by a share of about `1/n` of its own spread, and below some 30 runs, or when the wholes vary by more than half their
/// mean, the interval is a little too narrow. Ends beyond 0 and 1 are cut off when every part lies between 0 and its whole.
///
/// `None` for fewer than two runs, or when there is no whole. Runs that all have the same share give an interval of no width.
#[must_use]
pub fn ratio(
    runs: impl IntoIterator<Item = (f64, f64)>,
    confidence: f64,
) -> Option<(f64, Interval)> {
    let (mut moments, mut share) = (Moments::new(2), true);
    for (part, whole) in runs {
        moments.push(&[part, whole]);
        share &= is_share(part, whole);
    }
    if moments.n() < 2 {
        return None;
    }
    let (estimate, interval, _) = moments.estimate(Form::Ratio([0, 1]), confidence)?;
    Some((
        estimate,
        if share {
            within_one(interval)
        } else {
            interval
        },
    ))
}

/// Could this be a part of a whole?
pub(crate) fn is_share(part: f64, whole: f64) -> bool {
    0.0 <= part && part <= whole
}

/// The part of an interval within 0 and 1.
pub(crate) fn within_one(interval: Interval) -> Interval {
    Interval {
        low: interval.low.max(0.0),
        high: interval.high.min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_against_a_worked_example() {
        // 1..=5: mean 3, variance 2.5, t(4) = 2.776445: 3 -+ 1.963243.
        let mut moments = Moments::new(1);
        (1..=5).for_each(|x| moments.push(&[f64::from(x)]));
        let (mean, interval, flat) = moments.estimate(Form::Mean([0]), 0.95).unwrap();
        assert_eq!((mean, flat), (3.0, false));
        assert!(
            (interval.half() - 1.963_243_161).abs() < 1e-8,
            "{interval:?}"
        );
    }

    #[test]
    fn far_from_zero_nothing_is_lost() {
        let mut moments = Moments::new(1);
        (0..1_000).for_each(|i| moments.push(&[1e9 + f64::from(i % 2)]));
        assert!((moments.variance(&[1.0, 0.0, 0.0, 0.0]) - 250.0 / 999.0).abs() < 1e-9);
    }

    #[test]
    fn ratio_by_hand() {
        // R = 0.5, residuals 2, -2: variance = 8 * 2/1 / 400 = 0.04, t(1) = 12.706: beyond both ends.
        let (estimate, interval) = ratio([(7.0, 10.0), (3.0, 10.0)], 0.95).unwrap();
        assert_eq!((estimate, interval.low, interval.high), (0.5, 0.0, 1.0));
        // R = 0.5, residuals 1, -1 four times each: variance = 8 * 8/7 / 6400, t(7) = 2.364624.
        let eight = (0..8).map(|i| (f64::from(5 + 2 * (i % 2) - 1), 10.0));
        let (_, eight) = ratio(eight, 0.95).unwrap();
        let half = 2.364_624_252 * (8.0 * 8.0 / 7.0 / 6_400.0_f64).sqrt();
        assert!((eight.half() - half).abs() < 1e-9, "{eight:?}");
        // Not a share: nothing is cut off.
        let (_, odd) = ratio([(7.0, 10.0), (-3.0, 10.0)], 0.95).unwrap();
        assert!(odd.low < 0.0 && odd.high > 1.0);
    }

    #[test]
    fn alike_is_no_spread_despite_rounding() {
        let (estimate, interval) = ratio(
            (1..50).map(|i| (0.1 * f64::from(i), 0.3 * f64::from(i))),
            0.95,
        )
        .unwrap();
        assert!((estimate - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(interval.half(), 0.0);
        assert_eq!(ratio([(5.0, 10.0)], 0.95), None);
        assert_eq!(ratio([(0.0, 0.0), (0.0, 0.0)], 0.95), None);
    }

    #[test]
    fn differences_use_what_the_runs_have_in_common() {
        // Two columns that differ by 1 and a little: their common part, however wide, is not in the difference.
        let mut moments = Moments::new(2);
        for i in 0..100 {
            let common = f64::from(i * 37 % 100);
            moments.push(&[common + 1.0 + 0.01 * f64::from(i % 2), common]);
        }
        let (difference, interval, _) = moments.estimate(Form::Difference([0, 1]), 0.95).unwrap();
        assert!((difference - 1.005).abs() < 1e-12);
        // sd = 0.005 * sqrt(100/99), t(99) = 1.984217.
        assert!((interval.half() - 1.984_217 * 0.005 / 99.0_f64.sqrt()).abs() < 1e-8);
    }

    #[test]
    fn a_difference_of_ratios_by_hand() {
        // Residuals of the first +-1 over mean 10, of the second +-1 over 20, in step: (0.1 - 0.05) each way.
        let mut moments = Moments::new(4);
        for i in 0..8 {
            let sign = f64::from(2 * (i % 2) - 1);
            moments.push(&[5.0 + sign, 10.0, 5.0 + sign, 20.0]);
        }
        let (difference, interval, _) = moments
            .estimate(Form::RatioDifference([0, 1, 2, 3]), 0.95)
            .unwrap();
        assert!((difference - 0.25).abs() < 1e-15);
        let half = 2.364_624_252 * 0.05 * (8.0 / 7.0_f64 / 8.0).sqrt();
        assert!((interval.half() - half).abs() < 1e-9, "{interval:?}");
    }
}
