//! The drop factor `d` (the paper's equation 1): how readily a held call is given up for a newcomer.

use core::f64::consts::LN_2;

use serde::{Deserialize, Serialize};

use super::CallState;
use crate::{Span, Time};

/// `p_WAIT` of the paper's experiments.
pub const WAITING: f64 = 8.0;
/// `p_IN` of the paper's experiments.
pub const IN_CALL: f64 = 2.0;
/// `alpha` of the paper's experiments.
pub const ALPHA: f64 = 1.89;
/// The factor before the exponential that gives the paper's printed samples d(6) 12.37, d(8) 17.31, d(10) 27.84. The released
/// model has 1 there.
pub const SCALE: f64 = 0.453;
/// `t_M` of the paper's experiments, one unit taken as a second.
pub const MEAN_CALL: Span = Span::from_secs(5);

/// The parameters of the drop factor.
///
/// ```text
/// d(t) = waiting                                     while WAITING
///        in_call                                     while INCALL and t <= mean_call
///        waiting + scale * exp(alpha t / mean_call)  while INCALL and t >  mean_call
/// ```
///
/// `t` runs from the arrival of the INVITE.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DropFactor {
    /// `p_WAIT`, of a call in set-up; more than 0.
    pub waiting: f64,
    /// `p_IN`, of a call not longer than usual; more than 0.
    pub in_call: f64,
    /// How fast `d` grows past `mean_call`, from 0.
    pub alpha: f64,
    /// The factor before the exponential, from 0.
    pub scale: f64,
    /// `t_M`, the mean time of a call.
    pub mean_call: Span,
}

impl Default for DropFactor {
    fn default() -> Self {
        Self {
            waiting: WAITING,
            in_call: IN_CALL,
            alpha: ALPHA,
            scale: SCALE,
            mean_call: MEAN_CALL,
        }
    }
}

impl DropFactor {
    /// `d` of a call of class factor 1. Infinite when the exponential passes the range of a float (with the defaults, after
    /// half an hour); [`ln_of`](Self::ln_of) goes on.
    #[must_use]
    pub fn of(&self, state: CallState, age: Span) -> f64 {
        match state {
            CallState::Waiting => self.waiting,
            CallState::InCall if age <= self.mean_call => self.in_call,
            CallState::InCall => self.past_mean(age),
        }
    }

    /// The natural logarithm of [`of`](Self::of), finite for every age.
    #[must_use]
    pub fn ln_of(&self, state: CallState, age: Span) -> f64 {
        match state {
            CallState::InCall if self.is_old(age) => self.ln_past_mean(age),
            _ => libm::log(self.of(state, age)),
        }
    }

    /// The third line of the definition; it grows with `age` at every age.
    pub(super) fn past_mean(&self, age: Span) -> f64 {
        // With `scale` 0 the exponential may be infinite, and the product must be 0.
        if self.scale == 0.0 {
            self.waiting
        } else {
            self.waiting + self.scale * libm::exp(self.growth(age))
        }
    }

    /// The natural logarithm of [`past_mean`](Self::past_mean), finite for every age.
    pub(super) fn ln_past_mean(&self, age: Span) -> f64 {
        let d = self.past_mean(age);
        // Where the exponential overflows, `waiting` is far below the last digit (validation bounds it).
        if d < f64::INFINITY {
            libm::log(d)
        } else {
            libm::log(self.scale) + self.growth(age)
        }
    }

    /// Whether a call of this age is longer than usual.
    pub(super) fn is_old(&self, age: Span) -> bool {
        age > self.mean_call
    }

    /// Whether two old calls of different age differ in `d`.
    pub(super) fn grows(&self) -> bool {
        self.alpha > 0.0 && self.scale > 0.0
    }

    /// Time in units in which the exponential doubles; 0 if it does not grow.
    pub(super) fn doublings(&self, time: Time) -> f64 {
        time.as_nanos() as f64 * (self.alpha / (self.mean_call.as_nanos() as f64 * LN_2))
    }

    fn growth(&self, age: Span) -> f64 {
        self.alpha * (age.as_nanos() as f64 / self.mean_call.as_nanos() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truncated(value: f64) -> f64 {
        libm::trunc(value * 100.0) / 100.0
    }

    /// The three samples that the paper prints, to its two decimals.
    #[test]
    fn the_papers_samples() {
        let d = DropFactor::default();
        for (age, printed) in [(6, 12.37), (8, 17.31), (10, 27.84)] {
            assert_eq!(
                truncated(d.of(CallState::InCall, Span::from_secs(age))),
                printed
            );
        }
    }

    #[test]
    fn the_boundary_belongs_to_the_usual_calls() {
        let d = DropFactor::default();
        let at = MEAN_CALL;
        let after = at + Span::from_nanos(1);
        assert_eq!(d.of(CallState::InCall, at), IN_CALL);
        assert!(d.of(CallState::InCall, after) > WAITING);
        assert!(!d.is_old(at) && d.is_old(after));
        for age in [Span::ZERO, at, after, Span::MAX] {
            assert_eq!(d.of(CallState::Waiting, age), WAITING);
        }
    }

    #[test]
    fn the_logarithm_goes_on_where_the_float_ends() {
        let d = DropFactor::default();
        let age = Span::from_secs(30 * 86_400);
        assert_eq!(d.of(CallState::InCall, age), f64::INFINITY);
        let ln = d.ln_of(CallState::InCall, age);
        let expected = libm::log(SCALE) + ALPHA * 518_400.0;
        assert!((ln - expected).abs() < 1e-6, "{ln} against {expected}");
        let young = Span::from_secs(6);
        assert!(
            (d.ln_of(CallState::InCall, young) - libm::log(d.of(CallState::InCall, young))).abs()
                < 1e-12
        );
    }
}
