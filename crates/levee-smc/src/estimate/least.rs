//! The worst of many cases.
//!
//! From intervals that hold together (see [`Settings::simultaneous`](super::Settings::simultaneous)) follow intervals of their least value,
//! without a further error: the least of the lower ends is below it, and so the least of the upper ends is above.

use serde::Serialize;

use super::result::Estimate;

/// The least of some values. Numbers that are not known are NaN or infinite: `null` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Least {
    /// The least of the estimates: a little low on average.
    pub estimate: f64,
    /// It is at least this: what is guaranteed.
    pub low: f64,
    /// It is at most this.
    pub high: f64,
    /// Whose estimate is the least.
    #[serde(skip)]
    pub index: usize,
}

impl Least {
    /// Of estimates whose intervals hold together; `None` if there are none. Nothing is known as soon as nothing is known of one.
    #[must_use]
    pub fn of(all: &[Estimate]) -> Option<Self> {
        let least = |value: fn(&Estimate) -> f64| {
            let values = all.iter().map(value);
            values.fold(f64::INFINITY, |least, value| {
                if least.is_nan() || value.is_nan() {
                    f64::NAN
                } else {
                    least.min(value)
                }
            })
        };
        let each = all.iter().enumerate();
        let (index, _) = each.min_by(|one, other| one.1.estimate.total_cmp(&other.1.estimate))?;
        Some(Self {
            estimate: least(|e| e.estimate),
            low: least(|e| e.low),
            high: least(|e| e.high),
            index,
        })
    }

    /// How much the least of `one` exceeds the least of `other`. `differences` has the interval of each difference, of common random numbers;
    /// all intervals of all three must hold together. `None` if the lengths are not the same, or nothing is there.
    ///
    /// Where `one` is least, `other` is no less than its own least: so that difference is a lower bound. Where `other` is least, likewise, it is
    /// an upper one. Which case is the least is not known; those are tried that may be. This is narrower
    /// than what both intervals alone would give, when the two have their chance in common.
    #[must_use]
    pub fn difference(
        one: &[Estimate],
        other: &[Estimate],
        differences: &[Estimate],
    ) -> Option<Self> {
        if one.len() != other.len() || one.len() != differences.len() {
            return None;
        }
        let (first, second) = (Self::of(one)?, Self::of(other)?);
        let maybe = |all: &[Estimate], least: &Self| -> Vec<usize> {
            let each = all.iter().enumerate();
            // What is not known may be the least.
            let may =
                each.filter(|(_, e)| e.low <= least.high || e.low.is_nan() || least.high.is_nan());
            may.map(|(i, _)| i).collect()
        };
        let ends = |which: &[usize], end: fn(&Estimate) -> f64| -> Vec<f64> {
            which
                .iter()
                .filter_map(|i| differences.get(*i))
                .map(end)
                .collect()
        };
        let lows = ends(&maybe(one, &first), |e| e.low);
        let highs = ends(&maybe(other, &second), |e| e.high);
        let unknown = |all: &[f64]| all.iter().any(|end| end.is_nan());
        let low = if unknown(&lows) {
            f64::NEG_INFINITY
        } else {
            lows.into_iter().fold(f64::INFINITY, f64::min)
        };
        let high = if unknown(&highs) {
            f64::INFINITY
        } else {
            highs.into_iter().fold(f64::NEG_INFINITY, f64::max)
        };
        // `max` and `min` pass over what is not a number.
        Some(Self {
            estimate: first.estimate - second.estimate,
            low: low.max(first.low - second.high),
            high: high.min(first.high - second.low),
            index: first.index,
        })
    }
}

#[cfg(test)]
mod tests {
    use rand_core::Rng as _;
    use rand_pcg::Pcg64;

    use super::super::result::{Method, Stopped};
    use super::*;

    fn interval(estimate: f64, half: f64) -> Estimate {
        Estimate {
            name: String::new(),
            parameter: None,
            verdict: None,
            estimate,
            low: estimate - half,
            high: estimate + half,
            confidence: 0.95,
            simultaneous: None,
            method: Method::Student,
            runs: 10,
            decided_after: None,
            stopped: Stopped::Runs,
            warnings: Vec::new(),
        }
    }

    fn all(of: &[(f64, f64)]) -> Vec<Estimate> {
        of.iter().map(|(e, half)| interval(*e, *half)).collect()
    }

    #[track_caller]
    fn check(found: Option<Least>, expect: (f64, f64, f64, usize)) {
        let found = found.unwrap();
        let ends = [found.estimate, found.low, found.high];
        for (end, expect) in ends.into_iter().zip([expect.0, expect.1, expect.2]) {
            let same = end == expect || end.is_nan() && expect.is_nan();
            assert!(same || (end - expect).abs() < 1e-12, "{found:?}");
        }
        assert_eq!(found.index, expect.3);
    }

    #[test]
    fn the_least_has_the_least_ends() {
        check(
            Least::of(&all(&[(0.7, 0.01), (0.5, 0.02), (0.53, 0.1)])),
            (0.5, 0.43, 0.52, 1),
        );
        assert_eq!(Least::of(&[]), None);
        let nan = f64::NAN;
        check(
            Least::of(&all(&[(nan, nan), (0.5, 0.1)])),
            (nan, nan, nan, 1),
        );
    }

    #[test]
    fn the_difference_of_the_least_is_that_of_the_case_that_is_least() {
        // Both are surely least in the second case: its difference is all there is to know.
        let one = all(&[(0.9, 0.05), (0.6, 0.05)]);
        let other = all(&[(0.8, 0.05), (0.5, 0.05)]);
        let differences = all(&[(0.1, 0.01), (0.1, 0.02)]);
        check(
            Least::difference(&one, &other, &differences),
            (0.1, 0.08, 0.12, 1),
        );
        // Where the second may be least in either case, the upper end is the larger one.
        let other = all(&[(0.52, 0.05), (0.5, 0.05)]);
        let differences = all(&[(0.38, 0.01), (0.1, 0.02)]);
        check(
            Least::difference(&one, &other, &differences),
            (0.1, 0.08, 0.2, 1),
        );
        assert_eq!(Least::difference(&one, &other, &differences[1..]), None);
        let nothing = all(&[(f64::NAN, f64::NAN), (f64::NAN, f64::NAN)]);
        let unknown = Least::difference(&nothing, &nothing, &nothing).unwrap();
        assert_eq!(
            (unknown.low, unknown.high),
            (f64::NEG_INFINITY, f64::INFINITY)
        );
    }

    /// Intervals that hold make one that holds, whatever the values.
    #[test]
    fn it_holds_whenever_all_do() {
        let mut rng = Pcg64::new(7, 11);
        let mut unit = || (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        for _ in 0..20_000 {
            let (mut one, mut other, mut differences) = (Vec::new(), Vec::new(), Vec::new());
            let (mut least_one, mut least_other) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..4 {
                let (a, b) = (unit(), unit());
                least_one = least_one.min(a);
                least_other = least_other.min(b);
                for (list, truth) in [(&mut one, a), (&mut other, b), (&mut differences, a - b)] {
                    let half = 0.3 * unit();
                    list.push(interval(truth + half * (2.0 * unit() - 1.0), half));
                }
            }
            let truth = least_one - least_other;
            let found = Least::difference(&one, &other, &differences).unwrap();
            assert!(
                found.low <= truth && truth <= found.high,
                "{truth} {found:?}"
            );
        }
    }
}
