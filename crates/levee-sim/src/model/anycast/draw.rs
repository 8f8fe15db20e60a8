//! Draws that the model has beside those of the schedule.

use rand_core::Rng;

use crate::schedule::{gamma, normal, unit};

/// Up to this number trials are made one by one.
const ONE_BY_ONE: u64 = 16;

/// How many of `n` trials succeed with probability `p` each, exactly: the middle of `n` uniform numbers has a beta law, and tells on
/// which side of `p` half of them lie (Devroye, Non-Uniform Random Variate Generation, 1986, X.4.3).
pub(super) fn binomial(mut n: u64, mut p: f64, rng: &mut impl Rng) -> u64 {
    if p >= 1.0 {
        return n;
    }
    if p <= 0.0 {
        return 0;
    }
    let mut successes = 0;
    while n > ONE_BY_ONE {
        let middle = n.div_ceil(2);
        let below = gamma(rng, middle as f64);
        let above = gamma(rng, (n + 1 - middle) as f64);
        let at = below / (below + above);
        if at <= p {
            successes += middle;
            n -= middle;
            p = (p - at) / (1.0 - at);
        } else {
            n = middle - 1;
            p /= at;
        }
    }
    successes + (0..n).filter(|_| unit(rng) < p).count() as u64
}

/// Lognormal with mean 1 and this standard deviation of its logarithm.
pub(super) fn factor(sd: f64, rng: &mut impl Rng) -> f64 {
    libm::exp(sd * normal(rng) - sd * sd / 2.0)
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng as _;
    use rand_pcg::Pcg64;
    use statrs::distribution::{Binomial, DiscreteCDF as _};

    use super::*;

    #[test]
    fn counts_of_trials_are_binomial() {
        let draws = 20_000;
        for (n, p) in [(1, 0.3), (16, 0.5), (17, 0.02), (100, 0.9), (5_000, 0.01)] {
            let law = Binomial::new(p, n).unwrap();
            let mut rng = Pcg64::seed_from_u64(n);
            let mut found: Vec<u64> = (0..draws).map(|_| binomial(n, p, &mut rng)).collect();
            found.sort_unstable();
            for quantile in [0.05, 0.3, 0.5, 0.8, 0.99] {
                let at = law.inverse_cdf(quantile);
                let share = found.partition_point(|x| *x <= at) as f64 / f64::from(draws);
                let exact = law.cdf(at);
                // 5 standard errors, and one draw where next to none is left on a side.
                let error = (exact * (1.0 - exact) / f64::from(draws)).sqrt();
                let gap = (share - exact).abs();
                assert!(
                    gap < 5.0 * error + 1.0 / f64::from(draws),
                    "{n} {p} {at}: {gap}"
                );
            }
        }
        let mut rng = Pcg64::seed_from_u64(1);
        for (n, p, all) in [(0, 0.5, 0), (1 << 40, 0.0, 0), (1 << 40, 1.0, 1 << 40)] {
            assert_eq!(binomial(n, p, &mut rng), all);
        }
    }
}
