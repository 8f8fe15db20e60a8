//! `levee tune SCENARIO`.

mod judge;
mod report;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, bail};
use levee_policy::selective::Config;
use levee_sim::tune::{Family, Space, Task};
use levee_smc::search::{self, Ended, Found, Given, Place, Plan};

use self::judge::Judge;
use self::report::{Document, Outcome};
use super::check::{positive, share};
use crate::cli::Global;
use crate::exit::Answer;
use crate::view::CheckView;
use crate::{output, scenarios, signals};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario, such as scenarios/sip-paper.toml
    scenario: PathBuf,
    /// Largest share of honest calls that may be cut short, at each point
    #[arg(long, value_name = "SHARE", value_parser = share)]
    cut_max: Option<f64>,
    /// Defences of the first screening, beside the scenario's own
    #[arg(long, value_name = "COUNT", default_value_t = 96, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    candidates: u32,
    /// At most so many runs in the search, over all defences and points
    #[arg(long, value_name = "RUNS", value_parser = clap::value_parser!(u64).range(1..))]
    max_runs: Option<u64>,
    /// Stop the search after this time; the fresh runs come after it
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    time_budget: Option<f64>,
    /// Runs of each point that the search has not seen, for the intervals
    #[arg(long, value_name = "RUNS", default_value_t = 4_000, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    fresh_runs: u64,
    /// Confidence of all intervals together, such as 0.99 [default: that of the scenario]
    #[arg(long, value_parser = share)]
    confidence: Option<f64>,
    /// The seed of run 0; run i takes the i-th after it, the fresh runs those from 2^32 on
    #[arg(long)]
    seed: Option<u64>,
    /// Threads; the results do not depend on it [default: one for each processor]
    #[arg(long)]
    threads: Option<NonZeroUsize>,
}

/// Runs that each defence of the first screening gets: some hundred honest calls at the least of the paper's points (our choice).
const SCREENING: u64 = 24;
/// After a search that was stopped by hand, so many fresh runs less: who stopped it is waiting.
const HURRY: u64 = 10;
/// In proportion to the coordinates, and one more for each strategy.
const WEIGHTS: [(Family, f64); 3] = [
    (Family::Uniform, 2.0),
    (Family::Roulette, 5.0),
    (Family::Tournament, 4.0),
];

/// The defences as the search takes them.
struct Boxes {
    space: Space,
    families: Vec<search::Family>,
}

impl Boxes {
    fn new(space: Space) -> Self {
        let family = |(family, weight): &(Family, f64)| search::Family {
            dimensions: family.dimensions(),
            weight: *weight,
        };
        Self {
            space,
            families: WEIGHTS.iter().map(family).collect(),
        }
    }

    fn given(&self, own: &Config) -> Given<Config> {
        let (family, at) = self.space.place(own);
        let family = WEIGHTS.iter().position(|(known, _)| *known == family);
        Given {
            candidate: own.clone(),
            place: family.map(|family| Place { family, at }),
        }
    }
}

impl search::Space for Boxes {
    type Candidate = Config;

    fn families(&self) -> &[search::Family] {
        &self.families
    }

    fn at(&self, place: &Place) -> Config {
        let family = WEIGHTS.get(place.family).map(|(family, _)| *family);
        let family = family.unwrap_or(Family::Roulette);
        self.space.at(family, &place.at)
    }
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    let mut scenario = scenarios::read(&args.scenario)?;
    if let Some(seed) = args.seed {
        scenario.reseed(seed);
    }
    let file = args.scenario.display().to_string();
    let task = Task::of(&scenario).with_context(|| file.clone())?;
    let view = CheckView::new(global);
    let stop = signals::stop_flag()?;
    let threads = args.threads.unwrap_or_else(super::check::processors);
    let judge = Judge::new(&scenario, &task, args.cut_max, threads, &stop, &view);
    let found = args.search(&scenario.seed, &task, &judge)?;
    let interrupted = stop.load(Ordering::Relaxed);
    let hurry = if interrupted { HURRY } else { 1 };
    let fresh = judge.fresh(
        &found.best,
        &task.own[found.best_given].1,
        args.confidence.unwrap_or(scenario.check.confidence),
        (args.fresh_runs / hurry).max(2),
    )?;
    view.finish();
    let outcome = Outcome {
        file,
        seed: scenario.seed,
        task: &task,
        found,
        fresh,
        cut_max: args.cut_max,
        interrupted: interrupted || stop.load(Ordering::Relaxed),
    };
    let document = Document::of(&outcome);
    if global.json {
        output::json(&document)?;
    } else {
        output::text(&document.text(&outcome))?;
    }
    Ok(if document.cap_is_broken() {
        Answer::No
    } else {
        Answer::Yes
    })
}

impl Args {
    fn search(&self, seed: &u64, task: &Task, judge: &Judge<'_>) -> Result<Found<Config>> {
        let boxes = Boxes::new(task.space());
        let given: Vec<_> = task.own.iter().map(|(_, own)| boxes.given(own)).collect();
        let points = task.attacks.len() as u64;
        let plan = Plan {
            candidates: self.candidates as usize,
            runs: SCREENING,
            runs_max: self.max_runs.map_or(u64::MAX, |runs| runs / points),
            seed: *seed,
        };
        let end = judge::deadline(self.time_budget);
        let mut scores = |defenses: &[Config], runs| judge.scores(defenses, runs, end);
        let found = search::search(&boxes, &given, &plan, &mut scores)?;
        if let (Some(runs), 0, Ended::Runs) = (self.max_runs, found.judged, found.ended) {
            let need = (u64::from(self.candidates) + given.len() as u64) * SCREENING * points;
            bail!(
                "--max-runs {runs} is less than the first screening takes: up to {need} runs, {SCREENING} of each of {points} points for each of {} defences; allow more, or give fewer --candidates",
                self.candidates as usize + given.len()
            );
        }
        Ok(found)
    }
}
