//! A number that is not known for certain.

use core::ops::Add;

use serde::{Deserialize, Serialize};

/// An estimate with its interval: `low <= likely <= high`. A bound that is not known is infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// It is hardly less than this.
    pub low: f64,
    /// The estimate.
    pub likely: f64,
    /// It is hardly more than this.
    pub high: f64,
}

impl Range {
    /// A number that is known.
    #[must_use]
    pub const fn exactly(value: f64) -> Self {
        Self {
            low: value,
            likely: value,
            high: value,
        }
    }

    /// With each bound multiplied by `factor`, which is not negative.
    #[must_use]
    pub fn scale(self, factor: f64) -> Self {
        debug_assert!(
            factor >= 0.0,
            "a negative factor would turn the bounds around"
        );
        Self {
            low: self.low * factor,
            likely: self.likely * factor,
            high: self.high * factor,
        }
    }

    /// Whether `value` is within.
    #[must_use]
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Bound by bound: as if all were high, or low, at once.
impl Add for Range {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            low: self.low + other.low,
            likely: self.likely + other.likely,
            high: self.high + other.high,
        }
    }
}
