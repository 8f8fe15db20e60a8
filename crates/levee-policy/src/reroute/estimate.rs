//! The offered load, from known-good traffic that is lost with the rest.
//!
//! Sections 3 and 4.1 of the paper: `alpha = observed / expected` of the known-good, `offered = observed / alpha`. The paper
//! gives a number; here it is an interval, since a decision for the worst case needs to know how bad it can be.
//!
//! # The interval of one source
//!
//! `alpha` is a ratio of two numbers that are not known for certain.
//!
//! - The count: a Poisson number with its variance multiplied by the [`Estimator::dispersion`]. Its interval is Byar's
//!   approximation of the exact one (Rothman and Boice 1979; Breslow and Day 1987, page 69), which holds down to a count of 0. A
//!   binomial count (probes that either arrive or not) varies less: the interval is then wider than it needs to be.
//! - The forecast: normal with its standard deviation.
//!
//! The interval of their ratio is by MOVER (Donner and Zou, "Closed-form confidence intervals for functions of the normal mean and
//! standard deviation", 2012), which is Fieller's where both are symmetric. Where the forecast's own interval reaches zero, the
//! ratio has no upper bound, and none is given.
//!
//! # Several sources
//!
//! Weighted by their inverse variances, with a variance between them (random effects after Paule and Mandel, 1982). The
//! variances are those at the common `alpha`, not at each source's own: low counts would otherwise get a high weight. A source
//! that is far from what a majority agrees on is left out; when there is none (of two that disagree, nobody can tell which is
//! right), the interval grows until it holds them all. Which source was used how is told ([`Alpha::sources`]).
//!
//! # Near zero
//!
//! Of a count below [`COUNT_MIN`] no more can be said than that the offered load is at least so much: the interval of
//! [`Estimator::offered`] is then open above, and its likely value is that bound.

use alloc::{vec, vec::Vec};

use serde::{Deserialize, Serialize};

use super::Range;
use crate::{ConfigError, config_error::number};

/// How sure the intervals are (our choice).
pub const CONFIDENCE: f64 = 0.95;
/// Variance of a count over its mean: 2, since queries of one resolver come in bursts (our choice; probes of RIPE Atlas have 1).
pub const DISPERSION: f64 = 2.0;
/// Of fewer events (after division by the dispersion) than this, a load is bounded and not estimated: the standard deviation of
/// a count of 5 is 45 % of it.
pub const COUNT_MIN: f64 = 5.0;
/// A source of which fewer events are expected is not used: nothing could be seen from its absence.
pub const EXPECTED_MIN: f64 = 1.0;
/// A source is left out from this many standard deviations off the others: 1 in 2,000 by chance.
pub const OUTLIER_Z: f64 = 3.5;
/// The most sources of a site (our choice: each costs every estimate a little).
pub const SOURCES_MAX: usize = 64;

/// Known-good traffic at a site in one interval, from one source (Atlas probes, heavy hitters).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownGood {
    /// What arrived, in events (queries, packets) of the interval.
    pub observed: f64,
    /// What would arrive without loss.
    pub expected: f64,
    /// The standard deviation of that forecast, in events.
    pub expected_sd: f64,
}

impl KnownGood {
    fn is_usable(&self) -> bool {
        let finite = |x: f64| x.is_finite() && x >= 0.0;
        finite(self.observed)
            && finite(self.expected)
            && finite(self.expected_sd)
            && self.expected >= EXPECTED_MIN
    }
}

/// What became of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// It agrees with the others, or is alone.
    Agrees,
    /// It disagrees with the others, and the interval was widened until it holds them all.
    Widened,
    /// It is far from what the others agree on, and was left out.
    LeftOut,
    /// Too little is expected of it, or a figure of it is no number.
    Unusable,
}

/// The access fraction of a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alpha {
    /// `observed / expected` with its interval. Above 1 where more known-good arrives than was forecast.
    pub range: Range,
    /// Known-good events that arrived, of the sources that were used, over the dispersion.
    pub count: f64,
    /// What became of each source, in the order in which they were given.
    pub sources: Vec<Use>,
}

impl Alpha {
    /// Whether known-good traffic is lost for certain.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        self.range.high < 1.0
    }

    /// Whether more known-good arrives than can be: the forecast is wrong, a vantage point moved here, or somebody fakes it.
    #[must_use]
    pub fn is_excess(&self) -> bool {
        self.range.low > 1.0
    }
}

/// Makes intervals of known-good traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimator {
    confidence: f64,
    dispersion: f64,
    /// The normal deviate of the confidence, two-sided.
    z: f64,
}

impl Default for Estimator {
    fn default() -> Self {
        Self::of(CONFIDENCE, DISPERSION)
    }
}

impl Estimator {
    /// Intervals that hold the truth with this confidence, of counts with this variance over their mean.
    ///
    /// # Errors
    ///
    /// With a confidence outside 0.5 to 0.9999 or a dispersion outside 1 to 10,000.
    pub fn new(confidence: f64, dispersion: f64) -> Result<Self, ConfigError> {
        number("confidence", confidence, 0.5, 0.9999)?;
        number("dispersion", dispersion, 1.0, 1e4)?;
        Ok(Self::of(confidence, dispersion))
    }

    fn of(confidence: f64, dispersion: f64) -> Self {
        Self {
            confidence,
            dispersion,
            z: normal_deviate(confidence),
        }
    }

    /// How sure the intervals are.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        self.confidence
    }

    /// Variance of a count over its mean.
    #[must_use]
    pub fn dispersion(&self) -> f64 {
        self.dispersion
    }

    /// The access fraction out of all sources of a site; `None` where none can be used. Sources beyond [`SOURCES_MAX`] are not.
    #[must_use]
    pub fn alpha(&self, sources: &[KnownGood]) -> Option<Alpha> {
        let mut uses = vec![Use::Unusable; sources.len()];
        let mut used: Vec<usize> = (0..sources.len().min(SOURCES_MAX))
            .filter(|i| sources[*i].is_usable())
            .collect();
        if used.is_empty() {
            return None;
        }
        for i in self.outliers(sources, &used) {
            uses[i] = Use::LeftOut;
            used.retain(|other| *other != i);
        }
        let chosen: Vec<KnownGood> = used.iter().map(|i| sources[*i]).collect();
        let pool = self.pool(&chosen);
        for i in used {
            uses[i] = if pool.agree {
                Use::Agrees
            } else {
                Use::Widened
            };
        }
        Some(Alpha {
            range: self.widened(&pool, &chosen),
            count: chosen.iter().map(|source| source.observed).sum::<f64>() / self.dispersion,
            sources: uses,
        })
    }

    /// The offered load of a site at which `observed` arrives. What arrives was sent: it is never less than that.
    #[must_use]
    pub fn offered(&self, observed: f64, alpha: Option<&Alpha>) -> Range {
        let Some(alpha) = alpha else {
            return Range {
                low: observed,
                likely: observed,
                high: f64::INFINITY,
            };
        };
        let over = |alpha: f64| observed / alpha.min(1.0);
        let low = over(alpha.range.high);
        if alpha.count < COUNT_MIN || alpha.range.low <= 0.0 {
            return Range {
                low,
                likely: low,
                high: f64::INFINITY,
            };
        }
        Range {
            low,
            likely: over(alpha.range.likely),
            high: over(alpha.range.low),
        }
    }

    /// The interval of all sources together: that of the pool, widened by what lies between them, but no wider than the intervals
    /// of all sources laid over each other.
    fn widened(&self, pool: &Pool, sources: &[KnownGood]) -> Range {
        let range = self.ratio(&pool.source);
        if pool.between <= 0.0 {
            return range;
        }
        let half = self.z * pool.between;
        let (lowest, highest) = sources
            .iter()
            .map(|source| self.ratio(source))
            .fold((f64::INFINITY, 0.0_f64), |(low, high), own| {
                (low.min(own.low), high.max(own.high))
            });
        Range {
            low: (range.likely - libm::hypot(range.likely - range.low, half)).max(lowest),
            likely: range.likely,
            high: (range.likely + libm::hypot(range.high - range.likely, half)).min(highest),
        }
    }

    /// The interval of `observed / expected` of one source.
    fn ratio(&self, source: &KnownGood) -> Range {
        let count = self.count(source.observed);
        let half = self.z * source.expected_sd;
        let (low, high) = (source.expected - half, source.expected + half);
        // Donner and Zou, equation for a ratio. Both products are those of Fieller's theorem with limits for variances.
        let product = source.observed * source.expected;
        let (at_high, at_low) = (
            high * (2.0 * source.expected - high),
            low * (2.0 * source.expected - low),
        );
        let root = |numerator: f64, denominator: f64| {
            let inner =
                product * product - numerator * (2.0 * source.observed - numerator) * denominator;
            libm::sqrt(inner.max(0.0))
        };
        let lowest = if at_high > 0.0 {
            (product - root(count.low, at_high)) / at_high
        } else {
            count.low / high
        };
        let highest = if low > 0.0 {
            (product + root(count.high, at_low)) / at_low
        } else {
            f64::INFINITY
        };
        let likely = source.observed / source.expected;
        Range {
            low: lowest.clamp(0.0, likely),
            likely,
            high: highest.max(likely),
        }
    }

    /// The interval of the mean of a count: Byar's approximation, of the count over its dispersion.
    fn count(&self, observed: f64) -> Range {
        let byar = |n: f64, sign: f64| {
            let root = 1.0 - 1.0 / (9.0 * n) + sign * self.z / (3.0 * libm::sqrt(n));
            n * root.max(0.0) * root.max(0.0) * root.max(0.0)
        };
        let n = observed / self.dispersion;
        Range {
            low: if n > 0.0 { byar(n, -1.0) } else { 0.0 } * self.dispersion,
            likely: observed,
            high: byar(n + 1.0, 1.0) * self.dispersion,
        }
    }

    /// All sources as one that is as uncertain as they are together.
    fn pool(&self, sources: &[KnownGood]) -> Pool {
        if let [source] = sources {
            return Pool {
                source: *source,
                between: 0.0,
                agree: true,
            };
        }
        let mut mean = middle(sources);
        let mut between = 0.0;
        let mut q = 0.0;
        let degrees = sources.len() as f64 - 1.0;
        // The variances hang on the mean and the mean on the variances: a few rounds settle both.
        for _ in 0..POOL_ROUNDS {
            let variances = self.variances(sources, mean);
            q = spread(sources, &variances, 0.0).1;
            between = paule_mandel(sources, &variances, degrees);
            mean = spread(sources, &variances, between).0;
        }
        let variances = self.variances(sources, mean);
        let whole: f64 = variances.iter().map(|v| 1.0 / (v + between)).sum();
        // Each source's share of the mean, squared, times what varies in it.
        let (mut counts, mut forecasts, mut apart) = (0.0, 0.0, 0.0);
        for (source, variance) in sources.iter().zip(&variances) {
            let share = 1.0 / (variance + between) / whole;
            let relative = source.expected_sd / source.expected;
            counts += share * share / source.expected;
            forecasts += share * share * relative * relative;
            apart += share * share * between;
        }
        let expected = 1.0 / counts;
        Pool {
            source: KnownGood {
                observed: mean * expected,
                expected,
                expected_sd: libm::sqrt(forecasts) * expected,
            },
            between: libm::sqrt(apart),
            agree: q <= chi_square_bound(degrees),
        }
    }

    /// The variance of each source's `alpha` if the truth is `mean`.
    fn variances(&self, sources: &[KnownGood], mean: f64) -> Vec<f64> {
        let mean = floor(mean, sources);
        let of = |source: &KnownGood| {
            let relative = source.expected_sd / source.expected;
            self.dispersion * mean / source.expected + mean * mean * relative * relative
        };
        sources.iter().map(of).collect()
    }

    /// Sources that are far from what a majority agrees on, if there is such a majority.
    fn outliers(&self, sources: &[KnownGood], used: &[usize]) -> Vec<usize> {
        let pool_of = |kept: &[usize]| {
            let kept: Vec<KnownGood> = kept.iter().map(|i| sources[*i]).collect();
            self.pool(&kept)
        };
        let mut kept = used.to_vec();
        let mut out = Vec::new();
        let mut pool = pool_of(&kept);
        while !pool.agree && (kept.len() - 1) * 2 > used.len() {
            let off = |place: usize| {
                let mut others = kept.clone();
                let candidate = others.remove(place);
                self.distance(&sources[candidate], &pool_of(&others).source)
            };
            let distances = (0..kept.len()).map(|place| (off(place), place));
            let Some((_, furthest)) = distances.max_by(|a, b| a.0.total_cmp(&b.0)) else {
                break;
            };
            out.push(kept.remove(furthest));
            pool = pool_of(&kept);
        }
        let is_far = |i: &usize| self.distance(&sources[*i], &pool.source) > OUTLIER_Z;
        if pool.agree && out.iter().all(is_far) {
            out
        } else {
            Vec::new()
        }
    }

    /// How far two sources are apart, in standard deviations.
    fn distance(&self, a: &KnownGood, b: &KnownGood) -> f64 {
        let (of_a, of_b) = (ratio_of(a), ratio_of(b));
        let variances = self.variances(&[*a, *b], of_a.max(of_b));
        (of_a - of_b).abs() / libm::sqrt(variances.iter().sum())
    }
}

/// Offered loads of all sites together, as if all were high, or low, at once: their forecasts may err in the same direction.
#[must_use]
pub fn total(offered: &[Range]) -> Range {
    offered
        .iter()
        .fold(Range::default(), |sum, site| sum + *site)
}

/// Rounds over mean and variances; from the third on the figures stand still to three digits.
const POOL_ROUNDS: usize = 5;
/// Halvings in a search for a root: to the last bit of a float.
const HALVINGS: usize = 80;

/// All sources as one.
struct Pool {
    source: KnownGood,
    /// What lies between the sources adds this standard deviation to `alpha`.
    between: f64,
    /// Whether they differ by no more than chance.
    agree: bool,
}

fn ratio_of(source: &KnownGood) -> f64 {
    source.observed / source.expected
}

/// A first mean: all that arrived over all that was expected.
fn middle(sources: &[KnownGood]) -> f64 {
    let sum = |of: fn(&KnownGood) -> f64| sources.iter().map(of).sum::<f64>();
    sum(|s| s.observed) / sum(|s| s.expected)
}

/// A mean of nothing still has a variance: that of half an event.
fn floor(mean: f64, sources: &[KnownGood]) -> f64 {
    let expected: f64 = sources.iter().map(|source| source.expected).sum();
    mean.max(0.5 / expected)
}

/// The weighted mean, and the weighted sum of squares about it, with a variance `between` the sources.
fn spread(sources: &[KnownGood], variances: &[f64], between: f64) -> (f64, f64) {
    let weighted = |value: &dyn Fn(&KnownGood) -> f64| -> f64 {
        let parts = sources.iter().zip(variances);
        parts
            .map(|(source, variance)| value(source) / (variance + between))
            .sum()
    };
    let mean = weighted(&ratio_of) / weighted(&|_| 1.0);
    (
        mean,
        weighted(&|source| (ratio_of(source) - mean) * (ratio_of(source) - mean)),
    )
}

/// The variance between sources at which their sum of squares is what chance gives: `k - 1`.
fn paule_mandel(sources: &[KnownGood], variances: &[f64], degrees: f64) -> f64 {
    let excess = |between: f64| spread(sources, variances, between).1 > degrees;
    if !excess(0.0) {
        return 0.0;
    }
    let largest = sources.iter().map(ratio_of).fold(0.0, f64::max);
    // The squares are at most k times that: with this much between, each weighs next to nothing.
    let (mut low, mut high): (f64, f64) = (0.0, largest * largest * sources.len() as f64);
    for _ in 0..HALVINGS {
        let between = low.midpoint(high);
        if excess(between) {
            low = between;
        } else {
            high = between;
        }
    }
    high
}

/// What a chi-square number passes in 1 of 100 cases: Wilson and Hilferty's approximation.
fn chi_square_bound(degrees: f64) -> f64 {
    const Z: f64 = 2.326_347_874;
    let part = 2.0 / (9.0 * degrees);
    let root = 1.0 - part + Z * libm::sqrt(part);
    degrees * root * root * root
}

/// The `z` that a standard normal number stays within, to both sides, with this probability.
fn normal_deviate(probability: f64) -> f64 {
    let (mut low, mut high): (f64, f64) = (0.0, 10.0);
    for _ in 0..HALVINGS {
        let z = low.midpoint(high);
        if libm::erf(z * core::f64::consts::FRAC_1_SQRT_2) < probability {
            low = z;
        } else {
            high = z;
        }
    }
    low.midpoint(high)
}

#[cfg(test)]
mod tests;
