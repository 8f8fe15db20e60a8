//! The figures of the demo.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use levee_policy::reroute::story::{self, load, short};
use levee_policy::reroute::{Classes, Range, Step, Why, estimate};
use levee_policy::{Span, Time};
use levee_sim::model::anycast::Moment;
use serde::Serialize;

use super::demo::{DemoResult, Run};

/// All figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// `demo`.
    pub command: &'static str,
    /// The made-up Internet.
    pub internet: InternetReport,
    /// Loads of each site in queries a second, in the run with Levee.
    pub sites: Vec<SiteReport>,
    /// What was estimated when the first change was decided; `None` without one.
    pub estimate: Option<EstimateReport>,
    /// The configurations that were announced against the attack, in their order.
    pub plays: Vec<String>,
    /// The same attack met in different ways.
    pub lanes: Vec<LaneReport>,
    /// What the responder did.
    pub steps: Vec<StepReport>,
}

/// Of the Internet and its playbook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct InternetReport {
    /// ASes.
    pub ases: usize,
    /// Links between them.
    pub links: usize,
    /// /24s.
    pub blocks: u64,
    /// Routing configurations of the playbook.
    pub configurations: usize,
    /// Blocks that go together in all of them.
    pub classes: usize,
}

/// One site; loads are what is sent to it, in queries a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteReport {
    /// Its name.
    pub name: String,
    /// What it can carry.
    pub capacity: f64,
    /// Just before the attack.
    pub before: f64,
    /// Just before the routes are changed for the first time; without a change, at the end of the attack.
    pub during: f64,
    /// At the end of the attack.
    pub after: f64,
}

/// An estimate of all that is sent to all sites, in queries a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EstimateReport {
    /// The estimate.
    pub offered: f64,
    /// It is hardly less.
    pub low: f64,
    /// It is hardly more; `None` where there is no bound.
    pub high: Option<f64>,
    /// What was sent then.
    pub truth: f64,
    /// What came in: what one would believe without an estimate.
    pub observed: f64,
}

/// One way to meet the attack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaneReport {
    /// Its name.
    pub name: String,
    /// Honest queries during the attack, and those that were answered.
    pub honest: HonestReport,
    /// Seconds until no site was over capacity; `None`: never.
    pub mitigated_after_s: Option<f64>,
    /// Changes of the routes.
    pub changes: f64,
    /// Of them, those that took back a change shortly after it.
    pub flaps: f64,
}

/// Honest queries during the attack.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HonestReport {
    /// Sent.
    pub attempted: f64,
    /// Answered.
    pub complete: f64,
    /// The one by the other.
    pub complete_share: f64,
}

/// A step of the responder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepReport {
    /// Seconds since the beginning of the run.
    pub at_s: f64,
    /// In words.
    pub text: String,
}

impl Report {
    /// The figures of a demo.
    #[must_use]
    pub fn new(demo: &DemoResult) -> Self {
        let playbook = demo.playbook();
        let classes = playbook.classes();
        let levee = demo.runs.last();
        Self {
            command: "demo",
            internet: InternetReport {
                ases: demo.internet.ases,
                links: demo.internet.links,
                blocks: demo.internet.blocks,
                configurations: playbook.plays().len(),
                classes: classes.map_or(0, Classes::len),
            },
            sites: levee.map_or_else(Vec::new, |run| sites(demo, run)),
            estimate: levee.and_then(first_estimate),
            plays: levee.map_or_else(Vec::new, |run| plays(demo, run)),
            lanes: demo.runs.iter().map(LaneReport::new).collect(),
            steps: levee.map_or_else(Vec::new, |run| steps(demo, run)),
        }
    }

    /// As one JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// For people.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut out = String::new();
        let i = &self.internet;
        writeln!(
            out,
            "An Internet of {} ASes, {} links and {} /24s; a playbook of {} routing configurations, in which {} groups of networks go together.\n",
            i.ases, i.links, i.blocks, i.configurations, i.classes
        )
        .ok();
        for step in &self.steps {
            writeln!(out, "{:>7}  {}", clock(step.at_s), step.text).ok();
        }
        out.push('\n');
        if let Some(e) = &self.estimate {
            let range = Range {
                low: e.low,
                likely: e.offered,
                high: e.high.unwrap_or(f64::INFINITY),
            };
            writeln!(
                out,
                "Estimate before the first change: {} queries a second are offered; in truth {}, of which {} came in.\n",
                load(range),
                short(e.truth),
                short(e.observed)
            )
            .ok();
        }
        out.push_str(&self.sites_table());
        out.push_str("\n\n");
        out.push_str(&self.lanes_table());
        out.push('\n');
        out
    }

    fn sites_table(&self) -> String {
        let mut table = plain(&["site", "capacity", "before", "under attack", "after"], 1);
        for site in &self.sites {
            let load = |load: f64| {
                let over = if load > site.capacity { " over" } else { "" };
                format!("{}{over}", short(load))
            };
            table.add_row([
                site.name.clone(),
                short(site.capacity),
                load(site.before),
                load(site.during),
                load(site.after),
            ]);
        }
        table.to_string()
    }

    fn lanes_table(&self) -> String {
        let head = [
            "during the attack",
            "honest queries answered",
            "no site over capacity after",
            "changes",
            "flaps",
        ];
        let mut table = plain(&head, 1);
        for lane in &self.lanes {
            table.add_row([
                lane.name.clone(),
                format!("{:.1}%", lane.honest.complete_share * 100.0),
                lane.mitigated_after_s
                    .map_or_else(|| "never".to_owned(), |s| format!("{} min", clock(s))),
                format!("{:.0}", lane.changes),
                format!("{:.0}", lane.flaps),
            ]);
        }
        table.to_string()
    }
}

fn plain(head: &[&str], left: usize) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header(head.to_vec());
    for (i, column) in table.column_iter_mut().enumerate() {
        if i >= left {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// `12:30` for 750 seconds.
#[must_use]
pub fn clock(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    format!("{}:{:02}", whole / 60, whole % 60)
}

impl LaneReport {
    fn new(run: &Run) -> Self {
        let sums = &run.sums;
        Self {
            name: run.name.clone(),
            honest: HonestReport {
                attempted: sums.offered,
                complete: sums.answered,
                complete_share: sums.answered / sums.offered,
            },
            mitigated_after_s: sums.mitigated_s,
            changes: sums.changes,
            flaps: sums.flaps,
        }
    }
}

/// The last moment before this time.
fn before(run: &Run, at: Time) -> Option<&Moment> {
    run.moments
        .iter()
        .take_while(|moment| moment.at < at)
        .last()
}

fn sites(demo: &DemoResult, run: &Run) -> Vec<SiteReport> {
    let attack = demo.setup.attack.as_ref();
    let begin = attack.map_or(Time::ZERO, |attack| Time::ZERO + attack.start);
    let end = attack.map_or(Time::MAX, |attack| begin + attack.length);
    let change = first_change(run).map_or(end, |(at, _)| at);
    let moments = [begin, change, end].map(|at| before(run, at));
    let names = demo.playbook().sites().names();
    let all = names.zip(&demo.setup.sites).enumerate();
    all.map(|(i, (name, site))| {
        let [before, during, after] =
            moments.map(|moment| moment.map_or(0.0, |moment| moment.sites[i].offered));
        SiteReport {
            name: name.to_owned(),
            capacity: site.carries(),
            before,
            during,
            after,
        }
    })
    .collect()
}

/// When the routes were changed for the first time, and the estimate that this rests on.
fn first_change(run: &Run) -> Option<(Time, Option<Range>)> {
    let mut offered = None;
    for (at, step) in &run.steps {
        match step {
            Step::Estimated { offered: all, .. } => offered = Some(estimate::total(all)),
            Step::Deploying { .. } => return Some((*at, offered)),
            _ => {}
        }
    }
    None
}

fn first_estimate(run: &Run) -> Option<EstimateReport> {
    let (at, offered) = first_change(run)?;
    let offered = offered?;
    let moment = before(run, at)?;
    let sum = |of: fn(&levee_sim::model::anycast::SiteMoment) -> f64| {
        moment.sites.iter().map(of).sum::<f64>()
    };
    Some(EstimateReport {
        offered: offered.likely,
        low: offered.low,
        high: Some(offered.high).filter(|high| high.is_finite()),
        truth: sum(|site| site.offered),
        observed: sum(|site| site.observed),
    })
}

fn plays(demo: &DemoResult, run: &Run) -> Vec<String> {
    let name = |play: usize| {
        let play = demo.playbook().plays().get(play);
        play.map_or_else(String::new, |play| play.routing.name.clone())
    };
    let deployed = run.steps.iter().filter_map(|(_, step)| match step {
        Step::Deploying {
            play,
            why: Why::Mitigate,
            ..
        } => Some(name(*play)),
        _ => None,
    });
    deployed.collect()
}

fn steps(demo: &DemoResult, run: &Run) -> Vec<StepReport> {
    let told = run.steps.iter().map(|(at, step)| StepReport {
        at_s: at.since(Time::ZERO).as_secs_f64(),
        text: story::tell(step, demo.playbook()),
    });
    told.collect()
}

/// How long the run is, in seconds.
pub(super) fn length_s(demo: &DemoResult) -> f64 {
    let length: Span = demo.setup.end();
    length.as_secs_f64()
}
