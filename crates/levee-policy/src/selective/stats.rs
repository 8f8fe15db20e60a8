//! What the defence counts.

use serde::Serialize;

use super::{CallState, EvictCause, PHASES_MAX, PhaseId, RefuseCause};

/// Counts since the start; each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// New calls that asked to come in.
    pub arrivals: u64,
    /// Of them, taken into the table.
    pub admitted: u64,
    /// Passed on to the server.
    pub forwarded: u64,
    /// Turned away, by cause.
    pub refused: Refused,
    /// Dropped, by state and cause.
    pub evicted: Evicted,
    /// Of the evicted, those that had not been passed on yet.
    pub evicted_unforwarded: u64,
    /// WAITING calls that became INCALL.
    pub answered: u64,
    /// Calls that ended by themselves.
    pub ended: u64,
    /// Evicted calls whose slot has become free.
    pub evictions_done: u64,
    /// Rounds that had an arrival.
    pub rounds: u64,
    /// Rounds that had an arrival at a full table.
    pub rounds_overloaded: u64,
    /// Arrivals at a full table that drew for `P1`.
    pub p1_used: u64,
    /// Draws of a victim (`P2`).
    pub p2_used: u64,
    /// Always-admitted calls passed on beyond the capacity, for want of a victim.
    pub over_capacity: u64,
    /// Calls passed on without being tracked, since [`TRACKED_BEYOND`](super::TRACKED_BEYOND) was reached.
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
    /// [`RefuseCause::Overload`].
    pub overload: u64,
    /// [`RefuseCause::Full`].
    pub full: u64,
    /// [`RefuseCause::NoVictim`].
    pub no_victim: u64,
    /// [`RefuseCause::CallerLimit`].
    pub caller_limit: u64,
    /// [`RefuseCause::SourceLimit`].
    pub source_limit: u64,
}

impl Refused {
    /// All refusals.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.overload + self.full + self.no_victim + self.caller_limit + self.source_limit
    }

    /// Refusals for this cause.
    #[must_use]
    pub fn of(&self, cause: RefuseCause) -> u64 {
        match cause {
            RefuseCause::Overload => self.overload,
            RefuseCause::Full => self.full,
            RefuseCause::NoVictim => self.no_victim,
            RefuseCause::CallerLimit => self.caller_limit,
            RefuseCause::SourceLimit => self.source_limit,
        }
    }

    pub(super) fn note(&mut self, cause: RefuseCause) {
        *match cause {
            RefuseCause::Overload => &mut self.overload,
            RefuseCause::Full => &mut self.full,
            RefuseCause::NoVictim => &mut self.no_victim,
            RefuseCause::CallerLimit => &mut self.caller_limit,
            RefuseCause::SourceLimit => &mut self.source_limit,
        } += 1;
    }
}

/// Evictions by [`CallState`] and [`EvictCause`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Evicted {
    /// WAITING, for a newcomer.
    pub waiting_displaced: u64,
    /// INCALL, for a newcomer.
    pub in_call_displaced: u64,
    /// INCALL for as long as `max_duration`.
    pub max_duration: u64,
    /// The same evictions by [`PhaseId`]; without phases all are in phase 0.
    pub by_phase: [u64; PHASES_MAX],
}

impl Evicted {
    /// All evictions.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.waiting_displaced + self.in_call_displaced + self.max_duration
    }

    /// Evictions from this phase.
    #[must_use]
    pub fn of_phase(&self, phase: PhaseId) -> u64 {
        self.by_phase
            .get(usize::from(phase.0))
            .copied()
            .unwrap_or(0)
    }

    pub(super) fn note(&mut self, state: CallState, phase: PhaseId, cause: EvictCause) {
        if let Some(count) = self.by_phase.get_mut(usize::from(phase.0)) {
            *count += 1;
        }
        *match (cause, state) {
            (EvictCause::Displaced { .. }, CallState::Waiting) => &mut self.waiting_displaced,
            (EvictCause::Displaced { .. }, CallState::InCall) => &mut self.in_call_displaced,
            (EvictCause::MaxDuration, _) => &mut self.max_duration,
        } += 1;
    }
}

/// Inputs that did not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Ignored {
    /// An arrival with the key of a call that is known.
    pub duplicate_arrivals: u64,
    /// An arrival of a class that the configuration does not have; it was taken as of the built-in one.
    pub unknown_classes: u64,
    /// An answer of a call that is unknown, or evicted meanwhile.
    pub late_answers: u64,
    /// An answer of a call that is INCALL already, or was not passed on.
    pub untimely_answers: u64,
    /// An end of a call that is unknown.
    pub unknown_ends: u64,
    /// A phase that the configuration does not have: an arrival in it was taken as in the first one.
    pub unknown_phases: u64,
    /// A phase entered by a call that is unknown, or evicted meanwhile, or its progress.
    pub late_phases: u64,
}
