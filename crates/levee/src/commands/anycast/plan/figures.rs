//! Loads and capacities as people write them.

use std::collections::BTreeMap;
use std::fmt;

use levee_policy::reroute::{LOAD_MAX, Range};
use serde::{Deserialize, Deserializer, de};

const AMOUNT: &str = "a number of 0 or more such as 50000, 50k, 4.1M or 2G";

/// `50000`, `50k`, `4.1M`, `2G`.
pub(in crate::commands::anycast) fn amount(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, 'k')) => (&text[..at], "e3"),
        Some((at, 'M')) => (&text[..at], "e6"),
        Some((at, 'G')) => (&text[..at], "e9"),
        _ => (text, ""),
    };
    // As one number: 4.1 times a million is not 4,100,000.
    let number = (digits.replace('_', "") + unit).parse().ok();
    // Words that `parse` takes (`inf`, `nan`) and signs are no amounts.
    let number = number.filter(|_| digits.starts_with(|c: char| c.is_ascii_digit() || c == '.'));
    number
        .filter(|number: &f64| *number <= LOAD_MAX)
        .ok_or_else(|| format!("{text:?} is no amount, expected {AMOUNT}"))
}

/// An amount, `LOW..HIGH` with the middle as the likely one, `LOW..LIKELY..HIGH`; an upper end that is left out is infinite.
pub(super) fn range(text: &str) -> Result<Range, String> {
    let parts: Vec<&str> = text.split("..").collect();
    let high = |text: &str| {
        if text.is_empty() {
            Ok(f64::INFINITY)
        } else {
            amount(text)
        }
    };
    let range = match *parts.as_slice() {
        [exactly] => Range::exactly(amount(exactly)?),
        [low, ""] => {
            let low = amount(low)?;
            Range {
                low,
                likely: low,
                high: f64::INFINITY,
            }
        }
        [low, top] => {
            let (low, high) = (amount(low)?, amount(top)?);
            Range {
                low,
                likely: f64::midpoint(low, high),
                high,
            }
        }
        [low, likely, top] => Range {
            low: amount(low)?,
            likely: amount(likely)?,
            high: high(top)?,
        },
        _ => return Err(format!("{text:?} is no load, expected LOW..LIKELY..HIGH")),
    };
    if range.low <= range.likely && range.likely <= range.high {
        Ok(range)
    } else {
        Err(format!(
            "{text:?} is not in order, expected LOW..HIGH or LOW..LIKELY..HIGH"
        ))
    }
}

/// `SITE=VALUE`. A name may have a `=` itself: the last one counts.
pub(in crate::commands::anycast) fn of_site<T>(
    value: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<(String, T), String> + Clone {
    move |text| {
        let (site, text) = text.rsplit_once('=').ok_or("expected SITE=VALUE")?;
        Ok((site.to_owned(), value(text)?))
    }
}

/// As a number or as text, in TOML.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount(pub(super) f64);

/// As a number or as text, in TOML.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load(pub(super) Range);

/// Values by site.
pub(super) type BySite<T> = BTreeMap<String, T>;

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Text(AMOUNT, amount)).map(Self)
    }
}

impl<'de> Deserialize<'de> for Load {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const EXPECTED: &str =
            "a load such as 85000, \"85k\", \"80k..95k\", \"80k..85k..95k\" or \"80k..\"";
        deserializer
            .deserialize_any(Text(EXPECTED, range))
            .map(Self)
    }
}

/// What is expected, and how text is read.
struct Text<T>(&'static str, fn(&str) -> Result<T, String>);

impl<T> de::Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.1(&number.to_string())
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.1(&number.to_string())
            .map_err(|_| E::invalid_value(de::Unexpected::Float(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        self.1(text).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_ranges_are_read_as_people_write_them() {
        for (text, expect) in [
            ("0", 0.0),
            ("50000", 50_000.0),
            ("50_000", 50_000.0),
            ("85000.3", 85_000.3),
            ("50k", 50_000.0),
            ("4.1M", 4_100_000.0),
            ("2G", 2e9),
            (".5", 0.5),
        ] {
            assert_eq!(amount(text), Ok(expect), "{text}");
        }
        for text in [
            "", "k", "-1", "+1", "inf", "nan", "1e400", "2e18", "50K", "50 k", "1..2", "é",
        ] {
            assert!(amount(text).is_err(), "{text}");
        }
        for (text, low, likely, high) in [
            ("85k", 85e3, 85e3, 85e3),
            ("80k..90k", 80e3, 85e3, 90e3),
            ("80k..82k..90k", 80e3, 82e3, 90e3),
            ("80k..", 80e3, 80e3, f64::INFINITY),
            ("80k..82k..", 80e3, 82e3, f64::INFINITY),
        ] {
            assert_eq!(range(text), Ok(Range { low, likely, high }), "{text}");
        }
        for text in [
            "",
            "..",
            "..9",
            "9..8",
            "1..3..2",
            "2..1..3",
            "1..2..3..4",
            "1...2",
            "a..b",
        ] {
            assert!(range(text).is_err(), "{text}");
        }
        assert_eq!(of_site(amount)("a=b=5k"), Ok(("a=b".to_owned(), 5e3)));
        assert!(of_site(amount)("AMS").is_err());
    }
}
