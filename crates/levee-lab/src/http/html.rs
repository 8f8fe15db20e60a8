//! The page that `levee demo http` leaves: one file with its plots inside, for any browser.

use std::fmt::Write as _;

use levee_smc::report::escape;

use super::demo::DemoResult;
use super::record::Sample;
use super::report::{KindReport, LaneReport};
use crate::html::{BOTTOM, Band, Frame, HEIGHT, LEFT, RIGHT, WIDTH, area, axes, head};
use crate::stats::Share;

/// Seconds that one step of a plot counts.
const STEP_S: f64 = 2.0;

/// The whole page.
#[must_use]
pub fn page(demo: &DemoResult) -> String {
    let mut out = head("Levee: a web server under attack");
    introduction(&mut out, demo);
    out.push_str("<section class=\"plots\">\n");
    for (lane, series) in demo.report.lanes.iter().zip(&demo.series) {
        served(&mut out, demo, lane, series);
    }
    out.push_str("</section>\n");
    shares(&mut out, demo);
    table(&mut out, demo);
    notes(&mut out, demo);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn introduction(out: &mut String, demo: &DemoResult) {
    let (good, bad) = (&demo.setup.honest, &demo.setup.attack);
    write!(
        out,
        "<h1>A web server that can answer {rate:.0} requests a second, under attack</h1>\n\
         <p>For {total:.0} seconds {good} good and {bad} bad clients asked it over real HTTP on this machine. Bad clients ask \
         {times:.0} times as often, with {window} requests under way at once. Each client can send {up:.0} thousand bytes a second, \
         so a server that gives its time by bandwidth gives good clients <strong>{ideal:.0}%</strong> of it. All servers met the \
         same demand at the same time.</p>\n<ul class=\"headline\">\n",
        rate = demo.setup.server.rate,
        total = demo.total.as_secs_f64(),
        good = good.clients,
        bad = bad.clients,
        times = bad.rate / good.rate,
        window = bad.window,
        up = good.up / 1e3,
        ideal = demo.setup.ideal_share() * 100.0,
    )
    .ok();
    for lane in &demo.report.lanes {
        writeln!(
            out,
            "<li><b>{}</b>of the server&#8217;s work went to good clients: <strong>{}</strong></li>",
            percent(lane.good_share),
            escape(&title(&lane.name)),
        )
        .ok();
    }
    out.push_str("</ul>\n");
}

/// Requests served in each step, good below and bad above.
fn served(out: &mut String, demo: &DemoResult, lane: &LaneReport, series: &[Sample]) {
    let most = (demo.setup.server.rate * STEP_S).round() as u32;
    let frame = Frame {
        x_max: demo.total.as_secs_f64().max(1.0),
        y_max: f64::from(most) * 1.15,
    };
    let name = escape(&title(&lane.name));
    write!(
        out,
        "<figure>\n<h2>{name}</h2>\n{KEY}<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Requests served in each {STEP_S:.0} seconds, {name}: {} of good and {} of bad clients in all.\">\n",
        lane.honest.complete, lane.attacker.complete
    )
    .ok();
    axes(out, &frame, most);
    let steps = steps(series);
    let good: Band = steps.iter().map(|&(at, good, _)| (at, 0, good)).collect();
    area(out, &frame, "--honest", &good);
    let bad = steps.iter().map(|&(at, good, bad)| (at, good, good + bad));
    area(out, &frame, "--attacker", &bad.collect());
    let due = f64::from(most) * lane.ideal_share;
    let y = frame.y(due);
    write!(
        out,
        "<line class=\"limit\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">good clients&#8217; due</text>\n</svg>\n</figure>\n",
        WIDTH - RIGHT,
        WIDTH - RIGHT,
        (y - 4.0).min(HEIGHT - BOTTOM),
    )
    .ok();
}

const KEY: &str = "<ul class=\"key\"><li><i style=\"background:var(--attacker)\"></i>bad clients&#8217; requests served</li>\
    <li><i style=\"background:var(--honest)\"></i>good clients&#8217;</li></ul>\n";

/// What was served in each step: where it begins, good, bad. The last one ends the last step.
fn steps(series: &[Sample]) -> Vec<(f64, u32, u32)> {
    let mut steps: Vec<(f64, u32, u32)> = Vec::new();
    let mut last = Sample::default();
    let count = |now: u64, before: u64| u32::try_from(now - before).unwrap_or(u32::MAX);
    for sample in series {
        if sample.at_s - last.at_s >= STEP_S {
            let good = count(sample.honest.served, last.honest.served);
            let bad = count(sample.attacker.served, last.attacker.served);
            steps.push((last.at_s, good, bad));
            last = *sample;
        }
    }
    if let Some(&(_, good, bad)) = steps.last() {
        steps.push((last.at_s, good, bad));
    }
    steps
}

fn shares(out: &mut String, demo: &DemoResult) {
    out.push_str(
        "<figure class=\"wide\">\n<h2>Whose requests the server worked on</h2>\n\
         <ul class=\"key\"><li><i style=\"background:var(--honest)\"></i>good clients&#8217;</li>\
         <li><i style=\"background:var(--attacker)\"></i>bad clients&#8217;</li></ul>\n<div class=\"bars\">\n",
    );
    for lane in &demo.report.lanes {
        let name = escape(&title(&lane.name));
        let good = lane.good_share.unwrap_or_default() * 100.0;
        let bad = if lane.good_share.is_some() {
            100.0 - good
        } else {
            0.0
        };
        write!(
            out,
            "<div>{name}<div class=\"bar\" role=\"img\" aria-label=\"{name}: {good:.0}% good, {bad:.0}% bad\">"
        )
        .ok();
        for (colour, share) in [("--honest", good), ("--attacker", bad)] {
            // A narrow part has no room for its number; the table has it.
            let label = if share >= 6.0 {
                format!("{share:.0}%")
            } else {
                String::new()
            };
            write!(
                out,
                "<span style=\"width:{share:.2}%;background:var({colour});color:var(--card)\">{label}</span>"
            )
            .ok();
        }
        out.push_str("</div></div>\n");
    }
    out.push_str("</div>\n</figure>\n");
}

fn table(out: &mut String, demo: &DemoResult) {
    out.push_str(
        "<figure class=\"wide\">\n<h2>All figures</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">requests of</th>\
         <th scope=\"col\">wanted</th><th scope=\"col\">served</th><th scope=\"col\">denied</th><th scope=\"col\">open at the end</th>\
         <th scope=\"col\">served, share</th><th scope=\"col\">wait, median</th><th scope=\"col\">wait, 99th</th>\
         <th scope=\"col\">price, kB</th><th scope=\"col\">sent, kB/s</th></tr></thead>\n<tbody>\n",
    );
    for lane in &demo.report.lanes {
        writeln!(
            out,
            "<tr><th colspan=\"10\" scope=\"colgroup\">{}: {} of the server for good clients ({:.0}% is their due)</th></tr>",
            escape(&title(&lane.name)),
            interval(lane.good_share_interval),
            lane.ideal_share * 100.0
        )
        .ok();
        row(out, "good clients", &lane.honest);
        row(out, "bad clients", &lane.attacker);
    }
    out.push_str("</tbody>\n</table></div>\n</figure>\n");
}

fn row(out: &mut String, kind: &str, r: &KindReport) {
    let none = || "-".to_owned();
    let wait = |ms: Option<f64>| ms.map_or_else(none, |ms| format!("{ms:.0} ms"));
    writeln!(
        out,
        "<tr><td>{kind}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1}</td></tr>",
        r.attempted,
        r.complete,
        r.incomplete + r.unsuccessful,
        r.open,
        interval(r.complete_share),
        wait(r.waited_ms.map(|w| w.p50)),
        wait(r.waited_ms.map(|w| w.p99)),
        r.price
            .map_or_else(none, |price| format!("{:.1}", price.mean / 1e3)),
        r.sent / 1e3,
    )
    .ok();
}

fn notes(out: &mut String, demo: &DemoResult) {
    writeln!(
        out,
        "<p class=\"soft\">Figures are of the {:.0} seconds after the warm-up. In brackets the 95% interval (Wilson) given the number of \
         requests. The price is what clients sent beyond the first try for a request that was served. Seed {}.</p>",
        demo.setup.time.as_secs_f64(),
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

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0))
}

fn interval(share: Option<Share>) -> String {
    share.map_or_else(
        || "-".to_owned(),
        |s| {
            let [estimate, low, high] = [s.estimate, s.low, s.high].map(|x| x * 100.0);
            format!("{estimate:.1}% ({low:.0}&#8211;{high:.0})")
        },
    )
}

/// A lane's name for people.
fn title(name: &str) -> String {
    match name {
        "undefended" => "without Levee".to_owned(),
        other => format!("behind Levee ({other})"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::html::tests::check_well_formed;
    use crate::http::record::Tally;
    use crate::http::tests::{lane_report, papers};
    use crate::report::Report;

    fn sample(at_s: f64, good: u64, bad: u64) -> Sample {
        let tally = |served| Tally {
            served,
            ..Tally::default()
        };
        Sample {
            at_s,
            honest: tally(good),
            attacker: tally(bad),
        }
    }

    #[test]
    fn the_page_is_well_formed_and_self_contained() {
        let demo = DemoResult {
            report: Report {
                command: "demo",
                seed: 1,
                interrupted: true,
                warnings: vec!["1 < 2 & 3".into()],
                lanes: vec![lane_report("undefended"), lane_report("a<b>&\"c")],
            },
            setup: papers(),
            total: Duration::from_secs(2),
            series: vec![vec![sample(0.0, 0, 0), sample(2.0, 3, 70)], Vec::new()],
        };
        let html = page(&demo);
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
    fn steps_count_what_was_served_in_them() {
        let series = [
            sample(0.0, 0, 0),
            sample(1.0, 5, 5),
            sample(2.0, 6, 7),
            sample(3.9, 7, 8),
            sample(4.1, 9, 9),
        ];
        assert_eq!(steps(&series), [(0.0, 6, 7), (2.0, 3, 2), (4.1, 3, 2)]);
        assert_eq!(steps(&[]), []);
    }
}
