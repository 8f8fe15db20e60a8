//! Real runs as something that a checker can be asked about.
//!
//! A run of the lab is a run from a seed like one of the model; only, it has been made already, and is looked at when it is
//! over. So a scenario's queries are put to both in the same words, and answered by the same estimators. Names and
//! meanings are those of the model (`levee_sim::model::sip`); times are those of the scenario.

use std::time::Duration;

use levee_policy::selective::Stats;
use levee_sim::scenario::Setup;
use levee_sim::schedule::Kind;
use levee_smc::{Execution, Observable, Trial};

use crate::lane::LaneResult;
use crate::outcome::{CallRecord, Outcome};

/// The runs of one point.
#[derive(Clone, Debug)]
pub struct RealRuns {
    observables: Vec<Observable>,
    samples: Vec<Observable>,
    runs: Vec<RealRun>,
}

/// What one run came to.
#[derive(Clone, Debug, Default)]
pub struct RealRun {
    pub(crate) values: Vec<f64>,
    pub(crate) samples: Vec<Vec<f64>>,
}

impl RealRuns {
    /// What a point's runs came to.
    #[must_use]
    pub fn new(setup: &Setup, results: &[LaneResult]) -> Self {
        let names = names();
        Self::named(
            names.iter().map(String::as_str),
            &SAMPLES,
            results.iter().map(|result| of(setup, result)).collect(),
        )
    }

    /// Runs whose values and samples have these names, in this order.
    pub(crate) fn named<'n>(
        names: impl Iterator<Item = &'n str>,
        samples: &[&str],
        runs: Vec<RealRun>,
    ) -> Self {
        let named = |name: &str| Observable {
            name: name.to_owned().into(),
            unit: "".into(),
            meaning: "".into(),
        };
        Self {
            observables: names.map(named).collect(),
            samples: samples.iter().map(|name| named(name)).collect(),
            runs,
        }
    }

    /// How many runs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

impl Trial for RealRuns {
    type Execution = Looked;

    fn observables(&self) -> &[Observable] {
        &self.observables
    }

    fn samples(&self) -> &[Observable] {
        &self.samples
    }

    fn execution(&self) -> Looked {
        Looked {
            runs: self.runs.clone(),
            at: RealRun::default(),
        }
    }
}

/// A run that is over: its only state is its last.
#[derive(Debug)]
pub struct Looked {
    runs: Vec<RealRun>,
    at: RealRun,
}

impl Execution for Looked {
    fn start(&mut self, run: u64) {
        let run = usize::try_from(run).ok().and_then(|run| self.runs.get(run));
        self.at = run.cloned().unwrap_or_default();
    }

    fn step(&mut self) -> bool {
        false
    }

    fn observe(&self, observable: usize) -> f64 {
        self.at.values.get(observable).copied().unwrap_or(f64::NAN)
    }

    fn sample(&self, samples: usize) -> &[f64] {
        self.at.samples.get(samples).map_or(&[], Vec::as_slice)
    }
}

const SAMPLES: [&str; 3] = ["honest.setup_s", "honest.got_share", "attacker.stay_s"];

/// What is counted of the calls of a kind.
const COUNTS: [&str; 11] = [
    "attempted",
    "complete",
    "incomplete",
    "unsuccessful",
    "set_up",
    "setup_sum",
    "setup_mean",
    "stay_sum",
    "stay_mean",
    "got_share_sum",
    "got_share",
];

/// What the front's defence counted.
type Counter = (&'static str, fn(&Stats) -> u64);
const FRONT: [Counter; 13] = [
    ("front.arrivals", |s| s.arrivals),
    ("front.admitted", |s| s.admitted),
    ("front.forwarded", |s| s.forwarded),
    ("front.p1_drawn", |s| s.p1_used),
    ("front.p1_taken", |s| s.p1_used - s.refused.overload),
    ("front.p2_drawn", |s| s.p2_used),
    ("front.refused.overload", |s| s.refused.overload),
    ("front.refused.full", |s| s.refused.full),
    ("front.refused.caller_limit", |s| s.refused.caller_limit),
    ("front.refused.source_limit", |s| s.refused.source_limit),
    ("front.evicted_waiting", |s| s.evicted.waiting_displaced),
    ("front.evicted_in_call", |s| {
        s.evicted.in_call_displaced + s.evicted.max_duration
    }),
    ("front.evicted_max_duration", |s| s.evicted.max_duration),
];

/// In the order of [`of`].
fn names() -> Vec<String> {
    let mut names = Vec::new();
    for kind in ["honest", "attacker"] {
        for part in ["", "second_half."] {
            names.extend(COUNTS.map(|count| format!("{kind}.{part}{count}")));
        }
    }
    names.extend(FRONT.map(|(name, _)| name.to_owned()));
    names
}

fn of(setup: &Setup, result: &LaneResult) -> RealRun {
    let (run, scale) = (&setup.run, setup.run.scale);
    let begin = run.warmup.mul_f64(scale);
    let middle = (run.warmup + run.time / 2).mul_f64(scale);
    let mut real = RealRun {
        values: Vec::new(),
        samples: vec![Vec::new(); SAMPLES.len()],
    };
    for kind in Kind::ALL {
        for from in [begin, middle] {
            let calls = result.load.calls.iter();
            let counts = Counts::of(
                calls.filter(|call| call.kind == kind && call.due >= from),
                scale,
            );
            real.values.extend(counts.values());
            if from == begin {
                match (kind, &mut real.samples[..]) {
                    (Kind::Honest, [setups, got, _]) => {
                        (*setups, *got) = (counts.setups_s, counts.got_shares);
                    }
                    (Kind::Attacker, [_, _, stays]) => *stays = counts.stays_s,
                    _ => {}
                }
            }
        }
    }
    // Without a front nothing was counted: 0, as in the model.
    let counter = |read: fn(&Stats) -> u64| {
        let stats = result.front.as_ref().map(|front| &front.policy);
        stats.map_or(0.0, |stats| read(stats) as f64)
    };
    real.values.extend(FRONT.map(|(_, read)| counter(read)));
    real
}

#[derive(Default)]
struct Counts {
    attempted: u64,
    outcomes: [u64; 3],
    setups_s: Vec<f64>,
    stays_s: Vec<f64>,
    got_shares: Vec<f64>,
}

impl Counts {
    fn of<'c>(calls: impl Iterator<Item = &'c CallRecord>, scale: f64) -> Self {
        let seconds = |d: Duration| d.as_secs_f64() / scale;
        let mut counts = Self::default();
        for call in calls {
            counts.attempted += 1;
            counts.outcomes[call.outcome as usize] += 1;
            counts.setups_s.extend(call.setup.map(seconds));
            counts.stays_s.extend(call.in_server().map(seconds));
            if call.outcome == Outcome::Incomplete {
                counts.got_shares.extend(call.got_share());
            }
        }
        counts
    }

    /// In the order of [`COUNTS`].
    fn values(&self) -> [f64; COUNTS.len()] {
        let [complete, incomplete, unsuccessful] = self.outcomes.map(|n| n as f64);
        let set_up = self.setups_s.len() as f64;
        let sum = |all: &[f64]| all.iter().sum::<f64>();
        let (setup, stay, got) = (
            sum(&self.setups_s),
            sum(&self.stays_s),
            sum(&self.got_shares),
        );
        [
            self.attempted as f64,
            complete,
            incomplete,
            unsuccessful,
            set_up,
            setup,
            setup / set_up,
            stay,
            stay / self.stays_s.len() as f64,
            got,
            got / incomplete,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use levee_sim::model::Observed as _;
    use levee_sim::model::sip::Sip;

    #[test]
    fn names_are_those_of_the_model() {
        let model = Sip::observables();
        for name in names() {
            // Means and sums that the model has of the whole run only are no fault.
            let known = model.iter().any(|o| o.name == name);
            assert!(
                known || name.contains("attacker.") || name.contains("second_half."),
                "{name}"
            );
        }
        let samples: Vec<&str> = Sip::samples().iter().map(|o| o.name).collect();
        assert_eq!(samples, SAMPLES);
    }

    #[test]
    fn a_run_counts_its_calls_in_the_time_of_the_scenario() {
        let ms = Duration::from_millis;
        let call = |kind, due, outcome, setup: Option<u64>, got| CallRecord {
            kind,
            due: ms(due),
            start: ms(due),
            setup: setup.map(ms),
            wanted: Some(ms(2_000)),
            got: ms(got),
            outcome,
            status: 200,
            still_connected: false,
        };
        let mut result = LaneResult::default();
        result.load.calls = vec![
            // Before the warm-up is over.
            call(Kind::Honest, 499, Outcome::Complete, Some(50), 2_000),
            call(Kind::Honest, 500, Outcome::Complete, Some(50), 2_000),
            call(Kind::Honest, 3_000, Outcome::Incomplete, Some(150), 500),
            call(Kind::Honest, 3_100, Outcome::Unsuccessful, None, 0),
            call(Kind::Attacker, 3_200, Outcome::Complete, Some(100), 1_000),
        ];
        // Twice as fast as the scenario: 10 s of it, 1 s of warm-up, take 5.5 s.
        let text = "[service]\nkind = \"sip\"\ncapacity = 4\n[honest]\nrate = \"1/s\"\nduration = { kind = \"fixed\", mean = \"4s\" }\n\
                    [run]\ntime = \"10s\"\nwarmup = \"1s\"\nscale = 0.5\n";
        let nothing = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let scenario = levee_sim::scenario::Scenario::parse("s", text, &nothing).unwrap();
        let runs = RealRuns::new(&scenario.points[0].setup, &[result]);
        let mut looked = runs.execution();
        looked.start(0);
        let value = |name: &str| {
            let index = runs.observables().iter().position(|o| o.name == name);
            looked.observe(index.unwrap())
        };
        let check = |name: &str, expected: f64| {
            assert!(
                (value(name) - expected).abs() < 1e-9,
                "{name}: {}",
                value(name)
            );
        };
        check("honest.attempted", 3.0);
        check("honest.complete", 1.0);
        check("honest.second_half.attempted", 2.0);
        check("honest.second_half.complete", 0.0);
        check("honest.setup_sum", 0.4);
        check("honest.setup_mean", 0.2);
        check("honest.got_share", 0.25);
        check("attacker.stay_sum", 2.2);
        check("front.arrivals", 0.0);
        assert_eq!(looked.sample(0), [0.1, 0.3]);
        assert_eq!(looked.sample(1), [0.25]);
    }
}
