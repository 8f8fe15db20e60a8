//! Real runs with HTTP by the names of the models' observables, so that a checker can be asked about them.

use levee_sim::scenario::Setup;

use super::{lane, slow};
use crate::real::{RealRun, RealRuns};

/// What runs of a point with a server of a fixed rate came to.
pub(crate) fn thinner(_setup: &Setup, _results: &[lane::LaneResult]) -> RealRuns {
    RealRuns::named(std::iter::empty(), &[], Vec::new())
}

/// The names of `levee_sim::model::http` that a real run has, and what it says to each. Times are those of the scenario.
type Entry = (&'static str, fn(&slow::LaneResult, f64) -> f64);
const SLOW: [Entry; 14] = [
    ("client.attempted", |r, _| honest(r).attempted as f64),
    ("client.tries", |r, _| honest(r).tries as f64),
    ("client.served", |r, _| honest(r).served as f64),
    ("client.failed", |r, _| {
        (honest(r).decided() - honest(r).served) as f64
    }),
    ("client.refused", |r, _| honest(r).refused as f64),
    ("client.gave_up", |r, _| honest(r).gave_up as f64),
    ("client.open", |r, _| {
        (honest(r).attempted - honest(r).decided()) as f64
    }),
    ("client.success", |r, _| {
        honest(r).served as f64 / honest(r).decided() as f64
    }),
    ("client.tts", |r, scale| {
        let all = &r.clients.served_s;
        all.iter().sum::<f64>() / all.len() as f64 / scale
    }),
    ("attacker.attempted", |r, _| attacker(r).attempted as f64),
    ("attacker.served", |r, _| attacker(r).served as f64),
    ("attacker.refused", |r, _| attacker(r).refused as f64),
    ("attacker.connections_mean", |r, _| r.attackers_held()),
    ("server.busy_mean", |r, _| r.busy_mean()),
];

const SLOW_SAMPLES: [&str; 1] = ["client.tts_s"];

fn honest(result: &slow::LaneResult) -> &slow::Tally {
    &result.clients.tallies[0]
}

fn attacker(result: &slow::LaneResult) -> &slow::Tally {
    &result.clients.tallies[1]
}

/// What runs of a point under a slow attack came to.
pub(crate) fn slow(setup: &Setup, results: &[slow::LaneResult]) -> RealRuns {
    let scale = setup.run.scale;
    let run = |result: &slow::LaneResult| RealRun {
        values: SLOW.iter().map(|(_, read)| read(result, scale)).collect(),
        samples: vec![
            result
                .clients
                .served_s
                .iter()
                .map(|s| s / scale)
                .collect(),
        ],
    };
    RealRuns::named(
        SLOW.iter().map(|(name, _)| *name),
        &SLOW_SAMPLES,
        results.iter().map(run).collect(),
    )
}

#[cfg(test)]
mod tests {
    use levee_sim::model::Observed as _;
    use levee_sim::model::http::Http;

    use super::*;

    #[test]
    fn names_are_those_of_the_models() {
        let model = Http::observables();
        for (name, _) in SLOW {
            assert!(model.iter().any(|o| o.name == name), "{name}");
        }
        let samples: Vec<&str> = Http::samples().iter().map(|o| o.name).collect();
        assert_eq!(samples, SLOW_SAMPLES);
    }
}
