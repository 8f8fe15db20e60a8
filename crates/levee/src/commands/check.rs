//! `levee check SCENARIO`.

use std::fs::OpenOptions;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use levee_sim::scenario::{self, Point, Scenario};
use levee_smc::estimate::{Precision, Runs, Settings, Verdict};
use levee_smc::report::{self, Answer, PointReport, Report};
use levee_smc::{Control, Estimate, Halt, Observable, Progress};

use crate::cli::Global;
use crate::exit::Answer as Exit;
use crate::models::{self, Answers, Ask};
use crate::view::CheckView;
use crate::{output, parquet, questions, scenarios, signals};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario, such as scenarios/sip-paper.toml
    pub(crate) scenario: PathBuf,
    /// List what its queries may name, with units, and check nothing
    #[arg(long)]
    observables: bool,
    /// Answer how far each lane is ahead of this one, with common random numbers
    #[arg(long, value_name = "LANE", conflicts_with = "observables")]
    against: Option<String>,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    files: Files,
}

/// How narrow intervals get where neither the scenario nor the command line says: a point in a hundred of a share, one part in a hundred
/// of what is larger than 1. Enough to tell defences apart, in seconds.
const PRECISION: Precision = Precision::Either {
    absolute: 0.01,
    relative: 0.01,
};

/// As in a scenario.
const RUNS_MAX: u64 = 1_000_000_000;

/// More threads than any machine has processors for.
const THREADS_MAX: i64 = 1024;

/// How surely, over what the scenario says.
#[derive(Debug, clap::Args)]
pub(crate) struct How {
    /// At most so many runs of each point [default: 1000000]
    #[arg(long, value_name = "RUNS", value_parser = clap::value_parser!(u64).range(2..=RUNS_MAX))]
    max_runs: Option<u64>,
    /// Exactly so many runs of each point
    #[arg(long, value_name = "RUNS", conflicts_with = "max_runs", value_parser = clap::value_parser!(u64).range(1..=RUNS_MAX))]
    runs: Option<u64>,
    /// Half the width that any interval may have, whatever the scenario says [default: 0.01, or a hundredth of the estimate where that is
    /// more]
    #[arg(long, value_name = "HALF_WIDTH", value_parser = positive)]
    precision: Option<f64>,
    /// Confidence of all intervals and tests, such as 0.95 [default: 0.99]
    #[arg(long, value_parser = share)]
    confidence: Option<f64>,
    /// The seed of run 0; run i takes the i-th after it
    #[arg(long)]
    seed: Option<u64>,
    /// Stop after this time with what there is
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    time_budget: Option<f64>,
    /// Threads; the results do not depend on it [default: one for each processor]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX))]
    threads: Option<u16>,
}

/// What else is written.
#[derive(Debug, clap::Args)]
pub(crate) struct Files {
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a line for each answer
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the same lines as Apache Parquet
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
}

pub(crate) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("expected a number above 0, such as 0.01".to_owned()),
    }
}

pub(crate) fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value < 1.0 => Ok(value),
        _ => Err("expected a number between 0 and 1, such as 0.99".to_owned()),
    }
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Exit> {
    let mut scenario = scenarios::read(&args.scenario)?;
    args.how.apply(&mut scenario);
    if args.observables {
        return observables(&scenario, global);
    }
    args.files.check()?;
    let view = CheckView::new(global);
    let stop = signals::stop_flag()?;
    let answers = match &args.against {
        None => predict(&scenario, &args.how, &view, &stop)?,
        Some(lane) => ahead(&mut scenario, lane, &args.how, &view, &stop)?,
    };
    view.finish();
    let report = Report {
        command: "check",
        scenario: args.scenario.display().to_string(),
        seed: scenario.seed,
        interrupted: stop.load(Ordering::Relaxed),
        warnings: answers.remarks,
        points: points(&scenario, answers.points),
    };
    // The figures first: they are not lost when a file cannot be written.
    if global.json {
        output::json(&report)?;
    } else {
        output::text(&report::table(&report))?;
    }
    args.files.write(&report)?;
    let answers = report.points.iter().flat_map(|point| &point.queries);
    let mut verdicts = answers.filter_map(|answer| answer.estimate.verdict);
    // What is undecided is not shown to hold.
    let hold = verdicts.all(|verdict| verdict == Verdict::Holds);
    Ok(if hold { Exit::Yes } else { Exit::No })
}

/// What the models say, until `stop` becomes true.
pub(crate) fn predict(
    scenario: &Scenario,
    how: &How,
    view: &CheckView,
    stop: &AtomicBool,
) -> Result<Answers> {
    asking(scenario, how, view, stop, |ask| models::ask(scenario, ask))
}

/// How far the points of other lanes are ahead of this one's: run `i` of both has the same callers with the same wishes, so that
/// their luck is not in the difference. The lane itself is taken out of the scenario.
fn ahead(
    scenario: &mut Scenario,
    lane: &str,
    how: &How,
    view: &CheckView,
    stop: &AtomicBool,
) -> Result<Answers> {
    let mut other = scenario.clone();
    (scenario.points, other.points) = beside(scenario, lane)?;
    let points = asking(scenario, how, view, stop, |ask| {
        models::differences(scenario, &other, ask)
    })?;
    let named = |mut estimate: Estimate| {
        estimate.name = format!("{}, less {lane}", estimate.name);
        estimate
    };
    let points = points.into_iter();
    Ok(Answers {
        points: points
            .map(|answers| answers.into_iter().map(named).collect())
            .collect(),
        remarks: Vec::new(),
    })
}

/// The points of all other lanes, and for each the point of this lane that differs by its defence alone.
fn beside(scenario: &Scenario, lane: &str) -> Result<(Vec<Point>, Vec<Point>)> {
    let (mut points, mut others) = (Vec::new(), Vec::new());
    for alike in scenario.points.chunks(scenario.lanes.max(1)) {
        let Some(other) = alike.iter().find(|point| point.lane == lane) else {
            let mut lanes: Vec<&str> = alike.iter().map(|point| point.lane.as_str()).collect();
            lanes.dedup();
            bail!(
                "--against {lane}: no such lane, expected one of {}",
                lanes.join(", ")
            );
        };
        for point in alike.iter().filter(|point| point.lane != lane) {
            points.push(point.clone());
            others.push(other.clone());
        }
    }
    if points.is_empty() {
        bail!("--against {lane}: there is no other lane; add a [[lane]] to the scenario");
    }
    Ok((points, others))
}

/// Asks under the limits of time that were given.
fn asking<T>(
    scenario: &Scenario,
    how: &How,
    view: &CheckView,
    stop: &AtomicBool,
    ask: impl FnOnce(&Ask<'_>) -> Result<T>,
) -> Result<T> {
    let end = how
        .time_budget(scenario)
        .and_then(|budget| Instant::now().checked_add(budget));
    let halt = |_: usize| {
        if stop.load(Ordering::Relaxed) {
            Some(Halt::Interrupted)
        } else if end.is_some_and(|end| Instant::now() >= end) {
            Some(Halt::Budget)
        } else {
            None
        }
    };
    let progress = |progress: &Progress| view.show(progress);
    let control = Control {
        stop: &halt,
        progress: &progress,
    };
    let settings = how.settings(scenario);
    ask(&Ask { settings, control })
}

/// Points with their answers.
fn points(scenario: &Scenario, answers: Vec<Vec<Estimate>>) -> Vec<PointReport> {
    let points = scenario.points.iter().zip(answers);
    points
        .map(|(point, answers)| PointReport {
            name: point.lane.clone(),
            at: scenarios::coordinates(point),
            queries: answers.into_iter().map(Answer::predicted).collect(),
        })
        .collect()
}

impl How {
    /// Puts what was asked for on the command line in the place of what the scenario says.
    pub(crate) fn apply(&self, scenario: &mut Scenario) {
        if let Some(seed) = self.seed {
            scenario.reseed(seed);
        }
        let check = &mut scenario.check;
        if let Some(confidence) = self.confidence {
            // Errors of a test are what the confidence leaves, unless the scenario says otherwise.
            let usual = 1.0 - check.confidence;
            for error in [&mut check.sprt.alpha, &mut check.sprt.beta] {
                if *error == usual {
                    *error = 1.0 - confidence;
                }
            }
            check.confidence = confidence;
        }
        if let Some(half) = self.precision {
            check.precision = Some(scenario::Precision::Absolute(half));
        }
        for query in &mut scenario.queries {
            query.confidence = query.confidence.filter(|_| self.confidence.is_none());
            query.precision = query.precision.filter(|_| self.precision.is_none());
        }
    }

    fn time_budget(&self, scenario: &Scenario) -> Option<Duration> {
        let own = self
            .time_budget
            .map(|s| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX));
        own.or(scenario.check.time_budget)
    }

    pub(crate) fn settings(&self, scenario: &Scenario) -> Settings {
        let check = &scenario.check;
        let mut runs = questions::runs(check.runs);
        match (&mut runs, self.max_runs) {
            (Runs::Sequential { min, max }, Some(most)) => (*min, *max) = ((*min).min(most), most),
            (Runs::Fixed(runs), Some(most)) => *runs = (*runs).min(most),
            (_, None) => {}
        }
        if let Some(fixed) = self.runs {
            runs = Runs::Fixed(fixed);
        }
        Settings {
            runs,
            confidence: check.confidence,
            precision: Some(check.precision.map_or(PRECISION, questions::precision))
                .filter(|_| matches!(runs, Runs::Sequential { .. }) || check.precision.is_some()),
            simultaneous: 1,
            threads: self.threads(),
        }
    }

    fn threads(&self) -> NonZeroUsize {
        let asked = self.threads.and_then(|n| NonZeroUsize::new(n.into()));
        asked.unwrap_or_else(processors)
    }
}

/// As many threads as there are processors.
pub(crate) fn processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

impl Files {
    /// Whether they can be written: to be asked before the work, not after it.
    pub(crate) fn check(&self) -> Result<()> {
        for path in [&self.html, &self.csv, &self.parquet].into_iter().flatten() {
            let there = path.exists();
            let tried = OpenOptions::new().create(true).append(true).open(path);
            tried.with_context(|| unwritable(path))?;
            if !there {
                std::fs::remove_file(path).ok();
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, report: &Report) -> Result<()> {
        let text = |path: &Option<PathBuf>, text: fn(&Report) -> String| match path {
            Some(path) => write(path, text(report).as_bytes()),
            None => Ok(()),
        };
        text(&self.html, report::html)?;
        text(&self.csv, report::csv)?;
        if let Some(path) = &self.parquet {
            write(path, &parquet::bytes(report)?)?;
        }
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| unwritable(path))
}

fn unwritable(path: &Path) -> String {
    format!(
        "{}: cannot be written; check the folder and its permissions",
        path.display()
    )
}

#[derive(serde::Serialize)]
struct Offered<'o> {
    command: &'static str,
    observables: Vec<Named<'o>>,
    samples: Vec<Named<'o>>,
}

#[derive(serde::Serialize)]
struct Named<'o> {
    /// As `s.rval(3)` has it; samples have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<usize>,
    name: &'o str,
    unit: &'o str,
    meaning: &'o str,
}

fn observables(scenario: &Scenario, global: Global) -> Result<Exit> {
    let (observables, samples) = models::offer(scenario)?;
    fn list(of: &[Observable], numbered: bool) -> Vec<Named<'_>> {
        let all = of.iter().enumerate();
        all.map(|(i, o)| Named {
            number: numbered.then_some(i + 1),
            name: &o.name,
            unit: &o.unit,
            meaning: &o.meaning,
        })
        .collect()
    }
    if global.json {
        output::json(&Offered {
            command: "check",
            observables: list(&observables, true),
            samples: list(&samples, false),
        })?;
    } else {
        output::text(&report::offer(&observables, &samples))?;
    }
    Ok(Exit::Yes)
}
