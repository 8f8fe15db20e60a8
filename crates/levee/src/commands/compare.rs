//! `levee compare SCENARIO`: the model and real runs, asked the same.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use levee_lab::real::RealRuns;
use levee_lab::runner;
use levee_sim::scenario::{Asked, NextStep, Query, Scenario};
use levee_smc::estimate::{Runs, Settings};
use levee_smc::query::Offer;
use levee_smc::report::{self, Answer, PointReport, Report};
use levee_smc::{Control, Estimate, Trial as _, check};

use super::check::{Files, How, predict};
use super::lab::Pace;
use crate::cli::Global;
use crate::exit::Answer as Exit;
use crate::models::{self, Ask};
use crate::questions::{self, Asking};
use crate::view::{CheckView, LabView};
use crate::{output, scenarios, signals};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario, such as scenarios/sip-compare.toml
    scenario: PathBuf,
    /// Real runs of each point, instead of what the scenario says
    #[arg(long, value_name = "RUNS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: Option<u32>,
    /// Wall-clock seconds that one second of the scenario takes, instead of what it says
    #[arg(long, value_name = "FACTOR", value_parser = scale)]
    scale: Option<f64>,
    /// Exit with 1 when a measurement is further than this from what the model says to the same runs, such as 0.05
    #[arg(long, value_name = "GAP", value_parser = super::check::positive)]
    within: Option<f64>,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    files: Files,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.001..=1_000.0).contains(&scale) => Ok(scale),
        _ => Err(
            "expected a number from 0.001 to 1000, such as 0.25 for four times as fast".to_owned(),
        ),
    }
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Exit> {
    let mut scenario = scenarios::read(&args.scenario)?;
    runner::check(&scenario)?;
    args.how.apply(&mut scenario);
    let mut warnings = args.adjust(&mut scenario);
    args.files.check()?;
    let stop = signals::stop_flag()?;
    let view = CheckView::new(global);
    let answers = predict(&scenario, &args.how, &view, &stop)?;
    view.finish();
    warnings.extend(answers.remarks);
    let mut view = LabView::new(global);
    let real = runner::run(&scenario, &args.pace.options(), &stop, &mut |progress| {
        view.show(progress);
    })?;
    view.finish();
    let report = runner::report("compare", &scenario, &real);
    warnings.extend_from_slice(report.warnings());
    let confidence = args.how.settings(&scenario).confidence;
    let same = same_runs(&scenario, &args.how, &real.results.counts())?;
    let mut points = Vec::new();
    for (i, ((point, predicted), same)) in scenario
        .points
        .iter()
        .zip(answers.points)
        .zip(same)
        .enumerate()
    {
        let runs = real.results.real(i, &point.setup);
        points.push(PointReport {
            name: point.lane.clone(),
            at: scenarios::coordinates(point),
            queries: side_by_side(&scenario, predicted, &same, &runs, confidence)?,
        });
    }
    let report = Report {
        command: "compare",
        scenario: args.scenario.display().to_string(),
        seed: scenario.seed,
        interrupted: real.interrupted || stop.load(Ordering::Relaxed),
        warnings,
        points,
    };
    if global.json {
        output::json(&report)?;
    } else {
        output::text(&report::table(&report))?;
    }
    args.files.write(&report)?;
    let gaps = report.points.iter().flat_map(|point| &point.queries);
    let gaps = gaps.filter_map(|answer| Some(answer.real.as_ref()?.same_runs.as_ref()?.gap));
    let holds = |within: f64| gaps.map(f64::abs).all(|gap| gap <= within);
    Ok(if args.within.is_none_or(holds) {
        Exit::Yes
    } else {
        Exit::No
    })
}

impl Args {
    /// The scenario as it can be run for real, for both sides; gives what was changed.
    fn adjust(&self, scenario: &mut Scenario) -> Vec<String> {
        let mut warnings = Vec::new();
        for point in &mut scenario.points {
            let run = &mut point.setup.run;
            run.repeat = self.repeat.unwrap_or(run.repeat);
            run.scale = self.scale.unwrap_or(run.scale);
            if !run.delay.is_zero() {
                let found = format!(
                    "run.delay of {} ms is left out on both sides: loopback has none",
                    run.delay.as_millis()
                );
                if !warnings.contains(&found) {
                    warnings.push(found);
                }
                run.delay = Duration::ZERO;
            }
        }
        if scenario
            .points
            .iter()
            .any(|point| point.setup.run.repeat < 2)
        {
            warnings.push(
                "a single real run has no interval by how runs differ: ask for more with --repeat 5 or run.repeat"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// What the model says to the runs that were made for real: run `i` of both has the same callers or clients, at the same times, with
/// the same wishes. Only the defence's own draws differ.
fn same_runs(scenario: &Scenario, how: &How, counts: &[usize]) -> Result<Vec<Vec<Estimate>>> {
    let mut same = vec![Vec::new(); scenario.points.len()];
    // One number of runs for all, unless someone stopped it.
    let numbers: BTreeSet<usize> = counts.iter().copied().collect();
    for runs in numbers.into_iter().filter(|runs| *runs > 0) {
        let places: Vec<usize> = (0..counts.len()).filter(|i| counts[*i] == runs).collect();
        let mut part = scenario.clone();
        part.points = places.iter().map(|i| scenario.points[*i].clone()).collect();
        let settings = Settings {
            runs: Runs::Fixed(runs as u64),
            ..how.settings(scenario)
        };
        let ask = Ask {
            settings,
            control: Control::NONE,
        };
        for (i, estimates) in places.into_iter().zip(models::ask(&part, &ask)?.points) {
            same[i] = estimates;
        }
    }
    Ok(same)
}

/// Each query's prediction beside what the real runs say.
fn side_by_side(
    scenario: &Scenario,
    predicted: Vec<Estimate>,
    same: &[Estimate],
    runs: &RealRuns,
    confidence: f64,
) -> Result<Vec<Answer>> {
    let mut predicted = predicted.into_iter().peekable();
    let mut answers = Vec::new();
    for query in &scenario.queries {
        let measured = measure(scenario, query, runs, confidence)?;
        // A query of QuaTEx may have many answers; each is named after it.
        let own = format!("{}: ", query.name);
        let mut measured = measured.map(Vec::into_iter);
        while let Some(estimate) =
            predicted.next_if(|e| e.name == query.name || e.name.starts_with(&own))
        {
            answers.push(match &mut measured {
                Ok(all) => match all.next() {
                    Some(measured) => {
                        let same = same.iter().find(|s| s.name == estimate.name);
                        Answer::compared(estimate, &measured, same.map(|s| s.estimate))
                    }
                    None => Answer::unmeasured(estimate, "no real run was finished".to_owned()),
                },
                Err(why) => Answer::unmeasured(estimate, why.clone()),
            });
        }
    }
    Ok(answers)
}

/// What the real runs say to a query, or why they say nothing.
fn measure(
    scenario: &Scenario,
    query: &Query,
    runs: &RealRuns,
    confidence: f64,
) -> Result<Result<Vec<Estimate>, String>> {
    if matches!(
        query.asked,
        Asked::Quatex {
            step: NextStep::Event,
            ..
        }
    ) {
        return Ok(Err(
            "of a real run only the end is seen, not each event".to_owned()
        ));
    }
    if runs.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    let offer = Offer {
        observables: runs.observables(),
        samples: runs.samples(),
    };
    // The model has answered it: only names can be missing here.
    let Ok(Asking {
        measure, targets, ..
    }) = questions::compile(std::slice::from_ref(query), scenario, offer)
    else {
        return Ok(Err("the lab does not measure what it names".to_owned()));
    };
    let settings = Settings {
        runs: Runs::Fixed(runs.len() as u64),
        confidence,
        precision: None,
        ..Settings::default()
    };
    let point = levee_smc::Point {
        trial: runs,
        measure: &measure,
        targets: &targets,
    };
    Ok(Ok(check(&point, &settings, Control::NONE)?))
}
