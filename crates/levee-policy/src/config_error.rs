//! What is said of a `[defense]` table that cannot be run, and the checks that say it.

use alloc::{
    format,
    string::{String, ToString},
};
use core::fmt;

use crate::Span;

/// A configuration that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The key inside the `[defense]` table, for example `drop_factor.alpha`.
    pub key: String,
    /// What it is.
    pub value: String,
    /// What it may be.
    pub expected: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is {}, expected {}",
            self.key, self.value, self.expected
        )
    }
}

impl core::error::Error for ConfigError {}

/// The value of this key is not what was expected.
pub(crate) fn fail(key: &str, value: &dyn fmt::Display, expected: &str) -> Result<(), ConfigError> {
    Err(ConfigError {
        key: key.to_string(),
        value: value.to_string(),
        expected: expected.to_string(),
    })
}

/// [`fail`], unless `holds`.
pub(crate) fn ensure(
    key: &str,
    holds: bool,
    value: &dyn fmt::Display,
    expected: &str,
) -> Result<(), ConfigError> {
    if holds {
        Ok(())
    } else {
        fail(key, value, expected)
    }
}

/// A duration within these bounds.
pub(crate) fn span(key: &str, value: Span, low: Span, high: Span) -> Result<(), ConfigError> {
    let expected = format!("a duration from {low} to {high}");
    ensure(key, (low..=high).contains(&value), &value, &expected)
}

/// A number within these bounds.
pub(crate) fn number(key: &str, value: f64, low: f64, high: f64) -> Result<(), ConfigError> {
    let expected = format!("a number from {} to {}", Short(low), Short(high));
    ensure(key, (low..=high).contains(&value), &value, &expected)
}

/// A bound as a person would write it.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value) = *self;
        if value == 0.0 || (1e-3..1e6).contains(&value) {
            write!(f, "{value}")
        } else {
            write!(f, "{value:e}")
        }
    }
}
