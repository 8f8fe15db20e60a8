//! Recorded durations, in bounded memory.

use super::law::Law;

/// Values below this many grains are kept one by one: whole seconds up to half an hour.
const EXACT: u64 = 2_048;
/// Above, each doubling is cut into this many bins: a bin is at most 0.1% of its value wide.
const BINS_PER_DOUBLING: u64 = EXACT / 2;

/// How a duration became the whole number of grains that is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rounding {
    /// The fraction was cut off: `d` stands for `[d, d+1)`.
    Down,
    /// To the nearest: `d` stands for `[d-1/2, d+1/2)`.
    Nearest,
    /// A grain that has begun counts: `d` stands for `(d-1, d]`.
    Up,
    /// The difference of two instants whose fractions were cut off: `d` stands for `(d-1, d+1)`, with the weight of a tent,
    /// for the first instant lies anywhere in its grain.
    Difference,
}

/// Durations as a histogram whose size does not depend on their number.
///
/// The likelihood of a bin is the probability of its interval, so nothing is taken to be more exact than it was written.
#[derive(Clone, Debug)]
pub struct Sample {
    grain: f64,
    rounding: Rounding,
    /// Least value that could be told: 1 where a zero cannot be told from a call without answer.
    least: u64,
    bins: Vec<u64>,
    n: u64,
    sum: f64,
}

/// An occupied bin: `n` values from `low` to below `high`, in grains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bin {
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) n: u64,
}

impl Sample {
    /// No durations yet. `grain` is the unit in which they are written, in seconds.
    #[must_use]
    pub fn new(grain: f64, rounding: Rounding) -> Self {
        Self {
            grain,
            rounding,
            least: 0,
            bins: Vec::new(),
            n: 0,
            sum: 0.0,
        }
    }

    /// From now on zeros do not count: the likelihood is that of a duration which is no zero.
    pub(super) fn leave_out_zeros(&mut self) {
        self.least = 1;
    }

    /// Adds a duration of so many grains.
    pub fn add(&mut self, grains: u64) {
        let bin = bin_of(grains);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        if let Some(n) = self.bins.get_mut(bin) {
            *n += 1;
        }
        self.n += 1;
        self.sum += grains as f64;
    }

    /// Number of durations.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The unit in which they are written, in seconds.
    #[must_use]
    pub fn grain(&self) -> f64 {
        self.grain
    }

    /// How they became whole numbers of it.
    #[must_use]
    pub fn rounding(&self) -> Rounding {
        self.rounding
    }

    /// Whether zeros are left out.
    #[must_use]
    pub fn is_without_zeros(&self) -> bool {
        self.least > 0
    }

    /// The mean in seconds; what the rounding takes or adds on average is given back.
    #[must_use]
    pub fn mean(&self) -> f64 {
        (self.sum / self.n.max(1) as f64 + self.shift()).max(0.0) * self.grain
    }

    /// By how many grains a duration is longer on average than what is written.
    fn shift(&self) -> f64 {
        match self.rounding {
            Rounding::Down => 0.5,
            Rounding::Up => -0.5,
            Rounding::Nearest | Rounding::Difference => 0.0,
        }
    }

    /// The smallest duration, in seconds as written, that at least a share `p` of them do not pass.
    #[must_use]
    pub fn quantile(&self, p: f64) -> f64 {
        let wanted = p * self.n as f64;
        let mut below = 0;
        for bin in self.occupied() {
            below += bin.n;
            if below as f64 >= wanted {
                return (bin.high - 1) as f64 * self.grain;
            }
        }
        0.0
    }

    /// The durations in seconds in rising order, at most so many of them, evenly chosen. Those that were written alike are spread over
    /// what the rounding may have made them of, so that whole seconds are not drawn for calls that had none.
    #[must_use]
    pub fn spread(&self, most: usize) -> Vec<f64> {
        let wanted = self.n.min(most as u64);
        let mut all = Vec::with_capacity(wanted as usize);
        let mut before = 0;
        for bin in self.occupied() {
            // As many as are due by the end of this bin.
            let until = (before + bin.n) as u128 * u128::from(wanted) / u128::from(self.n.max(1));
            let own = until as usize - all.len();
            let width = (bin.high - bin.low) as f64;
            for i in 0..own {
                let within = width * (i as f64 + 0.5) / own as f64;
                let grains = bin.low as f64 + within + self.shift() - 0.5;
                all.push(grains.max(0.0) * self.grain);
            }
            before += bin.n;
        }
        all
    }

    /// How many are from `low` to below `high` seconds as written, by whole bins.
    #[must_use]
    pub fn count(&self, low: f64, high: f64) -> u64 {
        self.occupied()
            .filter(|bin| (low..high).contains(&(bin.low as f64 * self.grain)))
            .map(|bin| bin.n)
            .sum()
    }

    /// Share of the durations below each edge of an occupied bin, in seconds as written: the empirical distribution.
    #[must_use]
    pub fn steps(&self) -> Vec<(f64, f64)> {
        let mut below = 0;
        let mut steps = Vec::new();
        for bin in self.occupied() {
            steps.push((bin.low as f64 * self.grain, below as f64 / self.n as f64));
            below += bin.n;
            steps.push((bin.high as f64 * self.grain, below as f64 / self.n as f64));
        }
        steps
    }

    /// The probability under a law that a call is written down with `grains` or more, given that it is written down.
    #[must_use]
    pub fn recorded(&self, law: &Law, grains: u64) -> f64 {
        if self.least == 0 {
            return self.at_least(law, grains);
        }
        self.at_least(law, grains.max(self.least))
            / self.at_least(law, self.least).max(f64::MIN_POSITIVE)
    }

    /// As [`recorded`](Self::recorded), zeros or not.
    fn at_least(&self, law: &Law, grains: u64) -> f64 {
        if grains == 0 {
            return 1.0;
        }
        let x = grains as f64;
        let g = self.grain;
        match self.rounding {
            Rounding::Down => law.survival(x * g),
            Rounding::Nearest => law.survival((x - 0.5) * g),
            Rounding::Up => law.survival((x - 1.0) * g),
            // The mean of the survival over the grain before it.
            Rounding::Difference => (law.excess((x - 1.0) * g) - law.excess(x * g)) / g,
        }
    }

    /// The mean log-likelihood of a duration.
    pub(super) fn ln_likelihood(&self, law: &Law) -> f64 {
        let mut sum = 0.0;
        let mut edge = (0, 1.0);
        for bin in self.occupied() {
            let above = if edge.0 == bin.low {
                edge.1
            } else {
                self.at_least(law, bin.low)
            };
            edge = (bin.high, self.at_least(law, bin.high));
            sum += bin.n as f64 * self.ln_mass(law, bin, above, edge.1);
        }
        let mean = sum / self.n as f64;
        match self.least {
            0 => mean,
            least => mean - libm::log(self.at_least(law, least).max(f64::MIN_POSITIVE)),
        }
    }

    /// Of each of the values of a bin.
    fn ln_mass(&self, law: &Law, bin: Bin, above: f64, beyond: f64) -> f64 {
        /// Below this share the difference of two probabilities has too few digits left.
        const DIGITS: f64 = 1e-9;
        let mass = above - beyond;
        if mass > DIGITS * above && mass > f64::MIN_POSITIVE {
            libm::log(mass / (bin.high - bin.low) as f64)
        } else {
            // Far out in a tail: density times width.
            law.ln_density(self.middle(bin)) + libm::log(self.grain)
        }
    }

    /// The middle of what a bin stands for, in seconds; never zero.
    pub(super) fn middle(&self, bin: Bin) -> f64 {
        let centre = (bin.low + bin.high - 1) as f64 / 2.0 + self.shift();
        centre.max(0.25) * self.grain
    }

    /// All occupied bins in order.
    pub(super) fn occupied(&self) -> impl Iterator<Item = Bin> + '_ {
        self.bins
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .map(|(bin, n)| {
                let (low, high) = bounds(bin);
                Bin { low, high, n: *n }
            })
    }

    /// Edges of all bins from the least value on, occupied or not.
    pub(super) fn edges(&self) -> impl Iterator<Item = u64> + '_ {
        (0..).map(|bin| bounds(bin).0).skip(self.least as usize)
    }
}

fn bin_of(value: u64) -> usize {
    let bin = if value < EXACT {
        value
    } else {
        // The leading bit and the ten after it say which bin.
        let doubling = u64::from(value.ilog2() - EXACT.ilog2());
        EXACT + doubling * BINS_PER_DOUBLING + ((value >> (doubling + 1)) - BINS_PER_DOUBLING)
    };
    bin as usize
}

/// The values of a bin: from the first to below the second.
fn bounds(bin: usize) -> (u64, u64) {
    let bin = bin as u64;
    if bin < EXACT {
        return (bin, bin + 1);
    }
    let doubling = (bin - EXACT) / BINS_PER_DOUBLING;
    let within = (bin - EXACT) % BINS_PER_DOUBLING + BINS_PER_DOUBLING;
    (within << (doubling + 1), (within + 1) << (doubling + 1))
}

#[cfg(test)]
mod tests {
    use super::super::law::tests::LAWS;
    use super::*;

    #[test]
    fn bins_follow_each_other_without_gap_and_hold_their_values() {
        let mut next = 0;
        for bin in 0..30_000 {
            let (low, high) = bounds(bin);
            assert_eq!(low, next);
            assert!(high - low <= low / 1_000 + 1, "{low}..{high}");
            assert_eq!((bin_of(low), bin_of(high - 1)), (bin, bin));
            next = high;
        }
    }

    #[test]
    fn a_sample_spreads_into_durations_of_its_mean() {
        for rounding in [Rounding::Down, Rounding::Nearest, Rounding::Up] {
            let mut sample = Sample::new(2.0, rounding);
            // Four alike, and one far off in a wide bin.
            for grains in [7, 7, 7, 7, 5_001] {
                sample.add(grains);
            }
            let all = sample.spread(100);
            assert_eq!(all.len(), 5);
            assert!(all.is_sorted());
            // As the bin of the long one is wide, its middle is near it.
            let mean = all.iter().sum::<f64>() / 5.0;
            assert!(
                (mean - sample.mean()).abs() < 1.0,
                "{mean} {}",
                sample.mean()
            );
            // Four times 7 spread over a grain of 2 s.
            let first = (7.0 + sample.shift() - 0.5 + 0.125) * 2.0;
            assert!((all[0] - first).abs() < 1e-9 && (all[3] - first - 1.5).abs() < 1e-9);
            // Fewer of them are evenly chosen: the long one is the last fifth.
            assert_eq!(sample.spread(3).len(), 3);
        }
        assert!(Sample::new(1.0, Rounding::Down).spread(10).is_empty());
    }

    /// What is written down has probability one altogether, and its mean is that of the law, less what rounding takes.
    #[test]
    fn the_written_durations_are_a_distribution_with_the_laws_mean() {
        for law in LAWS {
            for rounding in [
                Rounding::Down,
                Rounding::Nearest,
                Rounding::Up,
                Rounding::Difference,
            ] {
                let sample = Sample::new(10.0, rounding);
                // E[D] is the sum of P(D >= d) over d >= 1.
                let mean: f64 = (1..20_000).map(|d| sample.recorded(&law, d)).sum::<f64>() * 10.0;
                // The mean of what two cut instants differ by is exactly the law's; the others depend on the form near zero.
                let (expected, tolerance) = match rounding {
                    Rounding::Difference => (law.mean(), 1e-3),
                    Rounding::Down => (law.mean() - 5.0, 3.0),
                    Rounding::Nearest => (law.mean(), 3.0),
                    Rounding::Up => (law.mean() + 5.0, 3.0),
                };
                assert!(
                    (mean - expected).abs() < tolerance,
                    "{law:?} {rounding:?}: {mean} against {expected}"
                );
            }
        }
    }

    #[test]
    fn a_wide_bin_has_the_probability_of_its_values() {
        for law in LAWS {
            for rounding in [Rounding::Down, Rounding::Difference] {
                let sample = Sample::new(1.0, rounding);
                let one_by_one: f64 = (40..60)
                    .map(|d| sample.recorded(&law, d) - sample.recorded(&law, d + 1))
                    .sum();
                let whole = sample.recorded(&law, 40) - sample.recorded(&law, 60);
                assert!((one_by_one - whole).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn the_likelihood_goes_on_where_probabilities_underflow() {
        let mut sample = Sample::new(1.0, Rounding::Down);
        sample.add(100_000);
        let law = Law::Exponential { mean: 10.0 };
        // exp(-10,000) is no float, its logarithm is.
        let found = sample.ln_likelihood(&law);
        assert!((found + 10_000.0).abs() < 20.0, "{found}");
    }

    #[test]
    fn quantiles_counts_and_steps() {
        let mut sample = Sample::new(1.0, Rounding::Down);
        for d in [1, 1, 2, 5] {
            sample.add(d);
        }
        assert_eq!(sample.quantile(0.5), 1.0);
        assert_eq!(sample.quantile(0.75), 2.0);
        assert_eq!(sample.count(1.0, 5.0), 3);
        assert_eq!(
            sample.steps(),
            [
                (1.0, 0.0),
                (2.0, 0.5),
                (2.0, 0.5),
                (3.0, 0.75),
                (5.0, 0.75),
                (6.0, 1.0)
            ]
        );
        assert_eq!(sample.mean(), 2.75);
    }
}
