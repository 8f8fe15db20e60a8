//! Erlang's loss formula: which share of calls meets a full server, with Poisson arrivals and no queue.

/// The probability that `lines` lines offered `load` Erlang are all busy.
///
/// By the recursion B(0) = 1, B(n) = A B(n-1) / (n + A B(n-1)), which stays in range for any size.
#[must_use]
pub fn blocking(lines: u32, load: f64) -> f64 {
    (1..=lines).fold(1.0, |b, n| load * b / (f64::from(n) + load * b))
}

/// The load in Erlang at which `lines` lines block this share of the calls; 0 for no blocking.
///
/// `blocking` must be below 1: no load blocks everything.
#[must_use]
pub fn load_for(lines: u32, target: f64) -> f64 {
    if target <= 0.0 || lines == 0 {
        return 0.0;
    }
    let mut high = f64::from(lines);
    while blocking(lines, high) < target && high < 1e12 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Each step halves the interval: 100 leave less than a float can tell.
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if blocking(lines, middle) < target {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // Published tables: 24 lines at 1% carry 15.3 Erlang, 10 at 1% 4.46, 100 at 1% 84.1, 1 at 50% exactly 1.
        for (lines, target, load, tolerance) in [
            (24, 0.01, 15.3, 0.05),
            (10, 0.01, 4.46, 0.005),
            (100, 0.01, 84.1, 0.05),
            (1, 0.5, 1.0, 1e-9),
        ] {
            let found = load_for(lines, target);
            assert!(
                (found - load).abs() < tolerance,
                "{lines} {target}: {found}"
            );
        }
        // M/M/24/24 at 4.75 arrivals of mean 5: the exact long-run value.
        assert!((blocking(24, 23.75) - 0.141_124_73).abs() < 1e-7);
        // The released model's rate.
        assert!((blocking(24, 40.625) - 0.44).abs() < 0.005);
    }

    #[test]
    fn the_inverse_is_one() {
        for lines in [1, 2, 24, 500] {
            for target in [0.001, 0.01, 0.2, 0.9] {
                let load = load_for(lines, target);
                assert!((blocking(lines, load) - target).abs() < 1e-9);
            }
        }
        assert_eq!(load_for(24, 0.0), 0.0);
    }
}
