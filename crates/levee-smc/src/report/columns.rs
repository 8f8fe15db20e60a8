//! The answers as columns, a line for each answer: what CSV and other tables of machines are written from.

use super::{Answer, Coordinate, Measured, PointReport, Report};

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its header.
    pub name: String,
    /// Its fields, one for each answer.
    pub fields: Fields,
}

/// The fields of a column; `None` where nothing is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Fields {
    /// Texts.
    Text(Vec<Option<String>>),
    /// Numbers, all finite.
    Number(Vec<Option<f64>>),
    /// Counts.
    Count(Vec<Option<u64>>),
}

/// `lane`, the swept keys, the query and its answer, and what was measured.
#[must_use]
pub fn columns(report: &Report) -> Vec<Column> {
    let lines: Vec<(&PointReport, &Answer)> = report
        .points
        .iter()
        .flat_map(|point| point.queries.iter().map(move |answer| (point, answer)))
        .collect();
    let texts = |name: &str, of: &dyn Fn(&PointReport, &Answer) -> Option<String>| Column {
        name: name.to_owned(),
        fields: Fields::Text(lines.iter().map(|(p, a)| of(p, a)).collect()),
    };
    let numbers = |name: &str, of: &dyn Fn(&Answer) -> Option<f64>| {
        let finite = |answer| of(answer).filter(|value: &f64| value.is_finite());
        Column {
            name: name.to_owned(),
            fields: Fields::Number(lines.iter().map(|(_, a)| finite(*a)).collect()),
        }
    };
    fn real(answer: &Answer) -> Option<&Measured> {
        answer.real.as_ref()?.measured.as_ref()
    }
    let mut columns = vec![texts("lane", &|point, _| Some(point.name.clone()))];
    columns.extend(keys(report).iter().map(|key| swept(key, &lines)));
    columns.push(texts("query", &|_, a| Some(a.estimate.name.clone())));
    if lines.iter().any(|(_, a)| a.estimate.parameter.is_some()) {
        columns.push(numbers("parameter", &|a| {
            a.estimate.parameter.as_ref().map(|p| p.value)
        }));
    }
    columns.extend([
        numbers("estimate", &|a| Some(a.estimate.estimate)),
        numbers("low", &|a| Some(a.estimate.low)),
        numbers("high", &|a| Some(a.estimate.high)),
        numbers("confidence", &|a| Some(a.estimate.confidence)),
        Column {
            name: "runs".to_owned(),
            fields: Fields::Count(lines.iter().map(|(_, a)| Some(a.estimate.runs)).collect()),
        },
        texts("method", &|_, a| Some(word(&a.estimate.method))),
        texts("stopped", &|_, a| Some(word(&a.estimate.stopped))),
        texts("verdict", &|_, a| a.estimate.verdict.as_ref().map(word)),
        numbers("measured", &|a| real(a).map(|m| m.estimate)),
        numbers("measured_low", &|a| real(a).map(|m| m.low)),
        numbers("measured_high", &|a| real(a).map(|m| m.high)),
        numbers("gap", &|a| a.real.as_ref()?.gap),
        numbers("same_runs", &|a| {
            Some(a.real.as_ref()?.same_runs.as_ref()?.estimate)
        }),
    ]);
    columns
}

/// Swept keys in the order of the file.
fn keys(report: &Report) -> Vec<&str> {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in report.points.iter().flat_map(|p| &p.at) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    keys
}

/// A swept key is a column of numbers when all its values are.
fn swept(key: &str, lines: &[(&PointReport, &Answer)]) -> Column {
    let values = || {
        lines.iter().map(|(point, _)| {
            let found = point.at.iter().find(|(k, _)| k == key);
            found.map(|(_, value)| value)
        })
    };
    let number = |value: &Coordinate| match value {
        Coordinate::Number(number) => Some(*number),
        Coordinate::Name(_) => None,
    };
    let fields = if values().flatten().all(|value| number(value).is_some()) {
        Fields::Number(values().map(|value| value.and_then(number)).collect())
    } else {
        Fields::Text(
            values()
                .map(|value| value.map(ToString::to_string))
                .collect(),
        )
    };
    Column {
        name: key.to_owned(),
        fields,
    }
}

/// The name that JSON gives a variant.
fn word<T: std::fmt::Debug>(of: &T) -> String {
    let mut kebab = String::new();
    for c in format!("{of:?}").chars() {
        if c.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    kebab
}
