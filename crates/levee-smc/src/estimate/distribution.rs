//! Quantiles of the laws that intervals are made of.
//!
//! `statrs` gives the laws. Where its inversions lose digits, or do not end, at great parameters, they are replaced: Student's t above
//! [`MANY`] degrees by its expansion, the beta law by bisection of its distribution function.

use statrs::distribution::{Beta, ContinuousCDF, Normal, StudentsT};

/// Degrees of freedom above which four terms around the normal are right to 12 digits, and the inversion of `statrs` to fewer.
const MANY: u64 = 1_000;

/// Halvings of 0..1: more than a double can tell apart near 1, and to 1e-30 near 0.
const HALVINGS: u32 = 100;

/// Quantile of the standard normal.
#[must_use]
pub fn normal(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p)
}

/// Quantile of Student's t with `freedom` degrees; infinite with none. `p` is within 0.5 and 1.
#[must_use]
pub fn student(p: f64, freedom: u64) -> f64 {
    debug_assert!((0.5..1.0).contains(&p), "{p}");
    if freedom > MANY {
        // Abramowitz and Stegun 26.7.5.
        let (n, z) = (freedom as f64, normal(p));
        let g1 = (z.powi(3) + z) / 4.0;
        let g2 = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
        let g3 = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
        return z + (g1 + (g2 + g3 / n) / n) / n;
    }
    StudentsT::new(0.0, 1.0, freedom as f64).map_or(f64::INFINITY, |law| law.inverse_cdf(p))
}

/// Quantile of the beta law with the shapes `a` and `b`, both positive.
pub(crate) fn beta(p: f64, a: f64, b: f64) -> f64 {
    let Ok(law) = Beta::new(a, b) else {
        debug_assert!(false, "shapes {a}, {b}");
        return f64::NAN;
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if law.cdf(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
        if high - low <= 1e-14 * high {
            break;
        }
    }
    0.5 * (low + high)
}

/// Probability of at most `k` successes of `n` trials with probability `q` each; within 0 and 1.
pub(crate) fn binomial_at_most(k: u64, n: u64, q: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    Beta::new(k as f64 + 1.0, (n - k) as f64).map_or(f64::NAN, |law| law.sf(q))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_against_known_values() {
        // SciPy 1.17, stats.t.isf.
        for (p, freedom, t) in [
            (0.975, 1, 12.706_204_736_174_694),
            (0.995, 2, 9.924_843_200_918_287),
            (0.975, 9, 2.262_157_162_798_205),
            (0.975, 29, 2.045_229_642_132_703),
            (0.995, 127, 2.615_096_008_429_868),
            (0.995, 1_000, 2.580_754_698_065_952),
            (0.975, 1_001, 1.962_336_705_280_879_8),
            (0.995, 100_000, 2.575_878_469_908_375),
            (0.999_999_9, 100_000, 5.199_701_988_462_917),
            (0.975, 100_000_000, 1.959_964_008_262_766_3),
        ] {
            let got = student(p, freedom);
            assert!((got / t - 1.0).abs() < 1e-11, "{p} {freedom}: {got} {t}");
        }
        assert_eq!(student(0.975, 0), f64::INFINITY);
    }

    #[test]
    fn student_inverts_its_distribution_function_at_every_freedom() {
        for freedom in 1..=MANY + 50 {
            let law = StudentsT::new(0.0, 1.0, freedom as f64).unwrap();
            for tail in [0.25, 0.05, 0.025, 0.005, 5e-4, 5e-7] {
                let got = law.sf(student(1.0 - tail, freedom));
                assert!((got / tail - 1.0).abs() < 1e-6, "{freedom} {tail}: {got}");
            }
        }
    }

    #[test]
    fn beta_against_known_values() {
        // SciPy 1.17, stats.beta.ppf.
        for (p, a, b, x) in [
            (0.5, 1.0, 1.0, 0.5),
            (0.975, 1.0, 20.0, 0.168_433_470_983_085_3),
            (0.025, 81.0, 183.0, 0.252_736_745_585_271_26),
            (0.975, 82.0, 182.0, 0.367_621_922_601_351_35),
            (0.995, 500_001.0, 500_000.0, 0.501_288_412_191_126_2),
            (0.025, 10.0, 999_991.0, 4.795_398_777_545_602e-6),
            (0.975, 11.0, 99_999_990.0, 1.839_035_527_777_742_3e-7),
            (0.025, 99_999_990.0, 11.0, 0.999_999_816_096_447_2),
        ] {
            let got = beta(p, a, b);
            assert!((got / x - 1.0).abs() < 1e-6, "{p} {a} {b}: {got} {x}");
        }
    }

    #[test]
    fn binomial_against_sums() {
        for (n, q) in [(1, 0.5_f64), (10, 0.3), (60, 0.9)] {
            let (mut term, mut sum) = ((1.0 - q).powi(n), 0.0);
            for k in 0..=n {
                sum += term;
                let got = binomial_at_most(k as u64, n as u64, q);
                assert!((got - sum).abs() < 1e-12, "{k} of {n}: {got} {sum}");
                term *= f64::from(n - k) / f64::from(k + 1) * q / (1.0 - q);
            }
        }
    }
}
