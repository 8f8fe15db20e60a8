//! Tables that people read.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::layout::{Layout, Panel};
use super::{Answer, Report};
use crate::Observable;
use crate::estimate::{Stopped, Verdict};

/// Characters in a line of a terminal that is not narrow.
const WIDTH: u16 = 120;

/// A table for each question and panel, or one of all questions when only lanes differ. Parametric questions have their parameter along
/// the rows.
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
            None if layout.queries.is_empty() => {}
            None => {
                heading(&mut text, &[&panel.title]);
                writeln!(text, "{}\n", list(panel, &layout.queries)).ok();
            }
        }
    }
    for curve in &layout.curves {
        for panel in &curve.panels {
            heading(&mut text, &[curve.query, &panel.title]);
            writeln!(text, "{}\n", grid(panel, curve.parameter, curve.query)).ok();
        }
    }
    footer(&mut text, report);
    text
}

/// What can be asked: name, unit and meaning of each observable and of what runs collect.
#[must_use]
pub fn offer(observables: &[Observable], samples: &[Observable]) -> String {
    let named = |all: &[Observable], numbered: bool| {
        let mut table = Table::new();
        table.load_style(UTF8_BORDERS_ONLY);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(WIDTH);
        let number = |text: String| numbered.then_some(text);
        let line = |first: String, rest: [String; 3]| number(first).into_iter().chain(rest);
        table.set_header(line(
            "no.".to_owned(),
            ["name", "unit", "what it is"].map(str::to_owned),
        ));
        for (i, o) in all.iter().enumerate() {
            let rest = [&o.name, &o.unit, &o.meaning].map(ToString::to_string);
            table.add_row(line((i + 1).to_string(), rest));
        }
        table
    };
    let mut text = format!(
        "Numbers at any moment of a run; in QuaTEx s.rval(no.) or s.rval(\"name\"), and s.rval(0) is the time:\n{}\n",
        named(observables, true)
    );
    text.push_str("QuaTEx has besides: `steps`, the states before this one, and `ended`, 1 at the last one.\n");
    if !samples.is_empty() {
        let table = named(samples, false);
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
    let digits = digits_of(panel, query);
    let rows = panel.rows.iter().enumerate().map(|(row, value)| {
        let first = value.as_ref().map(ToString::to_string).unwrap_or_default();
        let cells =
            (0..panel.lanes.len()).map(move |lane| cell(panel.answer(row, lane, query), digits));
        [first].into_iter().chain(cells)
    });
    aligned(header, rows)
}

fn list(panel: &Panel<'_>, queries: &[&str]) -> Table {
    let header = ["lane"].into_iter().chain(queries.iter().copied());
    let digits: Vec<usize> = queries.iter().map(|q| digits_of(panel, q)).collect();
    let rows = panel.lanes.iter().enumerate().map(|(lane, name)| {
        let queries = queries.iter().zip(&digits);
        let cells = queries.map(move |(q, digits)| cell(panel.answer(0, lane, q), *digits));
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
        column.set_padding((0, 1));
    }
    table
}

/// `0.8432 ±0.0098`; with a measurement a second line `live 0.8510 ±0.0200, +0.0078`.
pub(super) fn cell(answer: Option<&Answer>, digits: usize) -> String {
    let Some(answer) = answer else {
        return "-".to_owned();
    };
    let e = &answer.estimate;
    let mut text = interval(e.estimate, e.low, e.high, digits);
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
        let live = interval(measured.estimate, measured.low, measured.high, digits);
        write!(text, "\nlive {live}").ok();
        if let Some(gap) = answer.real.as_ref().and_then(|r| r.gap) {
            let out = answer.real.as_ref().and_then(|r| r.within) == Some(false);
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

/// Digits after the point that suit the answers to a query in a panel: those of the middle one of its intervals, so that figures of one
/// table can be compared at a glance.
pub(super) fn digits_of(panel: &Panel<'_>, query: &str) -> usize {
    let mut halves: Vec<f64> = panel
        .answers(query)
        .flat_map(|answer| {
            let measured = answer.real.as_ref().and_then(|r| r.measured.as_ref());
            let measured = measured.map(|m| half(m.low, m.high));
            [half(answer.estimate.low, answer.estimate.high)]
                .into_iter()
                .chain(measured)
        })
        .filter(|half| *half > 0.0 && half.is_finite())
        .collect();
    halves.sort_by(f64::total_cmp);
    let middle = halves.len().saturating_sub(1) / 2;
    digits(halves.get(middle).copied().unwrap_or(0.0))
}

/// An interval about its estimate as `±`, any other with its ends; one without width is its estimate alone.
fn interval(estimate: f64, low: f64, high: f64, digits: usize) -> String {
    if !estimate.is_finite() {
        return "-".to_owned();
    }
    let half = half(low, high);
    if !half.is_finite() || half == 0.0 {
        return format!("{estimate:.digits$}");
    }
    // A narrow interval is not shown as one of no width.
    let shown = 10f64.powi(-i32::try_from(digits).unwrap_or(0));
    let digits = if half < shown / 2.0 {
        self::digits(half)
    } else {
        digits
    };
    if ((high + low) / 2.0 - estimate).abs() <= 0.05 * half {
        format!("{estimate:.digits$} ±{half:.digits$}")
    } else {
        format!("{estimate:.digits$} ({low:.digits$}-{high:.digits$})")
    }
}

/// Two digits of the half width.
fn digits(half: f64) -> usize {
    if half > 0.0 && half.is_finite() {
        // A power of ten may come out a little below itself.
        (1.0 - (half.log10() + 1e-9).floor()).clamp(0.0, 10.0) as usize
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
        let runs = if *most == 1 { "run" } else { "runs" };
        writeln!(
            text,
            "{between} {runs} a point, seed {}; intervals at {}% confidence",
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
    if answers().any(|a| a.estimate.verdict == Some(Verdict::Undecided)) {
        notes
            .push("undecided: the runs show neither that it holds nor that it does not".to_owned());
    }
    // The same is often to be said of many points, with other figures.
    let mut warned: BTreeMap<(&str, String), (Figured<'_>, usize)> = BTreeMap::new();
    for answer in answers() {
        let name = answer.estimate.question();
        let note = answer.real.as_ref().and_then(|r| r.note.as_ref());
        for warning in answer.estimate.warnings.iter().chain(note) {
            let figured = Figured::new(warning);
            let entry = warned.entry((name, figured.words.join("\0")));
            let (all, points) = entry.or_insert_with(|| (figured.clone(), 0));
            all.widen(&figured);
            *points += 1;
        }
    }
    for ((name, _), (warning, points)) in warned {
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

/// A text taken apart into words and figures, so that texts which differ by their figures alone can be said once.
#[derive(Clone, Debug)]
struct Figured<'t> {
    /// One more than there are figures.
    words: Vec<&'t str>,
    /// The least and the greatest of each, as they were written.
    figures: Vec<[&'t str; 2]>,
}

impl<'t> Figured<'t> {
    fn new(text: &'t str) -> Self {
        let mut parts = Self {
            words: Vec::new(),
            figures: Vec::new(),
        };
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            let (word, from) = rest.split_at(at);
            let end = from.find(|c: char| !c.is_ascii_digit() && c != '.');
            let (figure, after) = from.split_at(end.unwrap_or(from.len()));
            // A point at the end is that of the sentence.
            let own = figure.trim_end_matches('.').len();
            parts.words.push(word);
            parts.figures.push([&figure[..own]; 2]);
            rest = if own == figure.len() {
                after
            } else {
                &from[own..]
            };
        }
        parts.words.push(rest);
        parts
    }

    fn widen(&mut self, other: &Self) {
        let value = |text: &str| text.parse::<f64>().unwrap_or(0.0);
        for ([low, high], [figure, _]) in self.figures.iter_mut().zip(&other.figures) {
            if value(figure) < value(low) {
                *low = figure;
            }
            if value(figure) > value(high) {
                *high = figure;
            }
        }
    }
}

impl fmt::Display for Figured<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, word) in self.words.iter().enumerate() {
            f.write_str(word)?;
            match self.figures.get(i) {
                Some([low, high]) if low == high => f.write_str(low)?,
                Some([low, high]) => write!(f, "{low} to {high}")?,
                None => {}
            }
        }
        Ok(())
    }
}
