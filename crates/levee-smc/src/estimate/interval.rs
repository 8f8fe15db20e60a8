//! Intervals of probabilities and of means.

use serde::Serialize;

use super::distribution::{beta, normal, student};

/// Where a number lies, with some confidence. An end that is not known is infinite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
    };

    /// Half its width.
    #[must_use]
    pub fn half(&self) -> f64 {
        0.5 * (self.high - self.low)
    }

    /// Does it hold `value`?
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Clopper and Pearson's interval of a probability (Biometrika 26, 1934): `successes` of `runs`. It is exact: never less sure than
/// `confidence`, whatever the probability. 0..1 without runs.
#[must_use]
pub fn clopper_pearson(successes: u64, runs: u64, confidence: f64) -> Interval {
    debug_assert!(successes <= runs);
    let (tail, failures) = (0.5 * (1.0 - confidence), runs - successes);
    let low = if successes == 0 {
        0.0
    } else {
        beta(tail, successes as f64, failures as f64 + 1.0)
    };
    let high = if failures == 0 {
        1.0
    } else {
        beta(1.0 - tail, successes as f64 + 1.0, failures as f64)
    };
    Interval { low, high }
}

/// Wilson's score interval of a probability (JASA 22, 1927): narrower than Clopper and Pearson's, right on average over probabilities,
/// not for each. 0..1 without runs.
///
/// It takes the `runs` as independent. Calls of one run are not: there, use the [`ratio`](super::ratio).
#[must_use]
pub fn wilson(successes: u64, runs: u64, confidence: f64) -> Interval {
    debug_assert!(successes <= runs);
    if runs == 0 {
        return Interval {
            low: 0.0,
            high: 1.0,
        };
    }
    let z = normal(1.0 - 0.5 * (1.0 - confidence));
    let (n, p, z2) = (runs as f64, successes as f64 / runs as f64, z * z);
    let centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = z / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    Interval {
        // At the ends the formula gives 0 and 1 but for rounding.
        low: if successes == 0 { 0.0 } else { centre - half },
        high: if successes == runs {
            1.0
        } else {
            centre + half
        },
    }
}

/// How many runs make the estimate of a probability, or of anything within 0 and 1, lie within `precision` of the truth with
/// `confidence`: `ln(2 / alpha) / (2 precision^2)` (Okamoto 1959; Hoeffding 1963).
#[must_use]
pub fn okamoto_runs(precision: f64, confidence: f64) -> u64 {
    (libm::log(2.0 / (1.0 - confidence)) / (2.0 * precision * precision)).ceil() as u64
}

/// The interval that Okamoto's bound gives after `runs`. 0..1 without runs.
#[must_use]
pub fn okamoto(successes: u64, runs: u64, confidence: f64) -> Interval {
    debug_assert!(successes <= runs);
    let n = runs.max(1) as f64;
    let (p, half) = (
        successes as f64 / n,
        (libm::log(2.0 / (1.0 - confidence)) / (2.0 * n)).sqrt(),
    );
    Interval {
        low: (p - half).max(0.0),
        high: if runs == 0 { 1.0 } else { (p + half).min(1.0) },
    }
}

/// Half the width of Student's interval of a mean of `n` independent values with the sample variance `variance`. Infinite for fewer than two.
#[must_use]
pub fn student_half(variance: f64, n: u64, confidence: f64) -> f64 {
    if n < 2 {
        return f64::INFINITY;
    }
    student(1.0 - 0.5 * (1.0 - confidence), n - 1) * (variance / n as f64).sqrt()
}

/// The difference of two independent estimates, with an interval from theirs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// The one less the other.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end. When 0 lies between, the two may be the same.
    pub high: f64,
}

impl Gap {
    /// Does the interval hold no difference at all?
    #[must_use]
    pub fn holds_zero(&self) -> bool {
        self.low <= 0.0 && 0.0 <= self.high
    }
}

/// `one` less `other`, independent of each other, each an estimate with its interval of the same confidence: such as a prediction and a
/// measurement. The interval of the difference has that confidence too (the method of variance estimates recovery: Zou and
/// Donner, Statistics in Medicine 27, 2008; Newcombe's method 10 when both are Wilson's).
#[must_use]
pub fn gap(one: (f64, Interval), other: (f64, Interval)) -> Gap {
    let ((x, a), (y, b)) = (one, other);
    let spread = |down: f64, up: f64| (down * down + up * up).sqrt();
    Gap {
        estimate: x - y,
        low: x - y - spread(x - a.low, b.high - y),
        high: x - y + spread(a.high - x, y - b.low),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: Interval, low: f64, high: f64) {
        assert!(
            (got.low - low).abs() < 5.1e-5 && (got.high - high).abs() < 5.1e-5,
            "{got:?}, not {low}..{high}"
        );
    }

    #[test]
    fn wilson_against_newcombe() {
        // Newcombe (Statistics in Medicine 17, 1998), table I, method 3.
        for (part, whole, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            close(wilson(part, whole, 0.95), low, high);
        }
        assert_eq!(wilson(7, 7, 0.95).high, 1.0);
        assert_eq!(wilson(0, 0, 0.95).half(), 0.5);
    }

    #[test]
    fn clopper_pearson_against_newcombe() {
        // The same table, method 5.
        for (part, whole, low, high) in [
            (81, 263, 0.2527, 0.3676),
            (15, 148, 0.0578, 0.1617),
            (0, 20, 0.0, 0.1684),
            (1, 29, 0.0009, 0.1776),
        ] {
            close(clopper_pearson(part, whole, 0.95), low, high);
        }
        // The rule of three: 1 - (alpha/2)^(1/n).
        let all = clopper_pearson(300, 300, 0.9);
        assert!((all.low - 0.05_f64.powf(1.0 / 300.0)).abs() < 1e-12 && all.high == 1.0);
        assert_eq!(clopper_pearson(0, 0, 0.95).half(), 0.5);
    }

    #[test]
    fn clopper_pearson_is_exact_for_every_probability() {
        // Coverage by summing the binomial, not by drawing.
        for n in [5_u64, 30, 100] {
            let intervals: Vec<_> = (0..=n).map(|k| clopper_pearson(k, n, 0.95)).collect();
            for step in 1..200 {
                let p = f64::from(step) / 200.0;
                let mut term = (1.0 - p).powi(n as i32);
                let mut covered = 0.0;
                for (k, interval) in (0..=n).zip(&intervals) {
                    covered += if interval.holds(p) { term } else { 0.0 };
                    term *= (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
                }
                assert!(covered >= 0.95 - 1e-12, "{n} {p}: {covered}");
            }
        }
    }

    #[test]
    fn okamoto_against_its_formula() {
        // ln(2/0.01) / (2 0.01^2) = 26491.6; ln(2/0.05) / (2 0.05^2) = 737.8.
        assert_eq!(okamoto_runs(0.01, 0.99), 26_492);
        assert_eq!(okamoto_runs(0.05, 0.95), 738);
        assert!(okamoto(369, 738, 0.95).half() <= 0.05);
        assert!(okamoto(368, 737, 0.95).half() > 0.05);
        assert_eq!(okamoto(0, 0, 0.95).half(), 0.5);
        assert_eq!(okamoto(738, 738, 0.95).high, 1.0);
    }

    #[test]
    fn gap_against_newcombe() {
        // Newcombe (Statistics in Medicine 17, 1998, 873), table II, method 10: 56/70 - 48/80 and 9/10 - 3/10.
        let of = |k, n| (k as f64 / n as f64, wilson(k, n, 0.95));
        let wide = gap(of(56, 70), of(48, 80));
        assert!((wide.low - 0.0524).abs() < 5.1e-5 && (wide.high - 0.3339).abs() < 5.1e-5);
        let narrow = gap(of(9, 10), of(3, 10));
        assert!((narrow.low - 0.1705).abs() < 5.1e-5 && (narrow.high - 0.8090).abs() < 5.1e-5);
        assert!(!narrow.holds_zero() && gap(of(5, 10), of(4, 10)).holds_zero());
    }
}
