//! Time as the defences see it: nanoseconds from a start that the driver chooses.

use alloc::string::String;
use core::{
    fmt,
    ops::{Add, Sub},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Units of a [`Span`] as text, with their nanoseconds.
const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", NANOS_PER_SEC),
    ("m", 60 * NANOS_PER_SEC),
    ("h", 3_600 * NANOS_PER_SEC),
];

/// An instant: nanoseconds since the driver's start. All arithmetic saturates.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(u64);

impl Time {
    /// The start.
    pub const ZERO: Self = Self(0);
    /// The last instant that can be told, 584 years from the start.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant this many nanoseconds after the start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }

    /// `self + span`, at most [`Time::MAX`].
    #[must_use]
    pub const fn saturating_add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// `self - span`, at least [`Time::ZERO`].
    #[must_use]
    pub const fn saturating_sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// How long after `earlier` this is; zero if it is before.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        self.saturating_add(span)
    }
}

impl Sub for Time {
    type Output = Span;
    fn sub(self, earlier: Self) -> Span {
        self.since(earlier)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(f)
    }
}

/// A length of time in nanoseconds; as text `100ms`, `1.5s`, `2m`, `1h`, `30us`. All arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span, 584 years.
    pub const MAX: Self = Self(u64::MAX);

    /// This many nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// This many milliseconds, at most [`Span::MAX`].
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// This many seconds, at most [`Span::MAX`].
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// This many seconds to the nearest nanosecond, or `None` if that is negative, not a number, or longer than [`Span::MAX`].
    #[must_use]
    pub fn from_secs_f64(secs: f64) -> Option<Self> {
        let nanos = libm::round(secs * NANOS_PER_SEC as f64);
        // 2^64 as a float: the first that does not fit.
        (0.0..18_446_744_073_709_551_616.0)
            .contains(&nanos)
            .then_some(Self(nanos as u64))
    }

    /// In nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// In whole milliseconds, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// In seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }

    /// Whether this is no time at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// `self + other`, at most [`Span::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// `self - other`, at least zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |unit: u64| self.0 != 0 && self.0.is_multiple_of(unit);
        let (name, unit, digits) = match self.0 {
            _ if whole(3_600 * NANOS_PER_SEC) => ("h", 3_600 * NANOS_PER_SEC, 0),
            _ if whole(60 * NANOS_PER_SEC) => ("m", 60 * NANOS_PER_SEC, 0),
            0 | NANOS_PER_SEC.. => ("s", NANOS_PER_SEC, 9),
            1_000_000.. => ("ms", 1_000_000, 6),
            1_000.. => ("us", 1_000, 3),
            _ => ("ns", 1, 0),
        };
        let rest = self.0 % unit;
        if rest == 0 {
            return write!(f, "{}{name}", self.0 / unit);
        }
        let fraction = alloc::format!("{rest:0digits$}");
        write!(
            f,
            "{}.{}{name}",
            self.0 / unit,
            fraction.trim_end_matches('0')
        )
    }
}

/// A text that is not a [`Span`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseSpanError {
    text: String,
    what: &'static str,
}

impl fmt::Display for ParseSpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "bad duration `{}`: {}; expected a number and a unit (ns, us, ms, s, m or h), for example 100ms, 1.5s or 2m",
            self.text, self.what
        )
    }
}

impl core::error::Error for ParseSpanError {}

impl FromStr for Span {
    type Err = ParseSpanError;

    fn from_str(text: &str) -> Result<Self, ParseSpanError> {
        let fail = |what| ParseSpanError {
            text: text.chars().take(40).collect(),
            what,
        };
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        if number.is_empty() {
            return Err(fail("it does not start with a number"));
        }
        let unit = unit.trim_start();
        if unit.is_empty() {
            return Err(fail("the unit is missing"));
        }
        let (_, unit) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| fail("the unit is unknown"))?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
            return Err(fail("the number is malformed"));
        }
        let too_long = || fail("it is longer than 584 years");
        let whole: u64 = whole.parse().map_err(|_| too_long())?;
        let fraction = fraction.trim_end_matches('0');
        let scale = u32::try_from(fraction.len())
            .ok()
            .filter(|digits| *digits <= 15)
            .map(|digits| 10_u64.pow(digits))
            .ok_or_else(|| fail("it is finer than a nanosecond"))?;
        let fraction: u64 = if fraction.is_empty() {
            0
        } else {
            fraction.parse().map_err(|_| too_long())?
        };
        let part = u128::from(fraction) * u128::from(*unit);
        if !part.is_multiple_of(u128::from(scale)) {
            return Err(fail("it is finer than a nanosecond"));
        }
        let nanos = u128::from(whole) * u128::from(*unit) + part / u128::from(scale);
        u64::try_from(nanos).map(Self).map_err(|_| too_long())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration in quotes with a unit, for example \"100ms\" or \"1.5s\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_read_as_they_print() {
        for (text, nanos) in [
            ("100ms", 100_000_000),
            ("1.5s", 1_500_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("30us", 30_000),
            ("7ns", 7),
            ("0s", 0),
            ("1.000000001s", 1_000_000_001),
            ("90s", 90_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Span::from_nanos(nanos)));
            assert_eq!(Span::from_nanos(nanos).to_string(), text);
        }
        assert_eq!("1.5h".parse(), Ok(Span::from_secs(5_400)));
        assert_eq!("0.5 m".parse(), Ok(Span::from_secs(30)));
    }

    #[test]
    fn bad_spans_say_what_is_wrong() {
        for (text, what) in [
            ("", "does not start with a number"),
            ("ms", "does not start with a number"),
            ("-1s", "does not start with a number"),
            ("5", "the unit is missing"),
            ("5 fortnights", "the unit is unknown"),
            ("1.2.3s", "malformed"),
            (".5s", "malformed"),
            ("5.s", "malformed"),
            ("0.5ns", "finer than a nanosecond"),
            ("0.0000000000000000001s", "finer than a nanosecond"),
            ("99999999999999999999s", "longer than 584 years"),
            ("99999999999999h", "longer than 584 years"),
        ] {
            let error = text.parse::<Span>().unwrap_err().to_string();
            assert!(
                error.contains(what) && error.contains("expected a number and a unit"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn arithmetic_saturates() {
        let (early, late) = (Time::from_nanos(5), Time::from_nanos(9));
        assert_eq!(late - early, Span::from_nanos(4));
        assert_eq!(early - late, Span::ZERO);
        assert_eq!(Time::MAX + Span::from_nanos(1), Time::MAX);
        assert_eq!(early.saturating_sub(Span::MAX), Time::ZERO);
        assert_eq!(Span::from_secs(u64::MAX), Span::MAX);
        assert_eq!(Span::from_secs_f64(1.5), Some(Span::from_millis(1_500)));
        for bad in [-1.0, f64::NAN, f64::INFINITY, 1e11] {
            assert_eq!(Span::from_secs_f64(bad), None);
        }
    }

    proptest! {
        #[test]
        fn every_span_survives_its_text(nanos: u64) {
            let span = Span::from_nanos(nanos);
            prop_assert_eq!(span.to_string().parse(), Ok(span));
            let json = serde_json::to_string(&span).unwrap();
            prop_assert_eq!(serde_json::from_str::<Span>(&json).unwrap(), span);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,30}") {
            let _ = text.parse::<Span>();
        }
    }
}
