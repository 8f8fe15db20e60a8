//! The JSON document of `levee lab` and `levee demo`; docs/scenario.md describes it.

use serde::Serialize;

use super::Report;

/// One JSON document, with a line end.
#[must_use]
pub fn to_json<L: Serialize>(report: &Report<L>) -> String {
    // What cannot fail needs no error for the caller to handle; an empty object would be visible at once.
    let mut text = serde_json::to_string_pretty(report).unwrap_or_else(|_| "{}".into());
    text.push('\n');
    text
}
