//! The page that `levee demo anycast` leaves: one file with its plots inside, for any browser.

use std::fmt::Write as _;

use levee_policy::Time;
use levee_policy::reroute::Step;
use levee_policy::reroute::story::short;
use levee_sim::model::anycast::{Moment, SiteMoment};
use levee_smc::report::escape;

use super::demo::{DemoResult, Run};
use super::report::{Report, clock, length_s};
use crate::html::{BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, head};

/// The whole page.
#[must_use]
pub fn page(demo: &DemoResult, report: &Report) -> String {
    let mut out = head("Levee: a service at several sites under attack");
    introduction(&mut out, demo, report);
    out.push_str("<section class=\"plots\">\n");
    for site in 0..report.sites.len() {
        site_plot(&mut out, demo, report, site);
    }
    answered(&mut out, demo);
    out.push_str("</section>\n");
    loads(&mut out, report);
    decisions(&mut out, report);
    playbook(&mut out, demo, report);
    notes(&mut out, report);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn introduction(out: &mut String, demo: &DemoResult, report: &Report) {
    let internet = &report.internet;
    let attack = demo.setup.attack.as_ref().map_or(0.0, |a| a.load);
    write!(
        out,
        "<h1>A service at {sites} sites, under attack</h1>\n\
         <p>One prefix is announced from {sites} sites into a made-up Internet of {ases} ASes. Honest clients send about {honest} \
         queries a second, and for an hour attackers send <strong>{attack}</strong> more. What Levee may change is routing: it has \
         a playbook of {plays} configurations, knows how much known-good traffic is lost, and picks one.</p>\n\
         <ul class=\"headline\">\n",
        sites = report.sites.len(),
        ases = internet.ases,
        honest = short(demo.setup.honest.load),
        attack = short(attack),
        plays = internet.configurations,
    )
    .ok();
    for lane in &report.lanes {
        let mitigated = lane.mitigated_after_s.map_or_else(
            || "some site is over capacity to the end".to_owned(),
            |s| format!("no site over capacity after {} min", clock(s)),
        );
        writeln!(
            out,
            "<li><b>{:.1}%</b>of honest queries answered during the attack: <strong>{}</strong>; {mitigated}</li>",
            lane.honest.complete_share * 100.0,
            escape(&lane.name),
        )
        .ok();
    }
    if let Some(e) = &report.estimate {
        let high = e.high.map_or_else(|| "no bound".to_owned(), short);
        writeln!(
            out,
            "<li><b>{}</b>queries a second estimated ({} to {high}) where {} came in and {} were sent</li>",
            short(e.offered),
            short(e.low),
            short(e.observed),
            short(e.truth),
        )
        .ok();
    }
    out.push_str("</ul>\n");
}

/// Where values lie in a plot: seconds and queries a second.
struct Frame {
    x_max: f64,
    y_max: f64,
}

impl Frame {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + 8.0 + (WIDTH - LEFT - 8.0 - RIGHT - 8.0) * (seconds / self.x_max).clamp(0.0, 1.0)
    }

    fn y(&self, load: f64) -> f64 {
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - (load / self.y_max).clamp(0.0, 1.0))
    }

    /// Lines at every step of queries, and minutes below.
    fn axes(&self, out: &mut String, label: fn(f64) -> String) {
        let (left, right) = (self.x(0.0), self.x(self.x_max));
        let step = nice(self.y_max, 4.0);
        let mut value = 0.0;
        while value <= self.y_max {
            let y = self.y(value);
            writeln!(
                out,
                "<line class=\"grid\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                y + 4.0,
                label(value)
            )
            .ok();
            value += step;
        }
        let minutes = self.x_max / 60.0;
        let step = nice(minutes, 6.0);
        let mut at = 0.0;
        while at <= minutes {
            writeln!(
                out,
                "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at:.0}</text>",
                self.x(at * 60.0),
                HEIGHT - BOTTOM + 16.0
            )
            .ok();
            at += step;
        }
        writeln!(
            out,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">minutes</text>",
            (left + right) / 2.0,
            HEIGHT - 6.0
        )
        .ok();
    }

    fn line(&self, out: &mut String, style: &str, points: impl Iterator<Item = (f64, f64)>) {
        let points: Vec<String> = points
            .map(|(x, y)| format!("{:.1},{:.1}", self.x(x), self.y(y)))
            .collect();
        writeln!(
            out,
            "<polyline style=\"fill:none;{style}\" points=\"{}\"/>",
            points.join(" ")
        )
        .ok();
    }

    fn area(&self, out: &mut String, colour: &str, band: impl Iterator<Item = (f64, f64, f64)>) {
        let band: Vec<(f64, f64, f64)> = band.collect();
        let point = |x: f64, y: f64| format!("{:.1},{:.1}", self.x(x), self.y(y));
        let above = band.iter().map(|&(x, _, y)| point(x, y));
        let below = band.iter().rev().map(|&(x, y, _)| point(x, y));
        let points: Vec<String> = above.chain(below).collect();
        writeln!(
            out,
            "<polygon style=\"fill:var({colour})\" points=\"{}\"/>",
            points.join(" ")
        )
        .ok();
    }
}

/// A step of 1, 2 or 5 times a power of ten that gives about so many marks.
fn nice(max: f64, marks: f64) -> f64 {
    let mut step = 1.0;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle().take(60) {
        if max / step <= marks {
            break;
        }
        step *= factor;
    }
    step
}

fn seconds(at: Time) -> f64 {
    at.since(Time::ZERO).as_secs_f64()
}

/// What is sent to a site over time with Levee, honest below and attack above, and without it as a line.
fn site_plot(out: &mut String, demo: &DemoResult, report: &Report, site: usize) {
    let of = &report.sites[site];
    let (Some(bare), Some(levee)) = (demo.runs.first(), demo.runs.last()) else {
        return;
    };
    let offered = |run: &Run| -> Vec<(f64, SiteMoment)> {
        let moments = run.moments.iter();
        moments.map(|m| (seconds(m.at), m.sites[site])).collect()
    };
    let (without, with) = (offered(bare), offered(levee));
    let most = without.iter().chain(&with).map(|(_, m)| m.offered);
    let frame = Frame {
        x_max: length_s(demo),
        y_max: most.fold(of.capacity, f64::max) * 1.08,
    };
    let name = escape(&of.name);
    write!(
        out,
        "<figure>\n<h2>{name}</h2>\n{KEY}<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Queries a second sent to {name}: \
         {} before, {} under attack, {} after the change, of {} that it can carry.\">\n",
        short(of.before),
        short(of.during),
        short(of.after),
        short(of.capacity)
    )
    .ok();
    frame.axes(out, short);
    frame.area(
        out,
        "--attacker",
        with.iter().map(|(x, m)| (*x, m.honest, m.offered)),
    );
    frame.area(
        out,
        "--honest",
        with.iter().map(|(x, m)| (*x, 0.0, m.honest)),
    );
    let line = "stroke:var(--ink);stroke-width:1.5";
    frame.line(out, line, without.iter().map(|(x, m)| (*x, m.offered)));
    let (left, right) = (frame.x(0.0), frame.x(frame.x_max));
    let y = frame.y(of.capacity);
    writeln!(
        out,
        "<line class=\"limit\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n\
         <text x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">capacity {}</text>",
        y - 4.0,
        short(of.capacity)
    )
    .ok();
    changes(out, &frame, levee);
    out.push_str("</svg>\n</figure>\n");
}

const KEY: &str = "<ul class=\"key\"><li><i style=\"background:var(--attacker)\"></i>attack</li>\
    <li><i style=\"background:var(--honest)\"></i>honest</li>\
    <li><i style=\"background:var(--ink);height:.15em;vertical-align:middle\"></i>all, without Levee</li></ul>\n";

/// A mark where routes are changed.
fn changes(out: &mut String, frame: &Frame, run: &Run) {
    for (at, step) in &run.steps {
        if matches!(step, Step::Deploying { .. }) {
            let x = frame.x(seconds(*at));
            writeln!(
                out,
                "<line style=\"stroke:var(--soft);stroke-dasharray:2 3\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>",
                HEIGHT - BOTTOM
            )
            .ok();
        }
    }
}

/// Which part of what honest clients send is answered, over time, in all runs.
fn answered(out: &mut String, demo: &DemoResult) {
    let frame = Frame {
        x_max: length_s(demo),
        y_max: 100.0,
    };
    out.push_str("<figure>\n<h2>Honest queries answered, in percent</h2>\n<ul class=\"key\">");
    for (i, run) in demo.runs.iter().enumerate() {
        write!(
            out,
            "<li><i style=\"background:var({})\"></i>{}</li>",
            colour(i, demo.runs.len()),
            escape(&run.name)
        )
        .ok();
    }
    write!(
        out,
        "</ul>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Which part of honest queries is answered over time; the \
         figures above sum it up.\">\n"
    )
    .ok();
    frame.axes(out, |value| format!("{value:.0}"));
    for (i, run) in demo.runs.iter().enumerate() {
        let share = |m: &Moment| {
            (
                seconds(m.at),
                100.0 * m.answered / m.honest.max(f64::MIN_POSITIVE),
            )
        };
        let style = format!("stroke:var({});stroke-width:2", colour(i, demo.runs.len()));
        frame.line(out, &style, run.moments.iter().map(share));
    }
    if let Some(levee) = demo.runs.last() {
        changes(out, &frame, levee);
    }
    out.push_str("</svg>\n</figure>\n");
}

/// The last run is Levee's.
fn colour(run: usize, runs: usize) -> &'static str {
    if run + 1 == runs {
        "--honest"
    } else {
        "--attacker"
    }
}

fn loads(out: &mut String, report: &Report) {
    out.push_str(
        "<figure class=\"wide\">\n<h2>Queries a second sent to each site</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">site</th>\
         <th scope=\"col\">can carry</th><th scope=\"col\">before</th><th scope=\"col\">under attack</th><th scope=\"col\">after</th></tr></thead>\n<tbody>\n",
    );
    for site in &report.sites {
        write!(
            out,
            "<tr><td>{}</td><td>{}</td>",
            escape(&site.name),
            short(site.capacity)
        )
        .ok();
        for load in [site.before, site.during, site.after] {
            let over = if load > site.capacity {
                " <strong>over</strong>"
            } else {
                ""
            };
            write!(out, "<td>{}{over}</td>", short(load)).ok();
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n</figure>\n");
}

fn decisions(out: &mut String, report: &Report) {
    out.push_str(
        "<figure class=\"wide\">\n<h2>What Levee did</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">minute</th>\
         <th scope=\"col\" style=\"text-align:left\">step</th></tr></thead>\n<tbody>\n",
    );
    for step in &report.steps {
        writeln!(
            out,
            "<tr><td>{}</td><td style=\"text-align:left;white-space:normal\">{}</td></tr>",
            clock(step.at_s),
            escape(&step.text)
        )
        .ok();
    }
    out.push_str("</tbody>\n</table></div>\n</figure>\n");
}

/// Share of each site in each play, as a heat map.
fn playbook(out: &mut String, demo: &DemoResult, report: &Report) {
    write!(
        out,
        "<figure class=\"wide\">\n<h2>The playbook: percent of all /24s that reach each site</h2>\n<details><summary>{} configurations</summary><div class=\"scroll\"><table>\n<thead><tr>\
         <th scope=\"col\">announced</th>",
        demo.playbook().plays().len()
    )
    .ok();
    let playbook = demo.playbook();
    for name in playbook.sites().names() {
        write!(out, "<th scope=\"col\">{}</th>", escape(name)).ok();
    }
    out.push_str("<th scope=\"col\">certain</th></tr></thead>\n<tbody>\n");
    for (play, certainty) in playbook.plays().iter().zip(&demo.prediction.certainty) {
        let name = &play.routing.name;
        let chosen = if report.plays.contains(name) {
            " <strong>(chosen)</strong>"
        } else {
            ""
        };
        write!(out, "<tr><td>{}{chosen}</td>", escape(name)).ok();
        for site in playbook.sites().ids() {
            let percent = play.share(site) * 100.0;
            // Never so dark that the number could not be read.
            write!(
                out,
                "<td style=\"background:color-mix(in srgb, var(--honest) {:.0}%, transparent)\">{percent:.0}</td>",
                percent * 0.5
            )
            .ok();
        }
        writeln!(out, "<td>{:.0}</td></tr>", certainty.share() * 100.0).ok();
    }
    out.push_str("</tbody>\n</table></div></details>\n</figure>\n");
}

fn notes(out: &mut String, report: &Report) {
    let plays = report.plays.join(", then ");
    write!(
        out,
        "<p class=\"soft\"><strong>+2xAMS</strong>: AMS prepends twice. <strong>-2xAMS</strong>: all others do. <strong>0xAMS</strong>: AMS withdraws. \
         Chosen here: {}. <em>Certain</em> is the part of the /24s whose site hangs on no tie between equally good routes.</p>\n\
         <p class=\"soft\">Everything here is computed: no packet was sent. The Internet is generated, its routes are selected as BGP does, a part of \
         the playbook is wrong on purpose, networks come to their new site one after the other, and the responder is the code that a live service runs. \
         Links that are full lose honest and attacking queries alike; that is how the loss of known-good traffic tells what was sent.</p>\n",
        escape(if plays.is_empty() { "none" } else { &plays }),
    )
    .ok();
}
