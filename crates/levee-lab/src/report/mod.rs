//! What a run says: figures per lane, as JSON for machines and as a table for people.

mod json;
pub(crate) mod table;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use levee_proxy::sip::Snapshot;
use levee_smc::estimate::quantile;
use serde::Serialize;

use crate::callee::CalleeResult;
use crate::http;
use crate::lane::LaneResult;
use crate::outcome::{CallRecord, Outcome};
use crate::pbx::PbxResult;
use crate::stats::Share;
use levee_sim::scenario::{AtValue, Run};
use levee_sim::schedule::Kind;

pub use json::to_json;
pub use table::to_table;

/// The figures of a whole command.
#[derive(Clone, Debug, Serialize)]
pub struct Report<L = LaneReport> {
    /// `lab` or `demo`.
    pub command: &'static str,
    /// The first seed.
    pub seed: u64,
    /// Whether it was stopped before all of it was done.
    pub interrupted: bool,
    /// What a reader should know before trusting the figures.
    pub warnings: Vec<String>,
    /// One entry for each lane of each point that was finished.
    pub lanes: Vec<L>,
}

/// The figures of a command on whatever kind of service.
#[derive(Clone, Debug)]
pub enum AnyReport {
    /// Calls.
    Sip(Report),
    /// A web server of a fixed rate, whose clients pay.
    Thinner(Report<http::report::LaneReport>),
    /// A web server of so many connections, under slow attacks.
    Slow(Report<http::slow_report::LaneReport>),
}

impl AnyReport {
    /// What a reader should know before trusting the figures.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        match self {
            Self::Sip(report) => &report.warnings,
            Self::Thinner(report) => &report.warnings,
            Self::Slow(report) => &report.warnings,
        }
    }

    /// One JSON document, with a line end.
    #[must_use]
    pub fn to_json(&self) -> String {
        match self {
            Self::Sip(report) => to_json(report),
            Self::Thinner(report) => to_json(report),
            Self::Slow(report) => to_json(report),
        }
    }

    /// What people read.
    #[must_use]
    pub fn to_table(&self) -> String {
        match self {
            Self::Sip(report) => to_table(report),
            Self::Thinner(report) => http::report::to_table(report),
            Self::Slow(report) => http::slow_report::to_table(report),
        }
    }
}

/// One lane at one point.
#[derive(Clone, Debug, Serialize)]
pub struct LaneReport {
    /// The lane's name.
    pub name: String,
    /// The values of what is swept.
    pub at: BTreeMap<String, AtValue>,
    /// Runs that are counted together.
    pub runs: u32,
    /// Honest calls of the whole run.
    pub honest: KindReport,
    /// Attackers' calls of the whole run. `complete` of them stayed to the end.
    pub attacker: KindReport,
    /// The same for calls that began in the second half, when the table has filled.
    pub second_half: Halves,
    /// The server's own counters.
    pub server: PbxResult,
    /// The callee's own counters.
    pub callee: CalleeResult,
    /// The front's own counters, one entry a run; empty without a front.
    pub front: Vec<Snapshot>,
    /// How well the callers kept to their plan.
    pub callers: Callers,
}

/// Both kinds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Halves {
    /// Honest calls.
    pub honest: KindReport,
    /// Attackers' calls.
    pub attacker: KindReport,
}

/// The calls of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KindReport {
    /// Calls begun.
    pub attempted: u64,
    /// Lasted as long as wanted, or to the end of the run.
    pub complete: u64,
    /// Cut short.
    pub incomplete: u64,
    /// Never set up.
    pub unsuccessful: u64,
    /// Share that was complete, with its 95% interval given the number of calls, taken as independent.
    pub complete_share: Option<Share>,
    /// Share that was cut short.
    pub incomplete_share: Option<Share>,
    /// Share that was never set up.
    pub unsuccessful_share: Option<Share>,
    /// The share that was complete, with a 95% interval from how the runs differ; none for a single run.
    pub complete_share_over_runs: Option<Share>,
    /// Mean time from INVITE to the end of the calls that were set up, in seconds of the scenario; the end of the run ends
    /// it too.
    pub in_server_mean_s: Option<f64>,
    /// Of the calls cut short: the share of its wanted time that a call got, on average.
    pub got_share_mean: Option<f64>,
    /// Time from INVITE to 200 in milliseconds of the wall clock.
    pub setup_ms: Option<Latency>,
    /// Calls never set up, by the status of their refusal; 0 for none.
    pub refused: BTreeMap<u16, u64>,
}

/// Quantiles of a latency in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// The load generator's own health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Callers {
    /// Calls not made because too many were open.
    pub not_made: u64,
    /// BYEs of the callers that were not answered 200.
    pub bye_failed: u64,
    /// BYEs that callers got and answered 200.
    pub bye_answered: u64,
    /// How far the callers were behind their plan at worst, in milliseconds.
    pub late_max_ms: f64,
    /// Messages that callers sent again.
    pub retransmitted: u64,
}

impl LaneReport {
    /// Counts the runs of one lane at one point together.
    #[must_use]
    pub fn new(
        name: String,
        at: BTreeMap<String, AtValue>,
        run: &Run,
        results: &[LaneResult],
    ) -> Self {
        let begin = run.warmup.mul_f64(run.scale);
        let middle = (run.warmup + run.time / 2).mul_f64(run.scale);
        let calls = |kind: Kind, from: Duration| {
            let of = |r: &'_ LaneResult| {
                let all = r.load.calls.iter();
                let chosen = all.filter(|c| c.kind == kind && c.due >= from);
                chosen.copied().collect::<Vec<_>>()
            };
            let runs: Vec<Vec<CallRecord>> = results.iter().map(of).collect();
            let mut report = KindReport::new(runs.iter().flatten(), run.scale);
            let complete = |calls: &Vec<CallRecord>| {
                let complete = calls.iter().filter(|c| c.outcome == Outcome::Complete);
                (complete.count() as u64, calls.len() as u64)
            };
            report.complete_share_over_runs =
                Share::over_runs(&runs.iter().map(complete).collect::<Vec<_>>());
            report
        };
        let mut report = Self {
            name,
            at,
            runs: u32::try_from(results.len()).unwrap_or(u32::MAX),
            honest: calls(Kind::Honest, begin),
            attacker: calls(Kind::Attacker, begin),
            second_half: Halves {
                honest: calls(Kind::Honest, middle),
                attacker: calls(Kind::Attacker, middle),
            },
            server: PbxResult::default(),
            callee: CalleeResult::default(),
            front: results.iter().filter_map(|r| r.front.clone()).collect(),
            callers: Callers::default(),
        };
        for result in results {
            report.server.add(&result.pbx);
            report.callee.add(&result.callee);
            let (all, load) = (&mut report.callers, &result.load);
            all.not_made += load.not_made;
            all.bye_failed += load.bye_failed;
            all.bye_answered += load.bye_answered;
            all.late_max_ms = all.late_max_ms.max(millis(load.late_max));
            all.retransmitted += load.traffic.retransmitted;
        }
        report
    }
}

impl KindReport {
    /// Counts calls; `scale` turns wall-clock time back into the scenario's.
    #[must_use]
    pub fn new<'c>(calls: impl Iterator<Item = &'c CallRecord>, scale: f64) -> Self {
        let mut report = Self::default();
        let (mut stays, mut setups, mut got) = (Vec::new(), Vec::new(), Vec::new());
        for call in calls {
            report.attempted += 1;
            match call.outcome {
                Outcome::Complete => report.complete += 1,
                Outcome::Incomplete => {
                    report.incomplete += 1;
                    got.extend(call.got_share());
                }
                Outcome::Unsuccessful => {
                    report.unsuccessful += 1;
                    *report.refused.entry(call.status).or_default() += 1;
                }
            }
            stays.extend(call.in_server().map(|s| s.as_secs_f64() / scale));
            setups.extend(call.setup);
        }
        setups.sort_unstable();
        let latency = |q| quantile(&setups, q).map(millis);
        report.setup_ms = latency(0.5)
            .zip(latency(0.99))
            .map(|(p50, p99)| Latency { p50, p99 });
        report.in_server_mean_s = mean(&stays);
        report.got_share_mean = mean(&got);
        report.complete_share = Share::of(report.complete, report.attempted);
        report.incomplete_share = Share::of(report.incomplete, report.attempted);
        report.unsuccessful_share = Share::of(report.unsuccessful, report.attempted);
        report
    }
}

fn mean(all: &[f64]) -> Option<f64> {
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

fn millis(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}
