//! Durations as call records write them.

/// Reads `12`, `12.5`, `12,5`, `1:02:03` or `2:03`: a number, or hours, minutes and seconds as seconds.
pub(super) fn parse(text: &[u8]) -> Option<f64> {
    if (1..=15).contains(&text.len()) && text.iter().all(u8::is_ascii_digit) {
        let whole = text.iter().fold(0u64, |n, b| n * 10 + u64::from(b - b'0'));
        return Some(whole as f64);
    }
    let text = std::str::from_utf8(text).ok()?;
    if text.contains(':') {
        return clock(text);
    }
    let shape = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | '+');
    if !text.chars().all(shape) {
        return None;
    }
    // A comma is the point of half of Europe.
    text.replacen(',', ".", 1).parse().ok()
}

fn clock(text: &str) -> Option<f64> {
    let mut seconds = 0.0;
    let mut parts = 0;
    for part in text.split(':') {
        let plain = part.chars().all(|c| c.is_ascii_digit() || c == '.');
        let value: f64 = part.parse().ok().filter(|_| plain)?;
        if parts > 0 && value >= 60.0 {
            return None;
        }
        seconds = seconds * 60.0 + value;
        parts += 1;
    }
    (2..=3).contains(&parts).then_some(seconds)
}

/// Digits behind the point.
pub(super) fn decimals(text: &[u8]) -> usize {
    let point = text.iter().position(|b| matches!(b, b'.' | b','));
    let behind = point.and_then(|at| text.get(at + 1..)).unwrap_or_default();
    behind.iter().take_while(|b| b.is_ascii_digit()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_all_kinds() {
        for (text, expect) in [
            ("0", Some(0.0)),
            ("12", Some(12.0)),
            ("12.5", Some(12.5)),
            ("12,5", Some(12.5)),
            ("-3", Some(-3.0)),
            ("01:02:03", Some(3_723.0)),
            ("2:03", Some(123.0)),
            ("0:00:01.5", Some(1.5)),
            ("", None),
            ("x", None),
            ("1:60", None),
            ("1:2:3:4", None),
            ("nan", None),
            ("inf", None),
            ("1e3", None),
            ("1,2,3", None),
            (":", None),
            ("-1:00", None),
        ] {
            assert_eq!(parse(text.as_bytes()), expect, "{text}");
        }
    }

    #[test]
    fn digits_behind_the_point() {
        for (text, n) in [
            ("12", 0),
            ("12.", 0),
            ("12.5", 1),
            ("0,250", 3),
            ("1:02.25", 2),
        ] {
            assert_eq!(decimals(text.as_bytes()), n, "{text}");
        }
    }
}
