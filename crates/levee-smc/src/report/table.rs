//! Tables that people read.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};

use super::layout::{Layout, Panel};
use super::{Answer, Report};
use crate::Observable;
use crate::estimate::{Stopped, Verdict};

/// A table for each question and panel, or one of all questions when only lanes differ.
#[must_use]
pub fn table(report: &Report) -> String {
    let layout = Layout::new(report);
    let mut text = String::new();
    for panel in &layout.panels {
        match layout.x {
            Some(x) => {
                for query in &layout.queries {
                    heading(&mut text, &[query, &panel.title]);
                    writeln!(text, "{}\n", grid(panel, x, query)).ok();
                }
            }
            None => {
                heading(&mut text, &[&panel.title]);
                writeln!(text, "{}\n", list(panel, &layout.queries)).ok();
            }
        }
    }
    footer(&mut text, report);
    text
}

/// What can be asked: name, unit and meaning of each observable and of what runs collect.
#[must_use]
pub fn offer(observables: &[Observable], samples: &[Observable]) -> String {
    let rows = |all: &[Observable]| {
        let mut table = Table::new();
        table.load_style(UTF8_BORDERS_ONLY);
        table.set_header(["name", "unit", "what it is"]);
        for o in all {
            table.add_row([&o.name, &o.unit, &o.meaning].map(ToString::to_string));
        }
        table
    };
    let mut text = format!("Numbers at any moment of a run:\n{}\n", rows(observables));
    if !samples.is_empty() {
        let table = rows(samples);
        write!(text, "\nCollected over a run, for quantiles:\n{table}\n").ok();
    }
    text
}

fn heading(text: &mut String, parts: &[&str]) {
    let parts: Vec<&str> = parts.iter().copied().filter(|p| !p.is_empty()).collect();
    if !parts.is_empty() {
        writeln!(text, "{}", parts.join(", ")).ok();
    }
}

fn grid(panel: &Panel<'_>, x: &str, query: &str) -> Table {
    let header = [x].into_iter().chain(panel.lanes.iter().copied());
    let rows = panel.rows.iter().enumerate().map(|(row, value)| {
        let first = value.map(ToString::to_string).unwrap_or_default();
        let cells = (0..panel.lanes.len()).map(move |lane| cell(panel.answer(row, lane, query)));
        [first].into_iter().chain(cells)
    });
    aligned(header, rows)
}

fn list(panel: &Panel<'_>, queries: &[&str]) -> Table {
    let header = ["lane"].into_iter().chain(queries.iter().copied());
    let rows = panel.lanes.iter().enumerate().map(|(lane, name)| {
        let cells = queries.iter().map(move |q| cell(panel.answer(0, lane, q)));
        [(*name).to_owned()].into_iter().chain(cells)
    });
    aligned(header, rows)
}

fn aligned<'a, R: Iterator<Item = String>>(
    header: impl Iterator<Item = &'a str>,
    rows: impl Iterator<Item = R>,
) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// `0.8432 ±0.0098`; with a measurement a second line `live 0.8510 ±0.0200, +0.0078`.
pub(super) fn cell(answer: Option<&Answer>) -> String {
    let Some(answer) = answer else {
        return "-".to_owned();
    };
    let e = &answer.estimate;
    let mut text = interval(e.estimate, e.low, e.high);
    match e.verdict {
        Some(Verdict::Holds) => text.push_str(" holds"),
        Some(Verdict::Rejected) => text.push_str(" REJECTED"),
        Some(Verdict::Undecided) => text.push_str(" undecided"),
        None => {}
    }
    if !e.warnings.is_empty() {
        text.push_str(" !");
    }
    if let Some(measured) = answer.real.as_ref().and_then(|r| r.measured.as_ref()) {
        let live = interval(measured.estimate, measured.low, measured.high);
        write!(text, "\nlive {live}").ok();
        if let Some(gap) = answer.real.as_ref().and_then(|r| r.gap) {
            let out = answer.real.as_ref().and_then(|r| r.within) == Some(false);
            let digits = digits(half(measured.low, measured.high));
            let mark = if out { " *" } else { "" };
            write!(text, "\ngap {gap:+.digits$}{mark}").ok();
            if let Some(same) = answer.real.as_ref().and_then(|r| r.same_runs.as_ref()) {
                write!(text, "\nsame runs {:+.digits$}", same.gap).ok();
            }
        }
    }
    text
}

fn half(low: f64, high: f64) -> f64 {
    (high - low) / 2.0
}

/// An interval about its estimate as `±`, any other with its ends.
fn interval(estimate: f64, low: f64, high: f64) -> String {
    if !estimate.is_finite() {
        return "-".to_owned();
    }
    let half = half(low, high);
    let digits = digits(half);
    if !half.is_finite() {
        return format!("{estimate:.4}");
    }
    if ((high + low) / 2.0 - estimate).abs() <= 0.05 * half {
        format!("{estimate:.digits$} ±{half:.digits$}")
    } else {
        format!("{estimate:.digits$} ({low:.digits$}-{high:.digits$})")
    }
}

/// Two digits of the half width.
fn digits(half: f64) -> usize {
    if half > 0.0 && half.is_finite() {
        (1.0 - half.log10().floor()).clamp(0.0, 10.0) as usize
    } else {
        4
    }
}

fn footer(text: &mut String, report: &Report) {
    let answers = || report.points.iter().flat_map(|p| &p.queries);
    let runs: Vec<u64> = answers().map(|a| a.estimate.runs).collect();
    if let (Some(least), Some(most)) = (runs.iter().min(), runs.iter().max()) {
        let confidence = answers().map(|a| a.estimate.confidence).fold(1.0, f64::min);
        let between = if least == most {
            format!("{most}")
        } else {
            format!("{least} to {most}")
        };
        writeln!(
            text,
            "{between} runs a point, seed {}; intervals at {}% confidence",
            report.seed,
            confidence * 100.0
        )
        .ok();
    }
    for note in notes(report) {
        writeln!(text, "{note}").ok();
    }
}

/// What has to be said below the figures.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let answers = || report.points.iter().flat_map(|p| &p.queries);
    let mut notes: Vec<String> = Vec::new();
    if answers().any(|a| a.real.is_some()) {
        notes.push(
            "live: measured by real runs; gap: measured less predicted; *: more than both intervals leave open; \
             same runs: measured less what the model says to the very same calls"
                .to_owned(),
        );
    }
    // The same is often to be said of many points.
    let mut warned: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for answer in answers() {
        let name = answer.estimate.name.as_str();
        for warning in &answer.estimate.warnings {
            *warned.entry((name, warning)).or_default() += 1;
        }
        if let Some(note) = answer.real.as_ref().and_then(|r| r.note.as_deref()) {
            *warned.entry((name, note)).or_default() += 1;
        }
    }
    for ((name, warning), points) in warned {
        let places = if points == 1 { "point" } else { "points" };
        notes.push(format!("! {name}: {warning} ({points} {places})"));
    }
    let cut = |why| answers().any(|a| a.estimate.stopped == why);
    if cut(Stopped::MaxRuns) {
        notes.push(
            "not all intervals are as narrow as asked: the greatest number of runs was reached"
                .to_owned(),
        );
    }
    if cut(Stopped::Budget) {
        notes.push("not all intervals are as narrow as asked: the time was spent".to_owned());
    }
    notes.extend(report.warnings.iter().map(|w| format!("warning: {w}")));
    if report.interrupted {
        notes.push("interrupted: only what was done is shown".to_owned());
    }
    notes
}
