//! A number that is not known for certain.

use core::ops::Add;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An estimate with its interval: `low <= likely <= high`. A bound that is not known is infinite.
///
/// JSON has no infinity: a bound that is not known is written as `null`, and so read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// It is hardly less than this.
    #[serde(serialize_with = "write", deserialize_with = "read_low")]
    pub low: f64,
    /// The estimate.
    pub likely: f64,
    /// It is hardly more than this.
    #[serde(serialize_with = "write", deserialize_with = "read_high")]
    pub high: f64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn write<S: Serializer>(bound: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    bound.is_finite().then_some(*bound).serialize(serializer)
}

fn read_low<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NEG_INFINITY))
}

fn read_high<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_is_not_known_survives_its_text() {
        for (range, text) in [
            (
                Range::exactly(1.5),
                r#"{"low":1.5,"likely":1.5,"high":1.5}"#,
            ),
            (
                Range {
                    low: 1.0,
                    likely: 2.0,
                    high: f64::INFINITY,
                },
                r#"{"low":1.0,"likely":2.0,"high":null}"#,
            ),
            (
                Range {
                    low: f64::NEG_INFINITY,
                    likely: 2.0,
                    high: 3.0,
                },
                r#"{"low":null,"likely":2.0,"high":3.0}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&range).unwrap(), text);
            assert_eq!(serde_json::from_str::<Range>(text).unwrap(), range);
        }
    }
}
