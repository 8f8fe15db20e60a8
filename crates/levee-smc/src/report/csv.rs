//! Comma-separated values.

use super::Report;
use super::columns::{Fields, columns};

/// A header, then a line for each point and question (RFC 4180). Swept keys are columns of their own names; what is not known is
/// an empty field.
#[must_use]
pub fn csv(report: &Report) -> String {
    let columns = columns(report);
    let lines: usize = report.points.iter().map(|point| point.queries.len()).sum();
    let mut out = String::new();
    line(&mut out, columns.iter().map(|column| column.name.clone()));
    for i in 0..lines {
        line(
            &mut out,
            columns.iter().map(|column| field(&column.fields, i)),
        );
    }
    out
}

fn field(fields: &Fields, line: usize) -> String {
    fn text<T: ToString>(all: &[Option<T>], line: usize) -> String {
        let value = all.get(line).and_then(Option::as_ref);
        value.map(ToString::to_string).unwrap_or_default()
    }
    match fields {
        Fields::Text(all) => text(all, line),
        // The shortest text that reads as the same number.
        Fields::Number(all) => text(all, line),
        Fields::Count(all) => text(all, line),
    }
}

/// A field with a comma, a quote or a line break is quoted.
fn line(out: &mut String, fields: impl Iterator<Item = String>) {
    for (i, field) in fields.enumerate() {
        if i > 0 {
            out.push(',');
        }
        if field.contains([',', '"', '\n', '\r']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(&field);
        }
    }
    out.push_str("\r\n");
}
