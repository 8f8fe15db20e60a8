//! What a check found, for machines and for people: JSON, CSV, tables, and a page with plots.
//!
//! JSON comes of [`Report`]'s `Serialize`; the other writers are [`csv()`], [`table()`] and [`html()`]. [`columns()`] is for formats of others.

mod chart;
mod columns;
mod csv;
mod html;
mod layout;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

use crate::Estimate;
use crate::estimate::{Interval, gap};

pub use columns::{Column, Fields, columns};
pub use csv::csv;
pub use html::html;
pub use table::{offer, table};

/// All that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// `check`, `compare` or `tune`.
    pub command: &'static str,
    /// The file that was checked.
    pub scenario: String,
    /// Seed of run 0.
    pub seed: u64,
    /// Whether it was stopped before all of it was done.
    pub interrupted: bool,
    /// What a reader has to know before trusting the figures.
    pub warnings: Vec<String>,
    /// One for each combination of what is swept and each lane, those finished or begun.
    pub points: Vec<PointReport>,
}

/// One combination of what is swept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointReport {
    /// Its lane.
    pub name: String,
    /// The swept keys with their values here, in the order of the file.
    #[serde(serialize_with = "as_map")]
    pub at: Vec<(String, Coordinate)>,
    /// The answers.
    pub queries: Vec<Answer>,
}

/// The value of a swept key.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Coordinate {
    /// A number.
    Number(f64),
    /// A name, or a value with its unit.
    Name(String),
}

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// The answer to one question, and what a real run said to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// By the model.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// For real.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub real: Option<Real>,
}

/// What a real run said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Real {
    /// The estimate; none if a real run cannot be asked this.
    pub measured: Option<Measured>,
    /// Measured less predicted.
    pub gap: Option<f64>,
    /// Whether the gap is within what both intervals leave open ([`gap`]).
    pub within: Option<bool>,
    /// What the model says to the very runs that were measured: the luck of these runs is in both.
    pub same_runs: Option<SameRuns>,
    /// Why there is no measurement, or what to know of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// An estimate from real runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// What was found.
    pub estimate: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Runs that it comes from.
    pub runs: u64,
}

/// The model on the runs that were measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SameRuns {
    /// What it says.
    pub estimate: f64,
    /// Measured less that: what the model is wrong by, and what the draws of the defence do.
    pub gap: f64,
}

impl Answer {
    /// A prediction.
    #[must_use]
    pub fn predicted(estimate: Estimate) -> Self {
        Self {
            estimate,
            real: None,
        }
    }

    /// A prediction beside a measurement, and what the model says to the same runs.
    #[must_use]
    pub fn compared(estimate: Estimate, measured: &Estimate, same_runs: Option<f64>) -> Self {
        fn sides(of: &Estimate) -> (f64, Interval) {
            let (low, high) = (of.low, of.high);
            (of.estimate, Interval { low, high })
        }
        let gap = gap(sides(measured), sides(&estimate));
        let open = [gap.low, gap.high].iter().all(|end| end.is_finite());
        let same_runs = same_runs.map(|same| SameRuns {
            estimate: same,
            gap: measured.estimate - same,
        });
        let real = Real {
            gap: gap.estimate.is_finite().then_some(gap.estimate),
            within: open.then(|| gap.holds_zero()),
            same_runs: same_runs.filter(|same| same.gap.is_finite()),
            note: measured.warnings.first().cloned(),
            measured: Some(Measured {
                estimate: measured.estimate,
                low: measured.low,
                high: measured.high,
                runs: measured.runs,
            }),
        };
        Self {
            estimate,
            real: Some(real),
        }
    }

    /// A prediction that a real run cannot be held against.
    #[must_use]
    pub fn unmeasured(estimate: Estimate, why: String) -> Self {
        Self {
            estimate,
            real: Some(Real {
                measured: None,
                gap: None,
                within: None,
                same_runs: None,
                note: Some(why),
            }),
        }
    }
}

fn as_map<S: Serializer>(at: &[(String, Coordinate)], to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(at.len()))?;
    for (key, value) in at {
        map.serialize_entry(key, value)?;
    }
    map.end()
}

/// A text as it stands in HTML, within an attribute too.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}
