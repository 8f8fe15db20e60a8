//! Models: the actors around a defence, and what can be observed of them.
//!
//! A model is one [`engine::Model`](crate::engine::Model). It runs the defence of `levee-policy` itself, not a copy of its rules, and takes its
//! calls or connections from the [`schedule`](crate::schedule) that a live run takes them from. It is made once from a plain
//! setup and restarted for each run, so that runs allocate nothing.

pub mod anycast;
pub mod http;
pub mod sip;
pub mod thinner;

use levee_policy::Time;

use crate::engine::{Model, TieOrder};

/// A number that can be read off a run at any moment, or a list of numbers that a run collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observable {
    /// Its name in queries: `honest.complete`.
    pub name: &'static str,
    /// Its unit: `calls`, `s`; empty for a plain number.
    pub unit: &'static str,
    /// What it says, in a few words.
    pub meaning: &'static str,
}

/// A model that can be looked at.
pub trait Observed {
    /// What one number each can be asked for.
    fn observables() -> &'static [Observable];

    /// The value at `now` of an observable by its index; not a number for one that does not exist, or has no value yet.
    fn observe(&self, now: Time, index: usize) -> f64;

    /// What a run collects many numbers of. They are complete at its end.
    fn samples() -> &'static [Observable] {
        &[]
    }

    /// The numbers collected so far, by index; none for one that does not exist.
    fn sample(&self, index: usize) -> &[f64] {
        let _ = index;
        &[]
    }
}

/// A model that can be run again and again: what a checker needs.
pub trait Rerun: Model + Observed + Clone {
    /// Goes back to the start, for run `run`: what follows depends on `run` alone.
    fn restart(&mut self, run: u64);

    /// When its runs are over.
    fn end(&self) -> Time;

    /// Which of two messages of the same instant is served first.
    fn ties(&self) -> TieOrder {
        TieOrder::default()
    }
}

impl Rerun for sip::Sip {
    fn restart(&mut self, run: u64) {
        Self::restart(self, run);
    }

    fn end(&self) -> Time {
        Self::end(self)
    }

    fn ties(&self) -> TieOrder {
        self.setup().ties
    }
}

impl Rerun for sip::released::Released {
    fn restart(&mut self, run: u64) {
        Self::restart(self, run);
    }

    fn end(&self) -> Time {
        Self::end(self)
    }

    fn ties(&self) -> TieOrder {
        Self::ties(self)
    }
}

impl Rerun for http::Http {
    fn restart(&mut self, run: u64) {
        Self::restart(self, run);
    }

    fn end(&self) -> Time {
        Self::end(self)
    }
}

impl Rerun for thinner::SpeakUp {
    fn restart(&mut self, run: u64) {
        Self::restart(self, run);
    }

    fn end(&self) -> Time {
        Self::end(self)
    }
}

impl Rerun for anycast::Anycast {
    fn restart(&mut self, run: u64) {
        Self::restart(self, run);
    }

    fn end(&self) -> Time {
        Self::end(self)
    }
}
