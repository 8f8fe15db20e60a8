//! What people read of a fit.

use std::fmt::Write as _;

use levee_sim::fit::{Fit, Report, settings};

/// Places of the longest bar.
const BAR: usize = 48;
/// Bars at most.
const BARS_MAX: usize = 30;

pub(super) fn text(report: &Report, file: &str) -> String {
    let mut out = String::new();
    let sample = &report.sample;
    let bad: u64 = report.bad.values().map(|rows| rows.count).sum();
    writeln!(out, "{file}: {}", report.detected).ok();
    writeln!(
        out,
        "{} rows: {} answered calls, {} not answered, {bad} of no use",
        report.rows,
        sample.len(),
        report.unanswered
    )
    .ok();
    for (cause, rows) in &report.bad {
        writeln!(out, "  {} {}, {}", rows.count, cause.text(), rows.at()).ok();
    }
    for warning in &report.warnings {
        writeln!(out, "note: {warning}").ok();
    }
    writeln!(
        out,
        "talk time: mean {}, median {}, 90% up to {}, longest {}",
        length(sample.mean()),
        length(sample.quantile(0.5)),
        length(sample.quantile(0.9)),
        length(sample.quantile(1.0))
    )
    .ok();
    if let Some(ring) = report.ring {
        writeln!(out, "ringing: mean {}", length(ring)).ok();
    }
    if let Some(arrivals) = &report.arrivals {
        let busy = &arrivals.busy;
        writeln!(
            out,
            "busiest hour: from {}, {} calls, {:.2} Erlang carried; {} places would block 1%",
            arrivals.busy_start(),
            busy.calls,
            busy.erlang,
            arrivals.places
        )
        .ok();
    }
    out.push('\n');
    table(&mut out, report);
    if let Some(best) = report.best() {
        histogram(&mut out, report, best);
    }
    writeln!(out, "\n{}", settings::scenario(report)).ok();
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// A length for people: `12.5s`.
pub(super) fn length(seconds: f64) -> String {
    if seconds.abs() < 100.0 {
        let text = format!("{seconds:.2}");
        format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
    } else {
        format!("{seconds:.0}s")
    }
}

/// `mu 4.012 ± 0.020, sigma 1.199 ± 0.014`.
pub(super) fn parameters(fit: &Fit) -> String {
    let all = fit.parameters.iter();
    let all: Vec<String> = all
        .map(|p| {
            // Two digits of the error are what the data can tell.
            let digits = if p.error > 0.0 {
                (1.0 - p.error.log10().floor()).clamp(0.0, 6.0) as usize
            } else {
                4
            };
            format!("{} {:.digits$} ± {:.digits$}", p.name, p.value, p.error)
        })
        .collect();
    all.join(", ")
}

pub(super) fn p_value(fit: &Fit) -> String {
    match fit.distance.p_value {
        None => "-".to_owned(),
        Some(p) if p <= 0.001 => "<= 0.001".to_owned(),
        Some(p) => format!("{p:.3}"),
    }
}

/// What the columns mean; the same under the table of the page.
pub(super) const LEGEND: &str = "dAIC: how much worse than the best; KS: largest distance of the distribution functions; \
    p: how often a sample of that law, fitted again, lies as far or farther (bootstrap, 999)";

fn table(out: &mut String, report: &Report) {
    let least = report.fits.first().map_or(0.0, |fit| fit.aic);
    let rows: Vec<[String; 6]> = report
        .fits
        .iter()
        .map(|fit| {
            let (parameters, mean) = if fit.converged {
                (
                    parameters(fit),
                    format!("{} ± {}", length(fit.mean), length(fit.mean_error)),
                )
            } else {
                ("does not converge".to_owned(), "-".to_owned())
            };
            [
                fit.law.family().name().to_owned(),
                parameters,
                mean,
                format!("{:.1}", fit.aic - least),
                format!("{:.4}", fit.distance.ks),
                p_value(fit),
            ]
        })
        .collect();
    let head = ["law", "parameters", "mean", "dAIC", "KS", "p"].map(str::to_owned);
    let mut widths = [0; 6];
    for row in std::iter::once(&head).chain(&rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in std::iter::once(&head).chain(&rows) {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(widths).enumerate() {
            let fill = " ".repeat(width - cell.chars().count());
            let gap = if i == 0 { "" } else { "  " };
            match i {
                0..=2 => write!(line, "{gap}{cell}{fill}").ok(),
                _ => write!(line, "{gap}{fill}{cell}").ok(),
            };
        }
        writeln!(out, "{}", line.trim_end()).ok();
    }
    writeln!(out, "{LEGEND}").ok();
}

/// Calls from one edge to the next, and how many the law expects there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) calls: f64,
    pub(super) expected: f64,
}

/// The talk times in bars of about equal width on a logarithmic axis.
pub(super) fn bars(report: &Report, fit: &Fit) -> Vec<Bar> {
    let sample = &report.sample;
    let longest = sample.quantile(1.0) + sample.grain();
    let mut edges = vec![0];
    let from = sample.quantile(0.01).max(sample.grain());
    let mut decade = 10f64.powi(from.log10().floor() as i32);
    while decade < longest && edges.len() < BARS_MAX {
        for step in [1.0, 1.5, 2.0, 3.0, 5.0, 7.0] {
            let edge = (decade * step / sample.grain()).round() as u64;
            let above = edges.last().is_none_or(|last| edge > *last);
            if above && decade * step >= from && edges.len() < BARS_MAX {
                edges.push(edge);
                if decade * step >= longest {
                    break;
                }
            }
        }
        decade *= 10.0;
    }
    let n = sample.len() as f64;
    edges
        .windows(2)
        .filter_map(|pair| {
            let [low, high] = pair else { return None };
            let seconds = |grains: u64| grains as f64 * sample.grain();
            Some(Bar {
                low: seconds(*low),
                high: seconds(*high),
                calls: sample.count(seconds(*low), seconds(*high)) as f64,
                expected: n * (sample.recorded(&fit.law, *low) - sample.recorded(&fit.law, *high)),
            })
        })
        .collect()
}

fn histogram(out: &mut String, report: &Report, best: &Fit) {
    let bars = bars(report, best);
    let most = bars
        .iter()
        .map(|b| b.calls.max(b.expected))
        .fold(1.0, f64::max);
    let place = |calls: f64| (calls / most * BAR as f64).round() as usize;
    writeln!(
        out,
        "\ncalls by talk time, and | what the {} expects",
        best.law.family().name()
    )
    .ok();
    for bar in bars {
        let (filled, mark) = (place(bar.calls), place(bar.expected));
        let line: String = (0..=BAR)
            .map(|i| match i {
                _ if i == mark => '|',
                _ if i < filled => '█',
                _ => ' ',
            })
            .collect();
        writeln!(
            out,
            "{:>8} - {:<8} {line}{:>7} {:>8.0}",
            length(bar.low),
            length(bar.high),
            bar.calls,
            bar.expected
        )
        .ok();
    }
}
