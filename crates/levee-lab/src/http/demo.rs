//! `levee demo http`: the same clients before four servers at the same time, one without Levee and three behind a mode of it each.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use levee_sim::model::thinner::Setup;
use levee_sim::scenario::{Point, Scenario};

use super::lane::RunningLane;
use super::record::Sample;
use super::report::{self, LaneReport};
use crate::report::Report;
use crate::runner::{LabError, Lane};

/// The scenario that the demo runs, as a file would say it.
pub const SCENARIO: &str = include_str!("../../../../scenarios/demo-http.toml");

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
    /// `G/(G+B)`, or what good clients want if that is less.
    pub ideal_share: f64,
    /// All lanes.
    pub lanes: Vec<LaneView>,
}

/// What the demo saw.
#[derive(Clone, Debug)]
pub struct DemoResult {
    /// The figures.
    pub report: Report<LaneReport>,
    /// What each lane ran, but for its defence.
    pub setup: Setup,
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
///
/// # Panics
/// Never: a scenario has a point, and this one a server with a rate.
pub fn run(
    scenario: &Scenario,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&View),
) -> Result<DemoResult, LabError> {
    let points: Vec<&Point> = scenario.points.iter().take(scenario.lanes).collect();
    let name = |i: usize| points.get(i).map(|point| point.lane.clone());
    let failed = |i: usize| {
        let lane = name(i).unwrap_or_default();
        move |source| LabError::Lane { lane, source }
    };
    // Lanes differ by their defence alone.
    let first = points.first().map(|point| point.setup.on_the_wall_clock());
    let Some(setup) = first.and_then(|setup| setup.thinner_model()) else {
        let none = std::io::Error::other("the scenario has no server with a rate");
        return Err(failed(0)(none));
    };
    let total = Duration::from_nanos(setup.end().as_nanos());
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
            name: name(i).unwrap_or_default(),
            now: lane.board().last(),
        });
        show(&View {
            elapsed: begun.elapsed().min(total),
            total,
            ideal_share: setup.ideal_share(),
            lanes: lanes.collect(),
        });
        if interrupted {
            break;
        }
    }
    let (mut results, mut series) = (Vec::new(), Vec::new());
    for (i, lane) in lanes.into_iter().enumerate() {
        let result = lane.finish().map_err(failed(i))?;
        series.push(result.clients.samples.clone());
        results.push(vec![result]);
    }
    Ok(DemoResult {
        report: report::report("demo", scenario, &results, interrupted),
        setup,
        total: if interrupted { begun.elapsed() } else { total },
        series,
    })
}
