//! The page that the demo leaves: one file with its plots inside, for any browser, in light and dark, wide and narrow.

use std::fmt::Write as _;

use levee_smc::report::escape;

use crate::demo::DemoResult;
use crate::outcome::{Sample, Tally};
use crate::report::{KindReport, LaneReport};
use crate::stats::Share;

/// The whole page.
#[must_use]
pub fn page(demo: &DemoResult) -> String {
    let mut out = head("Levee: a telephone server under attack");
    introduction(&mut out, demo);
    out.push_str("<section class=\"plots\">\n");
    for (lane, series) in demo.report.lanes.iter().zip(&demo.series) {
        held(&mut out, demo, lane, series);
    }
    out.push_str("</section>\n");
    outcomes(&mut out, demo);
    table(&mut out, demo);
    notes(&mut out, demo);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// The beginning of a page, up to its content. Blue and orange are told apart by all common kinds of colour vision, and each area is
/// labelled besides.
pub(crate) fn head(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<main>\n",
        include_str!("../../../assets/report.css")
    )
}

fn introduction(out: &mut String, demo: &DemoResult) {
    write!(
        out,
        "<h1>A telephone server that can hold {k} calls, under attack</h1>\n\
         <p>For {total:.0} seconds about {rate:.1} calls a second came in over real SIP on this machine. {share:.0}% of them were \
         attackers&#8217;: they look like any other call, and never hang up. Honest callers want to talk for {mean:.1} seconds on \
         average. Both servers got the same calls at the same time.</p>\n<ul class=\"headline\">\n",
        k = demo.capacity,
        total = demo.total.as_secs_f64(),
        rate = demo.rate,
        share = demo.share * 100.0,
        mean = demo.mean_call.as_secs_f64(),
    )
    .ok();
    for lane in &demo.report.lanes {
        let half = &lane.second_half.honest;
        writeln!(
            out,
            "<li><b>{}</b>of honest calls in the second half lasted as long as the caller wanted: <strong>{}</strong> ({} of {})</li>",
            percent(half.complete_share),
            escape(&title(&lane.name)),
            half.complete,
            half.attempted
        )
        .ok();
    }
    out.push_str("</ul>\n");
}

pub(crate) const WIDTH: f64 = 400.0;
pub(crate) const HEIGHT: f64 = 250.0;
pub(crate) const LEFT: f64 = 34.0;
pub(crate) const RIGHT: f64 = 10.0;
pub(crate) const TOP: f64 = 14.0;
pub(crate) const BOTTOM: f64 = 38.0;

/// Where values lie in a plot.
pub(crate) struct Frame {
    pub(crate) x_max: f64,
    pub(crate) y_max: f64,
}

impl Frame {
    pub(crate) fn x(&self, seconds: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (seconds / self.x_max).clamp(0.0, 1.0)
    }

    pub(crate) fn y(&self, calls: f64) -> f64 {
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - (calls / self.y_max).clamp(0.0, 1.0))
    }
}

/// Calls held over time, honest below and attackers' above, as steps.
fn held(out: &mut String, demo: &DemoResult, lane: &LaneReport, series: &[Sample]) {
    let k = f64::from(demo.capacity);
    let frame = Frame {
        x_max: demo.total.as_secs_f64().max(1.0),
        y_max: k * 1.1,
    };
    let last = series.last().copied().unwrap_or_default();
    let name = escape(&title(&lane.name));
    write!(
        out,
        "<figure>\n<h2>{name}</h2>\n{KEY_HELD}<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Calls held over time, {name}. \
         At the end {} honest calls and {} attackers&#8217; of {} places.\">\n",
        calls(&last.honest),
        calls(&last.attacker),
        demo.capacity
    )
    .ok();
    axes(out, &frame, demo.capacity);
    // An INVITE on its way to a 503 waits for a moment without holding a place: nothing is drawn above the capacity.
    let held = |n: u32| n.min(demo.capacity);
    let honest = |s: &Sample| (s.at_s, 0, held(calls(&s.honest)));
    let honest: Band = series.iter().map(honest).collect();
    area(out, &frame, "--honest", &honest);
    let attackers = |s: &Sample| {
        let honest = calls(&s.honest);
        (s.at_s, held(honest), held(honest + calls(&s.attacker)))
    };
    let attackers: Band = series.iter().map(attackers).collect();
    area(out, &frame, "--attacker", &attackers);
    let y = frame.y(k);
    write!(
        out,
        "<line class=\"limit\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">capacity {}</text>\n</svg>\n</figure>\n",
        WIDTH - RIGHT,
        WIDTH - RIGHT,
        y - 4.0,
        demo.capacity
    )
    .ok();
}

const KEY_HELD: &str = "<ul class=\"key\"><li><i style=\"background:var(--attacker)\"></i>attackers&#8217; calls held</li>\
    <li><i style=\"background:var(--honest)\"></i>honest calls held</li></ul>\n";

fn calls(tally: &Tally) -> u32 {
    tally.waiting + tally.in_call
}

pub(crate) fn axes(out: &mut String, frame: &Frame, capacity: u32) {
    let step = (capacity / 4).max(1);
    for value in (0..=capacity).step_by(step as usize) {
        let y = frame.y(f64::from(value));
        writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0
        )
        .ok();
    }
    let step = nice_step(frame.x_max);
    let mut at = 0.0;
    while at <= frame.x_max {
        writeln!(
            out,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at:.0}</text>",
            frame.x(at),
            HEIGHT - BOTTOM + 16.0
        )
        .ok();
        at += step;
    }
    writeln!(
        out,
        "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">seconds</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0
    )
    .ok();
}

/// A step of 1, 2 or 5 times a power of ten that gives at most eight marks.
fn nice_step(max: f64) -> f64 {
    let mut step = 1.0;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle().take(30) {
        if max / step <= 8.0 {
            break;
        }
        step *= factor;
    }
    step
}

/// What lies between two levels over time, as steps: seconds, the lower and the upper level.
pub(crate) type Band = Vec<(f64, u32, u32)>;

pub(crate) fn area(out: &mut String, frame: &Frame, colour: &str, band: &Band) {
    let Some((from, _, top)) = band.first() else {
        return;
    };
    let level = |n: u32| frame.y(f64::from(n));
    write!(
        out,
        "<path style=\"fill:var({colour})\" d=\"M{:.1} {:.1}",
        frame.x(*from),
        level(*top)
    )
    .ok();
    for (at, _, top) in band.iter().skip(1) {
        write!(out, "H{:.1}V{:.1}", frame.x(*at), level(*top)).ok();
    }
    // Back along the lower edge; a step seen from behind goes down before it goes left.
    if let Some((_, bottom, _)) = band.last() {
        write!(out, "V{:.1}", level(*bottom)).ok();
    }
    for pair in band.windows(2).rev() {
        if let [(at, bottom, _), _] = pair {
            write!(out, "V{:.1}H{:.1}", level(*bottom), frame.x(*at)).ok();
        }
    }
    out.push_str("Z\"/>\n");
}

fn outcomes(out: &mut String, demo: &DemoResult) {
    out.push_str(
        "<figure class=\"wide\">\n<h2>What became of honest calls that began in the second half</h2>\n\
         <ul class=\"key\"><li><i style=\"background:var(--honest)\"></i>lasted as long as wanted</li>\
         <li><i style=\"background:var(--cut)\"></i>cut short</li>\
         <li><i style=\"background:var(--refused)\"></i>never set up</li></ul>\n<div class=\"bars\">\n",
    );
    for lane in &demo.report.lanes {
        let half = &lane.second_half.honest;
        let parts = [
            (
                "--honest",
                "var(--card)",
                half.complete,
                half.complete_share,
            ),
            (
                "--cut",
                "var(--ink)",
                half.incomplete,
                half.incomplete_share,
            ),
            (
                "--refused",
                "var(--ink)",
                half.unsuccessful,
                half.unsuccessful_share,
            ),
        ];
        let name = escape(&title(&lane.name));
        write!(
            out,
            "<div>{name}<div class=\"bar\" role=\"img\" aria-label=\"{name}: {} lasted, {} cut short, {} never set up\">",
            half.complete, half.incomplete, half.unsuccessful
        )
        .ok();
        for (colour, ink, n, share) in parts {
            let width = share.map_or(0.0, |s| s.estimate * 100.0);
            if n > 0 {
                // A narrow part has no room for its number; the table has it.
                let label = if width >= 6.0 {
                    n.to_string()
                } else {
                    String::new()
                };
                write!(
                    out,
                    "<span style=\"width:{width:.2}%;background:var({colour});color:{ink}\">{label}</span>"
                )
                .ok();
            }
        }
        out.push_str("</div></div>\n");
    }
    out.push_str("</div>\n</figure>\n");
}

fn table(out: &mut String, demo: &DemoResult) {
    out.push_str(
        "<figure class=\"wide\">\n<h2>All figures</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">calls</th>\
         <th scope=\"col\">begun</th><th scope=\"col\">lasted</th><th scope=\"col\">cut short</th><th scope=\"col\">never set up</th>\
         <th scope=\"col\">lasted, share</th><th scope=\"col\">mean stay</th><th scope=\"col\">set-up, median</th></tr></thead>\n<tbody>\n",
    );
    for lane in &demo.report.lanes {
        let name = escape(&title(&lane.name));
        writeln!(
            out,
            "<tr><th colspan=\"8\" scope=\"colgroup\">{name}</th></tr>"
        )
        .ok();
        row(out, "honest", &lane.honest);
        row(out, "honest, second half", &lane.second_half.honest);
        row(out, "attackers&#8217;", &lane.attacker);
    }
    out.push_str("</tbody>\n</table></div>\n</figure>\n");
}

fn row(out: &mut String, kind: &str, r: &KindReport) {
    let share = r.complete_share.map_or_else(
        || "-".to_owned(),
        |s| {
            format!(
                "{:.1}% ({:.0}&#8211;{:.0})",
                s.estimate * 100.0,
                s.low * 100.0,
                s.high * 100.0
            )
        },
    );
    let stay = r
        .in_server_mean_s
        .map_or_else(|| "-".to_owned(), |s| format!("{s:.1} s"));
    let setup = r
        .setup_ms
        .map_or_else(|| "-".to_owned(), |l| format!("{:.0} ms", l.p50));
    writeln!(
        out,
        "<tr><td>{kind}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{share}</td><td>{stay}</td><td>{setup}</td></tr>",
        r.attempted,
        r.complete,
        r.incomplete,
        r.unsuccessful
    )
    .ok();
}

fn notes(out: &mut String, demo: &DemoResult) {
    writeln!(
        out,
        "<p class=\"soft\">In brackets the 95% interval (Wilson) given the number of calls. A call that was connected when the run ended \
         counts as lasted. The first half mostly shows how long the places take to fill. Seed {}.</p>",
        demo.report.seed
    )
    .ok();
    if demo.report.interrupted {
        out.push_str(
            "<p class=\"soft\">The run was stopped early: these are the figures up to then.</p>\n",
        );
    }
    for warning in &demo.report.warnings {
        writeln!(out, "<p class=\"soft\">{}</p>", escape(warning)).ok();
    }
}

fn percent(share: Option<Share>) -> String {
    share.map_or_else(|| "-".to_owned(), |s| format!("{:.0}%", s.estimate * 100.0))
}

/// A lane's name for people.
fn title(name: &str) -> String {
    match name {
        "undefended" => "without Levee".to_owned(),
        other => match other.strip_prefix("seven-") {
            Some(strategy) => format!("behind Levee (SeVen, {strategy})"),
            None => format!("behind Levee ({other})"),
        },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::tests::{lane_report, report};

    fn demo() -> DemoResult {
        let mut report = report();
        report.command = "demo";
        report.lanes = vec![lane_report("undefended"), lane_report("a<b>&\"c")];
        report.warnings = vec!["1 < 2 & 3".into()];
        let tally = |in_call| Tally {
            in_call,
            ..Tally::default()
        };
        let sample = |at_s: f64, h, a| Sample {
            at_s,
            honest: tally(h),
            attacker: tally(a),
        };
        DemoResult {
            report,
            capacity: 24,
            share: 0.5,
            rate: 5.1,
            mean_call: Duration::from_secs(3),
            total: Duration::from_secs(55),
            series: vec![
                vec![sample(0.0, 0, 0), sample(30.0, 4, 20), sample(55.0, 1, 29)],
                Vec::new(),
            ],
        }
    }

    /// Every tag closed in its order, every attribute quoted, no bare `&`.
    pub(crate) fn check_well_formed(html: &str) {
        let mut open = Vec::new();
        let mut rest = html;
        while let Some(at) = rest.find('<') {
            let (text, tag) = rest.split_at(at);
            if open.last() != Some(&"style") {
                for (i, _) in text.match_indices('&') {
                    let entity = text[i..].split_once(';').map(|(e, _)| e);
                    assert!(entity.is_some_and(|e| e.len() < 8), "bare & in {text:?}");
                }
                assert!(!text.contains('>'), "bare > in {text:?}");
            }
            let (tag, after) = tag[1..].split_once('>').expect("an open angle bracket");
            rest = after;
            let name = tag.split([' ', '/']).find(|n| !n.is_empty()).unwrap();
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "closing tag");
            } else if !tag.ends_with('/') && !["!DOCTYPE", "meta"].contains(&name) {
                open.push(name);
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
        }
        assert_eq!(open, Vec::<&str>::new(), "left open");
    }

    #[test]
    fn the_page_is_well_formed_and_self_contained() {
        let html = page(&demo());
        check_well_formed(&html);
        for outside in [
            "http:", "https:", "src=", "href=", "url(", "@import", "<script",
        ] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("a&lt;b&gt;&amp;&quot;c"));
        assert!(html.contains("1 &lt; 2 &amp; 3"));
    }

    #[test]
    fn nothing_is_drawn_outside_the_frame() {
        let html = page(&demo());
        for path in html.split(" d=\"").skip(1) {
            let path = path.split('"').next().unwrap();
            let steps = path
                .split(['M', 'H', 'V', 'Z', ' '])
                .filter(|s| !s.is_empty());
            for n in steps.map(|s| s.parse::<f64>().unwrap()) {
                assert!((0.0..=WIDTH).contains(&n), "{n} in {path}");
            }
        }
        // 4 honest of 24 at 30 s.
        let frame = Frame {
            x_max: 55.0,
            y_max: 24.0 * 1.1,
        };
        let mark = format!("H{:.1}V{:.1}", frame.x(30.0), frame.y(4.0));
        assert!(html.contains(&mark), "{mark}");
    }

    #[test]
    fn marks_on_the_axis_are_few_and_round() {
        for (max, step) in [
            (8.0, 1.0),
            (55.0, 10.0),
            (60.0, 10.0),
            (300.0, 50.0),
            (3_600.0, 500.0),
        ] {
            assert_eq!(nice_step(max), step, "{max}");
        }
    }
}
