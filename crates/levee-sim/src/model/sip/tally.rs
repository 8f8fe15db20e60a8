//! What became of the calls, as their callers saw it.

use levee_policy::Time;

use super::calls::Account;
use crate::schedule::Kind;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Complete,
    Incomplete,
    Unsuccessful,
}

/// Calls of one kind that are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) attempted: u64,
    pub(super) complete: u64,
    pub(super) incomplete: u64,
    pub(super) unsuccessful: u64,
    /// Calls that had a 200.
    pub(super) set_up: u64,
    /// From INVITE to 200, summed over those.
    pub(super) setup_s: f64,
    /// From INVITE to the end, summed over calls that were set up and are over.
    pub(super) stay_s: f64,
    /// How many those are.
    pub(super) stays: u64,
    /// Share of the wanted time that a call got, summed over those cut short.
    pub(super) got_shares: f64,
}

impl Counts {
    pub(super) fn note(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Complete => &mut self.complete,
            Outcome::Incomplete => &mut self.incomplete,
            Outcome::Unsuccessful => &mut self.unsuccessful,
        } += 1;
    }
}

/// Calls of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) whole: Counts,
    pub(super) second_half: Counts,
    /// Calls without a final answer now, those of the warm-up included.
    pub(super) waiting: u32,
    /// Calls in call now, those of the warm-up included.
    pub(super) in_call: u32,
    pub(super) setups_s: Vec<f64>,
    pub(super) stays_s: Vec<f64>,
    pub(super) got_shares: Vec<f64>,
}

impl Tally {
    fn clear(&mut self) {
        self.setups_s.clear();
        self.stays_s.clear();
        self.got_shares.clear();
        *self = Self {
            setups_s: std::mem::take(&mut self.setups_s),
            stays_s: std::mem::take(&mut self.stays_s),
            got_shares: std::mem::take(&mut self.got_shares),
            ..Self::default()
        };
    }

    /// The counts that a call goes into.
    fn each(&mut self, call: &Account, mut note: impl FnMut(&mut Counts)) {
        if call.counted {
            note(&mut self.whole);
        }
        if call.late {
            note(&mut self.second_half);
        }
    }
}

/// Both kinds.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies([Tally; 2]);

impl Tallies {
    pub(super) fn clear(&mut self) {
        self.0.iter_mut().for_each(Tally::clear);
    }

    pub(super) fn of(&self, kind: Kind) -> &Tally {
        &self.0[kind.index()]
    }

    pub(super) fn begun(&mut self, call: &Account) {
        let tally = &mut self.0[call.kind.index()];
        tally.waiting += 1;
        tally.each(call, |counts| counts.attempted += 1);
    }

    /// Its 200 has come.
    pub(super) fn set_up(&mut self, call: &Account) {
        let tally = &mut self.0[call.kind.index()];
        tally.waiting -= 1;
        tally.in_call += 1;
        let setup = (call.answered - call.start).as_secs_f64();
        tally.each(call, |counts| {
            counts.set_up += 1;
            counts.setup_s += setup;
        });
        if call.counted {
            tally.setups_s.push(setup);
        }
    }

    /// Writes the outcome of a call, once; whether this was the time. What lies after `horizon` does not count as time in call.
    pub(super) fn close(
        &mut self,
        call: &mut Account,
        outcome: Outcome,
        now: Time,
        horizon: Time,
    ) -> bool {
        if !std::mem::replace(&mut call.open, false) {
            return false;
        }
        let tally = &mut self.0[call.kind.index()];
        tally.each(call, |counts| counts.note(outcome));
        if outcome == Outcome::Unsuccessful {
            tally.waiting -= 1;
            return true;
        }
        tally.in_call -= 1;
        let got = now.min(horizon).since(call.answered).as_secs_f64();
        let stay = (call.answered - call.start).as_secs_f64() + got;
        tally.each(call, |counts| {
            counts.stays += 1;
            counts.stay_s += stay;
        });
        if call.counted {
            tally.stays_s.push(stay);
        }
        if outcome == Outcome::Incomplete && call.kind == Kind::Honest {
            let wanted = call.wanted.as_secs_f64();
            let share = if wanted > 0.0 {
                (got / wanted).min(1.0)
            } else {
                1.0
            };
            tally.each(call, |counts| counts.got_shares += share);
            if call.counted {
                tally.got_shares.push(share);
            }
        }
        true
    }
}
