//! Runs a scenario for real, point after point or several at once.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::lane::{LaneConfig, LaneResult, RunningLane};
use crate::report::{LaneReport, Report};
use levee_sim::scenario::{Point, Scenario, Setup};

/// How a scenario is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Lanes at the same time, at most.
    pub parallel: usize,
    /// Calls a second of all lanes at the same time, at most; one lane always runs.
    pub rate_max: f64,
}

impl Default for Options {
    /// Eight lanes, and 200 calls a second: a tenth of what two cores carry, so that lanes do not slow each other.
    fn default() -> Self {
        Self {
            parallel: 8,
            rate_max: 200.0,
        }
    }
}

/// How far a run has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Lanes finished.
    pub finished: usize,
    /// Lanes in all.
    pub total: usize,
    /// Lanes at work.
    pub running: Vec<String>,
    /// What is left if lanes take as long as they should.
    pub left: Duration,
}

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A service that there is no live front for.
    #[error(
        "a service of kind \"http\" cannot be run for real: there is no live front for it yet; `levee check` predicts it, or take service.kind = \"sip\""
    )]
    Http,
    /// The machine refused.
    #[error("lane `{lane}` could not run on loopback")]
    Lane {
        /// Its name.
        lane: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Between two looks at the lanes at work.
const POLL: Duration = Duration::from_millis(50);
/// A caller that is further behind its plan than this measures the machine, not the defence.
const LATE_MAX_MS: f64 = 250.0;

struct Job {
    point: usize,
    repetition: u32,
    lane: RunningLane,
    rate: f64,
}

/// What runs came to.
#[derive(Debug)]
pub struct Runs {
    /// For each point its finished runs, in the order of their seeds.
    pub results: Vec<Vec<LaneResult>>,
    /// Whether it was stopped before all were finished.
    pub interrupted: bool,
}

/// Runs all points. When `stop` becomes true, lanes at work are cut off, and what was finished is given.
///
/// # Errors
/// When a lane cannot be started, or its sockets fail.
pub fn run(
    scenario: &Scenario,
    options: &Options,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Runs, LabError> {
    let points = &scenario.points;
    if points.iter().any(|point| point.setup.http.is_some()) {
        return Err(LabError::Http);
    }
    let mut waiting: VecDeque<(usize, u32)> = points
        .iter()
        .enumerate()
        .flat_map(|(p, point)| (0..point.setup.run.repeat).map(move |r| (p, r)))
        .collect();
    let total = waiting.len();
    let mut running: Vec<Job> = Vec::new();
    let mut results: Vec<BTreeMap<u32, LaneResult>> = vec![BTreeMap::new(); points.len()];
    let mut finished = 0;
    let name = |point: usize| points[point].lane.clone();
    let failed = |point: usize| {
        let lane = name(point);
        move |source| LabError::Lane { lane, source }
    };
    while finished < total && !stop.load(Ordering::Relaxed) {
        while let Some(&(point, repetition)) = waiting.front() {
            let setup = &points[point].setup;
            let rate = setup.calls_per_second() / setup.run.scale;
            let busy: f64 = running.iter().map(|j| j.rate).sum();
            let full = running.len() >= options.parallel.max(1) || busy + rate > options.rate_max;
            if full && !running.is_empty() {
                break;
            }
            waiting.pop_front();
            let lane = start(setup, repetition).map_err(failed(point))?;
            running.push(Job {
                point,
                repetition,
                lane,
                rate,
            });
        }
        std::thread::sleep(POLL);
        let (done, still): (Vec<Job>, Vec<Job>) =
            running.into_iter().partition(|j| j.lane.is_finished());
        running = still;
        for job in done {
            let result = job.lane.finish().map_err(failed(job.point))?;
            results[job.point].insert(job.repetition, result);
            finished += 1;
        }
        progress(&Progress {
            finished,
            total,
            running: running.iter().map(|j| name(j.point)).collect(),
            left: time_left(points, &waiting, &running, options),
        });
    }
    let interrupted = finished < total;
    for job in running {
        job.lane.finish().map_err(failed(job.point))?;
    }
    let in_order = |runs: BTreeMap<u32, LaneResult>| runs.into_values().collect();
    Ok(Runs {
        results: results.into_iter().map(in_order).collect(),
        interrupted,
    })
}

/// Starts one lane.
pub(crate) fn start(setup: &Setup, repetition: u32) -> io::Result<RunningLane> {
    let setup = setup.on_the_wall_clock();
    let plan = setup.plan(setup.run.seed.wrapping_add(repetition.into()));
    RunningLane::start(&LaneConfig {
        defense: setup.defense.clone(),
        ring: setup.run.ring,
        ring_timeout: setup.run.ring_timeout,
        redial: setup.redial(),
        ..LaneConfig::new(setup.service.capacity, plan)
    })
}

/// The figures of what was finished.
#[must_use]
pub fn report(command: &'static str, scenario: &Scenario, runs: &Runs) -> Report {
    let points = scenario.points.iter().zip(&runs.results);
    let finished = points.filter(|(_, results)| !results.is_empty());
    let lanes: Vec<LaneReport> = finished
        .map(|(point, results)| {
            let at = point.at.iter().cloned().collect();
            LaneReport::new(point.lane.clone(), at, &point.setup.run, results)
        })
        .collect();
    let late = lanes
        .iter()
        .map(|l| l.callers.late_max_ms)
        .fold(0.0, f64::max);
    let mut warnings = Vec::new();
    if late > LATE_MAX_MS {
        warnings.push(format!(
            "callers were up to {late:.0} ms behind their plan: this machine is too slow for the load; run fewer lanes at once"
        ));
    }
    let not_made: u64 = lanes.iter().map(|l| l.callers.not_made).sum();
    if not_made > 0 {
        warnings.push(format!(
            "{not_made} calls were not made because too many were open, and count as refused"
        ));
    }
    Report {
        command,
        seed: scenario.seed,
        interrupted: runs.interrupted,
        warnings,
        lanes,
    }
}

/// What the lanes that wait and half of those at work take, so many at once.
fn time_left(
    points: &[Point],
    waiting: &VecDeque<(usize, u32)>,
    running: &[Job],
    options: &Options,
) -> Duration {
    let waiting: Duration = waiting.iter().map(|(p, _)| length(&points[*p])).sum();
    let running: Duration = running.iter().map(|j| length(&points[j.point])).sum();
    let at_once = u32::try_from(options.parallel.max(1)).unwrap_or(u32::MAX);
    (waiting + running) / at_once
}

/// How long a run of this point takes on the wall clock.
fn length(point: &Point) -> Duration {
    let run = &point.setup.run;
    (run.warmup + run.time).mul_f64(run.scale)
}
