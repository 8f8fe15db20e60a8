//! Call records to a law of durations, and to the settings that follow.
//!
//! Text in, fits out: [`fit`] reads the call records of Asterisk, FreeSWITCH and Kamailio, or any table with named columns, and
//! fits the talk times of its answered calls by maximum likelihood to the exponential, the lognormal, the gamma and the
//! Weibull law. docs/fit.md says what is read and what the figures mean.
//!
//! Most records are in whole seconds. Each duration counts as the interval that it stands for ([`Rounding`]), in the
//! likelihood as in the distances: otherwise short calls would bias every fit. Durations are kept as a histogram ([`Sample`]), so
//! a file may be of any length.
//!
//! What it leaves out: calls that are still up are in no record, so a file that was cut from a running server lacks the
//! longest of its last hour. Calls are taken as independent and of one law; day and night, or two kinds of callers, are not
//! told apart.

mod bounded;
mod distance;
mod estimate;
mod json;
mod law;
mod layout;
mod number;
mod sample;
pub mod settings;
mod special;
mod stamp;
mod table;
mod tally;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read};

pub use self::distance::Distance;
pub use self::estimate::{Fit, Parameter};
pub use self::law::{Family, Law};
pub use self::layout::Format;
pub use self::sample::{Rounding, Sample};
pub use self::tally::{BadRows, Busy, Cause};

/// Fewest answered calls that are fitted: with less, the standard error of a shape is as large as the shape.
pub const CALLS_MIN: u64 = 10;
/// What is looked at to find out the format.
const HEAD_BYTES: u64 = 256 << 10;

/// What a caller may say about a file; all of it is found out otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The format.
    pub format: Option<Format>,
    /// What separates columns.
    pub delimiter: Option<u8>,
    /// Columns by name, or by number from 1.
    pub columns: Named,
    /// Seconds of the unit of the durations.
    pub unit: Option<f64>,
    /// How they were rounded.
    pub rounding: Option<Rounding>,
    /// Seed of the p-values.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: None,
            delimiter: None,
            columns: Named::default(),
            unit: None,
            rounding: None,
            seed: 1,
        }
    }
}

/// Columns that the caller names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Of the talk time.
    pub duration: Option<String>,
    /// Of the instant of the answer.
    pub answer: Option<String>,
    /// Of the instant of the end.
    pub end: Option<String>,
    /// Of the instant of the beginning.
    pub start: Option<String>,
}

impl Named {
    fn all(&self) -> impl Iterator<Item = &String> {
        [&self.duration, &self.answer, &self.end, &self.start]
            .into_iter()
            .flatten()
    }

    fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Whether one of them has this name, given in lower case.
    fn is_name(&self, name: &str) -> bool {
        self.all()
            .any(|column| column.to_lowercase() == name && column.parse::<usize>().is_err())
    }
}

/// What a file of call records says.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its format.
    pub format: Format,
    /// How it was read, in a sentence.
    pub detected: String,
    /// Rows or objects, header and empty lines left out.
    pub rows: u64,
    /// Calls that were not answered.
    pub unanswered: u64,
    /// Rows of no use, by cause.
    pub bad: BTreeMap<Cause, BadRows>,
    /// Talk times of the answered calls.
    pub sample: Sample,
    /// All families, the smallest AIC first.
    pub fits: Vec<Fit>,
    /// Mean time from the beginning to the answer of the answered calls, in seconds; `None` if the records do not say.
    pub ring: Option<f64>,
    /// How calls came in; `None` if the records have no instants.
    pub arrivals: Option<Arrivals>,
    /// What to know before trusting the figures.
    pub warnings: Vec<String>,
}

/// How calls came in.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    /// The hour with the most traffic.
    pub busy: Busy,
    /// Places that block 1% of the calls of that hour (Erlang B).
    pub places: u32,
}

impl Arrivals {
    /// When the busy hour begins, by the clock of the records: `2026-03-14 11:00`.
    #[must_use]
    pub fn busy_start(&self) -> String {
        stamp::minutes(self.busy.start)
    }
}

impl Report {
    /// The fit with the smallest AIC among those that converged.
    #[must_use]
    pub fn best(&self) -> Option<&Fit> {
        self.fits.iter().find(|fit| fit.converged)
    }
}

/// Call records that cannot be fitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// The file cannot be read.
    #[error("line {line}: cannot be read")]
    Io {
        /// Where reading failed, from 1.
        line: u64,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A record without end.
    #[error(
        "line {line}: a record that begins here is longer than 4 MiB: is a quote left open? Mend or take out that line"
    )]
    TooLong {
        /// Where it begins, from 1.
        line: u64,
    },
    /// There is nothing in it.
    #[error("the file is empty, expected call records")]
    Empty,
    /// Another encoding.
    #[error(
        "the file is in UTF-16, expected UTF-8 or ASCII: convert it with iconv -f UTF-16 -t UTF-8"
    )]
    Utf16,
    /// Not a known format, or not the one that was asked for.
    #[error("{}", unknown(*asked, lines))]
    Unknown {
        /// The format that was asked for.
        asked: Option<Format>,
        /// Its first lines.
        lines: Vec<String>,
    },
    /// A named column is not there.
    #[error("{}", no_column(column, columns, *width))]
    NoColumn {
        /// What was asked for.
        column: String,
        /// The first row.
        columns: Vec<String>,
        /// The number of columns.
        width: usize,
    },
    /// Too few answered calls.
    #[error("{}", too_few(*found, *rows, *unanswered, bad, detected))]
    TooFew {
        /// Answered calls.
        found: u64,
        /// Rows.
        rows: u64,
        /// Calls without answer.
        unanswered: u64,
        /// Rows of no use.
        bad: BTreeMap<Cause, BadRows>,
        /// How it was read.
        detected: String,
    },
    /// All durations are the same.
    #[error(
        "all {calls} answered calls have the same duration, so there is no law to fit: write duration = {{ kind = \"fixed\", mean = \"{mean}\" }}"
    )]
    AllSame {
        /// How many.
        calls: u64,
        /// Their duration.
        mean: String,
    },
}

impl FitError {
    fn io(error: io::Error, line: u64) -> Self {
        if bounded::is_too_long(&error) {
            Self::TooLong { line }
        } else {
            Self::Io {
                line,
                source: error,
            }
        }
    }

    fn reading(error: csv::Error, line: u64) -> Self {
        match error.into_kind() {
            csv::ErrorKind::Io(error) => Self::io(error, line),
            // Rows of any length and bytes of any kind are read, so no other kind comes.
            other => Self::io(io::Error::other(format!("{other:?}")), line),
        }
    }
}

fn unknown(asked: Option<Format>, lines: &[String]) -> String {
    let mut out = match asked {
        None => "not a format of call records that is known. Its first lines:".to_owned(),
        Some(format) => format!("not of the format {}. Its first lines:", format.name()),
    };
    for line in lines {
        write!(out, "\n  | {line}").ok();
    }
    out.push_str(
        "\nexpected one of\n  \
         asterisk         Master.csv of cdr_csv or cdr_custom, or a table with columns billsec and disposition\n  \
         freeswitch       CSV of mod_cdr_csv, templates example or asterisk\n  \
         freeswitch-json  JSON of mod_json_cdr\n  \
         kamailio         acc with a header (method, callid, sip_code, time), or cdrs (start_time, end_time, duration)\n  \
         csv              any table, with --duration-column, or --answer-column and --end-column, by name or number",
    );
    out
}

fn no_column(column: &str, columns: &[String], width: usize) -> String {
    format!(
        "no column `{column}`: the first row has {}; expected a name in it, or a number from 1 to {width}",
        columns.join(", ")
    )
}

fn too_few(
    found: u64,
    rows: u64,
    unanswered: u64,
    bad: &BTreeMap<Cause, BadRows>,
    detected: &str,
) -> String {
    let mut out = format!(
        "{found} answered calls in {rows} rows ({unanswered} not answered), expected at least {CALLS_MIN}; read as {detected}"
    );
    for (cause, rows) in bad {
        write!(
            out,
            "\n  {} rows: {}, {}",
            rows.count,
            cause.text(),
            rows.at()
        )
        .ok();
    }
    if !bad.is_empty() {
        out.push_str("\nif it was read wrongly, say --format, or name the columns");
    }
    out
}

impl BadRows {
    /// `lines 3, 9, 12 …`.
    #[must_use]
    pub fn at(&self) -> String {
        let lines: Vec<String> = self.lines.iter().map(u64::to_string).collect();
        let more = if self.count > lines.len() as u64 {
            " …"
        } else {
            ""
        };
        let plural = if lines.len() == 1 { "line" } else { "lines" };
        format!("{plural} {}{more}", lines.join(", "))
    }
}

/// Reads call records and fits the talk times of the answered calls.
///
/// # Errors
/// They cannot be read, are of no known format, or have too few answered calls.
pub fn fit(reader: impl Read, options: &Options) -> Result<Report, FitError> {
    let (layout, tally) = read(reader, options)?;
    report(&layout, tally, options.seed)
}

/// Reads the talk times of the answered calls of call records, and fits nothing.
///
/// # Errors
/// They cannot be read, or are of no known format.
pub fn durations(reader: impl Read, options: &Options) -> Result<Sample, FitError> {
    Ok(read(reader, options)?.1.sample)
}

fn read(
    mut reader: impl Read,
    options: &Options,
) -> Result<(layout::Layout, tally::Tally), FitError> {
    let mut head = Vec::new();
    reader
        .by_ref()
        .take(HEAD_BYTES)
        .read_to_end(&mut head)
        .map_err(|source| FitError::Io { line: 1, source })?;
    let is_whole = (head.len() as u64) < HEAD_BYTES;
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
    let mut layout = layout::of(text, is_whole, options)?;
    let all = text.chain(reader);
    let tally = if layout.format == Format::FreeswitchJson {
        json::read(all, &mut layout)?
    } else {
        let mut tally = tally::Tally::new(layout.grain, layout.rounding);
        table::read(all, &layout, &mut tally)?;
        tally
    };
    Ok((layout, tally))
}

fn report(layout: &layout::Layout, tally: tally::Tally, seed: u64) -> Result<Report, FitError> {
    let sample = tally.sample;
    let detected = format!("{}, {}", layout.said, written(&sample));
    if sample.len() < CALLS_MIN {
        return Err(FitError::TooFew {
            found: sample.len(),
            rows: tally.rows,
            unanswered: tally.unanswered,
            bad: tally.bad,
            detected,
        });
    }
    if sample.occupied().nth(1).is_none() {
        return Err(FitError::AllSame {
            calls: sample.len(),
            mean: settings::seconds(sample.mean()),
        });
    }
    let arrivals = tally.traffic.busy().map(|busy| Arrivals {
        places: settings::places(busy.erlang),
        busy,
    });
    let mut warnings = Vec::new();
    if sample.is_without_zeros() && tally.unanswered > 0 && sample.grain() >= 1.0 {
        warnings.push(
            "a duration of 0 counts as not answered, since no column tells; the fits allow for calls shorter than the unit".to_owned(),
        );
    }
    if tally.finer > 0 {
        warnings.push(format!(
            "{} durations have more digits than the first rows, and were rounded",
            tally.finer
        ));
    }
    if tally.traffic.not_followed > 0 {
        warnings.push(format!(
            "{} calls of far apart hours are not in the traffic",
            tally.traffic.not_followed
        ));
    }
    Ok(Report {
        format: layout.format,
        detected,
        rows: tally.rows,
        unanswered: tally.unanswered,
        bad: tally.bad,
        fits: estimate::all(&sample, seed),
        ring: (tally.rings > 0).then(|| tally.ring_sum / tally.rings as f64),
        sample,
        arrivals,
        warnings,
    })
}

fn written(sample: &Sample) -> String {
    let grain = sample.grain();
    let unit = if (grain - 1.0).abs() < 1e-9 {
        "whole seconds".to_owned()
    } else {
        format!("steps of {}", settings::seconds(grain))
    };
    let rounded = match sample.rounding() {
        Rounding::Down => "rounded down",
        Rounding::Nearest => "to the nearest",
        Rounding::Up => "rounded up",
        Rounding::Difference => "each the difference of two instants rounded down",
    };
    format!("in {unit}, {rounded}")
}
