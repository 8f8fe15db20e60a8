//! Who calls when, for how long: drawn from a seed, so that each lane of a run meets the same calls.
//!
//! Arrivals and durations of each kind have streams of their own. A change of one kind's parameters leaves the other's
//! draws as they were, and lanes compared under one seed differ by their defence only (common random numbers).

use std::sync::Arc;
use std::time::Duration;

use rand_core::{Rng, SeedableRng as _};
use rand_pcg::Pcg64;
use serde::Serialize;

/// What a call is. A fact of the scenario: nothing that travels tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Hangs up when its time is over.
    Honest,
    /// Stays as long as it can.
    Attacker,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Honest, Self::Attacker];

    /// 0 and 1, for tables.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// How calls follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// A Poisson process.
    #[default]
    Poisson,
    /// Evenly spaced, as in the released model.
    Even,
}

/// How long an honest call wants to last.
#[derive(Clone, Debug, PartialEq)]
pub enum Durations {
    /// All the same.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Lognormal with this mean, and this standard deviation of its logarithm.
    Lognormal {
        /// The mean of the duration itself.
        mean: Duration,
        /// Sigma of its logarithm.
        sigma: f64,
    },
    /// Drawn with replacement from measured ones.
    Empirical(Arc<[Duration]>),
}

impl Durations {
    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match self {
            Self::Fixed(mean) | Self::Exponential(mean) | Self::Lognormal { mean, .. } => *mean,
            Self::Empirical(all) => {
                let sum: f64 = all.iter().map(Duration::as_secs_f64).sum();
                seconds(sum / all.len().max(1) as f64)
            }
        }
    }

    /// The same durations with another unit of time.
    #[must_use]
    pub fn scaled(&self, by: f64) -> Self {
        match self {
            Self::Fixed(d) => Self::Fixed(d.mul_f64(by)),
            Self::Exponential(mean) => Self::Exponential(mean.mul_f64(by)),
            Self::Lognormal { mean, sigma } => Self::Lognormal {
                mean: mean.mul_f64(by),
                sigma: *sigma,
            },
            Self::Empirical(all) => Self::Empirical(all.iter().map(|d| d.mul_f64(by)).collect()),
        }
    }

    pub(crate) fn draw(&self, rng: &mut impl Rng) -> Duration {
        match self {
            Self::Fixed(d) => *d,
            Self::Exponential(mean) => mean.mul_f64(exponential(rng)),
            Self::Lognormal { mean, sigma } => {
                // E[exp(mu + sigma Z)] = exp(mu + sigma^2/2).
                let z = normal(rng);
                seconds(mean.as_secs_f64() * libm::exp(sigma * z - sigma * sigma / 2.0))
            }
            Self::Empirical(all) => {
                let at = (unit(rng) * all.len() as f64) as usize;
                all.get(at).copied().unwrap_or_default()
            }
        }
    }
}

/// The calls of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Calls a second; 0 for none.
    pub rate: f64,
    /// How long they want to last; `None` for as long as they can.
    pub durations: Option<Durations>,
    /// From how many callers they come.
    pub callers: u32,
}

/// All calls of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Honest calls.
    pub honest: Stream,
    /// Attackers' calls.
    pub attacker: Stream,
    /// How they follow each other.
    pub arrivals: Arrivals,
    /// No call begins at or after it.
    pub until: Duration,
    /// The seed.
    pub seed: u64,
}

/// One call to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival {
    /// When.
    pub at: Duration,
    /// By whom.
    pub kind: Kind,
    /// For how long from the answer; `None` for as long as it can.
    pub wanted: Option<Duration>,
    /// Number of the caller.
    pub caller: u32,
    /// Number that is called.
    pub callee: u32,
}

/// Numbers that can be called.
const CALLEES: u32 = 10_000;

impl Plan {
    /// The calls in order of time.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        Schedule {
            streams: Kind::ALL.map(|kind| Draws::new(self, kind)),
            until: self.until,
        }
    }
}

/// The calls of a [`Plan`] in order of time.
#[derive(Clone, Debug)]
pub struct Schedule {
    streams: [Draws; 2],
    until: Duration,
}

impl Iterator for Schedule {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let [honest, attacker] = &mut self.streams;
        let first = match (honest.next_at, attacker.next_at) {
            (Some(h), Some(a)) if a < h => attacker,
            (None, _) => attacker,
            _ => honest,
        };
        first.next_at.filter(|at| *at < self.until)?;
        first.take()
    }
}

#[derive(Clone, Debug)]
struct Draws {
    kind: Kind,
    stream: Stream,
    arrivals: Arrivals,
    next_at: Option<Duration>,
    gaps: Pcg64,
    lengths: Pcg64,
    people: Pcg64,
}

impl Draws {
    fn new(plan: &Plan, kind: Kind) -> Self {
        let stream = match kind {
            Kind::Honest => plan.honest.clone(),
            Kind::Attacker => plan.attacker.clone(),
        };
        let part = |n: u64| Pcg64::seed_from_u64(mix(plan.seed, 3 * kind.index() as u64 + n));
        let mut draws = Self {
            kind,
            stream,
            arrivals: plan.arrivals,
            next_at: None,
            gaps: part(0),
            lengths: part(1),
            people: part(2),
        };
        draws.next_at = (draws.stream.rate > 0.0).then(|| draws.gap());
        draws
    }

    fn gap(&mut self) -> Duration {
        let mean = 1.0 / self.stream.rate;
        match self.arrivals {
            Arrivals::Poisson => seconds(mean * exponential(&mut self.gaps)),
            Arrivals::Even => seconds(mean),
        }
    }

    fn take(&mut self) -> Option<Arrival> {
        let at = self.next_at?;
        self.next_at = Some(at.saturating_add(self.gap()));
        let mut below = |n: u32| (unit(&mut self.people) * f64::from(n)) as u32;
        Some(Arrival {
            at,
            kind: self.kind,
            caller: below(self.stream.callers),
            callee: below(CALLEES),
            wanted: self
                .stream
                .durations
                .as_ref()
                .map(|d| d.draw(&mut self.lengths)),
        })
    }
}

/// Seeds of streams must not overlap for neighbouring seeds: the finaliser of SplitMix64.
pub(crate) fn mix(seed: u64, stream: u64) -> u64 {
    let mut z = seed.wrapping_add((stream + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Uniform in [0, 1).
pub(crate) fn unit(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Exponential with mean 1, by inversion.
fn exponential(rng: &mut impl Rng) -> f64 {
    -libm::log(1.0 - unit(rng))
}

/// Standard normal, by the method of Box and Muller; one of the pair is left, so that a call takes as many draws as any other.
fn normal(rng: &mut impl Rng) -> f64 {
    let radius = libm::sqrt(2.0 * exponential(rng));
    radius * libm::cos(std::f64::consts::TAU * unit(rng))
}

/// Seconds that are too many, or no number, are the longest that is told: 30 years.
fn seconds(s: f64) -> Duration {
    const MAX: f64 = 1e9;
    Duration::from_secs_f64(if s < MAX { s.max(0.0) } else { MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64) -> Plan {
        Plan {
            honest: Stream {
                rate: 40.0,
                durations: Some(Durations::Exponential(Duration::from_secs(5))),
                callers: 1_000,
            },
            attacker: Stream {
                rate: 60.0,
                durations: None,
                callers: 1_000,
            },
            arrivals: Arrivals::Poisson,
            until: Duration::from_secs(100),
            seed,
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_calls_and_another_seed_others() {
        let all = |seed| plan(seed).schedule().collect::<Vec<_>>();
        assert_eq!(all(7), all(7));
        assert_ne!(all(7), all(8));
        assert!(all(7).is_sorted_by_key(|a| a.at));
    }

    #[test]
    fn a_kind_is_not_touched_by_the_parameters_of_the_other() {
        let honest = |p: Plan| {
            p.schedule()
                .filter(|a| a.kind == Kind::Honest)
                .collect::<Vec<_>>()
        };
        let mut other = plan(3);
        other.attacker.rate = 5.0;
        assert_eq!(honest(plan(3)), honest(other));
    }

    #[test]
    fn counts_are_poisson() {
        // 4,000 honest and 6,000 attackers expected; 5 standard deviations.
        for seed in 0..20 {
            let (h, a): (Vec<_>, Vec<_>) =
                plan(seed).schedule().partition(|a| a.kind == Kind::Honest);
            assert!((h.len() as f64 - 4_000.0).abs() < 5.0 * 4_000f64.sqrt());
            assert!((a.len() as f64 - 6_000.0).abs() < 5.0 * 6_000f64.sqrt());
        }
    }

    #[test]
    fn durations_have_their_mean_and_spread() {
        let mut rng = Pcg64::seed_from_u64(1);
        let n = 200_000;
        let mean = Duration::from_secs(5);
        for (d, deviation) in [
            (Durations::Fixed(mean), 0.0),
            (Durations::Exponential(mean), 5.0),
            // The standard deviation of a lognormal is mean * sqrt(exp(sigma^2) - 1).
            (
                Durations::Lognormal { mean, sigma: 1.0 },
                5.0 * (1f64.exp() - 1.0).sqrt(),
            ),
        ] {
            let sum: f64 = (0..n).map(|_| d.draw(&mut rng).as_secs_f64()).sum();
            // 5 standard errors.
            let tolerance = 5.0 * deviation / f64::from(n).sqrt() + 1e-6;
            assert!((sum / f64::from(n) - 5.0).abs() < tolerance, "{d:?}");
        }
        // Its median is exp(mu) = mean * exp(-sigma^2/2).
        let d = Durations::Lognormal { mean, sigma: 1.0 };
        let median = 5.0 * (-0.5f64).exp();
        let below = (0..n)
            .filter(|_| d.draw(&mut rng).as_secs_f64() < median)
            .count();
        assert!((below as f64 / f64::from(n) - 0.5).abs() < 5.0 * 0.5 / f64::from(n).sqrt());
    }

    #[test]
    fn even_arrivals_are_even() {
        let mut p = plan(1);
        p.arrivals = Arrivals::Even;
        p.attacker.rate = 0.0;
        let times: Vec<_> = p.schedule().take(3).map(|a| a.at.as_millis()).collect();
        assert_eq!(times, [25, 50, 75]);
    }
}
