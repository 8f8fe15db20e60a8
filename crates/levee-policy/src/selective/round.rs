//! Rounds of `T_S`, `PMod` and `P1` (the paper's section 3).

use rand_core::Rng;

use crate::{Span, Time, random};

/// The current round and its count of arrivals at a full table.
///
/// Round `i` is `[i T_S, (i + 1) T_S)` from time zero, not from the first arrival: the round is then a function of the time
/// alone, so a model, a live run and a replay that starts in the middle agree on it.
#[derive(Clone, Debug)]
pub(super) struct Round {
    length: Span,
    index: u64,
    start: u32,
    pmod: u64,
    arrivals: u64,
}

/// What a round that has ended saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// There was an arrival.
    pub(super) busy: bool,
    /// There was an arrival at a full table.
    pub(super) overloaded: bool,
}

impl Round {
    pub(super) fn new(length: Span, start: u32, now: Time) -> Self {
        debug_assert!(!length.is_zero(), "validated");
        Self {
            length,
            index: now.as_nanos() / length.as_nanos(),
            start,
            pmod: u64::from(start),
            arrivals: 0,
        }
    }

    /// Goes to the round of `now`; tells of the last one if that is another.
    pub(super) fn advance(&mut self, now: Time) -> Option<Ended> {
        if now < self.end() {
            return None;
        }
        let ended = Ended {
            busy: self.arrivals > 0,
            overloaded: self.pmod > u64::from(self.start),
        };
        *self = Self::new(self.length, self.start, now);
        Some(ended)
    }

    /// The first instant that is not in this round.
    pub(super) fn end(&self) -> Time {
        Time::from_nanos((self.index + 1).saturating_mul(self.length.as_nanos()))
    }

    pub(super) fn pmod(&self) -> u64 {
        self.pmod
    }

    pub(super) fn note_arrival(&mut self) {
        self.arrivals += 1;
    }

    /// Counts an arrival at a full table.
    pub(super) fn note_overload(&mut self) {
        self.pmod += 1;
    }

    /// Whether an arrival at a full table goes on to the choice of a victim: true with `P1 = k / (k + PMod)`.
    pub(super) fn draw_p1<R: Rng + ?Sized>(&self, capacity: u32, rng: &mut R) -> bool {
        let k = u64::from(capacity);
        random::below(rng, k + self.pmod) < k
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn rounds_lie_on_a_grid_from_zero() {
        let length = Span::from_millis(100);
        let mut round = Round::new(length, 0, Time::from_nanos(250_000_000));
        assert_eq!(round.end(), Time::from_nanos(300_000_000));
        round.note_arrival();
        round.note_overload();
        assert_eq!(round.advance(Time::from_nanos(299_999_999)), None);
        assert_eq!(round.pmod(), 1);
        assert_eq!(
            round.advance(Time::from_nanos(300_000_000)),
            Some(Ended {
                busy: true,
                overloaded: true
            })
        );
        assert_eq!(round.pmod(), 0);
        assert_eq!(
            round.advance(Time::from_nanos(1_000_000_000)),
            Some(Ended {
                busy: false,
                overloaded: false
            })
        );
        assert_eq!(round.end(), Time::from_nanos(1_100_000_000));
    }

    /// Share of takers within 4.5 standard deviations (two-sided error 7e-6) of `k / (k + PMod)`.
    #[test]
    fn p1_is_k_over_k_plus_pmod() {
        let mut rng = Pcg64Mcg::new(7);
        let mut round = Round::new(Span::from_millis(100), 1, Time::ZERO);
        for pmod in 1..=40_u64 {
            assert_eq!(round.pmod(), pmod);
            let n = 20_000.0;
            let p = 24.0 / (24.0 + pmod as f64);
            let taken = (0..20_000).filter(|_| round.draw_p1(24, &mut rng)).count() as f64;
            let tolerance = 4.5 * libm::sqrt(p * (1.0 - p) / n);
            assert!(
                (taken / n - p).abs() <= tolerance,
                "PMod {pmod}: {taken} of {n}, expected {p}"
            );
            round.note_overload();
        }
    }

    #[test]
    fn the_first_overload_of_a_round_is_always_taken_in_the_papers_text() {
        let mut rng = Pcg64Mcg::new(7);
        let round = Round::new(Span::from_millis(100), 0, Time::ZERO);
        assert!((0..1_000).all(|_| round.draw_p1(1, &mut rng)));
    }
}
