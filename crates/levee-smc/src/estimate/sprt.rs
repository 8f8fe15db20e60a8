//! Wald's sequential probability ratio test.

use super::result::Verdict;
use super::target::Side;

/// Tests `P >= bound` or `P <= bound` run by run (Wald, Annals of Mathematical Statistics 16, 1945; for model checking Younes and Simmons, CAV 2002).
///
/// Of two probabilities, `bound` plus and minus the indifference, which made the runs likelier? As soon as one is likelier by
/// `(1 - beta) / alpha`, or the other by `(1 - alpha) / beta`, that is the verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sprt {
    /// What a success and a failure add to the log of the likelihood of the alternative over that of the claim.
    success: f64,
    failure: f64,
    /// The claim is rejected from here up.
    reject: f64,
    /// It holds from here down.
    hold: f64,
    successes: u64,
    failures: u64,
    verdict: Option<Verdict>,
}

impl Sprt {
    /// A test of the claim that a probability is on `side` of `bound`.
    ///
    /// # Errors
    ///
    /// What is wrong with the numbers, and what to do.
    pub fn new(
        side: Side,
        bound: f64,
        indifference: f64,
        alpha: f64,
        beta: f64,
    ) -> Result<Self, String> {
        let is_error = |x: f64| x > 0.0 && x < 0.5;
        if !(is_error(alpha) && is_error(beta)) {
            return Err(format!(
                "error probabilities {alpha} and {beta}: each must lie between 0 and 0.5, both left out"
            ));
        }
        let (below, above) = (bound - indifference, bound + indifference);
        if !(indifference > 0.0 && below >= 0.0 && above <= 1.0 && (below > 0.0 || above < 1.0)) {
            return Err(format!(
                "indifference {indifference} around {bound}: it must be above 0, and reach neither below 0 nor above 1 nor from 0 to 1"
            ));
        }
        let (claim, other) = match side {
            Side::AtLeast => (above, below),
            Side::AtMost => (below, above),
        };
        Ok(Self {
            success: libm::log(other / claim),
            failure: libm::log((1.0 - other) / (1.0 - claim)),
            reject: libm::log((1.0 - beta) / alpha),
            hold: libm::log(beta / (1.0 - alpha)),
            successes: 0,
            failures: 0,
            verdict: None,
        })
    }

    /// Takes on the next run. Once there is a verdict, it stays.
    pub fn step(&mut self, success: bool) -> Option<Verdict> {
        if self.verdict.is_none() {
            self.successes += u64::from(success);
            self.failures += u64::from(!success);
            let ratio = self.log_ratio();
            if ratio >= self.reject {
                self.verdict = Some(Verdict::Rejected);
            } else if ratio <= self.hold {
                self.verdict = Some(Verdict::Holds);
            }
        }
        self.verdict
    }

    /// The verdict, if there is one.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    /// Runs until the verdict, or until now.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.successes + self.failures
    }

    /// How many runs it may take in all, should it go on as it went. `None` if it goes nowhere.
    pub(crate) fn forecast(&self) -> Option<f64> {
        let ratio = self.log_ratio();
        let goal = if ratio > 0.0 { self.reject } else { self.hold };
        (ratio != 0.0).then(|| self.runs() as f64 * goal / ratio)
    }

    fn log_ratio(&self) -> f64 {
        // A likelihood may be 0, its log infinite: it counts only if it happened.
        let part = |count: u64, each: f64| if count == 0 { 0.0 } else { count as f64 * each };
        part(self.successes, self.success) + part(self.failures, self.failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_against_wald() {
        // Wald, Sequential Analysis (1947), 5.3: is the share of defectives at most 0.1, or 0.3? alpha 0.02, beta 0.03. With m inspected, it is
        // accepted at -2.58 + 0.186 m defectives and rejected at 2.88 + 0.186 m.
        let fresh = Sprt::new(Side::AtMost, 0.2, 0.1, 0.02, 0.03).unwrap();
        let both = fresh.success - fresh.failure;
        let got = [
            fresh.hold / both,
            fresh.reject / both,
            -fresh.failure / both,
        ];
        for (got, wald) in got.into_iter().zip([-2.58, 2.88, 0.186]) {
            assert!((got - wald).abs() < 0.006, "{got} {wald}");
        }
        let runs_of = |success| {
            let mut test = fresh;
            (1..)
                .find(|_| test.step(success).is_some())
                .map(|n| (n, test.verdict()))
        };
        // 2.583 / 0.1862 = 13.9; 2.875 / (1 - 0.1862) = 3.5.
        assert_eq!(runs_of(false), Some((14, Some(Verdict::Holds))));
        assert_eq!(runs_of(true), Some((4, Some(Verdict::Rejected))));
    }

    #[test]
    fn sides_mirror_each_other() {
        let mut least = Sprt::new(Side::AtLeast, 0.7, 0.05, 0.01, 0.02).unwrap();
        let mut most = Sprt::new(Side::AtMost, 0.3, 0.05, 0.01, 0.02).unwrap();
        for i in 0..1_000_u32 {
            let success = i.wrapping_mul(2_654_435_761) >> 8 & 3 != 0;
            assert_eq!(least.step(success), most.step(!success));
        }
        assert_eq!(least.verdict(), Some(Verdict::Holds));
        assert_eq!(least.runs(), most.runs());
    }

    #[test]
    fn a_certain_claim_falls_with_one_failure() {
        let mut test = Sprt::new(Side::AtLeast, 0.99, 0.01, 0.01, 0.01).unwrap();
        assert_eq!(test.step(true), None);
        assert_eq!(test.step(false), Some(Verdict::Rejected));
        assert_eq!(test.step(true), Some(Verdict::Rejected));
        assert_eq!(test.runs(), 2);
    }

    #[test]
    fn impossible_tests_are_refused() {
        for (bound, indifference, alpha, beta) in [
            (0.5, 0.0, 0.05, 0.05),
            (0.5, -0.1, 0.05, 0.05),
            (0.95, 0.06, 0.05, 0.05),
            (0.05, 0.06, 0.05, 0.05),
            (0.5, 0.5, 0.05, 0.05),
            (0.5, 0.1, 0.0, 0.05),
            (0.5, 0.1, 0.05, 0.5),
            (0.5, f64::NAN, 0.05, 0.05),
        ] {
            assert!(
                Sprt::new(Side::AtLeast, bound, indifference, alpha, beta).is_err(),
                "{bound} {indifference} {alpha} {beta}"
            );
        }
        assert!(Sprt::new(Side::AtLeast, 0.95, 0.05, 0.05, 0.05).is_ok());
    }
}
