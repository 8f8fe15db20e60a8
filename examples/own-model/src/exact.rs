//! What is known of the queue in the long run.

use crate::Desk;

/// Long-run values of a [`Desk`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exact {
    /// Share of calls that find every agent busy.
    pub delayed: f64,
    /// Share of calls that hang up unanswered.
    pub abandoned: f64,
    /// Mean number in line.
    pub waiting: f64,
}

/// A part of the sum that is this small beside it ends it.
const NEGLIGIBLE: f64 = 1e-18;

impl Desk {
    /// From the balance of its states: with `n` at the desk, calls come at rate `1/gap` and go at rate
    /// `min(n, agents)/service + max(n - agents, 0)/patience`.
    ///
    /// Erlang A: C. Palm, "Research on telephone traffic carried by full availability groups", Tele 1 (1957).
    #[must_use]
    pub fn exact(&self) -> Exact {
        let agents = f64::from(self.agents);
        let arrivals = 1.0 / self.gap.as_secs_f64();
        let impatience = 1.0 / self.patience.as_secs_f64();
        let (mut all, mut busy, mut waiting) = (1.0, 0.0, 0.0);
        let (mut n, mut weight) = (0.0_f64, 1.0);
        if agents == 0.0 {
            busy = 1.0;
        }
        // Weights fall faster than any geometric series once the line is long.
        while weight > NEGLIGIBLE * all || n < 2.0 * agents {
            n += 1.0;
            let line = (n - agents).max(0.0);
            weight *= arrivals / (n.min(agents) / self.service.as_secs_f64() + line * impatience);
            all += weight;
            waiting += line * weight;
            if n >= agents {
                busy += weight;
            }
        }
        let waiting = waiting / all;
        Exact {
            delayed: busy / all,
            abandoned: waiting * impatience / arrivals,
            waiting,
        }
    }
}

#[cfg(test)]
mod tests {
    use levee_policy::Span;

    use super::*;

    fn close(value: f64, expect: f64) {
        assert!((value - expect).abs() < 1e-9, "{value} {expect}");
    }

    #[test]
    fn without_patience_it_is_erlang_b() {
        // A nanosecond of patience: who must wait is lost.
        let desk = Desk {
            patience: Span::from_nanos(1),
            ..Desk::busy()
        };
        let exact = desk.exact();
        close(exact.delayed, levee_sim::erlang::blocking(5, 6.0));
        close(exact.abandoned, exact.delayed);
    }

    #[test]
    fn with_patience_as_long_as_service_it_is_a_queue_of_infinitely_many() {
        // Whoever comes stays 360 s in the mean, in line or at an agent: Poisson with mean 6.
        let desk = Desk {
            patience: Desk::busy().service,
            ..Desk::busy()
        };
        let poisson = |n: i32| 6_f64.powi(n) * (-6_f64).exp() / f64::from((1..=n).product::<i32>());
        close(desk.exact().delayed, 1.0 - (0..5).map(poisson).sum::<f64>());
    }

    #[test]
    fn with_endless_patience_it_is_erlang_c() {
        // 4 Erlang on 5 agents: C = 0.5541, and 4 C in line in the mean.
        let desk = Desk {
            gap: Span::from_secs(90),
            patience: Span::from_secs(1_000_000_000),
            ..Desk::busy()
        };
        let b = levee_sim::erlang::blocking(5, 4.0);
        let c = b / (1.0 - 0.8 * (1.0 - b));
        let exact = desk.exact();
        // Of 10^9 s of patience some 10^-6 of the line is missing.
        assert!((exact.delayed - c).abs() < 1e-4, "{} {c}", exact.delayed);
        assert!((exact.waiting - 4.0 * c).abs() < 1e-3);
    }
}
