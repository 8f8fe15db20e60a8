//! Defences, judged by the model.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use levee_policy::selective::Config;
use levee_sim::scenario::{Asked, Check, Query, Scenario, ServiceKind, Text};
use levee_sim::tune::Task;
use levee_smc::estimate::{Least, Runs, Settings, Stopped};
use levee_smc::search::Score;
use levee_smc::{Control, Estimate, Halt, Progress};

use super::report::Fresh;
use crate::models::{self, Ask};
use crate::view::CheckView;

/// The first fresh run: the search uses fewer before.
const FRESH: u64 = 1 << 32;
/// In the search a defence keeps the cap if the upper end of such an interval does: 19 of 20 times for one at the cap.
const CAP_CONFIDENCE: f64 = 0.9;
/// Intervals of a point that are to hold together: two answers of each of two defences, and a difference.
const INTERVALS: usize = 5;

/// What is asked of each model: the share of honest clients that were served, and of those that were cut short.
const SIP: [(&str, &str); 2] = [
    ("complete", "honest.complete / honest.attempted"),
    ("cut short", "honest.incomplete / honest.attempted"),
];
const HTTP: [(&str, &str); 2] = [
    ("served", "client.served / (client.served + client.failed)"),
    ("dropped", "client.dropped / client.tries"),
];

/// Asks the model.
pub(super) struct Judge<'a> {
    task: &'a Task,
    /// Without points.
    scenario: Scenario,
    cut_max: Option<f64>,
    threads: NonZeroUsize,
    stop: &'a AtomicBool,
    view: &'a CheckView,
}

pub(super) fn deadline(seconds: Option<f64>) -> Option<Instant> {
    let budget = Duration::try_from_secs_f64(seconds?).ok()?;
    Instant::now().checked_add(budget)
}

impl<'a> Judge<'a> {
    pub(super) fn new(
        scenario: &Scenario,
        task: &'a Task,
        cut_max: Option<f64>,
        threads: NonZeroUsize,
        stop: &'a AtomicBool,
        view: &'a CheckView,
    ) -> Self {
        let kind = task.attacks.first().map(|p| p.setup.service.kind);
        let asked = match kind {
            Some(ServiceKind::Http) => &HTTP,
            // One of anycast is no task.
            Some(ServiceKind::Sip | ServiceKind::Anycast) | None => &SIP,
        };
        let query = |(name, formula): &(&str, &str)| {
            let text = Text::of_file("levee tune", formula);
            Query {
                name: (*name).to_owned(),
                place: text.place(0),
                asked: Asked::Formula(text),
                confidence: None,
                precision: None,
                method: None,
            }
        };
        Self {
            task,
            scenario: Scenario {
                points: Vec::new(),
                lanes: 1,
                seed: scenario.seed,
                check: Check::default(),
                queries: asked.iter().map(query).collect(),
            },
            cut_max,
            threads,
            stop,
            view,
        }
    }

    /// The scores of the search, by runs from 0 on; `None` once it is stopped, or after `end`.
    pub(super) fn scores(
        &self,
        defenses: &[Config],
        runs: u64,
        end: Option<Instant>,
    ) -> Result<Option<Vec<Score>>> {
        self.view
            .stage(&format!("{} defences, {runs} runs each", defenses.len()));
        let halt = |_: usize| {
            if self.stop.load(Ordering::Relaxed) {
                Some(Halt::Interrupted)
            } else if end.is_some_and(|end| Instant::now() >= end) {
                Some(Halt::Budget)
            } else {
                None
            }
        };
        let progress = |progress: &Progress| self.view.show(progress);
        let ask = Ask {
            settings: self.settings(CAP_CONFIDENCE, 1, runs),
            control: Control {
                stop: &halt,
                progress: &progress,
            },
        };
        let answers = models::ask(&self.under(defenses, 0), &ask)?;
        let mut estimates = answers.points.iter().flatten();
        if estimates.any(|e| matches!(e.stopped, Stopped::Interrupted | Stopped::Budget)) {
            return Ok(None);
        }
        let each = answers.points.chunks(self.task.attacks.len());
        Ok(Some(each.map(|points| self.score(points)).collect()))
    }

    fn score(&self, points: &[Vec<Estimate>]) -> Score {
        let served = points.iter().filter_map(|point| point.first().cloned());
        let served: Vec<Estimate> = served.collect();
        let cut = points.iter().filter_map(|point| point.get(1));
        let excess = |cap: f64| {
            let all = cut.map(|cut| cut.high - cap);
            // What is not known may be anything.
            all.fold(f64::NEG_INFINITY, |worst, excess| {
                worst.max(if excess.is_nan() {
                    f64::INFINITY
                } else {
                    excess
                })
            })
        };
        Score {
            value: Least::of(&served).map_or(f64::NAN, |least| least.estimate),
            excess: self.cut_max.map_or(f64::NEG_INFINITY, excess),
        }
    }

    /// Winner and own defence by runs that no score comes from.
    pub(super) fn fresh(
        &self,
        winner: &Config,
        own: &Config,
        confidence: f64,
        runs: u64,
    ) -> Result<Fresh> {
        let intervals = self.task.attacks.len() * INTERVALS;
        // What has stopped the search does not stop this: a second signal ends the program.
        let stopped = self.stop.load(Ordering::Relaxed);
        let halt = |_: usize| {
            let now = !stopped && self.stop.load(Ordering::Relaxed);
            now.then_some(Halt::Interrupted)
        };
        let progress = |progress: &Progress| self.view.show(progress);
        let ask = Ask {
            settings: self.settings(confidence, intervals, runs),
            control: Control {
                stop: &halt,
                progress: &progress,
            },
        };
        self.view.stage("fresh runs of the winner");
        let one = self.under(std::slice::from_ref(winner), FRESH);
        let found = models::ask(&one, &ask)?.points;
        if winner == own {
            return Ok(Fresh {
                winner: found.clone(),
                own: found,
                differences: None,
                confidence,
                intervals,
                runs,
            });
        }
        self.view.stage("fresh runs of the scenario's own");
        let other = self.under(std::slice::from_ref(own), FRESH);
        let own = models::ask(&other, &ask)?.points;
        self.view.stage("fresh runs of both");
        let differences = models::differences(&one, &other, &ask)?;
        Ok(Fresh {
            winner: found,
            own,
            differences: Some(differences),
            confidence,
            intervals,
            runs,
        })
    }

    fn under(&self, defenses: &[Config], first: u64) -> Scenario {
        let mut scenario = Scenario {
            points: self.task.points(defenses),
            ..self.scenario.clone()
        };
        // A check with another seed begins at another run.
        scenario.reseed(scenario.seed.wrapping_add(first));
        scenario
    }

    fn settings(&self, confidence: f64, intervals: usize, runs: u64) -> Settings {
        Settings {
            runs: Runs::Fixed(runs),
            confidence,
            precision: None,
            simultaneous: u32::try_from(intervals).unwrap_or(u32::MAX),
            threads: self.threads,
        }
    }
}
