//! Real runs with HTTP by the names of the models' observables, so that a checker can be asked about them.

use levee_policy::selective;
use levee_policy::thinner::{Mode, Stats};
use levee_sim::model::thinner;
use levee_sim::scenario::Setup;
use levee_sim::schedule::Kind::{self, Attacker as Bad, Honest as Good};

use super::client::Counts;
use super::clients::span;
use super::record::Outcome::{self, Expired, Failed, GaveUp, Open, Refused, Served};
use super::record::RequestRecord;
use super::{lane, slow};
use crate::real::{RealRun, RealRuns};

/// One run of a point with a server of a fixed rate, and what it was made of.
struct Ran<'r> {
    setup: &'r thinner::Setup,
    result: &'r lane::LaneResult,
    /// Wall-clock seconds that one second of the scenario took.
    scale: f64,
}

/// A name of `levee_sim::model::thinner` that a real run has, and what it says to it. Times are those of the scenario.
type Entry = (&'static str, for<'r> fn(&Ran<'r>) -> f64);
const THINNER: [Entry; 40] = [
    ("honest.attempted", |r| r.requests(Good, |_| true)),
    ("honest.served", |r| r.ended(Good, &[Served])),
    ("honest.denied", |r| r.ended(Good, &DENIED)),
    ("honest.expired", |r| r.ended(Good, &[Expired])),
    ("honest.gave_up", |r| r.ended(Good, &[GaveUp])),
    ("honest.refused", |r| r.ended(Good, &[Refused, Failed])),
    ("honest.open", |r| r.ended(Good, &[Open])),
    ("honest.waited", |r| r.waited().iter().sum()),
    ("honest.wait_mean", |r| mean(&r.waited())),
    ("honest.tries", |r| r.counts(Good).tries as f64),
    ("honest.tries_mean", |r| {
        r.counts(Good).tries as f64 / r.done(Good)
    }),
    ("honest.done", |r| r.done(Good)),
    ("honest.worked", |r| r.worked(Good)),
    ("honest.paid", |r| r.paid(Good)),
    ("honest.price_mean", |r| r.price(Good)),
    ("honest.bytes", |r| r.counts(Good).bytes as f64),
    ("honest.fairness", |r| r.fairness()),
    ("attacker.attempted", |r| r.requests(Bad, |_| true)),
    ("attacker.served", |r| r.ended(Bad, &[Served])),
    ("attacker.denied", |r| r.ended(Bad, &DENIED)),
    ("attacker.expired", |r| r.ended(Bad, &[Expired])),
    ("attacker.gave_up", |r| r.ended(Bad, &[GaveUp])),
    ("attacker.refused", |r| r.ended(Bad, &[Refused, Failed])),
    ("attacker.tries", |r| r.counts(Bad).tries as f64),
    ("attacker.tries_mean", |r| {
        r.counts(Bad).tries as f64 / r.done(Bad)
    }),
    ("attacker.done", |r| r.done(Bad)),
    ("attacker.worked", |r| r.worked(Bad)),
    ("attacker.paid", |r| r.paid(Bad)),
    ("attacker.price_mean", |r| r.price(Bad)),
    ("attacker.bytes", |r| r.counts(Bad).bytes as f64),
    ("server.done", |r| r.done(Good) + r.done(Bad)),
    ("server.worked", |r| r.worked(Good) + r.worked(Bad)),
    ("server.good_share", |r| {
        r.worked(Good) / (r.worked(Good) + r.worked(Bad))
    }),
    ("server.refused", |r| r.result.origin.refused as f64),
    ("ideal.share", |r| r.setup.ideal_share()),
    ("ideal.worked", |r| {
        r.setup.ideal_share() * r.setup.time.as_secs_f64() / r.scale
    }),
    ("thinner.arrivals", |r| r.stats(|s| s.arrivals)),
    ("thinner.admitted", |r| r.stats(|s| s.admitted)),
    ("thinner.refused", |r| r.stats(|s| s.refused.total())),
    ("thinner.overloads", |r| r.stats(|s| s.overloads)),
];

const THINNER_SAMPLES: [&str; 1] = ["honest.waited_s"];
const DENIED: [Outcome; 4] = [Expired, GaveUp, Refused, Failed];

impl Ran<'_> {
    /// Requests of a kind that were wanted after the warm-up.
    fn all(&self, kind: Kind) -> impl Iterator<Item = &RequestRecord> {
        let from = span(self.setup.warmup);
        let all = self.result.clients.requests.iter();
        all.filter(move |r| r.kind == kind && r.due >= from)
    }

    fn requests(&self, kind: Kind, test: impl Fn(&RequestRecord) -> bool) -> f64 {
        self.all(kind).filter(|r| test(r)).count() as f64
    }

    fn ended(&self, kind: Kind, how: &[Outcome]) -> f64 {
        self.requests(kind, |r| how.contains(&r.outcome))
    }

    fn waited(&self) -> Vec<f64> {
        let waited = self.all(Good).filter_map(RequestRecord::waited);
        waited.map(|w| w.as_secs_f64() / self.scale).collect()
    }

    fn counts(&self, kind: Kind) -> &Counts {
        &self.result.clients.counts[kind.index()]
    }

    fn done(&self, kind: Kind) -> f64 {
        self.result.served_by_kind(self.setup)[kind.index()] as f64
    }

    fn worked(&self, kind: Kind) -> f64 {
        self.result.work_by_kind(self.setup)[kind.index()] / self.scale
    }

    /// In the units of the mode; hashes are not counted.
    fn paid(&self, kind: Kind) -> f64 {
        match self.mode() {
            Some(Mode::Auction) => self.counts(kind).channel as f64,
            Some(Mode::Retry | Mode::Priced) => self.all(kind).map(|r| f64::from(r.retries)).sum(),
            Some(Mode::Random | Mode::Queue) | None => 0.0,
            Some(Mode::ProofOfWork) => f64::NAN,
        }
    }

    /// What a request that was served has cost its client, on average.
    fn price(&self, kind: Kind) -> f64 {
        let served = self.all(kind).filter(|r| r.outcome == Served);
        let paid = |r: &RequestRecord| match self.mode() {
            Some(Mode::Auction) => r.channel as f64,
            Some(Mode::Retry | Mode::Priced) => f64::from(r.retries),
            Some(Mode::Random | Mode::Queue) | None => 0.0,
            Some(Mode::ProofOfWork) => f64::NAN,
        };
        mean(&served.map(paid).collect::<Vec<_>>())
    }

    fn mode(&self) -> Option<Mode> {
        self.setup.defense.as_ref().map(|defense| defense.mode)
    }

    /// Jain's index of the requests that each good client was served.
    fn fairness(&self) -> f64 {
        let mut served = vec![0.0f64; self.setup.honest.clients as usize];
        for request in self.all(Good).filter(|r| r.outcome == Served) {
            if let Some(own) = served.get_mut(request.client as usize) {
                *own += 1.0;
            }
        }
        let (sum, squares) = served
            .iter()
            .fold((0.0, 0.0), |(sum, squares), n| (sum + n, squares + n * n));
        sum * sum / (served.len() as f64 * squares)
    }

    /// Without a thinner nothing was counted: 0, as in the model.
    fn stats(&self, read: fn(&Stats) -> u64) -> f64 {
        let stats = self.result.thinner();
        stats.map_or(0.0, |stats| read(stats) as f64)
    }
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len() as f64
}

/// What runs of a point with a server of a fixed rate came to.
pub(crate) fn thinner(setup: &Setup, results: &[lane::LaneResult]) -> RealRuns {
    let own = setup.on_the_wall_clock().thinner_model();
    let scale = setup.run.scale;
    let run = |result| {
        let ran = Ran {
            setup: own.as_ref()?,
            result,
            scale,
        };
        Some(RealRun {
            values: THINNER.iter().map(|(_, read)| read(&ran)).collect(),
            samples: vec![ran.waited()],
        })
    };
    RealRuns::named(
        THINNER.iter().map(|(name, _)| *name),
        &THINNER_SAMPLES,
        results.iter().filter_map(run).collect(),
    )
}

/// The names of `levee_sim::model::http` that a real run has, and what it says to each. Times are those of the scenario.
type SlowEntry = (&'static str, fn(&slow::LaneResult, f64) -> f64);
const SLOW: [SlowEntry; 17] = [
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
    ("front.arrivals", |r, _| seven(r, |s| s.arrivals)),
    ("front.admitted", |r, _| seven(r, |s| s.admitted)),
    ("front.refused", |r, _| seven(r, |s| s.refused.total())),
    ("front.evicted", |r, _| seven(r, |s| s.evicted.total())),
];

const SLOW_SAMPLES: [&str; 1] = ["client.tts_s"];

/// Without a front nothing was counted: 0, as in the model.
fn seven(result: &slow::LaneResult, read: fn(&selective::Stats) -> u64) -> f64 {
    result.seven().map_or(0.0, |stats| read(stats) as f64)
}

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
        samples: vec![result.clients.served_s.iter().map(|s| s / scale).collect()],
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
    use levee_sim::model::thinner::SpeakUp;

    use super::*;

    #[test]
    fn names_are_those_of_the_models() {
        let model = SpeakUp::observables();
        for (name, _) in THINNER {
            assert!(model.iter().any(|o| o.name == name), "{name}");
        }
        let samples: Vec<&str> = SpeakUp::samples().iter().map(|o| o.name).collect();
        assert_eq!(samples, THINNER_SAMPLES);
        let model = Http::observables();
        for (name, _) in SLOW {
            assert!(model.iter().any(|o| o.name == name), "{name}");
        }
        let samples: Vec<&str> = Http::samples().iter().map(|o| o.name).collect();
        assert_eq!(samples, SLOW_SAMPLES);
    }
}
