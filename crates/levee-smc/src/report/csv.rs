//! One line for each answer, for other programs.

use super::{Coordinate, Report};

/// A header, then a line for each point and question. Swept keys are columns of their own names; a number that is not known
/// is an empty field.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in report.points.iter().flat_map(|p| &p.at) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    let fixed = [
        "query",
        "estimate",
        "low",
        "high",
        "confidence",
        "runs",
        "method",
        "stopped",
        "verdict",
        "measured",
        "measured_low",
        "measured_high",
        "gap",
    ];
    let mut out = String::new();
    line(
        &mut out,
        ["lane"]
            .into_iter()
            .chain(keys.iter().copied())
            .chain(fixed),
    );
    for point in &report.points {
        let value = |key: &str| {
            let found = point.at.iter().find(|(k, _)| k == key);
            found.map_or_else(String::new, |(_, value)| match value {
                Coordinate::Number(n) => number(*n),
                Coordinate::Name(name) => name.clone(),
            })
        };
        for answer in &point.queries {
            let e = &answer.estimate;
            let measured = answer.real.as_ref().and_then(|r| r.measured.as_ref());
            let real = |f: fn(&super::Measured) -> f64| {
                measured.map_or_else(String::new, |m| number(f(m)))
            };
            let gap = answer.real.as_ref().and_then(|r| r.gap);
            let mut fields = vec![point.name.clone()];
            fields.extend(keys.iter().map(|key| value(key)));
            fields.extend([
                e.name.clone(),
                number(e.estimate),
                number(e.low),
                number(e.high),
                number(e.confidence),
                e.runs.to_string(),
                word(&e.method),
                word(&e.stopped),
                e.verdict.as_ref().map(word).unwrap_or_default(),
                real(|m| m.estimate),
                real(|m| m.low),
                real(|m| m.high),
                gap.map(number).unwrap_or_default(),
            ]);
            line(&mut out, fields.iter().map(String::as_str));
        }
    }
    out
}

/// As short as it can be told apart from its neighbours.
fn number(value: f64) -> String {
    if value.is_finite() {
        value.to_string()
    } else {
        String::new()
    }
}

/// The name that JSON gives it.
pub(crate) fn word<T: std::fmt::Debug>(of: &T) -> String {
    let mut kebab = String::new();
    for c in format!("{of:?}").chars() {
        if c.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    kebab
}

/// RFC 4180: a field with a comma, a quote or a line break is quoted.
fn line<'f>(out: &mut String, fields: impl Iterator<Item = &'f str>) {
    for (i, field) in fields.enumerate() {
        if i > 0 {
            out.push(',');
        }
        if field.contains([',', '"', '\n', '\r']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(field);
        }
    }
    out.push_str("\r\n");
}
