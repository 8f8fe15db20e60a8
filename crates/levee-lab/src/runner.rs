//! Runs a scenario for real, point after point or several at once.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::http;
use crate::lane::{LaneConfig, LaneResult, RunningLane};
use crate::real::RealRuns;
use crate::report::{AnyReport, LaneReport, Report};
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
    /// The machine refused.
    #[error("lane `{lane}` could not run on loopback")]
    Lane {
        /// Its name.
        lane: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is nothing real to run.
    #[error(
        "service.kind \"anycast\" has a model only, no real run yet: the drivers of routers and the agents at sites that it needs come with the second version of anycast playbooks. `levee check` runs the model"
    )]
    Anycast,
}

/// Whether a scenario can be run for real.
///
/// # Errors
/// For a kind of service that has a model only.
pub fn check(scenario: &Scenario) -> Result<(), LabError> {
    let anycast = |point: &Point| point.setup.anycast.is_some();
    if scenario.points.iter().any(anycast) {
        return Err(LabError::Anycast);
    }
    Ok(())
}

/// Between two looks at the lanes at work.
const POLL: Duration = Duration::from_millis(50);
/// A caller that is further behind its plan than this measures the machine, not the defence.
const LATE_MAX_MS: f64 = 250.0;

/// One lane at work, of one kind of service.
pub(crate) trait Lane: Sized {
    /// What it comes to.
    type Result;
    /// Starts it.
    fn start(setup: &Setup, repetition: u32) -> io::Result<Self>;
    /// Whether its run is over.
    fn is_finished(&self) -> bool;
    /// Ends it.
    fn finish(self) -> io::Result<Self::Result>;
}

struct Job<L> {
    point: usize,
    repetition: u32,
    lane: L,
    rate: f64,
}

/// What runs came to.
#[derive(Debug)]
pub struct Runs {
    /// What was finished.
    pub results: Results,
    /// Whether it was stopped before all were finished.
    pub interrupted: bool,
}

/// For each point its finished runs, in the order of their seeds. All points of a scenario have one kind of service.
#[derive(Debug)]
pub enum Results {
    /// Calls.
    Sip(Vec<Vec<LaneResult>>),
    /// A web server of a fixed rate, whose clients pay.
    Thinner(Vec<Vec<http::lane::LaneResult>>),
    /// A web server of so many connections, under slow attacks.
    Slow(Vec<Vec<http::slow::LaneResult>>),
}

impl Results {
    /// How many runs of each point were finished.
    #[must_use]
    pub fn counts(&self) -> Vec<usize> {
        match self {
            Self::Sip(points) => points.iter().map(Vec::len).collect(),
            Self::Thinner(points) => points.iter().map(Vec::len).collect(),
            Self::Slow(points) => points.iter().map(Vec::len).collect(),
        }
    }

    /// The runs of a point of the scenario as something that a checker can be asked about.
    #[must_use]
    pub fn real(&self, point: usize, setup: &Setup) -> RealRuns {
        fn of<R>(points: &[Vec<R>], point: usize) -> &[R] {
            points.get(point).map_or(&[], Vec::as_slice)
        }
        match self {
            Self::Sip(points) => RealRuns::new(setup, of(points, point)),
            Self::Thinner(points) => http::real::thinner(setup, of(points, point)),
            Self::Slow(points) => http::real::slow(setup, of(points, point)),
        }
    }
}

/// Runs all points. When `stop` becomes true, lanes at work are cut off, and what was finished is given.
///
/// # Errors
/// When a lane cannot be started, or its sockets fail; what [`check`] finds.
pub fn run(
    scenario: &Scenario,
    options: &Options,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Runs, LabError> {
    check(scenario)?;
    let all = |test: fn(&Setup) -> bool| scenario.points.iter().all(|point| test(&point.setup));
    let points = &scenario.points;
    let (results, interrupted) = if all(|setup| setup.thinner.is_some()) {
        let (results, interrupted) =
            run_lanes::<http::lane::RunningLane>(points, options, stop, progress)?;
        (Results::Thinner(results), interrupted)
    } else if all(|setup| setup.http.is_some()) {
        let (results, interrupted) =
            run_lanes::<http::slow::RunningLane>(points, options, stop, progress)?;
        (Results::Slow(results), interrupted)
    } else {
        let (results, interrupted) = run_lanes::<RunningLane>(points, options, stop, progress)?;
        (Results::Sip(results), interrupted)
    };
    Ok(Runs {
        results,
        interrupted,
    })
}

type Finished<R> = (Vec<Vec<R>>, bool);

fn run_lanes<L: Lane>(
    points: &[Point],
    options: &Options,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Finished<L::Result>, LabError> {
    let mut waiting: VecDeque<(usize, u32)> = points
        .iter()
        .enumerate()
        .flat_map(|(p, point)| (0..point.setup.run.repeat).map(move |r| (p, r)))
        .collect();
    let total = waiting.len();
    let mut running: Vec<Job<L>> = Vec::new();
    let mut results: Vec<BTreeMap<u32, L::Result>> =
        points.iter().map(|_| BTreeMap::new()).collect();
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
            let lane = L::start(setup, repetition).map_err(failed(point))?;
            running.push(Job {
                point,
                repetition,
                lane,
                rate,
            });
        }
        std::thread::sleep(POLL);
        let (done, still): (Vec<Job<L>>, Vec<Job<L>>) =
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
    let in_order = |runs: BTreeMap<u32, L::Result>| runs.into_values().collect();
    Ok((results.into_iter().map(in_order).collect(), interrupted))
}

impl Lane for RunningLane {
    type Result = LaneResult;

    fn start(setup: &Setup, repetition: u32) -> io::Result<Self> {
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

    fn is_finished(&self) -> bool {
        RunningLane::is_finished(self)
    }

    fn finish(self) -> io::Result<LaneResult> {
        RunningLane::finish(self)
    }
}

/// The figures of what was finished.
#[must_use]
pub fn report(command: &'static str, scenario: &Scenario, runs: &Runs) -> AnyReport {
    let interrupted = runs.interrupted;
    match &runs.results {
        Results::Sip(results) => {
            AnyReport::Sip(sip_report(command, scenario, results, interrupted))
        }
        Results::Thinner(results) => AnyReport::Thinner(http::report::report(
            command,
            scenario,
            results,
            interrupted,
        )),
        Results::Slow(results) => AnyReport::Slow(http::slow_report::report(
            command,
            scenario,
            results,
            interrupted,
        )),
    }
}

/// The figures of calls.
pub(crate) fn sip_report(
    command: &'static str,
    scenario: &Scenario,
    results: &[Vec<LaneResult>],
    interrupted: bool,
) -> Report {
    let points = scenario.points.iter().zip(results);
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
        interrupted,
        warnings,
        lanes,
    }
}

/// What the lanes that wait and half of those at work take, so many at once.
fn time_left<L>(
    points: &[Point],
    waiting: &VecDeque<(usize, u32)>,
    running: &[Job<L>],
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
