//! What there is to tune in a scenario: over which attacks a defence is judged, and among which defences.

mod space;
#[cfg(test)]
mod tests;

use std::time::Duration;

use levee_policy::Span;
use levee_policy::selective::{Config, DropFactor, Kind};

pub use self::space::{Family, Space};
use crate::scenario::{Point, Preset, Scenario};

/// A scenario as a task: the best defence for the worst of its attacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Each combination of what is swept outside of the defence, under the first of the scenario's own defences.
    pub attacks: Vec<Point>,
    /// The scenario's lanes of kind seven, by name; the default defence if it has none. Never empty.
    pub own: Vec<(String, Config)>,
    /// Lanes of other kinds, which have nothing to tune.
    pub left_out: Vec<String>,
    /// Combinations without an honest call, which have no availability.
    pub without_honest: usize,
}

/// Why a scenario cannot be tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The preset sets what would be tuned.
    #[error(
        "[model] asks for a reading of the paper that sets the round itself, or for quirks of the released model: take the table out; only the corrected model is tuned"
    )]
    Preset,
    /// There is no table of connections whose policy could be tuned.
    #[error(
        "service.rate makes it a scenario of the thinner, which has nothing to tune: only defences of kind \"seven\" are tuned; `levee check` compares the thinner's modes"
    )]
    Thinner,
    /// There is no table of connections whose policy could be tuned.
    #[error(
        "service.kind \"anycast\" has nothing to tune yet: only defences of kind \"seven\" are tuned; write lists in [defense], such as settle = [\"3m\", \"5m\"], and `levee check` compares them"
    )]
    Anycast,
    /// There is nobody to serve.
    #[error(
        "no point has an honest call, and so none has an availability: put attack.share below 1"
    )]
    NoHonest,
}

/// The name of the default defence where a scenario has none of kind seven.
const DEFAULT: &str = "default";

impl Task {
    /// The task of a scenario.
    ///
    /// # Errors
    ///
    /// A scenario that cannot be tuned.
    pub fn of(scenario: &Scenario) -> Result<Self, TaskError> {
        let plain = |point: &Point| {
            let model = &point.setup.model;
            model.preset == Preset::Corrected && model.quirks.is_empty()
        };
        if !scenario.points.iter().all(plain) {
            return Err(TaskError::Preset);
        }
        let reroutes = |point: &Point| point.setup.anycast.is_some();
        if scenario.points.iter().any(reroutes) {
            return Err(TaskError::Anycast);
        }
        let thins = |point: &Point| point.setup.thinner.is_some();
        if scenario.points.iter().any(thins) {
            return Err(TaskError::Thinner);
        }
        let lanes = scenario.points.get(..scenario.lanes).unwrap_or_default();
        let seven = |point: &Point| {
            let defense = point.setup.defense.clone();
            defense.filter(|defense| defense.kind == Kind::Seven)
        };
        // A list in a defence makes lanes of one name: what is swept tells them apart.
        let named = |point: &Point| {
            let own = point.at.iter().filter(|(key, _)| of_lane(key));
            let own: Vec<String> = own.map(|(key, value)| format!("{key} = {value}")).collect();
            if own.is_empty() {
                point.lane.clone()
            } else {
                format!("{} ({})", point.lane, own.join(", "))
            }
        };
        let mut own: Vec<(String, Config)> = lanes
            .iter()
            .filter_map(|point| Some((named(point), seven(point)?)))
            .collect();
        let left_out = lanes.iter().filter(|point| seven(point).is_none());
        let left_out = left_out.map(named).collect();
        let first = lanes.iter().position(|point| seven(point).is_some());
        let chosen = scenario.points.iter().skip(first.unwrap_or_default());
        let mut attacks: Vec<Point> = chosen.step_by(scenario.lanes.max(1)).cloned().collect();
        for point in &mut attacks {
            point.at.retain(|(key, _)| !of_lane(key));
        }
        let all = attacks.len();
        attacks.retain(|point| point.setup.honest.rate > 0.0);
        if attacks.is_empty() {
            return Err(TaskError::NoHonest);
        }
        if own.is_empty() {
            own.push((DEFAULT.to_owned(), default_defense(&attacks)));
        }
        Ok(Self {
            without_honest: all - attacks.len(),
            attacks,
            own,
            left_out,
        })
    }

    /// What is searched: all other keys stay as in the first of the scenario's own defences.
    #[must_use]
    pub fn space(&self) -> Space {
        let capacities = self.attacks.iter().map(|p| p.setup.service.capacity);
        let base = self.own.first().map(|(_, config)| config.clone());
        Space::new(base.unwrap_or_default(), capacities.min().unwrap_or(1))
    }

    /// Each of these defences under each attack: the attacks change fastest.
    #[must_use]
    pub fn points(&self, defenses: &[Config]) -> Vec<Point> {
        let under = |defense: &Config| {
            let mut attacks = self.attacks.clone();
            for point in &mut attacks {
                point.setup.defense = Some(defense.clone());
            }
            attacks
        };
        defenses.iter().flat_map(under).collect()
    }
}

/// Whether a swept key belongs to a lane.
fn of_lane(key: &str) -> bool {
    key.starts_with("defense.") || key.starts_with("lane.")
}

/// The defaults, with what the scenario says of an honest call for its mean.
fn default_defense(attacks: &[Point]) -> Config {
    let mean = |point: &Point| match point.setup.http_model() {
        Some(http) => http.mean_connection().as_secs_f64(),
        None => (point.setup.honest.durations.mean() + point.setup.run.ring).as_secs_f64(),
    };
    let sum: f64 = attacks.iter().map(mean).sum();
    let mean = Duration::from_secs_f64(sum / attacks.len().max(1) as f64);
    // To the millisecond, the least that a defence takes.
    let millis = u64::try_from(mean.as_millis()).unwrap_or(u64::MAX).max(1);
    Config {
        drop_factor: DropFactor {
            mean_call: Span::from_millis(millis),
            ..DropFactor::default()
        },
        ..Config::default()
    }
}
