//! The regularised incomplete gamma function and the tail of the normal distribution.

/// Most terms of a series or a fraction; some `5 sqrt(a)` are needed, and shapes stay below 10,000.
const TERMS_MAX: u32 = 5_000;
/// Where a further term no longer changes a float.
const EPSILON: f64 = 1e-16;

/// `Q(a, x)`: the probability that a gamma variable of shape `a` and scale 1 is above `x`.
///
/// By its series below `a + 1` and by its continued fraction above (DLMF 8.11.4 and 8.9.2), where each converges fast.
pub(super) fn gamma_q(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    if x.is_infinite() {
        return 0.0;
    }
    let front = libm::exp(a * libm::log(x) - x - libm::lgamma(a));
    if x < a + 1.0 {
        1.0 - front * series(a, x)
    } else {
        front * fraction(a, x)
    }
}

/// The sum of `x^n / (a (a+1) … (a+n))`.
fn series(a: f64, x: f64) -> f64 {
    let mut term = 1.0 / a;
    let mut sum = term;
    let mut n = a;
    for _ in 0..TERMS_MAX {
        n += 1.0;
        term *= x / n;
        sum += term;
        if term < sum * EPSILON {
            break;
        }
    }
    sum
}

/// `1/(x+1-a- 1(1-a)/(x+3-a- …))`, by the modified method of Lentz.
fn fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut product = d;
    for i in 1..=TERMS_MAX {
        let i = f64::from(i);
        let an = i * (a - i);
        b += 2.0;
        let keep = |v: f64| if v.abs() < TINY { TINY } else { v };
        d = 1.0 / keep(an * d + b);
        c = keep(b + an / c);
        let factor = c * d;
        product *= factor;
        if (factor - 1.0).abs() < EPSILON * 4.0 {
            break;
        }
    }
    product
}

/// The probability that a standard normal variable is above `z`.
pub(super) fn normal_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use statrs::function::gamma::gamma_ur;

    use super::*;

    #[test]
    fn it_agrees_with_another_implementation_on_both_sides_of_the_switch() {
        for a in [0.05, 0.5, 1.0, 2.0, 7.5, 40.0, 900.0] {
            for times in [1e-6, 0.01, 0.5, 0.97, 1.0, 1.03, 2.0, 8.0] {
                let x = a * times;
                let (ours, theirs) = (gamma_q(a, x), gamma_ur(a, x));
                let tolerance = 1e-9 * theirs + 1e-13;
                assert!(
                    (ours - theirs).abs() <= tolerance,
                    "Q({a}, {x}): {ours} against {theirs}"
                );
            }
        }
    }

    #[test]
    fn a_shape_of_one_is_the_exponential() {
        for x in [0.0, 1e-9, 0.3, 1.9, 2.1, 30.0, 600.0] {
            let exact = libm::exp(-x);
            assert!(
                (gamma_q(1.0, x) - exact).abs() <= 1e-13 * exact + 1e-16,
                "{x}"
            );
        }
        assert_eq!(gamma_q(1.0, f64::INFINITY), 0.0);
    }

    #[test]
    fn the_normal_tail_at_its_known_points() {
        for (z, tail) in [(0.0, 0.5), (1.959_963_985, 0.025), (-1.644_853_627, 0.95)] {
            assert!((normal_tail(z) - tail).abs() < 1e-9);
        }
    }
}
