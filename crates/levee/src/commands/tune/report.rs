//! What the search found, for machines and for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use levee_policy::selective::Config;
use levee_sim::tune::Task;
use levee_smc::Estimate;
use levee_smc::estimate::Least;
use levee_smc::report::{self, Answer, Coordinate, PointReport, Report};
use levee_smc::search::{Ended, Found};
use serde::Serialize;

use crate::scenarios;

/// What the fresh runs say: at each point the share that was served, and that which was cut short.
pub(super) struct Fresh {
    pub(super) winner: Vec<Vec<Estimate>>,
    pub(super) own: Vec<Vec<Estimate>>,
    /// Winner minus own; `None` if they are the same.
    pub(super) differences: Option<Vec<Vec<Estimate>>>,
    /// Of all intervals together.
    pub(super) confidence: f64,
    pub(super) intervals: usize,
    pub(super) runs: u64,
}

/// All that came of it.
pub(super) struct Outcome<'a> {
    pub(super) file: String,
    pub(super) seed: u64,
    pub(super) task: &'a Task,
    pub(super) found: Found<Config>,
    pub(super) fresh: Fresh,
    pub(super) cut_max: Option<f64>,
    pub(super) interrupted: bool,
}

/// Of a defence at its worst.
#[derive(Serialize)]
struct Worst {
    #[serde(flatten)]
    least: Least,
    at: BTreeMap<String, Coordinate>,
}

/// The largest share that is cut short.
#[derive(Clone, Copy, Serialize)]
struct Most {
    estimate: f64,
    low: f64,
    high: f64,
}

#[derive(Serialize)]
struct Defense<'o> {
    /// Of the lane; `null` for one that was found.
    name: Option<&'o str>,
    defense: &'o Config,
    worst: Option<Worst>,
    cut: Most,
}

#[derive(Serialize)]
struct AtPoint<'o> {
    at: BTreeMap<String, Coordinate>,
    winner: Vec<&'o Estimate>,
    baseline: Vec<&'o Estimate>,
    difference: Vec<&'o Estimate>,
}

/// What machines read.
#[derive(Serialize)]
pub(super) struct Document<'o> {
    command: &'static str,
    scenario: &'o str,
    seed: u64,
    interrupted: bool,
    ended: &'static str,
    warnings: Vec<String>,
    searched: usize,
    search_runs: u64,
    fresh_runs: u64,
    confidence: f64,
    simultaneous: usize,
    cut_max: Option<f64>,
    /// Whether the cap is kept; `null` if that cannot be told, or there is none.
    cut_kept: Option<bool>,
    winner: Defense<'o>,
    baseline: Defense<'o>,
    difference: Option<Least>,
    points: Vec<AtPoint<'o>>,
}

/// The `of`-th answer of each point.
fn column(points: &[Vec<Estimate>], of: usize) -> Vec<Estimate> {
    let all = points.iter().filter_map(|point| point.get(of));
    all.cloned().collect()
}

impl Most {
    fn of(points: &[Vec<Estimate>]) -> Self {
        let most = |value: fn(&Estimate) -> f64| {
            let all = points.iter().filter_map(|point| point.get(1)).map(value);
            all.fold(f64::NEG_INFINITY, |most, value| {
                if most.is_nan() || value.is_nan() {
                    f64::NAN
                } else {
                    most.max(value)
                }
            })
        };
        Self {
            estimate: most(|e| e.estimate),
            low: most(|e| e.low),
            high: most(|e| e.high),
        }
    }
}

impl<'o> Document<'o> {
    pub(super) fn of(outcome: &'o Outcome<'_>) -> Self {
        let Outcome {
            task, found, fresh, ..
        } = outcome;
        let at = |index: usize| -> BTreeMap<String, Coordinate> {
            let point = task.attacks.get(index);
            point
                .map(scenarios::coordinates)
                .into_iter()
                .flatten()
                .collect()
        };
        let defense = |name, defense, points: &[Vec<Estimate>]| Defense {
            name,
            defense,
            worst: Least::of(&column(points, 0)).map(|least| Worst {
                at: at(least.index),
                least,
            }),
            cut: Most::of(points),
        };
        let (own, baseline) = &task.own[found.best_given];
        let of_own = task.own.iter().find(|(_, config)| *config == found.best);
        let winner = defense(
            of_own.map(|(name, _)| name.as_str()),
            &found.best,
            &fresh.winner,
        );
        let kept = |cap: f64| match winner.cut {
            Most { high, .. } if high <= cap => Some(true),
            Most { low, .. } if low > cap => Some(false),
            _ => None,
        };
        let differences = fresh.differences.as_deref();
        let at_point = |(i, winner): (usize, &'o Vec<Estimate>)| AtPoint {
            at: at(i),
            winner: winner.iter().collect(),
            baseline: fresh.own.get(i).into_iter().flatten().collect(),
            difference: differences
                .and_then(|all| all.get(i))
                .into_iter()
                .flatten()
                .take(1)
                .collect(),
        };
        Self {
            command: "tune",
            scenario: &outcome.file,
            seed: outcome.seed,
            interrupted: outcome.interrupted,
            ended: match found.ended {
                Ended::Complete => "complete",
                Ended::Runs => "max-runs",
                Ended::Halted if outcome.interrupted => "interrupted",
                Ended::Halted => "budget",
            },
            warnings: outcome.warnings(),
            searched: found.judged,
            search_runs: found.runs * task.attacks.len() as u64,
            fresh_runs: fresh.runs,
            confidence: fresh.confidence,
            simultaneous: fresh.intervals,
            cut_max: outcome.cut_max,
            cut_kept: outcome.cut_max.and_then(kept),
            baseline: defense(Some(own.as_str()), baseline, &fresh.own),
            winner,
            difference: differences.and_then(|all| {
                let served = |points: &[Vec<Estimate>]| column(points, 0);
                Least::difference(&served(&fresh.winner), &served(&fresh.own), &served(all))
            }),
            points: fresh.winner.iter().enumerate().map(at_point).collect(),
        }
    }

    pub(super) fn cap_is_broken(&self) -> bool {
        self.cut_kept == Some(false)
    }

    /// What people read.
    pub(super) fn text(&self, outcome: &Outcome<'_>) -> String {
        let mut out = String::new();
        writeln!(
            out,
            "{}: {} points, {} defences tried in {} runs",
            self.scenario,
            self.points.len(),
            self.searched,
            self.search_runs
        )
        .ok();
        for warning in &self.warnings {
            writeln!(out, "note: {warning}").ok();
        }
        writeln!(out, "\n{}", paste(self.winner.defense)).ok();
        writeln!(
            out,
            "On {} fresh runs of each point. All intervals hold together with {}%.\n",
            self.fresh_runs,
            100.0 * self.confidence
        )
        .ok();
        let name = self.baseline.name.unwrap_or_default();
        for (title, of) in [("winner", &self.winner), (name, &self.baseline)] {
            out.push_str(&line(title, of, outcome));
        }
        writeln!(out, "{}", self.verdict(name)).ok();
        if let Some(cap) = self.cut_max {
            writeln!(out, "{}", self.cap(cap)).ok();
        }
        out.push('\n');
        out.push_str(&report::table(&outcome.table(name)));
        out
    }

    fn verdict(&self, own: &str) -> String {
        let Some(difference) = &self.difference else {
            return format!("none of them was better than {own} of the scenario: keep it");
        };
        let means = if difference.low > 0.0 {
            "the winner is better"
        } else if difference.high < 0.0 {
            "the winner was lucky in the search, and is worse: keep what you have"
        } else {
            "within what chance can do: these runs do not tell them apart"
        };
        format!(
            "difference of the worst cases: {}; {means}",
            between(difference.estimate, difference.low, difference.high, true)
        )
    }

    fn cap(&self, cap: f64) -> String {
        let most = &self.winner.cut;
        let found = between(most.estimate, most.low, most.high, false);
        let (kept, what) = match self.cut_kept {
            Some(true) => ("is kept", ""),
            Some(false) => (
                "is NOT kept",
                "; allow more, or search further with more --candidates",
            ),
            None => ("may be kept", "; more --fresh-runs would tell"),
        };
        format!("the cap of {cap} on honest calls cut short {kept}: {found} at most{what}")
    }
}

impl Outcome<'_> {
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let Self { task, found, .. } = self;
        if !task.left_out.is_empty() {
            warnings.push(format!(
                "left out, since only SeVen has something to tune: {}",
                task.left_out.join(", ")
            ));
        }
        if task.without_honest > 0 {
            warnings.push(format!(
                "{} points without an honest call are left out",
                task.without_honest
            ));
        }
        if found.ended != Ended::Complete {
            let why = match found.ended {
                Ended::Runs => "at --max-runs",
                _ if self.interrupted => "by hand",
                _ => "by --time-budget",
            };
            warnings.push(format!(
                "the search was stopped {why}: there may be better ones"
            ));
        }
        let fresh = self.fresh.winner.iter().chain(&self.fresh.own).flatten();
        if fresh.map(|e| e.runs).min().unwrap_or(0) < self.fresh.runs {
            warnings.push(
                "the fresh runs were stopped before all were made: intervals are wider, or not known"
                    .to_owned(),
            );
        }
        warnings
    }

    /// Points and defences as a check would show them.
    fn table(&self, own: &str) -> Report {
        let mut points = Vec::new();
        for (i, point) in self.task.attacks.iter().enumerate() {
            let at = scenarios::coordinates(point);
            let both = [("winner", &self.fresh.winner), (own, &self.fresh.own)];
            let lanes = both.into_iter().take(if self.fresh.differences.is_some() {
                2
            } else {
                1
            });
            for (name, answers) in lanes {
                points.push(lane(name, &at, answers.get(i).cloned().unwrap_or_default()));
            }
            if let Some(differences) = &self.fresh.differences {
                let of = differences.get(i).into_iter().flatten().take(1);
                points.push(lane("difference", &at, of.cloned().collect()));
            }
        }
        Report {
            command: "tune",
            scenario: self.file.clone(),
            seed: self.seed,
            interrupted: self.interrupted,
            warnings: Vec::new(),
            points,
        }
    }
}

fn lane(name: &str, at: &[(String, Coordinate)], answers: Vec<Estimate>) -> PointReport {
    PointReport {
        name: name.to_owned(),
        at: at.to_vec(),
        queries: answers.into_iter().map(Answer::predicted).collect(),
    }
}

/// `winner  served in the worst case 0.7012, at least 0.6950 (attack.share = 0.83); cut short 0.1500 at most`.
fn line(title: &str, of: &Defense<'_>, outcome: &Outcome<'_>) -> String {
    let Some(worst) = &of.worst else {
        return format!("{title}: not known\n");
    };
    let names = outcome.fresh.winner.first().into_iter().flatten();
    let names: Vec<&str> = names.map(|e| e.name.as_str()).collect();
    let [served, cut] = names.as_slice() else {
        return format!("{title}: not known\n");
    };
    let at: Vec<String> = worst.at.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    let at = if at.is_empty() {
        String::new()
    } else {
        format!(" at {}", at.join(", "))
    };
    let Least {
        estimate,
        low,
        high,
        ..
    } = worst.least;
    format!(
        "{title}: {served} {} in the worst case{at}; {cut} {} at most\n",
        between(estimate, low, high, false),
        between(of.cut.estimate, of.cut.low, of.cut.high, false)
    )
}

/// `0.7012 (0.6950 to 0.7074)`.
fn between(estimate: f64, low: f64, high: f64, signed: bool) -> String {
    let number = |x: f64| match (x.is_finite(), signed) {
        (false, _) => "?".to_owned(),
        (true, true) => format!("{x:+.4}"),
        (true, false) => format!("{x:.4}"),
    };
    format!("{} ({} to {})", number(estimate), number(low), number(high))
}

/// The table to be pasted.
fn paste(defense: &Config) -> String {
    #[derive(Serialize)]
    struct Table<'d> {
        defense: &'d Config,
    }
    // A configuration has a TOML form, so the error has no cause; said rather than hidden all the same.
    toml::to_string(&Table { defense })
        .unwrap_or_else(|error| format!("# cannot be printed: {error}\n"))
}

#[cfg(test)]
mod tests {
    use levee_policy::selective::{DropFactor, Strategy};
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Table {
        defense: Config,
    }

    #[test]
    fn what_is_pasted_is_what_was_found() {
        for strategy in [
            Strategy::Uniform,
            Strategy::Roulette,
            Strategy::Tournament { size: Some(7) },
        ] {
            let defense = Config {
                strategy,
                round: levee_policy::Span::from_micros(12_300),
                drop_factor: DropFactor {
                    scale: 1.23e-7,
                    ..DropFactor::default()
                },
                ..Config::default()
            };
            let text = paste(&defense);
            let table: Table = toml::from_str(&text).unwrap();
            assert_eq!(table.defense, defense, "{text}");
        }
    }

    #[test]
    fn ends_that_are_not_known_are_told() {
        assert_eq!(
            between(0.5, f64::NEG_INFINITY, f64::NAN, false),
            "0.5000 (? to ?)"
        );
        assert_eq!(
            between(0.5, -0.25, 0.75, true),
            "+0.5000 (-0.2500 to +0.7500)"
        );
    }
}
