//! What lanes with a server of a fixed rate came to, for machines and for people.

use std::collections::BTreeMap;
use std::time::Duration;

use levee_proxy::http::snapshot::Snapshot;
use levee_sim::model::thinner::{Group, Setup};
use levee_sim::scenario::{AtValue, Scenario};
use levee_sim::schedule::Kind;
use levee_smc::estimate::quantile;
use serde::Serialize;

use super::clients::span;
use super::lane::LaneResult;
use super::record::{Health, Outcome, RequestRecord};
use crate::report::Report;
use crate::report::table::{name, tables};
use crate::stats::Share;

/// Clients that are further behind their demand than this measure the machine, not the defence.
const LATE_MAX_MS: f64 = 250.0;
/// A clients' thread that works more than this of the time has no room for a burst.
const CPU_MAX: f64 = 0.9;
/// A server that works so much less than it could, while requests are denied, was not kept busy (our choice).
const IDLE_MAX: f64 = 0.1;

/// One lane at one point.
#[derive(Clone, Debug, Serialize)]
pub struct LaneReport {
    /// The lane's name.
    pub name: String,
    /// The values of what is swept.
    pub at: BTreeMap<String, AtValue>,
    /// Runs that are counted together.
    pub runs: u32,
    /// Good clients.
    pub honest: KindReport,
    /// Bad clients.
    pub attacker: KindReport,
    /// The good clients' part of the server's work.
    pub good_share: Option<f64>,
    /// The 95% interval of [`LaneReport::good_share`]: of one run Wilson's on the requests that were served, of several from how
    /// they differ.
    pub good_share_interval: Option<Share>,
    /// `G/(G+B)`, or what good clients want if that is less.
    pub ideal_share: f64,
    /// The server.
    pub server: ServerReport,
    /// The front's own counters, one entry a run; empty without a front.
    pub front: Vec<Snapshot>,
    /// How well the clients kept to their demand, at worst.
    pub clients: Health,
}

/// The requests of one kind that were wanted after the warm-up. `complete`, `incomplete`, `unsuccessful` and `open` are all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KindReport {
    /// How many clients.
    pub clients: u32,
    /// Bytes a second that all of them could send.
    pub bandwidth: f64,
    /// Bytes a second that they sent after the warm-up.
    pub sent: f64,
    /// Wanted.
    pub attempted: u64,
    /// Served.
    pub complete: u64,
    /// Their connection was lost.
    pub incomplete: u64,
    /// Refused, or given up.
    pub unsuccessful: u64,
    /// Undecided when the run ended.
    pub open: u64,
    /// Of [`KindReport::unsuccessful`], those whose client's patience was over.
    pub gave_up: u64,
    /// Share that was served of those that are decided, with its 95% interval as for
    /// [`LaneReport::good_share_interval`].
    pub complete_share: Option<Share>,
    /// From when it was wanted to its answer, of those that were served.
    pub waited_ms: Option<Waited>,
    /// Bytes that clients sent for a request beyond the first try, of those that were served: the price.
    pub price: Option<Price>,
    /// Further tries for a request, on average over all that were sent.
    pub retries_mean: Option<f64>,
}

/// Quantiles of a time, in milliseconds of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waited {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Bytes for one request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Price {
    /// On average.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
}

/// What the server saw, warm-up included where it says nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ServerReport {
    /// Requests served after the warm-up.
    pub served: u64,
    /// Part of the time after the warm-up in which it worked.
    pub busy: f64,
    /// Refused at a full backlog.
    pub refused: u64,
    /// Left the backlog before their turn.
    pub left: u64,
    /// Aborted while it worked on them.
    pub aborted: u64,
    /// The most requests that waited in it at once.
    pub waiting_max: usize,
}

/// The figures of what was finished.
pub(crate) fn report(
    command: &'static str,
    scenario: &Scenario,
    results: &[Vec<LaneResult>],
    interrupted: bool,
) -> Report<LaneReport> {
    let mut lanes = Vec::new();
    for (point, results) in scenario.points.iter().zip(results) {
        let Some(setup) = point.setup.on_the_wall_clock().thinner_model() else {
            continue;
        };
        if !results.is_empty() {
            let at = point.at.iter().cloned().collect();
            lanes.push(LaneReport::new(point.lane.clone(), at, &setup, results));
        }
    }
    Report {
        command,
        seed: scenario.seed,
        interrupted,
        warnings: warnings(&lanes),
        lanes,
    }
}

fn warnings(lanes: &[LaneReport]) -> Vec<String> {
    let mut warnings = Vec::new();
    let worst = lanes.iter().map(|lane| lane.clients);
    let worst = worst.fold(Health::default(), Health::worst);
    if worst.late_max_ms > LATE_MAX_MS {
        warnings.push(format!(
            "clients were up to {:.0} ms behind their demand: this machine is too slow for the load; give all of them less bandwidth",
            worst.late_max_ms
        ));
    }
    if worst.cpu > CPU_MAX {
        warnings.push(format!(
            "the clients' thread worked {:.0}% of the time: the figures are the machine's; give all clients less bandwidth",
            worst.cpu * 100.0
        ));
    }
    for lane in lanes {
        let denied = lane.honest.unsuccessful + lane.attacker.unsuccessful;
        if denied > 0 && lane.server.busy < 1.0 - IDLE_MAX {
            warnings.push(format!(
                "{}: the server worked {:.0}% of the time while {denied} requests were denied",
                name(&lane.name, &lane.at),
                lane.server.busy * 100.0
            ));
        }
    }
    warnings
}

impl LaneReport {
    /// Counts the runs of one lane at one point together. `setup` is that of the wall clock.
    #[must_use]
    pub fn new(
        name: String,
        at: BTreeMap<String, AtValue>,
        setup: &Setup,
        results: &[LaneResult],
    ) -> Self {
        let work: Vec<[f64; 2]> = results.iter().map(|r| r.work_by_kind(setup)).collect();
        let [good, bad] = [0, 1].map(|kind| work.iter().map(|w| w[kind]).sum::<f64>());
        let served: Vec<[u64; 2]> = results.iter().map(|r| r.served_by_kind(setup)).collect();
        let share = |served: &[u64; 2]| (served[0], served[0] + served[1]);
        let [one, other] = [0, 1].map(|kind| served.iter().map(|s| s[kind]).sum::<u64>());
        let runs: Vec<(u64, u64)> = served.iter().map(share).collect();
        let kind = |kind, group| KindReport::new(kind, group, setup, results);
        let health = results.iter().map(|r| r.clients.health);
        Self {
            name,
            at,
            runs: u32::try_from(results.len()).unwrap_or(u32::MAX),
            honest: kind(Kind::Honest, &setup.honest),
            attacker: kind(Kind::Attacker, &setup.attack),
            good_share: (good + bad > 0.0).then(|| good / (good + bad)),
            good_share_interval: Share::over_runs(&runs).or_else(|| Share::of(one, one + other)),
            ideal_share: setup.ideal_share(),
            server: ServerReport::new(setup, results, good + bad, one + other),
            front: results.iter().filter_map(|r| r.front.clone()).collect(),
            clients: health.fold(Health::default(), Health::worst),
        }
    }
}

impl ServerReport {
    fn new(setup: &Setup, results: &[LaneResult], work_s: f64, served: u64) -> Self {
        let time = setup.time.as_secs_f64() * results.len() as f64;
        let sum = |of: fn(&LaneResult) -> u64| results.iter().map(of).sum();
        Self {
            served,
            busy: work_s / time,
            refused: sum(|r| r.origin.refused),
            left: sum(|r| r.origin.left),
            aborted: sum(|r| r.origin.served.iter().filter(|s| s.aborted).count() as u64),
            waiting_max: results
                .iter()
                .map(|r| r.origin.waiting_max)
                .max()
                .unwrap_or_default(),
        }
    }
}

impl KindReport {
    fn new(kind: Kind, group: &Group, setup: &Setup, results: &[LaneResult]) -> Self {
        let from = span(setup.warmup);
        let counted = |r: &'_ RequestRecord| r.kind == kind && r.due >= from;
        let mut report = Self {
            clients: group.clients,
            bandwidth: group.bandwidth(),
            ..Self::default()
        };
        let (mut waited, mut paid, mut retries, mut runs) = (vec![], vec![], vec![], vec![]);
        for result in results {
            let (mut served, mut decided) = (0, 0);
            for request in result.clients.requests.iter().filter(|r| counted(r)) {
                report.attempted += 1;
                match request.outcome {
                    Outcome::Served => report.complete += 1,
                    Outcome::Failed => report.incomplete += 1,
                    Outcome::Refused => report.unsuccessful += 1,
                    Outcome::Expired | Outcome::GaveUp => {
                        report.unsuccessful += 1;
                        report.gave_up += 1;
                    }
                    Outcome::Open => report.open += 1,
                }
                served += u64::from(request.outcome == Outcome::Served);
                decided += u64::from(request.outcome != Outcome::Open);
                waited.extend(request.waited());
                if request.outcome == Outcome::Served {
                    paid.push(request.paid as f64);
                }
                if request.begun.is_some() {
                    retries.push(f64::from(request.retries));
                }
            }
            runs.push((served, decided));
            let time = setup.time.as_secs_f64() * results.len() as f64;
            report.sent += result.clients.counts[kind.index()].bytes as f64 / time;
        }
        let decided = report.attempted - report.open;
        report.complete_share =
            Share::over_runs(&runs).or_else(|| Share::of(report.complete, decided));
        waited.sort_unstable();
        let at = |q| quantile(&waited, q).map(|d: Duration| d.as_secs_f64() * 1e3);
        report.waited_ms = at(0.5)
            .zip(at(0.9))
            .zip(at(0.99))
            .map(|((p50, p90), p99)| Waited { p50, p90, p99 });
        paid.sort_unstable_by(f64::total_cmp);
        let at = |q| quantile(&paid, q);
        report.price = mean(&paid)
            .zip(at(0.5))
            .zip(at(0.9))
            .map(|((mean, p50), p90)| Price { mean, p50, p90 });
        report.retries_mean = mean(&retries);
        report
    }
}

fn mean(all: &[f64]) -> Option<f64> {
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

const LEGEND: &str = "\
good      share of the server's work that good clients got (95% interval)      ideal  G/(G+B), or all that they want
good req  requests that good clients wanted after the warm-up, served (95% interval): of those that were decided
wait      milliseconds from when a good request was wanted to its answer: median / 99th percentile
price     thousand bytes that clients sent beyond the first try for a request that was served, on average: good / bad
tries     further tries for a request of a good client, on average
sent      thousand bytes a second: good / bad      server  % of the time in which it worked
(a-b)     95% interval: of one run Wilson's, which takes its requests as independent; of several (run.repeat) by how they differ
";

const HEADER: [&str; 10] = [
    "lane", "good", "ideal", "good req", "served", "wait", "price", "tries", "sent", "server",
];

/// A table for each point with a line for each lane, and what the columns mean.
pub(crate) fn to_table(report: &Report<LaneReport>) -> String {
    tables(report, |lane| &lane.at, HEADER, row, LEGEND)
}

fn row(lane: &LaneReport) -> [String; HEADER.len()] {
    let none = || "-".to_owned();
    let share = |share: Option<Share>, estimate: Option<f64>| {
        share.zip(estimate).map_or_else(none, |(s, estimate)| {
            let [estimate, low, high] = [estimate, s.low, s.high].map(|x| x * 100.0);
            format!("{estimate:.1} ({low:.0}-{high:.0})")
        })
    };
    let thousand = |bytes: f64| format!("{:.1}", bytes / 1e3);
    let price = |kind: &KindReport| kind.price.map_or_else(none, |price| thousand(price.mean));
    let (good, bad) = (&lane.honest, &lane.attacker);
    let served = good.complete_share;
    [
        name(&lane.name, &lane.at),
        share(lane.good_share_interval, lane.good_share),
        format!("{:.1}", lane.ideal_share * 100.0),
        good.attempted.to_string(),
        share(served, served.map(|s| s.estimate)),
        good.waited_ms
            .map_or_else(none, |w| format!("{:.0} / {:.0}", w.p50, w.p99)),
        format!("{} / {}", price(good), price(bad)),
        good.retries_mean.map_or_else(none, |n| format!("{n:.1}")),
        format!("{} / {}", thousand(good.sent), thousand(bad.sent)),
        format!("{:.0}", lane.server.busy * 100.0),
    ]
}
