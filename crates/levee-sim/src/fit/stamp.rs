//! Instants as call records write them.

/// Microseconds since 1970, in whatever zone the records were written.
pub(super) type Stamp = i64;

/// A second.
pub(super) const SECOND: Stamp = 1_000_000;

/// Reads `2026-03-14 12:34:56`, with `T`, a fraction or a zone if need be; or seconds, milliseconds or microseconds since 1970.
/// An instant before 1970 or after 2200 is none.
pub(super) fn parse(text: &[u8]) -> Option<Stamp> {
    const LATEST: Stamp = 7_258_118_400 * SECOND;
    let stamp = match text.get(4) {
        Some(b'-') => date(text)?,
        _ => epoch(text)?,
    };
    (0..LATEST).contains(&stamp).then_some(stamp)
}

/// Digits of the fraction of a second that an instant is written with.
pub(super) fn decimals(text: &[u8]) -> usize {
    let digits = |part: &[u8]| part.iter().take_while(|b| b.is_ascii_digit()).count();
    match (text.get(4), text.len()) {
        (Some(b'-'), _) => text.get(20..).map_or(0, |rest| {
            if text.get(19) == Some(&b'.') {
                digits(rest)
            } else {
                0
            }
        }),
        (_, 13) if digits(text) == 13 => 3,
        (_, 16) if digits(text) == 16 => 6,
        _ => {
            let point = text.iter().position(|b| *b == b'.');
            point.and_then(|at| text.get(at + 1..)).map_or(0, digits)
        }
    }
}

fn date(text: &[u8]) -> Option<Stamp> {
    let number = |from: usize, to: usize| digits(text.get(from..to)?);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let separators = [(7, b'-'), (13, b':'), (16, b':')];
    let marked = separators
        .iter()
        .all(|(at, mark)| text.get(*at) == Some(mark))
        && matches!(text.get(10), Some(b' ' | b'T'));
    let real = (1..=12).contains(&month)
        && (1..=month_days(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !(marked && real) {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    let rest = text.get(19..)?;
    let (fraction, zone) = fraction(rest)?;
    Some(seconds * SECOND + fraction - offset(zone)? * SECOND)
}

/// `.250` in microseconds, and what follows.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(rest) = text.strip_prefix(b".") else {
        return Some((0, text));
    };
    let n = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let micros = (0..6).fold(0, |sum, i| {
        let digit = if i < n {
            rest.get(i).map_or(0, |b| i64::from(b - b'0'))
        } else {
            0
        };
        sum * 10 + digit
    });
    (n > 0).then_some((micros, rest.get(n..)?))
}

/// Seconds east of the written zone: nothing, `Z`, `+02:00` or `+0200`.
fn offset(zone: &[u8]) -> Option<i64> {
    let (sign, rest) = match zone.split_first() {
        None => return Some(0),
        Some((b'Z', [])) => return Some(0),
        Some((b'+', rest)) => (1, rest),
        Some((b'-', rest)) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest.len() {
        5 if rest.get(2) == Some(&b':') => (rest.get(..2)?, rest.get(3..)?),
        4 => (rest.get(..2)?, rest.get(2..)?),
        _ => return None,
    };
    Some(sign * (digits(hours)? * 3_600 + digits(minutes)? * 60))
}

fn epoch(text: &[u8]) -> Option<Stamp> {
    let n = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(text.get(..n)?)?;
    match (n, text.get(n..)?) {
        (13, []) => Some(whole * 1_000),
        (16, []) => Some(whole),
        (9..=10, rest) => match fraction(rest)? {
            (micros, []) => Some(whole * SECOND + micros),
            _ => None,
        },
        _ => None,
    }
}

fn digits(text: &[u8]) -> Option<i64> {
    let fits = (1..=18).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    fits.then(|| text.iter().fold(0, |sum, b| sum * 10 + i64::from(b - b'0')))
}

fn month_days(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970, with years that begin in March so that the leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let month = (month + 9) % 12;
    let leaps = year / 4 - year / 100 + year / 400;
    year * 365 + leaps + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// `2026-03-14 12:00`.
pub(super) fn minutes(stamp: Stamp) -> String {
    let minute = stamp.div_euclid(60 * SECOND);
    let day = minute.div_euclid(1_440);
    // The year by its mean length is at most one off.
    let mut year = 1970 + day * 400 / 146_097;
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    while days(year, 1, 1) > day {
        year -= 1;
    }
    let month = (1..=12)
        .rev()
        .find(|month| days(year, *month, 1) <= day)
        .unwrap_or(1);
    let within = day - days(year, month, 1) + 1;
    let (hour, minute) = (minute.rem_euclid(1_440) / 60, minute.rem_euclid(60));
    format!("{year:04}-{month:02}-{within:02} {hour:02}:{minute:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_of_all_kinds() {
        for (text, seconds, micros) in [
            ("1970-01-01 00:00:00", 0, 0),
            ("2000-02-29 23:59:59", 951_868_799, 0),
            ("2026-03-14 12:34:56", 1_773_491_696, 0),
            ("2026-03-14T12:34:56Z", 1_773_491_696, 0),
            ("2026-03-14T14:34:56.25+02:00", 1_773_491_696, 250_000),
            ("2026-03-14 07:34:56-0500", 1_773_491_696, 0),
            ("1773491696", 1_773_491_696, 0),
            ("1773491696.5", 1_773_491_696, 500_000),
            ("1773491696123", 1_773_491_696, 123_000),
            ("1773491696123456", 1_773_491_696, 123_456),
        ] {
            let expected = seconds * SECOND + micros;
            assert_eq!(parse(text.as_bytes()), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_instant() {
        for text in [
            "",
            "0",
            "42",
            "2026",
            "2026-13-01 00:00:00",
            "2026-02-29 00:00:00",
            "2026-03-14 24:00:00",
            "2026-03-14 12:34",
            "2026-03-14 12:34:56.",
            "2026-03-14 12:34:56 CET",
            "0000-00-00 00:00:00",
            "2026/03/14 12:34:56",
            "ANSWERED",
            "17734916961",
            "9999-01-01 00:00:00",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_day_leads_back_to_its_date() {
        for (text, back) in [
            ("1970-01-01 00:00:59", "1970-01-01 00:00"),
            ("1999-12-31 23:59:00", "1999-12-31 23:59"),
            ("2000-02-29 12:00:00", "2000-02-29 12:00"),
            ("2024-12-31 10:20:30", "2024-12-31 10:20"),
            ("2100-03-01 00:00:00", "2100-03-01 00:00"),
        ] {
            assert_eq!(minutes(parse(text.as_bytes()).unwrap()), back);
        }
    }

    #[test]
    fn decimals_of_an_instant() {
        for (text, n) in [
            ("2026-03-14 12:34:56", 0),
            ("2026-03-14 12:34:56.250", 3),
            ("1773491696", 0),
            ("1773491696.5", 1),
            ("1773491696123", 3),
            ("1773491696123456", 6),
        ] {
            assert_eq!(decimals(text.as_bytes()), n, "{text}");
        }
    }
}
