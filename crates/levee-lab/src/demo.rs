//! `levee demo sip`: a bare server and one behind Levee under the same attack, at the same time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::lane::RunningLane;
use crate::outcome::Sample;
use crate::report::Report;
use crate::runner::{self, LabError, Lane};
use levee_sim::scenario::{Point, Scenario};

/// The scenario that the demo runs, as a file would say it.
pub const SCENARIO: &str = include_str!("../../../scenarios/demo-sip.toml");

/// One lane of the demo at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneView {
    /// Its name.
    pub name: String,
    /// Its newest counts.
    pub now: Sample,
}

/// The demo at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Since the start.
    pub elapsed: Duration,
    /// How long it will run.
    pub total: Duration,
    /// `k`.
    pub capacity: u32,
    /// Both lanes.
    pub lanes: Vec<LaneView>,
}

/// What the demo saw.
#[derive(Clone, Debug)]
pub struct DemoResult {
    /// The figures.
    pub report: Report,
    /// `k`.
    pub capacity: u32,
    /// The attackers' share of the calls.
    pub share: f64,
    /// Calls a second.
    pub rate: f64,
    /// The mean duration of an honest call.
    pub mean_call: Duration,
    /// How long it ran.
    pub total: Duration,
    /// Counts over time, one series for each lane of the report.
    pub series: Vec<Vec<Sample>>,
}

/// Between two views.
const VIEW_EVERY: Duration = Duration::from_millis(200);

/// Runs all lanes of the first point of `scenario` at the same time, and shows how they do. When `stop` becomes true the
/// lanes are cut off, and the figures are those up to then.
///
/// # Errors
/// When a lane cannot be started, or its sockets fail.
pub fn run(
    scenario: &Scenario,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&View),
) -> Result<DemoResult, LabError> {
    let points: Vec<&Point> = scenario.points.iter().take(scenario.lanes).collect();
    // Lanes differ by their defence alone.
    let setup = points[0].setup.on_the_wall_clock();
    let (total, capacity) = (setup.run.warmup + setup.run.time, setup.service.capacity);
    let name = |i: usize| points[i].lane.clone();
    let failed = |i: usize| {
        let lane = name(i);
        move |source| LabError::Lane { lane, source }
    };
    let mut lanes = Vec::new();
    for (i, point) in points.iter().enumerate() {
        lanes.push(<RunningLane as Lane>::start(&point.setup, 0).map_err(failed(i))?);
    }
    let begun = Instant::now();
    let mut interrupted = false;
    while !lanes.iter().all(RunningLane::is_finished) {
        std::thread::sleep(VIEW_EVERY);
        interrupted = stop.load(Ordering::Relaxed) && begun.elapsed() < total;
        let lanes = lanes.iter().enumerate().map(|(i, lane)| LaneView {
            name: name(i),
            now: lane.board().last(),
        });
        show(&View {
            elapsed: begun.elapsed().min(total),
            total,
            capacity,
            lanes: lanes.collect(),
        });
        if interrupted {
            break;
        }
    }
    let (mut results, mut series) = (Vec::new(), Vec::new());
    for (i, lane) in lanes.into_iter().enumerate() {
        let result = lane.finish().map_err(failed(i))?;
        series.push(result.samples.clone());
        results.push(vec![result]);
    }
    let rate = setup.calls_per_second();
    Ok(DemoResult {
        report: runner::sip_report("demo", scenario, &results, interrupted),
        capacity,
        share: 1.0 - setup.honest.rate / rate,
        rate,
        mean_call: setup.honest.durations.mean(),
        total: if interrupted { begun.elapsed() } else { total },
        series,
    })
}
