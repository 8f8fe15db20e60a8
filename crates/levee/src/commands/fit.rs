//! `levee fit CDR`.

mod page;
mod view;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use levee_sim::fit::{Arrivals, BadRows, Cause, Fit, Named, Options, Report, fit, settings};
use serde::Serialize;

use crate::cli::Global;
use crate::exit::Answer;
use crate::{output, view as progress};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The call records, such as /var/log/asterisk/cdr-csv/Master.csv; - for standard input
    cdr: PathBuf,
    /// The format, if it is not found out
    #[arg(long)]
    format: Option<Format>,
    /// What separates columns, if it is not found out: one character, or tab
    #[arg(long, value_parser = delimiter)]
    delimiter: Option<u8>,
    /// Column of the talk time, by name or by number from 1
    #[arg(long, value_name = "COLUMN")]
    duration_column: Option<String>,
    /// Column of the time of the answer
    #[arg(long, value_name = "COLUMN", requires = "end_column")]
    answer_column: Option<String>,
    /// Column of the time of the end
    #[arg(long, value_name = "COLUMN", requires = "answer_column")]
    end_column: Option<String>,
    /// Column of the time at which the call began
    #[arg(long, value_name = "COLUMN")]
    start_column: Option<String>,
    /// Unit of the talk time [default: s]
    #[arg(long)]
    unit: Option<Unit>,
    /// How talk times were made whole numbers; each format has its own default
    #[arg(long)]
    rounding: Option<Rounding>,
    /// Seed of the p-values
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the settings and nothing else, to be kept as a scenario
    #[arg(long, conflicts_with = "json")]
    settings: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Master.csv, or a table with columns billsec and disposition
    Asterisk,
    /// CSV of mod_cdr_csv
    Freeswitch,
    /// JSON of mod_json_cdr
    FreeswitchJson,
    /// acc with rows of INVITE and BYE, or cdrs
    Kamailio,
    /// Any other, by named columns
    Csv,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Unit {
    /// Seconds
    S,
    /// Milliseconds
    Ms,
    /// Microseconds
    Us,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rounding {
    /// The fraction was cut off
    Down,
    /// To the nearest
    Nearest,
    /// Each unit that has begun counts
    Up,
    /// The difference of two times whose fractions were cut off
    Difference,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && *byte != b'"' => Ok(*byte),
        _ => Err("expected one character such as ; or the word tab".to_owned()),
    }
}

impl Args {
    fn options(&self) -> Options {
        use levee_sim::fit;
        Options {
            format: self.format.map(|format| match format {
                Format::Asterisk => fit::Format::Asterisk,
                Format::Freeswitch => fit::Format::Freeswitch,
                Format::FreeswitchJson => fit::Format::FreeswitchJson,
                Format::Kamailio => fit::Format::Kamailio,
                Format::Csv => fit::Format::Csv,
            }),
            delimiter: self.delimiter,
            columns: Named {
                duration: self.duration_column.clone(),
                answer: self.answer_column.clone(),
                end: self.end_column.clone(),
                start: self.start_column.clone(),
            },
            unit: self.unit.map(|unit| match unit {
                Unit::S => 1.0,
                Unit::Ms => 1e-3,
                Unit::Us => 1e-6,
            }),
            rounding: self.rounding.map(|rounding| match rounding {
                Rounding::Down => fit::Rounding::Down,
                Rounding::Nearest => fit::Rounding::Nearest,
                Rounding::Up => fit::Rounding::Up,
                Rounding::Difference => fit::Rounding::Difference,
            }),
            seed: self.seed,
        }
    }
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    let report =
        read(&args.cdr, &args.options(), global).with_context(|| args.cdr.display().to_string())?;
    if let Some(path) = &args.html {
        fs::write(path, page::page(&report, &args.cdr.display().to_string())).with_context(
            || {
                format!(
                    "cannot write {}: choose another file with --html",
                    path.display()
                )
            },
        )?;
    }
    if global.json {
        output::json(&Document::of(&report))?;
    } else if args.settings {
        output::text(&settings::scenario(&report))?;
    } else {
        output::text(&view::text(&report, &args.cdr.display().to_string()))?;
    }
    if let Some(path) = args.html.as_ref().filter(|_| !global.quiet) {
        output::note(format_args!("plots: {}", path.display()));
    }
    Ok(Answer::Yes)
}

fn read(path: &Path, options: &Options, global: Global) -> Result<Report> {
    let (reader, bytes): (Box<dyn Read>, u64) = if path == Path::new("-") {
        (Box::new(io::stdin().lock()), 0)
    } else {
        let file = File::open(path).context("cannot be opened; check the path")?;
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        (Box::new(file), bytes)
    };
    let bar = progress::bytes_bar(global, bytes);
    let report = fit(bar.wrap_read(reader), options);
    bar.finish_and_clear();
    Ok(report?)
}

#[derive(Serialize)]
struct Document<'r> {
    command: &'static str,
    format: levee_sim::fit::Format,
    detected: &'r str,
    rows: u64,
    answered: u64,
    unanswered: u64,
    bad: BTreeMap<Cause, u64>,
    bad_lines: BTreeMap<Cause, &'r [u64]>,
    unit_s: f64,
    rounding: levee_sim::fit::Rounding,
    mean_s: f64,
    quantiles_s: BTreeMap<&'static str, f64>,
    ring_s: Option<f64>,
    busy_hour: Option<BusyHour>,
    fits: Vec<FitDocument>,
    best: Option<&'static str>,
    duration: Option<String>,
    drop_factor: String,
    settings: String,
    warnings: &'r [String],
}

#[derive(Serialize)]
struct BusyHour {
    start: String,
    seconds: f64,
    calls: u64,
    erlang: f64,
    places: u32,
}

#[derive(Serialize)]
struct FitDocument {
    kind: &'static str,
    converged: bool,
    parameters: BTreeMap<&'static str, f64>,
    standard_errors: BTreeMap<&'static str, f64>,
    mean: f64,
    mean_standard_error: f64,
    log_likelihood: f64,
    aic: f64,
    bic: f64,
    ks: f64,
    p_value: Option<f64>,
}

/// What is shown of a distribution besides its mean.
const QUANTILES: [(&str, f64); 5] = [
    ("p10", 0.1),
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("max", 1.0),
];

impl<'r> Document<'r> {
    fn of(report: &'r Report) -> Self {
        let bad = |(cause, rows): (&Cause, &'r BadRows)| (*cause, rows);
        let best = report.best();
        Self {
            command: "fit",
            format: report.format,
            detected: &report.detected,
            rows: report.rows,
            answered: report.sample.len(),
            unanswered: report.unanswered,
            bad: report
                .bad
                .iter()
                .map(bad)
                .map(|(c, rows)| (c, rows.count))
                .collect(),
            bad_lines: report
                .bad
                .iter()
                .map(bad)
                .map(|(c, rows)| (c, rows.lines.as_slice()))
                .collect(),
            unit_s: report.sample.grain(),
            rounding: report.sample.rounding(),
            mean_s: report.sample.mean(),
            quantiles_s: QUANTILES
                .map(|(name, p)| (name, report.sample.quantile(p)))
                .into(),
            ring_s: report.ring,
            busy_hour: report.arrivals.as_ref().map(BusyHour::of),
            fits: report.fits.iter().map(FitDocument::of).collect(),
            best: best.map(|fit| fit.law.family().name()),
            duration: best.and_then(settings::duration),
            drop_factor: settings::drop_factor(report),
            settings: settings::scenario(report),
            warnings: &report.warnings,
        }
    }
}

impl BusyHour {
    fn of(arrivals: &Arrivals) -> Self {
        Self {
            start: arrivals.busy_start(),
            seconds: arrivals.busy.seconds,
            calls: arrivals.busy.calls,
            erlang: arrivals.busy.erlang,
            places: arrivals.places,
        }
    }
}

impl FitDocument {
    fn of(fit: &Fit) -> Self {
        Self {
            kind: fit.law.family().name(),
            converged: fit.converged,
            parameters: fit.parameters.iter().map(|p| (p.name, p.value)).collect(),
            standard_errors: fit.parameters.iter().map(|p| (p.name, p.error)).collect(),
            mean: fit.mean,
            mean_standard_error: fit.mean_error,
            log_likelihood: fit.log_likelihood,
            aic: fit.aic,
            bic: fit.bic,
            ks: fit.distance.ks,
            p_value: fit.distance.p_value,
        }
    }
}
