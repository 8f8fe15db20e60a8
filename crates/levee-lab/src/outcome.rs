//! What became of each call, and of how many are held while the run goes on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use levee_sim::schedule::Kind;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It lasted as long as the caller wanted, or was still connected when the run ended.
    Complete,
    /// It was set up, and cut short by the other side.
    Incomplete,
    /// It was never set up.
    Unsuccessful,
}

/// One call as its caller saw it. Times count from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CallRecord {
    /// Honest or attacker.
    pub kind: Kind,
    /// When it was to begin: the same in each lane that meets the call.
    pub due: Duration,
    /// When the INVITE was sent.
    pub start: Duration,
    /// From INVITE to its 200.
    pub setup: Option<Duration>,
    /// How long it wanted to last from its 200 on; `None` for as long as it could.
    pub wanted: Option<Duration>,
    /// How long it lasted from its 200 on, up to the end of the run.
    pub got: Duration,
    /// How it ended.
    pub outcome: Outcome,
    /// Status of the refusal; 408 for no answer; 0 if none had come when the run ended; 200 for a call set up.
    pub status: u16,
    /// Whether it was connected when the run ended.
    pub still_connected: bool,
}

impl CallRecord {
    /// Share of the wanted time that it got; none for a call that wanted as much as it could get.
    #[must_use]
    pub fn got_share(&self) -> Option<f64> {
        let wanted = self.wanted?.as_secs_f64();
        // What wanted nothing got it all.
        let share = self.got.as_secs_f64() / wanted;
        Some(if wanted > 0.0 { share.min(1.0) } else { 1.0 })
    }

    /// From INVITE to the end of the call, if it was set up.
    #[must_use]
    pub fn in_server(&self) -> Option<Duration> {
        self.setup.map(|setup| setup + self.got)
    }
}

/// Calls of one kind so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Calls begun.
    pub attempted: u64,
    /// Lasted as long as wanted.
    pub complete: u64,
    /// Cut short.
    pub incomplete: u64,
    /// Never set up.
    pub unsuccessful: u64,
    /// Waiting for an answer now.
    pub waiting: u32,
    /// In a call now.
    pub in_call: u32,
}

impl Tally {
    pub(crate) fn ended(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Complete => self.complete += 1,
            Outcome::Incomplete => self.incomplete += 1,
            Outcome::Unsuccessful => self.unsuccessful += 1,
        }
    }
}

/// The callers' view at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the start of the run.
    pub at_s: f64,
    /// Honest calls.
    pub honest: Tally,
    /// Attackers' calls.
    pub attacker: Tally,
}

/// The samples of a run, readable while it goes on.
#[derive(Clone, Debug, Default)]
pub struct Board<S = Sample>(Arc<Mutex<Vec<S>>>);

impl<S: Copy + Default> Board<S> {
    pub(crate) fn post(&self, sample: S) {
        self.lock().push(sample);
    }

    /// The newest sample; all zero before the first.
    #[must_use]
    pub fn last(&self) -> S {
        self.lock().last().copied().unwrap_or_default()
    }

    /// All samples so far.
    #[must_use]
    pub fn samples(&self) -> Vec<S> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<S>> {
        // A sample is pushed whole or not at all, so a poisoned lock holds nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
