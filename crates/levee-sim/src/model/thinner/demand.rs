//! Who asks when, and how long the server works on it: drawn from the seed, so that run `i` of the model and repetition `i` of a
//! real run meet the same demand.
//!
//! Each client has a stream of its own, named by its group and number. A change to one group leaves the other's demand as it was,
//! and a further client does not move those before it.

use std::iter::FusedIterator;

use levee_policy::{Span, Time};
use rand_pcg::Pcg64;

use super::{Server, Setup};
use crate::engine::Streams;
use crate::schedule::{Kind, exponential, unit};

/// The demand of one run.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    streams: Streams,
    /// Requests a second of one client of each kind.
    rates: [f64; 2],
    until: Time,
}

impl Demand {
    /// The demand of run `run`, whose seed is that many further on.
    #[must_use]
    pub fn new(setup: &Setup, run: u64) -> Self {
        Self {
            streams: Streams::new(setup.seed, run),
            rates: [setup.honest.rate, setup.attack.rate],
            until: Time::ZERO + setup.end(),
        }
    }

    /// When this client wants a request, in order of time, from the start of the run (warm-up included) to before its end.
    #[must_use]
    pub fn client(&self, kind: Kind, number: u32) -> Arrivals {
        let name = match kind {
            Kind::Honest => "demand of the honest",
            Kind::Attacker => "demand of attackers",
        };
        Arrivals {
            stream: self.streams.stream_of(name, number),
            rate: self.rates[kind.index()],
            at: Some(Time::ZERO),
            until: self.until,
        }
    }
}

/// When one client wants a request: a Poisson process.
#[derive(Clone, Debug)]
pub struct Arrivals {
    stream: Pcg64,
    rate: f64,
    /// The last one; `None` after the end.
    at: Option<Time>,
    until: Time,
}

impl Iterator for Arrivals {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        let last = self.at.take().filter(|_| self.rate > 0.0)?;
        let gap = Span::from_secs_f64(exponential(&mut self.stream) / self.rate)?;
        self.at = Some(last + gap).filter(|at| *at < self.until);
        self.at
    }
}

impl FusedIterator for Arrivals {}

/// How long the server works on its first request, on its second, and so on, whosever they are; a group's
/// [`work`](super::Group::work) multiplies it.
#[derive(Clone, Debug)]
pub struct Work {
    stream: Pcg64,
    server: Server,
}

impl Work {
    /// That of run `run`.
    #[must_use]
    pub fn new(setup: &Setup, run: u64) -> Self {
        Self {
            stream: Streams::new(setup.seed, run).stream("work"),
            server: setup.server,
        }
    }

    /// For the next request, which takes `work` times as long as usual.
    pub fn draw(&mut self, work: f64) -> Span {
        let Server { rate, jitter, .. } = self.server;
        let part = 1.0 + jitter * (2.0 * unit(&mut self.stream) - 1.0);
        Span::from_secs_f64(work * part / rate).unwrap_or(Span::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::papers;
    use super::*;

    #[test]
    fn a_run_is_a_seed_and_clients_are_told_apart() {
        let setup = papers();
        let further = Setup {
            seed: setup.seed + 5,
            ..papers()
        };
        let of = |setup: &Setup, run, kind, number| -> Vec<Time> {
            Demand::new(setup, run).client(kind, number).collect()
        };
        let first = of(&setup, 5, Kind::Honest, 0);
        assert_eq!(first, of(&further, 0, Kind::Honest, 0));
        for (run, kind, number) in [
            (6, Kind::Honest, 0),
            (5, Kind::Attacker, 0),
            (5, Kind::Honest, 1),
        ] {
            assert_ne!(first, of(&setup, run, kind, number));
        }
        // Nor does what the other group does move it.
        let mut other = papers();
        other.attack.rate = 1.0;
        other.attack.clients = 1;
        assert_eq!(first, of(&other, 5, Kind::Honest, 0));
    }

    #[test]
    fn counts_are_poisson_and_end_with_the_run() {
        let setup = papers();
        let demand = Demand::new(&setup, 0);
        for (kind, group) in [(Kind::Honest, setup.honest), (Kind::Attacker, setup.attack)] {
            let clients = 0..group.clients;
            let all: Vec<Time> = clients.flat_map(|i| demand.client(kind, i)).collect();
            assert!(all.iter().all(|at| *at < Time::ZERO + setup.end()));
            let expect = group.demand() * setup.end().as_secs_f64();
            // 5 standard deviations.
            assert!((all.len() as f64 - expect).abs() < 5.0 * expect.sqrt());
        }
        let mut silent = papers();
        silent.honest.rate = 0.0;
        let mut arrivals = Demand::new(&silent, 0).client(Kind::Honest, 0);
        assert_eq!((arrivals.next(), arrivals.next()), (None, None));
    }

    #[test]
    fn work_is_uniform_about_its_mean() {
        let setup = papers();
        let mut work = Work::new(&setup, 0);
        let n = 100_000;
        let all: Vec<f64> = (0..n).map(|_| work.draw(2.0).as_secs_f64()).collect();
        assert!(all.iter().all(|s| (0.018..=0.022).contains(s)));
        let mean = all.iter().sum::<f64>() / f64::from(n);
        // The standard deviation of a uniform number is its width over the root of 12.
        let tolerance = 5.0 * 0.004 / 12f64.sqrt() / f64::from(n).sqrt();
        assert!((mean - 0.02).abs() < tolerance, "{mean}");
    }
}
