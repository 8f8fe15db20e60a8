//! `levee check SCENARIO`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use levee_sim::scenario::Scenario;
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
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    files: Files,
}

/// How surely, over what the scenario says.
#[derive(Debug, clap::Args)]
pub(crate) struct How {
    /// At most so many runs of each point
    #[arg(long, value_name = "RUNS", value_parser = clap::value_parser!(u64).range(1..))]
    max_runs: Option<u64>,
    /// Exactly so many runs of each point
    #[arg(long, value_name = "RUNS", conflicts_with = "max_runs", value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,
    /// Half the width that an interval may have
    #[arg(long, value_name = "HALF_WIDTH", value_parser = positive)]
    precision: Option<f64>,
    /// Confidence of the intervals, such as 0.99
    #[arg(long, value_parser = share)]
    confidence: Option<f64>,
    /// The seed of run 0; run i takes the i-th after it
    #[arg(long)]
    seed: Option<u64>,
    /// Stop after this time with what there is
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    time_budget: Option<f64>,
    /// Threads; the results do not depend on it [default: one for each processor]
    #[arg(long)]
    threads: Option<NonZeroUsize>,
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
    let view = CheckView::new(global);
    let stop = signals::stop_flag()?;
    let answers = predict(&scenario, &args.how, &view, &stop)?;
    view.finish();
    let report = Report {
        command: "check",
        scenario: args.scenario.display().to_string(),
        seed: scenario.seed,
        interrupted: stop.load(Ordering::Relaxed),
        warnings: answers.remarks,
        points: points(&scenario, answers.points),
    };
    args.files.write(&report)?;
    if global.json {
        output::json(&report)?;
    } else {
        output::text(&report::table(&report))?;
    }
    let rejected = report
        .points
        .iter()
        .flat_map(|point| &point.queries)
        .any(|answer| answer.estimate.verdict == Some(Verdict::Rejected));
    Ok(if rejected { Exit::No } else { Exit::Yes })
}

/// What the models say, until `stop` becomes true.
pub(crate) fn predict(
    scenario: &Scenario,
    how: &How,
    view: &CheckView,
    stop: &AtomicBool,
) -> Result<Answers> {
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
    models::ask(scenario, &Ask { settings, control })
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
        let precision = self.precision.map(Precision::Absolute);
        Settings {
            runs,
            confidence: self.confidence.unwrap_or(check.confidence),
            precision: precision.or(check.precision.map(questions::precision)),
            simultaneous: 1,
            threads: self.threads(),
        }
    }

    fn threads(&self) -> NonZeroUsize {
        self.threads.unwrap_or_else(processors)
    }
}

/// As many threads as there are processors.
pub(crate) fn processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

impl Files {
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
    let name = path.display();
    std::fs::write(path, bytes)
        .with_context(|| format!("{name}: cannot be written; check the folder and its permissions"))
}

#[derive(serde::Serialize)]
struct Offered<'o> {
    command: &'static str,
    observables: Vec<Named<'o>>,
    samples: Vec<Named<'o>>,
}

#[derive(serde::Serialize)]
struct Named<'o> {
    name: &'o str,
    unit: &'o str,
    meaning: &'o str,
}

fn observables(scenario: &Scenario, global: Global) -> Result<Exit> {
    let (observables, samples) = models::offer(scenario)?;
    fn list(of: &[Observable]) -> Vec<Named<'_>> {
        let all = of.iter();
        all.map(|o| Named {
            name: &o.name,
            unit: &o.unit,
            meaning: &o.meaning,
        })
        .collect()
    }
    if global.json {
        output::json(&Offered {
            command: "check",
            observables: list(&observables),
            samples: list(&samples),
        })?;
    } else {
        output::text(&report::offer(&observables, &samples))?;
    }
    Ok(Exit::Yes)
}
