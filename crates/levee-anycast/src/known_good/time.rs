//! Times in files.

use chrono::DateTime;

/// 2000-01-01, in seconds of Unix. Nothing that this reads was measured before.
const FIRST_S: i64 = 946_684_800;
/// 2100-01-01. Milliseconds of Unix since 2000 are all later.
const LAST_S: i64 = 4_102_444_800;

/// Why a text is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// Neither form.
    #[error("expected seconds of Unix (1764460800) or RFC 3339 (2025-11-30T00:00:00Z)")]
    Form,
    /// A local time.
    #[error("it has no time zone: write Z or an offset such as +01:00 after it")]
    NoZone,
    /// A number that is no time of this century.
    #[error("it is not between 2000 and 2100: expected seconds of Unix, not milliseconds")]
    Range,
}

/// Reads a time: whole or decimal seconds of Unix (the fraction is cut off), or RFC 3339 with its zone.
///
/// # Errors
///
/// For any other form, and for times outside 2000 to 2100.
///
/// ```
/// use levee_anycast::known_good::parse_time;
///
/// assert_eq!(parse_time("1764460800"), Ok(1_764_460_800));
/// assert_eq!(parse_time("2025-11-30T01:00:00+01:00"), Ok(1_764_460_800));
/// assert!(parse_time("2025-11-30 01:00:00").is_err());
/// ```
pub fn parse_time(text: &str) -> Result<i64, TimeError> {
    let whole = text.split_once('.').map_or(text, |(whole, fraction)| {
        if fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            whole
        } else {
            text
        }
    });
    let seconds = if !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_digit()) {
        whole.parse().map_err(|_| TimeError::Range)?
    } else {
        rfc3339(text)?
    };
    if (FIRST_S..LAST_S).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(TimeError::Range)
    }
}

fn rfc3339(text: &str) -> Result<i64, TimeError> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Ok(time.timestamp());
    }
    // Would it be a time, if it had a zone?
    if text.is_ascii() && DateTime::parse_from_rfc3339(&format!("{text}Z")).is_ok() {
        Err(TimeError::NoZone)
    } else {
        Err(TimeError::Form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_rfc_3339_and_nothing_else() {
        let check = |text: &str, expect: Result<i64, TimeError>| {
            assert_eq!(parse_time(text), expect, "{text:?}");
        };
        check("1764460800", Ok(1_764_460_800));
        check("1764460800.999", Ok(1_764_460_800));
        check("2025-11-30T00:00:00Z", Ok(1_764_460_800));
        check("2025-11-30 00:00:00Z", Ok(1_764_460_800));
        check("2025-11-29T19:00:00.5-05:00", Ok(1_764_460_800));
        check("2025-11-30T00:00:00", Err(TimeError::NoZone));
        check("2025-11-30 00:00:00", Err(TimeError::NoZone));
        check("946684800", Ok(946_684_800));
        check("946684799", Err(TimeError::Range));
        check("4102444799", Ok(4_102_444_799));
        check("4102444800", Err(TimeError::Range));
        check("1764460800000", Err(TimeError::Range));
        check("99999999999999999999999", Err(TimeError::Range));
        for text in [
            "",
            ".",
            ".5",
            "-1",
            "noon",
            "2025-02-30T00:00:00Z",
            "1e9",
            "1764460800.x",
            "é",
        ] {
            check(text, Err(TimeError::Form));
        }
    }
}
