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
    /// Gamma with this mean.
    Gamma {
        /// The mean.
        mean: Duration,
        /// Its shape; 1 is the exponential.
        shape: f64,
    },
    /// Weibull with this mean.
    Weibull {
        /// The mean.
        mean: Duration,
        /// Its shape; 1 is the exponential.
        shape: f64,
    },
    /// Drawn with replacement from measured ones.
    Empirical(Arc<[Duration]>),
}

impl Durations {
    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match self {
            Self::Fixed(mean)
            | Self::Exponential(mean)
            | Self::Lognormal { mean, .. }
            | Self::Gamma { mean, .. }
            | Self::Weibull { mean, .. } => *mean,
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
            Self::Gamma { mean, shape } => Self::Gamma {
                mean: mean.mul_f64(by),
                shape: *shape,
            },
            Self::Weibull { mean, shape } => Self::Weibull {
                mean: mean.mul_f64(by),
                shape: *shape,
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
            Self::Gamma { mean, shape } => seconds(mean.as_secs_f64() / shape * gamma(rng, *shape)),
            Self::Weibull { mean, shape } => {
                // By inversion; the mean of a scale of 1 is Gamma(1 + 1/shape).
                let unscaled = libm::pow(exponential(rng), 1.0 / shape);
                seconds(mean.as_secs_f64() * unscaled / libm::tgamma(1.0 + 1.0 / shape))
            }
            Self::Empirical(all) => {
                let at = (unit(rng) * all.len() as f64) as usize;
                all.get(at).copied().unwrap_or_default()
            }
        }
    }
}

/// When the calls of one kind begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Calls {
    /// So many a second, each from a caller drawn at random; 0 for none.
    Rate(f64),
    /// Each caller calls once, at a time of this first part of the run. [`Arrivals::Poisson`] draws it uniformly, which is how
    /// the arrivals of a Poisson process lie that has so many; [`Arrivals::Even`] spaces them. Who makes a caller call
    /// again is who runs the plan.
    OnceEach {
        /// The length of that part.
        within: Duration,
    },
}

impl Calls {
    /// Calls a second; 0 where there is no rate.
    #[must_use]
    pub fn rate(&self) -> f64 {
        match self {
            Self::Rate(rate) => *rate,
            Self::OnceEach { .. } => 0.0,
        }
    }
}

/// The calls of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// When they begin.
    pub calls: Calls,
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
        self.schedule_of(0)
    }

    /// The calls of run `run`, whose seed is that many further on.
    #[must_use]
    pub fn schedule_of(&self, run: u64) -> Schedule {
        let seed = self.seed.wrapping_add(run);
        Schedule {
            streams: Kind::ALL.map(|kind| Draws::new(self, kind, seed)),
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
    /// Calls given out, and for [`Calls::OnceEach`] how much of `within` is over, from 0 to 1.
    begun: u32,
    over: f64,
    gaps: Pcg64,
    lengths: Pcg64,
    people: Pcg64,
}

impl Draws {
    fn new(plan: &Plan, kind: Kind, seed: u64) -> Self {
        let stream = match kind {
            Kind::Honest => plan.honest.clone(),
            Kind::Attacker => plan.attacker.clone(),
        };
        let part = |n: u64| Pcg64::seed_from_u64(mix(seed, 3 * kind.index() as u64 + n));
        let mut draws = Self {
            kind,
            stream,
            arrivals: plan.arrivals,
            next_at: None,
            begun: 0,
            over: 0.0,
            gaps: part(0),
            lengths: part(1),
            people: part(2),
        };
        draws.next_at = draws.after(Duration::ZERO);
        draws
    }

    /// When the next call begins, the last one having begun `at`.
    fn after(&mut self, at: Duration) -> Option<Duration> {
        match self.stream.calls {
            Calls::Rate(rate) if rate > 0.0 => {
                let mean = 1.0 / rate;
                let gap = match self.arrivals {
                    Arrivals::Poisson => seconds(mean * exponential(&mut self.gaps)),
                    Arrivals::Even => seconds(mean),
                };
                Some(at.saturating_add(gap))
            }
            Calls::Rate(_) => None,
            Calls::OnceEach { within } => {
                let left = self.stream.callers.checked_sub(self.begun)?;
                if left == 0 {
                    return None;
                }
                self.over = match self.arrivals {
                    // The smallest of `left` uniform draws from what is not over yet.
                    Arrivals::Poisson => {
                        let kept = libm::pow(1.0 - unit(&mut self.gaps), 1.0 / f64::from(left));
                        1.0 - (1.0 - self.over) * kept
                    }
                    Arrivals::Even => f64::from(self.begun) / f64::from(self.stream.callers),
                };
                Some(within.mul_f64(self.over))
            }
        }
    }

    fn take(&mut self) -> Option<Arrival> {
        let at = self.next_at?;
        let mut below = |n: u32| (unit(&mut self.people) * f64::from(n)) as u32;
        let drawn = below(self.stream.callers);
        let callee = below(CALLEES);
        let caller = match self.stream.calls {
            Calls::Rate(_) => drawn,
            Calls::OnceEach { .. } => self.begun,
        };
        self.begun = self.begun.saturating_add(1);
        self.next_at = self.after(at);
        Some(Arrival {
            at,
            kind: self.kind,
            caller,
            callee,
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
pub(crate) fn exponential(rng: &mut impl Rng) -> f64 {
    -libm::log(1.0 - unit(rng))
}

/// Standard normal, by the method of Box and Muller; one of the pair is left, so that a call takes as many draws as any other.
pub(crate) fn normal(rng: &mut impl Rng) -> f64 {
    let radius = libm::sqrt(2.0 * exponential(rng));
    radius * libm::cos(std::f64::consts::TAU * unit(rng))
}

/// Gamma of this shape and scale 1, by the method of Marsaglia and Tsang (ACM TOMS 26(3), 2000), exact.
pub(crate) fn gamma(rng: &mut impl Rng, shape: f64) -> f64 {
    if shape < 1.0 {
        // Their section 6: a draw of shape + 1 times a power of a uniform one.
        let power = libm::pow(1.0 - unit(rng), 1.0 / shape);
        return gamma(rng, shape + 1.0) * power;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let z = normal(rng);
        let root = 1.0 + c * z;
        if root <= 0.0 {
            continue;
        }
        let v = root * root * root;
        // -ln U is exponential. At least 95% are accepted whatever the shape.
        if 0.5 * z * z + d - d * v + d * libm::log(v) > -exponential(rng) {
            return d * v;
        }
    }
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
                calls: Calls::Rate(40.0),
                durations: Some(Durations::Exponential(Duration::from_secs(5))),
                callers: 1_000,
            },
            attacker: Stream {
                calls: Calls::Rate(60.0),
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
    fn a_run_is_a_seed() {
        let further = Plan {
            seed: 7 + 5,
            ..plan(7)
        };
        assert!(plan(7).schedule_of(5).eq(further.schedule()));
    }

    #[test]
    fn a_kind_is_not_touched_by_the_parameters_of_the_other() {
        let honest = |p: Plan| {
            p.schedule()
                .filter(|a| a.kind == Kind::Honest)
                .collect::<Vec<_>>()
        };
        let mut other = plan(3);
        other.attacker.calls = Calls::Rate(5.0);
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
            // That of a gamma is mean / sqrt(shape).
            (Durations::Gamma { mean, shape: 4.0 }, 2.5),
            (Durations::Gamma { mean, shape: 0.25 }, 10.0),
            // A Weibull of shape 1/2 has a variance of 5 times its squared mean; one of shape 2 one of 4/pi - 1.
            (Durations::Weibull { mean, shape: 0.5 }, 5.0 * 5f64.sqrt()),
            (
                Durations::Weibull { mean, shape: 2.0 },
                5.0 * (4.0 / std::f64::consts::PI - 1.0).sqrt(),
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
    fn the_share_below_a_point_is_that_of_the_distribution() {
        use statrs::distribution::{ContinuousCDF as _, Gamma, Weibull};
        let (n, mean) = (100_000, Duration::from_secs(5));
        let gamma = |shape| Gamma::new(shape, shape / 5.0).unwrap();
        // Of a Weibull of shape 2 the mean is scale * sqrt(pi) / 2.
        let weibull = Weibull::new(2.0, 10.0 / std::f64::consts::PI.sqrt()).unwrap();
        for (i, point) in [0.2, 1.0, 3.0, 5.0, 9.0, 20.0].into_iter().enumerate() {
            for (d, below) in [
                (Durations::Gamma { mean, shape: 2.5 }, gamma(2.5).cdf(point)),
                (Durations::Gamma { mean, shape: 0.4 }, gamma(0.4).cdf(point)),
                (Durations::Gamma { mean, shape: 1.0 }, gamma(1.0).cdf(point)),
                (Durations::Weibull { mean, shape: 2.0 }, weibull.cdf(point)),
            ] {
                let mut rng = Pcg64::seed_from_u64(i as u64);
                let found = (0..n)
                    .filter(|_| d.draw(&mut rng).as_secs_f64() < point)
                    .count();
                // 5 standard errors, and one draw where next to none is left on a side.
                let tolerance = 5.0 * (below * (1.0 - below) / f64::from(n)).sqrt();
                let gap = (found as f64 / f64::from(n) - below).abs();
                assert!(gap < tolerance + 1.0 / f64::from(n), "{d:?} {point}: {gap}");
            }
        }
    }

    #[test]
    fn each_of_a_crowd_calls_once_in_the_first_part() {
        let crowd = |arrivals, n| {
            let mut p = plan(4);
            p.honest.calls = Calls::Rate(0.0);
            p.attacker.callers = n;
            let within = Duration::from_millis(200);
            p.attacker.calls = Calls::OnceEach { within };
            p.arrivals = arrivals;
            p.schedule().collect::<Vec<_>>()
        };
        for arrivals in [Arrivals::Poisson, Arrivals::Even] {
            let calls = crowd(arrivals, 20_000);
            let callers: Vec<u32> = calls.iter().map(|a| a.caller).collect();
            assert_eq!(callers, (0..20_000).collect::<Vec<_>>());
            assert!(calls.is_sorted_by_key(|a| a.at));
            assert!(calls[19_999].at < Duration::from_millis(200));
            // A quarter of them in each quarter: 5 standard deviations of a binomial.
            for quarter in 1..4u32 {
                let end = Duration::from_millis(50) * quarter;
                let before = calls.iter().filter(|a| a.at < end).count() as f64;
                let p = f64::from(quarter) / 4.0;
                let tolerance = 5.0 * (20_000.0 * p * (1.0 - p)).sqrt();
                assert!((before - 20_000.0 * p).abs() < tolerance);
            }
        }
        let even: Vec<_> = crowd(Arrivals::Even, 4)
            .iter()
            .map(|a| a.at.as_millis())
            .collect();
        assert_eq!(even, [0, 50, 100, 150]);
        assert!(crowd(Arrivals::Poisson, 0).is_empty());
    }

    #[test]
    fn even_arrivals_are_even() {
        let mut p = plan(1);
        p.arrivals = Arrivals::Even;
        p.attacker.calls = Calls::Rate(0.0);
        let times: Vec<_> = p.schedule().take(3).map(|a| a.at.as_millis()).collect();
        assert_eq!(times, [25, 50, 75]);
    }
}
