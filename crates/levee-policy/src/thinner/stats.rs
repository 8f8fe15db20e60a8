//! What the thinner counts.

use serde::Serialize;

use super::{Outcome, RefuseCause};

/// Counts since the start; each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// New requests.
    pub arrivals: u64,
    /// Of them, those that had to wait.
    pub held: u64,
    /// Passed on to the server, at once or after waiting.
    pub admitted: u64,
    /// Turned away, by cause.
    pub refused: Refused,
    /// Contenders whose client left.
    pub left: u64,
    /// Requests that left the server, by outcome.
    pub done: Done,
    /// Units that were paid by contenders, or with a quantum in service.
    pub paid: u64,
    /// Units that new requests brought with them. One that is refused and comes again brings them again.
    pub brought: u64,
    /// Of both, those that bought a place or a quantum.
    pub spent: u64,
    /// Of both, those that did not: of requests that were refused, left or aborted, or that ended with something left.
    pub forfeited: u64,
    /// Times that demand came to exceed capacity.
    pub overloads: u64,
    /// Requests suspended for one that paid more.
    pub suspended: u64,
    /// Suspended requests that got the server again.
    pub resumed: u64,
    /// Requests taken from the server for good.
    pub aborted: u64,
    /// Quanta that a request went on for since nobody had paid more.
    pub renewed: u64,
    /// Requests passed on without being tracked, since [`TRACKED_BEYOND`](super::TRACKED_BEYOND) was reached.
    pub untracked: u64,
    /// Configurations taken.
    pub reconfigured: u64,
    /// Configurations that were not valid; the old one was kept.
    pub reconfigure_rejected: u64,
    /// Inputs that did not fit, by kind; all were left without effect.
    pub ignored: Ignored,
}

/// Refusals by [`RefuseCause`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Refused {
    /// [`RefuseCause::Drawn`].
    pub drawn: u64,
    /// [`RefuseCause::Unpaid`].
    pub unpaid: u64,
    /// [`RefuseCause::Outbid`].
    pub outbid: u64,
    /// [`RefuseCause::Crowded`].
    pub crowded: u64,
}

impl Refused {
    /// All refusals.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.drawn + self.unpaid + self.outbid + self.crowded
    }

    /// Refusals for this cause.
    #[must_use]
    pub fn of(&self, cause: RefuseCause) -> u64 {
        match cause {
            RefuseCause::Drawn => self.drawn,
            RefuseCause::Unpaid => self.unpaid,
            RefuseCause::Outbid => self.outbid,
            RefuseCause::Crowded => self.crowded,
        }
    }

    pub(super) fn note(&mut self, cause: RefuseCause) {
        *match cause {
            RefuseCause::Drawn => &mut self.drawn,
            RefuseCause::Unpaid => &mut self.unpaid,
            RefuseCause::Outbid => &mut self.outbid,
            RefuseCause::Crowded => &mut self.crowded,
        } += 1;
    }
}

/// Requests that left the server, by [`Outcome`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Done {
    /// [`Outcome::Answered`].
    pub answered: u64,
    /// [`Outcome::Failed`].
    pub failed: u64,
    /// [`Outcome::Broken`].
    pub broken: u64,
}

impl Done {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.answered + self.failed + self.broken
    }

    pub(super) fn note(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Answered => &mut self.answered,
            Outcome::Failed => &mut self.failed,
            Outcome::Broken => &mut self.broken,
        } += 1;
    }
}

/// Inputs that did not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Ignored {
    /// An arrival with the key of a request that is known.
    pub duplicate_arrivals: u64,
    /// A payment of a request that is unknown, at the server already, or in a mode without payment.
    pub late_payments: u64,
    /// A leave of a request that is no contender.
    pub late_leaves: u64,
    /// An end of a request that is unknown or has not been admitted.
    pub unknown_ends: u64,
}
