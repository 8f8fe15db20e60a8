//! The page with plots: one file with all that it needs inside, for any browser.

use std::fmt::Write as _;

use super::chart::{Chart, Mark, Series, Tick};
use super::layout::{Layout, Panel};
use super::{Answer, Coordinate, Report, escape, table};

const HEAD: [&str; 3] = [
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
     <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
    "</title>\n<style>\n",
    "</style>\n</head>\n<body>\n<main>\n",
];

/// The whole page: a plot and a table for each question and panel.
#[must_use]
pub fn html(report: &Report) -> String {
    let layout = Layout::new(report);
    let title = format!("levee {}: {}", report.command, report.scenario);
    let mut out = String::with_capacity(64 << 10);
    let [start, middle, end] = HEAD;
    out.push_str(start);
    out.push_str(&escape(&title));
    out.push_str(middle);
    out.push_str(include_str!("../../../../assets/report.css"));
    out.push_str(end);
    writeln!(out, "<h1>{}</h1>", escape(&title)).ok();
    introduction(&mut out, report);
    for query in &layout.queries {
        section(&mut out, &layout.panels, layout.x, query);
    }
    for curve in &layout.curves {
        section(&mut out, &curve.panels, Some(curve.parameter), curve.query);
    }
    notes(&mut out, report);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// All that there is to a query.
fn section(out: &mut String, panels: &[Panel<'_>], x: Option<&str>, query: &str) {
    writeln!(
        out,
        "<h2 class=\"query\">{}</h2>\n<section class=\"plots\">",
        escape(query)
    )
    .ok();
    for panel in panels {
        chart(panel, x, query).write(out);
    }
    out.push_str("</section>\n");
    for panel in panels {
        rows(out, panel, x, query);
    }
}

fn introduction(out: &mut String, report: &Report) {
    let answers = || report.points.iter().flat_map(|p| &p.queries);
    let confidence = answers().map(|a| a.estimate.confidence).fold(1.0, f64::min);
    let most = answers().map(|a| a.estimate.runs).max().unwrap_or(0);
    writeln!(
        out,
        "<p>{} points, up to {most} runs each, seed {}. Whiskers are intervals at {}% confidence.</p>",
        report.points.len(),
        report.seed,
        confidence * 100.0
    )
    .ok();
    if report.interrupted {
        out.push_str("<p><strong>Interrupted: only what was done is shown.</strong></p>\n");
    }
}

fn chart(panel: &Panel<'_>, x: Option<&str>, query: &str) -> Chart {
    let title = &panel.title;
    let over = x.unwrap_or("lanes");
    let about = [query, title, over].map(str::to_owned);
    let about = about.into_iter().filter(|part| !part.is_empty());
    let about = about.collect::<Vec<_>>().join(", ");
    let marks = |lane: usize, of: fn(&Answer) -> Option<Mark>| -> Vec<(usize, Mark)> {
        let all = 0..panel.rows.len();
        all.filter_map(|row| Some((row, of(panel.answer(row, lane, query)?)?)))
            .collect()
    };
    match x {
        Some(x) => Chart {
            title: title.to_owned(),
            about,
            x_label: x.to_owned(),
            ticks: panel.rows.iter().map(|row| tick(row.as_ref())).collect(),
            series: panel
                .lanes
                .iter()
                .enumerate()
                .map(|(lane, name)| Series {
                    name: (*name).to_owned(),
                    marks: marks(lane, predicted),
                    measured: marks(lane, measured),
                })
                .collect(),
        },
        // Lanes stand along the axis, each with a colour of its own.
        None => Chart {
            title: title.to_owned(),
            about,
            x_label: String::new(),
            ticks: panel
                .lanes
                .iter()
                .map(|name| Tick {
                    label: (*name).to_owned(),
                    value: None,
                })
                .collect(),
            series: panel
                .lanes
                .iter()
                .enumerate()
                .map(|(lane, name)| {
                    let one = |mark: Option<Mark>| mark.map(|m| (lane, m)).into_iter().collect();
                    let answer = panel.answer(0, lane, query);
                    Series {
                        name: (*name).to_owned(),
                        marks: one(answer.and_then(predicted)),
                        measured: one(answer.and_then(measured)),
                    }
                })
                .collect(),
        },
    }
}

fn predicted(answer: &Answer) -> Option<Mark> {
    let e = &answer.estimate;
    Some(Mark {
        estimate: e.estimate,
        low: e.low,
        high: e.high,
    })
}

fn measured(answer: &Answer) -> Option<Mark> {
    let m = answer.real.as_ref()?.measured.as_ref()?;
    Some(Mark {
        estimate: m.estimate,
        low: m.low,
        high: m.high,
    })
}

fn tick(value: Option<&Coordinate>) -> Tick {
    Tick {
        label: value.map(ToString::to_string).unwrap_or_default(),
        value: match value {
            Some(Coordinate::Number(n)) => Some(*n),
            Some(Coordinate::Name(_)) | None => None,
        },
    }
}

fn rows(out: &mut String, panel: &Panel<'_>, x: Option<&str>, query: &str) {
    out.push_str("<figure class=\"wide\">\n");
    if !panel.title.is_empty() {
        writeln!(out, "<h2>{}</h2>", escape(&panel.title)).ok();
    }
    write!(
        out,
        "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">{}</th>",
        escape(x.unwrap_or(""))
    )
    .ok();
    for lane in &panel.lanes {
        write!(out, "<th scope=\"col\">{}</th>", escape(lane)).ok();
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let digits = table::digits_of(panel, query);
    for (row, value) in panel.rows.iter().enumerate() {
        let label = value.as_ref().map(ToString::to_string).unwrap_or_default();
        write!(out, "<tr><td>{}</td>", escape(&label)).ok();
        for lane in 0..panel.lanes.len() {
            let cell = table::cell(panel.answer(row, lane, query), digits);
            write!(out, "<td>{}</td>", escape(&cell).replace('\n', "<br/>")).ok();
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n</figure>\n");
}

fn notes(out: &mut String, report: &Report) {
    let notes = table::notes(report);
    if !notes.is_empty() {
        out.push_str("<ul class=\"soft\">\n");
        for note in notes {
            writeln!(out, "<li>{}</li>", escape(&note)).ok();
        }
        out.push_str("</ul>\n");
    }
}
