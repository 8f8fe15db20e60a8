//! Intervals and quantiles of what was counted.

use serde::Serialize;

/// 97.5% quantile of the standard normal: two-sided 95%.
const Z: f64 = 1.959_963_984_540_054;

/// A share of a count with its 95% interval by Wilson's score.
///
/// Where arrivals are random the interval is conditional on how many calls there were.
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
    /// `part` of `whole`; `None` when there is no whole.
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

/// The smallest value that at least `q` of all are not above; `None` of nothing. `sorted` must be.
#[must_use]
pub fn quantile<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
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
    fn quantiles() {
        let all: Vec<u32> = (1..=100).collect();
        assert_eq!(quantile(&all, 0.5), Some(50));
        assert_eq!(quantile(&all, 0.99), Some(99));
        assert_eq!(quantile(&all, 1.0), Some(100));
        assert_eq!(quantile(&all, 0.0), Some(1));
        assert_eq!(quantile::<u32>(&[], 0.5), None);
    }
}
