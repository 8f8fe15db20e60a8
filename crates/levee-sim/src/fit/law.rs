//! The distributions that are fitted.

use serde::Serialize;

use super::special::{gamma_q, normal_tail};

/// A family of distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// One parameter: the mean.
    Exponential,
    /// `mu` and `sigma` of the logarithm.
    Lognormal,
    /// `shape` and `scale`.
    Gamma,
    /// `shape` and `scale`.
    Weibull,
}

impl Family {
    /// All of them, the simplest first.
    pub const ALL: [Self; 4] = [
        Self::Exponential,
        Self::Lognormal,
        Self::Gamma,
        Self::Weibull,
    ];

    /// As a scenario names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::Lognormal => "lognormal",
            Self::Gamma => "gamma",
            Self::Weibull => "weibull",
        }
    }

    /// Number of parameters.
    #[must_use]
    pub fn parameters(self) -> usize {
        match self {
            Self::Exponential => 1,
            Self::Lognormal | Self::Gamma | Self::Weibull => 2,
        }
    }
}

/// A distribution of durations, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Density `exp(-x/mean) / mean`.
    Exponential {
        /// The mean.
        mean: f64,
    },
    /// The logarithm is normal.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Density `x^(shape-1) exp(-x/scale) / (Gamma(shape) scale^shape)`.
    Gamma {
        /// 1 is the exponential.
        shape: f64,
        /// The mean is `shape * scale`.
        scale: f64,
    },
    /// Survival `exp(-(x/scale)^shape)`.
    Weibull {
        /// 1 is the exponential.
        shape: f64,
        /// Passed by a share of `1/e`.
        scale: f64,
    },
}

impl Law {
    /// Its family.
    #[must_use]
    pub fn family(&self) -> Family {
        match self {
            Self::Exponential { .. } => Family::Exponential,
            Self::Lognormal { .. } => Family::Lognormal,
            Self::Gamma { .. } => Family::Gamma,
            Self::Weibull { .. } => Family::Weibull,
        }
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Exponential { mean } => mean,
            Self::Lognormal { mu, sigma } => libm::exp(mu + sigma * sigma / 2.0),
            Self::Gamma { shape, scale } => shape * scale,
            Self::Weibull { shape, scale } => scale * libm::tgamma(1.0 + 1.0 / shape),
        }
    }

    /// The probability of a duration above `x`; 1 for a negative `x`.
    #[must_use]
    pub fn survival(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 1.0;
        }
        match *self {
            Self::Exponential { mean } => libm::exp(-x / mean),
            Self::Lognormal { mu, sigma } => normal_tail((libm::log(x) - mu) / sigma),
            Self::Gamma { shape, scale } => gamma_q(shape, x / scale),
            Self::Weibull { shape, scale } => libm::exp(-libm::pow(x / scale, shape)),
        }
    }

    /// The mean of what a duration has above `x`, `E[max(X - x, 0)]`: the integral of the survival from `x` on.
    #[must_use]
    pub fn excess(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return self.mean() - x;
        }
        let beyond = match *self {
            Self::Exponential { mean } => return mean * libm::exp(-x / mean),
            Self::Lognormal { mu, sigma } => {
                self.mean() * normal_tail((libm::log(x) - mu) / sigma - sigma)
            }
            Self::Gamma { shape, scale } => shape * scale * gamma_q(shape + 1.0, x / scale),
            Self::Weibull { shape, scale } => {
                self.mean() * gamma_q(1.0 + 1.0 / shape, libm::pow(x / scale, shape))
            }
        };
        (beyond - x * self.survival(x)).max(0.0)
    }

    /// The logarithm of the density at `x > 0`.
    #[must_use]
    pub fn ln_density(&self, x: f64) -> f64 {
        match *self {
            Self::Exponential { mean } => -x / mean - libm::log(mean),
            Self::Lognormal { mu, sigma } => {
                const LN_SQRT_TAU: f64 = 0.918_938_533_204_672_8;
                let z = (libm::log(x) - mu) / sigma;
                -z * z / 2.0 - libm::log(x * sigma) - LN_SQRT_TAU
            }
            Self::Gamma { shape, scale } => {
                (shape - 1.0) * libm::log(x / scale)
                    - x / scale
                    - libm::lgamma(shape)
                    - libm::log(scale)
            }
            Self::Weibull { shape, scale } => {
                let ratio = x / scale;
                libm::log(shape / scale) + (shape - 1.0) * libm::log(ratio)
                    - libm::pow(ratio, shape)
            }
        }
    }

    /// The parameters by name.
    #[must_use]
    pub fn parameters(&self) -> Vec<(&'static str, f64)> {
        match *self {
            Self::Exponential { mean } => vec![("mean", mean)],
            Self::Lognormal { mu, sigma } => vec![("mu", mu), ("sigma", sigma)],
            Self::Gamma { shape, scale } | Self::Weibull { shape, scale } => {
                vec![("shape", shape), ("scale", scale)]
            }
        }
    }

    #[cfg(test)]
    /// The inverse of [`at`](Self::at).
    pub(super) fn coordinates(&self) -> [f64; 2] {
        match *self {
            Self::Exponential { mean } => [libm::log(mean), 0.0],
            Self::Lognormal { mu, sigma } => [mu, libm::log(sigma)],
            Self::Gamma { shape, scale } => [libm::log(shape * scale), libm::log(shape)],
            Self::Weibull { shape, scale } => [libm::log(scale), libm::log(shape)],
        }
    }

    /// The law at a point of the plane in which the likelihood is climbed: free of bounds, and nearly orthogonal.
    pub(super) fn at(family: Family, [place, form]: [f64; 2]) -> Self {
        let shape = libm::exp(form);
        match family {
            Family::Exponential => Self::Exponential {
                mean: libm::exp(place),
            },
            Family::Lognormal => Self::Lognormal {
                mu: place,
                sigma: shape,
            },
            Family::Gamma => Self::Gamma {
                shape,
                scale: libm::exp(place - form),
            },
            Family::Weibull => Self::Weibull {
                shape,
                scale: libm::exp(place),
            },
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const LAWS: [Law; 6] = [
        Law::Exponential { mean: 90.0 },
        Law::Lognormal {
            mu: 4.0,
            sigma: 1.2,
        },
        Law::Gamma {
            shape: 2.0,
            scale: 40.0,
        },
        Law::Gamma {
            shape: 0.4,
            scale: 200.0,
        },
        Law::Weibull {
            shape: 1.6,
            scale: 100.0,
        },
        Law::Weibull {
            shape: 0.6,
            scale: 60.0,
        },
    ];

    /// Simpson's rule on a logarithmic grid.
    fn integral(low: f64, high: f64, f: impl Fn(f64) -> f64) -> f64 {
        let n = 20_000;
        let step = (high / low).ln() / f64::from(n);
        (0..=n)
            .map(|i| {
                let x = low * (step * f64::from(i)).exp();
                let weight = match i {
                    0 => 1.0,
                    _ if i == n => 1.0,
                    _ if i % 2 == 1 => 4.0,
                    _ => 2.0,
                };
                weight * f(x) * x
            })
            .sum::<f64>()
            * step
            / 3.0
    }

    #[test]
    fn density_survival_excess_and_mean_belong_together() {
        for law in LAWS {
            for (low, high) in [(1.0, 2.0), (20.0, 60.0), (300.0, 900.0)] {
                let mass = integral(low, high, |x| law.ln_density(x).exp());
                let difference = law.survival(low) - law.survival(high);
                assert!(
                    (mass - difference).abs() < 1e-9,
                    "{law:?} {low}: {mass} {difference}"
                );
                let area = integral(low, high, |x| law.survival(x));
                let difference = law.excess(low) - law.excess(high);
                assert!(
                    (area - difference).abs() < 1e-7,
                    "{law:?} {low}: {area} {difference}"
                );
            }
            assert!((law.excess(1e-12) - law.mean()).abs() < 1e-6, "{law:?}");
            let mean = integral(1e-6, 1e6, |x| x * law.ln_density(x).exp());
            assert!((mean / law.mean() - 1.0).abs() < 1e-4, "{law:?}: {mean}");
        }
    }

    #[test]
    fn coordinates_lead_back() {
        for law in LAWS {
            let again = Law::at(law.family(), law.coordinates());
            for ((name, a), (_, b)) in law.parameters().into_iter().zip(again.parameters()) {
                assert!((a / b - 1.0).abs() < 1e-12, "{name} of {law:?}");
            }
        }
    }
}
