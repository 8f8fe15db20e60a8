//! What the runs of a point have said so far, and whether it is enough.

use super::entry::{Answer, Entry, Need, Shape};
use super::error::CheckError;
use super::quantile::Store;
use super::result::{Estimate, Stopped};
use super::target::{Precision, Runs, Settings, Source, Target};
use crate::measure::Row;

/// After a look that was not enough, at least this part more runs are made before the next: many looks at nearly the same runs would
/// stop at the luckiest.
const GROWTH_MIN: f64 = 1.125;

/// And at most this many times as many: the first runs may mislead about how many it takes.
const GROWTH_MAX: u64 = 2;

/// What the runs of a point have said so far.
#[derive(Debug)]
pub(crate) struct Tally {
    runs: Runs,
    simultaneous: u32,
    done: u64,
    entries: Vec<Entry>,
    stores: Vec<Store>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// Make runs until there are so many, then look again. `None`: it is enough.
    pub(crate) until: Option<u64>,
    /// How many it will take in all, as far as can be told.
    pub(crate) forecast: u64,
}

impl Tally {
    pub(crate) fn new(
        targets: &[Target],
        settings: &Settings,
        shape: Shape,
    ) -> Result<Self, CheckError> {
        settings.check()?;
        let mut stores = Vec::new();
        let entries = targets
            .iter()
            .map(|target| Entry::new(target, settings, shape, &mut stores))
            .collect::<Result<Vec<_>, _>>()?;
        let stops = |e: &Entry| e.precision.is_some() || e.is_sequential_test();
        if matches!(settings.runs, Runs::Sequential { .. }) && !entries.iter().any(stops) {
            return Err(CheckError::Settings(
                "nothing says when it is enough: give a precision, or a number of runs".to_owned(),
            ));
        }
        Ok(Self {
            runs: settings.runs,
            simultaneous: settings.simultaneous,
            done: 0,
            entries,
            stores,
        })
    }

    /// Takes on the next run. Err says what is wrong with it.
    pub(crate) fn push(&mut self, row: &Row) -> Result<(), String> {
        for entry in &mut self.entries {
            entry.push(row)?;
        }
        for store in &mut self.stores {
            let values = match store.source {
                Source::Column(column) => std::slice::from_ref(&row.values[column]),
                Source::Samples(list) => &row.samples[list],
            };
            if values.iter().any(|v| v.is_infinite()) {
                return Err("a value that a quantile is asked of is infinite".to_owned());
            }
            store.push(values);
        }
        self.done += 1;
        Ok(())
    }

    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Is it enough? To be asked at the beginning and at each `until`, so that what is made of it does not depend on who asks when.
    pub(crate) fn next(&self) -> Next {
        let (min, max) = match self.runs {
            Runs::Fixed(runs) => (runs, runs),
            Runs::Sequential { min, max } => (min, max),
        };
        let until = |until: u64, forecast| Next {
            until: (until > self.done).then_some(until),
            forecast,
        };
        if self.done < min {
            return until(min, min);
        }
        let n = self.done;
        let mut forecast = n as f64;
        let (mut enough, mut known) = (true, true);
        for entry in &self.entries {
            match entry.need(&entry.answer(&self.stores), n) {
                Need::Done => {}
                Need::Runs(runs) => {
                    enough = false;
                    forecast = forecast.max(runs);
                }
                Need::Unknown => (enough, known) = (false, false),
            }
        }
        if enough || n >= max {
            return until(n, n);
        }
        let forecast = if known { forecast.ceil() as u64 } else { max };
        let least = (n as f64 * GROWTH_MIN).ceil() as u64;
        let goal = forecast.clamp(least, n.saturating_mul(GROWTH_MAX));
        until(goal.min(max), forecast.clamp(n, max))
    }

    /// The answers, if the runs end here because of `halted`, or because it is enough.
    pub(crate) fn estimates(&self, halted: Option<Stopped>) -> Vec<Estimate> {
        let of = |entry: &Entry| self.estimate(entry, halted);
        self.entries.iter().map(of).collect()
    }

    fn estimate(&self, entry: &Entry, halted: Option<Stopped>) -> Estimate {
        let mut answer = entry.answer(&self.stores);
        let need = if self.done == 0 {
            Need::Unknown
        } else {
            entry.need(&answer, self.done)
        };
        let stopped = self.stopped(entry, &answer, need, halted);
        if need != Need::Done && self.done > 0 {
            answer.warnings.extend(shortfall(entry, &answer, need));
        }
        Estimate {
            name: entry.name.clone(),
            parameter: entry.parameter.clone(),
            verdict: answer.verdict,
            estimate: answer.estimate,
            low: answer.interval.low,
            high: answer.interval.high,
            confidence: entry.confidence,
            simultaneous: (self.simultaneous > 1).then_some(self.simultaneous),
            method: answer.method,
            runs: answer.runs,
            decided_after: answer.decided_after,
            stopped,
            warnings: answer.warnings,
        }
    }

    fn stopped(
        &self,
        entry: &Entry,
        answer: &Answer,
        need: Need,
        halted: Option<Stopped>,
    ) -> Stopped {
        let by_itself = match (self.runs, need) {
            _ if answer.decided_after.is_some() => Some(Stopped::Decided),
            _ if answer.full => Some(Stopped::Memory),
            (Runs::Sequential { min, .. }, Need::Done)
                if entry.precision.is_some() && self.done >= min =>
            {
                Some(Stopped::Precision)
            }
            _ => None,
        };
        by_itself.or(halted).unwrap_or(match (self.runs, need) {
            (Runs::Fixed(_), _) | (_, Need::Done) => Stopped::Runs,
            _ => Stopped::MaxRuns,
        })
    }
}

/// Says that a target has not got what it asked for, and what it would take.
fn shortfall(entry: &Entry, answer: &Answer, need: Need) -> Option<String> {
    let what = match entry.precision {
        _ if entry.is_sequential_test() => "no verdict".to_owned(),
        Some(Precision::Absolute(half)) => format!("precision {half} is not reached"),
        Some(Precision::Relative(_)) if answer.estimate == 0.0 => {
            return Some(
                "a relative precision of an estimate of 0 is never reached: ask for an absolute one"
                    .to_owned(),
            );
        }
        Some(Precision::Relative(part)) => {
            format!("precision {part} of the estimate is not reached")
        }
        Some(Precision::Either { absolute, relative }) => {
            format!("precision {absolute}, or {relative} of the estimate, is not reached")
        }
        None => return None,
    };
    Some(match need {
        Need::Runs(runs) => format!("{what}: it takes about {:.0} runs", runs.ceil()),
        Need::Unknown | Need::Done => format!("{what}: how many runs it takes cannot be told yet"),
    })
}
