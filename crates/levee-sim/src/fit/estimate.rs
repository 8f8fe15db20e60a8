//! Maximum likelihood.
//!
//! The likelihood is that of what is written down (see [`Sample`]), so whole seconds bias nothing. It has at most two parameters. It
//! is climbed by Newton's method from the estimate of moments, in coordinates where it is close to a paraboloid, with
//! derivatives by central differences, and halved steps where a full one does not climb. The curvature at the top is the
//! observed information, which gives the standard errors.

use super::distance::{self, Distance};
use super::law::{Family, Law};
use super::sample::Sample;

/// Steps of Newton's method; five to eight are usual.
const STEPS_MAX: u32 = 60;
/// Halvings of a step that does not climb.
const HALVINGS_MAX: u32 = 40;
/// Step of the central differences, in logarithms: errors of its square, 1e-8 relative, and far above the rounding of a sum.
const DIFFERENCE: f64 = 1e-4;
/// The climb ends when a step promises less than this in the mean log-likelihood of a call.
const GAIN_MIN: f64 = 1e-13;
/// Bounds of the coordinates: a place from a microsecond to 30 years, a form from a thousandth to 10,000.
const PLACE: (f64, f64) = (-14.0, 21.0);
const FORM: (f64, f64) = (-7.0, 9.2);

/// One family, fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The most likely member of the family.
    pub law: Law,
    /// Its parameters with their standard errors.
    pub parameters: Vec<Parameter>,
    /// The mean in seconds.
    pub mean: f64,
    /// Standard error of the mean.
    pub mean_error: f64,
    /// Natural logarithm of the likelihood of all calls as they are written down.
    pub log_likelihood: f64,
    /// Akaike's criterion, `2 parameters - 2 log_likelihood`: smaller is better.
    pub aic: f64,
    /// Schwarz's criterion, `parameters ln(calls) - 2 log_likelihood`.
    pub bic: f64,
    /// How far it is from the data.
    pub distance: Distance,
    /// Whether a top of the likelihood was found inside the bounds.
    pub converged: bool,
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// The estimate.
    pub value: f64,
    /// Its standard error, from the observed information.
    pub error: f64,
}

/// Fits all families, the one with the smallest AIC first.
#[must_use]
pub(super) fn all(sample: &Sample, seed: u64) -> Vec<Fit> {
    let mut fits = Family::ALL
        .map(|family| one(sample, family, Some(seed)))
        .to_vec();
    fits.sort_by(|a, b| a.aic.total_cmp(&b.aic));
    fits
}

/// Fits one family. Without a seed there is no p-value.
pub(super) fn one(sample: &Sample, family: Family, seed: Option<u64>) -> Fit {
    let climb = Climb {
        sample,
        family,
        dimensions: family.parameters(),
    };
    let (at, arrived) = climb.climb(start(sample, family));
    let law = Law::at(family, at);
    let n = sample.len() as f64;
    let (_, curvature) = climb.derivatives(at);
    // A ridge or a plain is no top.
    let converged = arrived && is_downwards(curvature, climb.dimensions);
    let covariance = inverse(curvature, climb.dimensions).map(|row| row.map(|v| -v / n));
    let log_likelihood = sample.ln_likelihood(&law) * n;
    let parameters = family.parameters() as f64;
    let error = |of: &dyn Fn(&Law) -> f64| delta(family, at, &covariance, of);
    Fit {
        parameters: law
            .parameters()
            .into_iter()
            .enumerate()
            .map(|(i, (name, value))| Parameter {
                name,
                value,
                error: error(&|law| law.parameters().get(i).map_or(0.0, |p| p.1)),
            })
            .collect(),
        mean: law.mean(),
        mean_error: error(&Law::mean),
        log_likelihood,
        aic: 2.0 * parameters - 2.0 * log_likelihood,
        bic: parameters * libm::log(n) - 2.0 * log_likelihood,
        distance: distance::measure(sample, family, at, seed.filter(|_| converged)),
        law,
        converged,
    }
}

struct Climb<'s> {
    sample: &'s Sample,
    family: Family,
    dimensions: usize,
}

impl Climb<'_> {
    fn height(&self, at: [f64; 2]) -> f64 {
        self.sample.ln_likelihood(&Law::at(self.family, at))
    }

    fn climb(&self, mut at: [f64; 2]) -> ([f64; 2], bool) {
        let mut height = self.height(at);
        for _ in 0..STEPS_MAX {
            let (slope, curvature) = self.derivatives(at);
            let step = ascent(slope, curvature, self.dimensions);
            let promised: f64 = slope.iter().zip(step).map(|(g, s)| g * s).sum::<f64>() / 2.0;
            if promised.abs() < GAIN_MIN {
                return (at, is_inside(at));
            }
            let Some(higher) = self.step(at, step, height) else {
                // No way up that a float can tell.
                return (at, is_inside(at) && promised.abs() < GAIN_MIN * 1e4);
            };
            (at, height) = higher;
        }
        (at, false)
    }

    /// The longest of the step, its half, its quarter … that climbs.
    fn step(&self, at: [f64; 2], step: [f64; 2], height: f64) -> Option<([f64; 2], f64)> {
        let mut scale = 1.0;
        for _ in 0..HALVINGS_MAX {
            let next = bounded([at[0] + scale * step[0], at[1] + scale * step[1]]);
            let reached = self.height(next);
            if reached > height {
                return Some((next, reached));
            }
            scale /= 2.0;
        }
        None
    }

    /// Gradient and Hessian of the mean log-likelihood, by central differences.
    fn derivatives(&self, at: [f64; 2]) -> ([f64; 2], [[f64; 2]; 2]) {
        let h = DIFFERENCE;
        let f = |i: f64, j: f64| self.height([at[0] + i * h, at[1] + j * h]);
        let middle = f(0.0, 0.0);
        let (east, west) = (f(1.0, 0.0), f(-1.0, 0.0));
        let mut slope = [(east - west) / (2.0 * h), 0.0];
        let mut curvature = [[(east - 2.0 * middle + west) / (h * h), 0.0], [0.0, 0.0]];
        if self.dimensions == 2 {
            let (north, south) = (f(0.0, 1.0), f(0.0, -1.0));
            slope[1] = (north - south) / (2.0 * h);
            curvature[1][1] = (north - 2.0 * middle + south) / (h * h);
            let cross = (f(1.0, 1.0) - f(1.0, -1.0) - f(-1.0, 1.0) + f(-1.0, -1.0)) / (4.0 * h * h);
            curvature[0][1] = cross;
            curvature[1][0] = cross;
        }
        (slope, curvature)
    }
}

/// Newton's step where the likelihood is curved downwards, and one along the slope where it is not.
fn ascent(slope: [f64; 2], curvature: [[f64; 2]; 2], dimensions: usize) -> [f64; 2] {
    /// Longest step: a factor of e squared.
    const LONGEST: f64 = 2.0;
    let mut step = slope;
    if is_downwards(curvature, dimensions) {
        let m = inverse(curvature, dimensions);
        step = [
            -(m[0][0] * slope[0] + m[0][1] * slope[1]),
            -(m[1][0] * slope[0] + m[1][1] * slope[1]),
        ];
    }
    let length = libm::hypot(step[0], step[1]);
    let scale = if length > LONGEST {
        LONGEST / length
    } else {
        1.0
    };
    step.map(|s| s * scale)
}

fn is_downwards([[a, b], [_, d]]: [[f64; 2]; 2], dimensions: usize) -> bool {
    a < 0.0 && (dimensions == 1 || a * d - b * b > 0.0)
}

/// The inverse of the upper left part of a matrix; zero where it has none.
pub(super) fn inverse([[a, b], [c, d]]: [[f64; 2]; 2], dimensions: usize) -> [[f64; 2]; 2] {
    let determinant = if dimensions == 1 { a } else { a * d - b * c };
    if determinant == 0.0 || !determinant.is_finite() {
        return [[0.0; 2]; 2];
    }
    if dimensions == 1 {
        [[1.0 / a, 0.0], [0.0, 0.0]]
    } else {
        [
            [d / determinant, -b / determinant],
            [-c / determinant, a / determinant],
        ]
    }
}

/// Standard error of a function of the coordinates, by the delta method.
fn delta(
    family: Family,
    at: [f64; 2],
    covariance: &[[f64; 2]; 2],
    of: &dyn Fn(&Law) -> f64,
) -> f64 {
    let h = DIFFERENCE;
    let f = |i: f64, j: f64| of(&Law::at(family, [at[0] + i * h, at[1] + j * h]));
    let slope = [
        (f(1.0, 0.0) - f(-1.0, 0.0)) / (2.0 * h),
        (f(0.0, 1.0) - f(0.0, -1.0)) / (2.0 * h),
    ];
    let mut variance = 0.0;
    for (row, left) in covariance.iter().zip(slope) {
        for (entry, right) in row.iter().zip(slope) {
            variance += entry * left * right;
        }
    }
    libm::sqrt(variance.max(0.0))
}

fn bounded([place, form]: [f64; 2]) -> [f64; 2] {
    [place.clamp(PLACE.0, PLACE.1), form.clamp(FORM.0, FORM.1)]
}

fn is_inside([place, form]: [f64; 2]) -> bool {
    place > PLACE.0 && place < PLACE.1 && form > FORM.0 && form < FORM.1
}

/// Where the climb begins: estimates by moments of the durations and of their logarithms, each bin at its middle.
fn start(sample: &Sample, family: Family) -> [f64; 2] {
    let n = sample.len() as f64;
    let mut mean = 0.0;
    let mut ln_mean = 0.0;
    let mut ln_square = 0.0;
    for bin in sample.occupied() {
        let weight = bin.n as f64 / n;
        let x = sample.middle(bin);
        let ln = libm::log(x);
        mean += weight * x;
        ln_mean += weight * ln;
        ln_square += weight * ln * ln;
    }
    let ln_deviation = libm::sqrt((ln_square - ln_mean * ln_mean).max(1e-6));
    let at = match family {
        Family::Exponential => [libm::log(mean), 0.0],
        Family::Lognormal => [ln_mean, libm::log(ln_deviation)],
        Family::Gamma => {
            // Thom's approximation of the shape from ln(mean) - mean(ln).
            let s = (libm::log(mean) - ln_mean).max(1e-6);
            let shape = (3.0 - s + libm::sqrt((s - 3.0) * (s - 3.0) + 24.0 * s)) / (12.0 * s);
            [libm::log(mean), libm::log(shape)]
        }
        Family::Weibull => {
            // The logarithm is a Gumbel variable of deviation pi/(sqrt(6) shape) and mean ln(scale) - gamma/shape.
            const GUMBEL_DEVIATION: f64 = 1.282_549_830_161_864;
            const EULER: f64 = 0.577_215_664_901_532_9;
            let shape = GUMBEL_DEVIATION / ln_deviation;
            [ln_mean + EULER / shape, libm::log(shape)]
        }
    };
    bounded(at)
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng as _;
    use rand_pcg::Pcg64;

    use super::super::law::tests::LAWS;
    use super::super::sample::Rounding;
    use super::*;
    use crate::fit::tests::draw;

    fn sample(law: &Law, n: u32, grain: f64, rounding: Rounding, seed: u64) -> Sample {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut sample = Sample::new(grain, rounding);
        for _ in 0..n {
            let phase = crate::fit::tests::unit(&mut rng);
            let x = draw(law, &mut rng) / grain;
            sample.add(match rounding {
                Rounding::Down => x.floor(),
                Rounding::Nearest => x.round(),
                Rounding::Up => x.ceil(),
                Rounding::Difference => (phase + x).floor(),
            } as u64);
        }
        sample
    }

    const ROUNDINGS: [Rounding; 4] = [
        Rounding::Down,
        Rounding::Nearest,
        Rounding::Up,
        Rounding::Difference,
    ];

    /// Also where the grain is a third of the mean: a fit that takes 0, 30, 60 … for exact durations is far off there.
    #[test]
    fn parameters_come_back_within_five_standard_errors_however_coarse_the_seconds() {
        for (i, law) in LAWS.iter().enumerate() {
            for (grain, rounding) in ROUNDINGS
                .map(|rounding| (30.0, rounding))
                .into_iter()
                .chain([(0.001, Rounding::Nearest), (1.0, Rounding::Difference)])
            {
                let sample = sample(law, 3_000, grain, rounding, 10 + i as u64);
                let fit = one(&sample, law.family(), None);
                assert!(fit.converged, "{law:?}");
                for (found, (name, truth)) in fit.parameters.iter().zip(law.parameters()) {
                    assert!(found.error > 0.0 && found.error < truth.abs() / 2.0);
                    assert!(
                        (found.value - truth).abs() < 5.0 * found.error,
                        "{name} of {law:?} by {grain} {rounding:?}: {found:?}"
                    );
                }
                assert!(
                    (fit.mean - law.mean()).abs() < 5.0 * fit.mean_error,
                    "{law:?}"
                );
            }
        }
    }

    /// The mean of an exponential sample is its maximum likelihood estimate, and its standard error is mean / sqrt(n).
    #[test]
    fn the_exponential_has_its_closed_form() {
        let sample = sample(&LAWS[0], 2_000, 1e-6, Rounding::Nearest, 3);
        let fit = one(&sample, Family::Exponential, None);
        // Half the width of a bin.
        assert!((fit.mean / sample.mean() - 1.0).abs() < 5e-4);
        assert!((fit.mean_error / (fit.mean / 2_000f64.sqrt()) - 1.0).abs() < 1e-3);
        let exact = -2_000.0 * (1.0 + sample.mean().ln() + 6.0 * 10f64.ln());
        assert!(
            (fit.log_likelihood - exact).abs() < 0.1,
            "{} {exact}",
            fit.log_likelihood
        );
        assert!((fit.aic - (2.0 - 2.0 * fit.log_likelihood)).abs() < 1e-9);
        assert!((fit.bic - (2_000f64.ln() - 2.0 * fit.log_likelihood)).abs() < 1e-9);
    }

    /// Errors in units of their standard error have mean 0 and variance 1: the standard errors are neither small nor large.
    #[test]
    fn standard_errors_have_their_size() {
        let law = LAWS[2];
        let runs = 200;
        let mut sums = [0.0; 2];
        let mut squares = [0.0; 2];
        for seed in 0..runs {
            let sample = sample(&law, 300, 20.0, Rounding::Down, seed);
            let fit = one(&sample, Family::Gamma, None);
            for (i, (found, (_, truth))) in fit.parameters.iter().zip(law.parameters()).enumerate()
            {
                // On the logarithm, where the estimate is closest to normal.
                let z = (found.value / truth).ln() / (found.error / found.value);
                sums[i] += z;
                squares[i] += z * z;
            }
        }
        let n = runs as f64;
        for i in 0..2 {
            // The estimate's own bias is of order 1/sqrt(300) of a standard error.
            assert!((sums[i] / n).abs() < 5.0 / n.sqrt() + 0.1, "{sums:?}");
            assert!(
                (squares[i] / n - 1.0).abs() < 5.0 * (2.0 / n).sqrt(),
                "{squares:?}"
            );
        }
    }

    #[test]
    fn the_right_family_has_the_least_aic() {
        for (i, law) in LAWS.iter().enumerate() {
            let sample = sample(law, 5_000, 1.0, Rounding::Down, 40 + i as u64);
            let fits = all(&sample, 1);
            if law.family() == Family::Exponential {
                // Gamma and Weibull hold the exponential; twice the gain of one parameter is chi-squared, 25 in five deviations.
                let own = fits
                    .iter()
                    .find(|f| f.law.family() == law.family())
                    .unwrap();
                assert!(own.aic - fits[0].aic < 25.0 - 2.0);
                assert_ne!(fits[0].law.family(), Family::Lognormal);
            } else {
                assert_eq!(fits[0].law.family(), law.family(), "{law:?}");
            }
        }
    }

    /// A zero that cannot be told from a call without answer is left out, and biases nothing.
    #[test]
    fn zeros_may_be_left_out() {
        let law = LAWS[3];
        let all = sample(&law, 4_000, 10.0, Rounding::Down, 5);
        let mut cut = Sample::new(10.0, Rounding::Down);
        cut.leave_out_zeros();
        for bin in all.occupied().filter(|bin| bin.low > 0) {
            (0..bin.n).for_each(|_| cut.add(bin.low));
        }
        assert!(cut.len() < all.len() * 4 / 5, "no test without zeros");
        let fit = one(&cut, Family::Gamma, None);
        for (found, (name, truth)) in fit.parameters.iter().zip(law.parameters()) {
            assert!(
                (found.value - truth).abs() < 5.0 * found.error,
                "{name}: {found:?}"
            );
        }
    }

    #[test]
    fn a_sample_without_spread_has_no_top() {
        let mut sample = Sample::new(1.0, Rounding::Down);
        (0..100).for_each(|_| sample.add(60));
        for family in [Family::Lognormal, Family::Gamma, Family::Weibull] {
            let fit = one(&sample, family, None);
            assert!(!fit.converged && fit.log_likelihood.is_finite(), "{fit:?}");
            assert_eq!(fit.distance.p_value, None);
        }
    }
}
