//! The page with plots: one file with all that it needs inside.

use std::fmt::Write as _;

use levee_sim::fit::{Fit, Report, Sample, settings};
use levee_smc::report::escape;

use super::view::{self, Bar, LEGEND};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 42.0;
/// Points of a curve.
const POINTS: u32 = 160;
/// Steps of the data that are drawn: more than the plot is wide.
const STEPS_MAX: usize = 1_500;

pub(super) fn page(report: &Report, file: &str) -> String {
    let mut out = String::with_capacity(64 << 10);
    let title = format!("levee fit: {file}");
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>\n{css}</style>\n\
         </head>\n<body>\n<main>\n<h1>{title}</h1>\n<p>{detected}.</p>\n",
        title = escape(&title),
        css = include_str!("../../../../../assets/report.css"),
        detected = escape(&report.detected),
    )
    .ok();
    headline(&mut out, report);
    if let Some(best) = report.best() {
        let axis = Axis::of(&report.sample);
        out.push_str("<section class=\"plots\">\n");
        distributions(&mut out, report, &axis);
        histogram(&mut out, report, best);
        out.push_str("</section>\n");
    }
    table(&mut out, report);
    rows_of_no_use(&mut out, report);
    write!(
        out,
        "<figure class=\"wide\">\n<h2>Settings</h2>\n<div class=\"scroll\"><pre>{}</pre></div>\n</figure>\n</main>\n</body>\n</html>\n",
        escape(&settings::scenario(report))
    )
    .ok();
    out
}

fn headline(out: &mut String, report: &Report) {
    let sample = &report.sample;
    let mut items = vec![
        (
            sample.len().to_string(),
            format!("answered calls of {} rows", report.rows),
        ),
        (view::length(sample.mean()), "mean talk time".to_owned()),
    ];
    if let Some(ring) = report.ring {
        items.push((view::length(ring), "mean ringing".to_owned()));
    }
    if let Some(a) = &report.arrivals {
        items.push((
            format!("{:.1} Erlang", a.busy.erlang),
            format!(
                "in the busiest hour, from {}; {} places would block 1%",
                a.busy_start(),
                a.places
            ),
        ));
    }
    out.push_str("<ul class=\"headline\">\n");
    for (figure, what) in items {
        writeln!(out, "<li><b>{}</b>{}</li>", escape(&figure), escape(&what)).ok();
    }
    out.push_str("</ul>\n");
}

/// A logarithmic axis of talk times.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of(sample: &Sample) -> Self {
        let low = sample.quantile(0.005).max(sample.grain());
        Self {
            low,
            high: (sample.quantile(1.0) + sample.grain()).max(low * 1.1),
        }
    }

    fn x(&self, seconds: f64) -> f64 {
        let share = (seconds.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        LEFT + (WIDTH - LEFT - RIGHT) * share.clamp(0.0, 1.0)
    }

    fn marks(&self, out: &mut String) {
        let mut decade = 10f64.powi(self.low.log10().floor() as i32);
        // One mark a decade on a long axis, three on a short one.
        let steps: &[f64] = if self.high / self.low > 300.0 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        while decade <= self.high {
            for mark in steps.iter().map(|step| decade * step) {
                if (self.low..=self.high).contains(&mark) {
                    let x = self.x(mark);
                    writeln!(
                        out,
                        "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
                         <text class=\"axis\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                        HEIGHT - BOTTOM,
                        HEIGHT - BOTTOM + 16.0,
                        view::length(mark)
                    )
                    .ok();
                }
            }
            decade *= 10.0;
        }
        caption(out, "talk time");
    }
}

fn caption(out: &mut String, text: &str) {
    writeln!(
        out,
        "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0
    )
    .ok();
}

fn y(share: f64) -> f64 {
    TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share.clamp(0.0, 1.0))
}

/// The data's distribution function, and that of each law.
fn distributions(out: &mut String, report: &Report, axis: &Axis) {
    out.push_str("<figure>\n<h2>Share of the calls up to a talk time</h2>\n<ul class=\"key\"><li><i style=\"background:var(--ink)\"></i>calls</li>");
    let fits = || report.fits.iter().filter(|fit| fit.converged).enumerate();
    for (i, fit) in fits() {
        let name = fit.law.family().name();
        write!(
            out,
            "<li><i style=\"background:var(--c{i})\"></i>{name}</li>"
        )
        .ok();
    }
    writeln!(
        out,
        "</ul>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Distribution of the talk times, and of the fitted laws\">"
    )
    .ok();
    axis.marks(out);
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}%</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y(share) + 4.0,
            share * 100.0,
            y = y(share)
        )
        .ok();
    }
    for (i, fit) in fits() {
        let mut d = String::new();
        for point in 0..=POINTS {
            let at = axis.low * (axis.high / axis.low).powf(f64::from(point) / f64::from(POINTS));
            let letter = if point == 0 { 'M' } else { 'L' };
            write!(
                d,
                "{letter}{:.1} {:.1}",
                axis.x(at),
                y(1.0 - fit.law.survival(at))
            )
            .ok();
        }
        writeln!(
            out,
            "<path style=\"fill:none;stroke:var(--c{i});stroke-width:1.6\" d=\"{d}\"/>"
        )
        .ok();
    }
    let steps = report.sample.steps();
    let every = steps.len().div_ceil(STEPS_MAX).max(1);
    let mut d = format!("M{LEFT:.1} {:.1}", y(0.0));
    for (at, share) in steps.iter().step_by(every).chain(steps.last()) {
        write!(d, "H{:.1}V{:.1}", axis.x(*at), y(*share)).ok();
    }
    writeln!(out, "<path style=\"fill:none;stroke:var(--ink);stroke-width:1.2\" d=\"{d}\"/>\n</svg>\n</figure>").ok();
}

/// Calls by talk time, and what the best law expects.
fn histogram(out: &mut String, report: &Report, best: &Fit) {
    let bars = view::bars(report, best);
    let most = bars
        .iter()
        .map(|b| b.calls.max(b.expected))
        .fold(1.0, f64::max)
        * 1.05;
    let name = best.law.family().name();
    writeln!(
        out,
        "<figure>\n<h2>Calls by talk time</h2>\n<ul class=\"key\"><li><i style=\"background:var(--cut)\"></i>calls</li>\
         <li><i style=\"background:var(--c0)\"></i>expected by the {name}</li></ul>\n\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Calls by talk time, and what the {name} expects\">"
    )
    .ok();
    let width = (WIDTH - LEFT - RIGHT) / bars.len().max(1) as f64;
    let every = bars.len().div_ceil(8).max(1);
    let mut expected = String::new();
    for (
        i,
        Bar {
            low,
            high,
            calls,
            expected: law,
        },
    ) in bars.into_iter().enumerate()
    {
        let x = LEFT + width * i as f64;
        writeln!(
            out,
            "<rect style=\"fill:var(--cut)\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{} to {}: {calls} calls, {law:.0} expected</title></rect>",
            x + 1.0,
            y(calls / most),
            width - 2.0,
            y(0.0) - y(calls / most),
            view::length(low),
            view::length(high)
        )
        .ok();
        if i % every == 0 {
            writeln!(
                out,
                "<text class=\"axis\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                HEIGHT - BOTTOM + 16.0,
                view::length(low)
            )
            .ok();
        }
        write!(expected, "M{:.1} {:.1}h{width:.1}", x, y(law / most)).ok();
    }
    caption(out, "talk time from");
    writeln!(out, "<path style=\"fill:none;stroke:var(--c0);stroke-width:2.5\" d=\"{expected}\"/>\n</svg>\n</figure>").ok();
}

fn table(out: &mut String, report: &Report) {
    out.push_str(
        "<figure class=\"wide\">\n<h2>Fitted laws</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">law</th>\
         <th scope=\"col\">parameters</th><th scope=\"col\">mean</th><th scope=\"col\">AIC</th><th scope=\"col\">BIC</th>\
         <th scope=\"col\">KS</th><th scope=\"col\">p</th></tr></thead>\n<tbody>\n",
    );
    for fit in &report.fits {
        let parameters = if fit.converged {
            view::parameters(fit)
        } else {
            "does not converge".to_owned()
        };
        writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1}</td><td>{:.1}</td><td>{:.4}</td><td>{}</td></tr>",
            fit.law.family().name(),
            escape(&parameters),
            view::length(fit.mean),
            fit.aic,
            fit.bic,
            fit.distance.ks,
            escape(&view::p_value(fit))
        )
        .ok();
    }
    writeln!(out, "</tbody>\n</table></div>\n<p class=\"soft\">{}. After ± stands the standard error.</p>\n</figure>", escape(LEGEND)).ok();
}

fn rows_of_no_use(out: &mut String, report: &Report) {
    for (cause, rows) in &report.bad {
        writeln!(
            out,
            "<p class=\"soft\">{} rows: {}, {}.</p>",
            rows.count,
            escape(cause.text()),
            escape(&rows.at())
        )
        .ok();
    }
    for warning in &report.warnings {
        writeln!(out, "<p class=\"soft\">{}.</p>", escape(warning)).ok();
    }
}
