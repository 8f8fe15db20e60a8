//! What lanes under slow attacks came to, for machines and for people.

use std::collections::BTreeMap;

use levee_proxy::http::snapshot::Snapshot;
use levee_sim::scenario::{AtValue, Scenario};
use levee_sim::schedule::Kind;
use levee_smc::estimate::quantile;
use serde::Serialize;

use super::record::Health;
use super::slow::{LaneResult, ServerResult, Tally};
use crate::report::table::{name, tables};
use crate::report::{Latency, Report};
use crate::stats::Share;

/// Clients that are further behind their plan than this measure the machine, not the defence.
const LATE_MAX_MS: f64 = 250.0;

/// One lane at one point.
#[derive(Clone, Debug, Serialize)]
pub struct LaneReport {
    /// The lane's name.
    pub name: String,
    /// The values of what is swept.
    pub at: BTreeMap<String, AtValue>,
    /// Runs that are counted together.
    pub runs: u32,
    /// Honest clients that began after the warm-up.
    pub honest: KindReport,
    /// Connections of attackers after the warm-up.
    pub attacker: KindReport,
    /// Time to service of honest clients, in milliseconds of the wall clock.
    pub served_ms: Option<Latency>,
    /// Places that attackers held on average.
    pub attackers_held: f64,
    /// The server, one entry a run.
    pub server: Vec<ServerResult>,
    /// The front's own counters, one entry a run; empty without a front.
    pub front: Vec<Snapshot>,
    /// How well the clients kept to their plan, at worst.
    pub clients: Health,
}

/// Clients of one kind. `complete`, `incomplete`, `unsuccessful` and `open` are all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct KindReport {
    /// Begun.
    pub attempted: u64,
    /// Connections that they made.
    pub tries: u64,
    /// Had their whole response.
    pub complete: u64,
    /// Cut: dropped by the front, or by the server's timeouts where there is no front.
    pub incomplete: u64,
    /// Turned away, or their patience was over.
    pub unsuccessful: u64,
    /// Undecided when the run ended.
    pub open: u64,
    /// Share that was served of those that are decided, with its 95% interval: of one run Wilson's, of several from how they
    /// differ.
    pub complete_share: Option<Share>,
}

impl KindReport {
    fn new(tallies: &[Tally]) -> Self {
        let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
        let runs: Vec<(u64, u64)> = tallies.iter().map(|t| (t.served, t.decided())).collect();
        let (attempted, decided, complete) =
            (sum(|t| t.attempted), sum(Tally::decided), sum(|t| t.served));
        Self {
            attempted,
            tries: sum(|t| t.tries),
            complete,
            incomplete: sum(|t| t.cut),
            unsuccessful: sum(|t| t.refused + t.gave_up),
            open: attempted - decided,
            complete_share: Share::over_runs(&runs).or_else(|| Share::of(complete, decided)),
        }
    }
}

/// The figures of what was finished.
pub(crate) fn report(
    command: &'static str,
    scenario: &Scenario,
    results: &[Vec<LaneResult>],
    interrupted: bool,
) -> Report<LaneReport> {
    let points = scenario.points.iter().zip(results);
    let finished = points.filter(|(_, results)| !results.is_empty());
    let lanes: Vec<LaneReport> = finished
        .map(|(point, results)| LaneReport::new(point.lane.clone(), &point.at, results))
        .collect();
    let late = lanes.iter().map(|lane| lane.clients.late_max_ms);
    let late = late.fold(0.0, f64::max);
    let mut warnings = Vec::new();
    if late > LATE_MAX_MS {
        warnings.push(format!(
            "clients were up to {late:.0} ms behind their plan: this machine is too slow for the load; run fewer lanes at once"
        ));
    }
    Report {
        command,
        seed: scenario.seed,
        interrupted,
        warnings,
        lanes,
    }
}

impl LaneReport {
    /// Counts the runs of one lane at one point together.
    #[must_use]
    pub fn new(name: String, at: &[(String, AtValue)], results: &[LaneResult]) -> Self {
        let of = |kind: Kind| {
            let tallies = results.iter().map(|r| r.clients.tallies[kind.index()]);
            KindReport::new(&tallies.collect::<Vec<_>>())
        };
        let mut served: Vec<f64> = results
            .iter()
            .flat_map(|r| r.clients.served_s.iter().map(|s| s * 1e3))
            .collect();
        served.sort_unstable_by(f64::total_cmp);
        let at_q = |q| quantile(&served, q);
        let held = results.iter().map(LaneResult::attackers_held).sum::<f64>();
        Self {
            name,
            at: at.iter().cloned().collect(),
            runs: u32::try_from(results.len()).unwrap_or(u32::MAX),
            honest: of(Kind::Honest),
            attacker: of(Kind::Attacker),
            served_ms: at_q(0.5)
                .zip(at_q(0.99))
                .map(|(p50, p99)| Latency { p50, p99 }),
            attackers_held: held / results.len().max(1) as f64,
            server: results.iter().map(|r| r.server).collect(),
            front: results.iter().filter_map(|r| r.front.clone()).collect(),
            clients: results
                .iter()
                .fold(Health::default(), |worst, r| worst.worst(r.clients.health)),
        }
    }
}

const LEGEND: &str = "\
clients   honest clients that began after the warm-up      served  % that had their whole response, of those that are decided
cut       % whose connection was cut before      refused  % turned away, or out of patience
time      milliseconds to the whole response: median / 99th percentile
attacks   connections of attackers      held  places that they held on average
(a-b)     95% interval: of one run Wilson's, which takes its clients as independent; of several (run.repeat) by how they differ
";

const HEADER: [&str; 8] = [
    "lane", "clients", "served", "cut", "refused", "time", "attacks", "held",
];

/// A table for each point with a line for each lane, and what the columns mean.
pub(crate) fn to_table(report: &Report<LaneReport>) -> String {
    tables(report, |lane| &lane.at, HEADER, row, LEGEND)
}

fn row(lane: &LaneReport) -> [String; HEADER.len()] {
    let none = || "-".to_owned();
    let honest = &lane.honest;
    let decided = honest.attempted - honest.open;
    let percent = |part: u64| {
        Share::of(part, decided).map_or_else(none, |s| format!("{:.1}", s.estimate * 100.0))
    };
    let served = honest.complete_share.map_or_else(none, |s| {
        let [estimate, low, high] = [s.estimate, s.low, s.high].map(|x| x * 100.0);
        format!("{estimate:.1} ({low:.0}-{high:.0})")
    });
    [
        name(&lane.name, &lane.at),
        honest.attempted.to_string(),
        served,
        percent(honest.incomplete),
        percent(honest.unsuccessful),
        lane.served_ms
            .map_or_else(none, |l| format!("{:.0} / {:.0}", l.p50, l.p99)),
        lane.attacker.attempted.to_string(),
        format!("{:.1}", lane.attackers_held),
    ]
}
