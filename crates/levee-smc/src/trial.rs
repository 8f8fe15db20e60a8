//! What is checked.

use std::borrow::Cow;

/// Something that can be observed of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observable {
    /// Its name in queries: `honest.complete`.
    pub name: Cow<'static, str>,
    /// Its unit: `calls`, `s`; empty for a plain number.
    pub unit: Cow<'static, str>,
    /// What it says, in a few words.
    pub meaning: Cow<'static, str>,
}

/// A system that can be run again and again.
pub trait Trial: Sync {
    /// One run at a time, with the memory of the one before.
    type Execution: Execution;

    /// What one number each can be asked for at any moment. `s.rval(n)` counts them from 1.
    fn observables(&self) -> &[Observable];

    /// What a run collects many values of, such as a time of each call. They may be asked for at its end.
    fn samples(&self) -> &[Observable] {
        &[]
    }

    /// A place to run it. Each thread has its own.
    fn execution(&self) -> Self::Execution;
}

/// A run.
pub trait Execution {
    /// Goes to the first state of run `run`. What follows depends on `run` alone: not on earlier runs, on the thread or on the machine.
    fn start(&mut self, run: u64);

    /// Goes on to the next state. False if there is none, and then the last state stays.
    fn step(&mut self) -> bool;

    /// Goes on to the last state.
    fn finish(&mut self) {
        while self.step() {}
    }

    /// Why the run cannot go on although it is not over, if that is so. It ends the check.
    fn failure(&self) -> Option<String> {
        None
    }

    /// The value, now, of an observable by its index in [`Trial::observables`].
    fn observe(&self, observable: usize) -> f64;

    /// The values of this run by their index in [`Trial::samples`].
    fn sample(&self, samples: usize) -> &[f64] {
        let _ = samples;
        &[]
    }
}
