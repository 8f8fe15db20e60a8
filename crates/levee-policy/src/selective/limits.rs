//! The rivals of SeVen: limits of the calls held for one caller or one source, and the cap on the time in call.

use core::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::{
    Arrival, Config, Identity, RefuseCause,
    calls::{Call, Calls, List, Slot},
};
use crate::{Span, Time};

/// Calls held for each caller and each source, where there is a limit.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    caller: Option<Limit>,
    source: Option<Limit>,
}

impl Limits {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            caller: config.calls_per_caller.map(Limit::new),
            source: config.calls_per_source.map(Limit::new),
        }
    }

    pub(super) fn clear(&mut self) {
        for limit in [&mut self.caller, &mut self.source].into_iter().flatten() {
            limit.counts.clear();
        }
    }

    /// Whether there is any.
    pub(super) fn any(&self) -> bool {
        self.caller.is_some() || self.source.is_some()
    }

    /// Why this newcomer may not come in, if so.
    pub(super) fn check(&self, arrival: &Arrival) -> Option<RefuseCause> {
        let reached =
            |limit: &Option<Limit>, id| limit.as_ref().is_some_and(|limit| limit.is_reached(id));
        if reached(&self.caller, arrival.caller) {
            Some(RefuseCause::CallerLimit)
        } else if reached(&self.source, arrival.source) {
            Some(RefuseCause::SourceLimit)
        } else {
            None
        }
    }

    pub(super) fn enter(&mut self, call: &Call) {
        for (limit, id) in [
            (&mut self.caller, call.caller()),
            (&mut self.source, call.source()),
        ] {
            if let (Some(limit), Some(id)) = (limit, id) {
                limit.enter(id);
            }
        }
    }

    pub(super) fn leave(&mut self, call: &Call) {
        for (limit, id) in [
            (&mut self.caller, call.caller()),
            (&mut self.source, call.source()),
        ] {
            if let (Some(limit), Some(id)) = (limit, id) {
                limit.leave(id);
            }
        }
    }
}

/// A count for each identity that has a call in the table, so never more of them than held calls.
#[derive(Clone, Debug)]
struct Limit {
    most: u32,
    counts: HashTable<(u64, u32)>,
    hasher: FixedState,
}

impl Limit {
    fn new(most: u32) -> Self {
        // Identities are keyed hashes already, so that nobody outside can make them collide.
        Self {
            most,
            counts: HashTable::new(),
            hasher: FixedState::with_seed(0),
        }
    }

    fn is_reached(&self, id: Option<Identity>) -> bool {
        let Some(id) = id else { return false };
        let count = self
            .counts
            .find(hash(&self.hasher, id.0), |(other, _)| *other == id.0);
        count.is_some_and(|(_, count)| *count >= self.most)
    }

    fn enter(&mut self, id: Identity) {
        let Self { counts, hasher, .. } = self;
        let entry = counts.entry(
            hash(hasher, id.0),
            |(other, _)| *other == id.0,
            |(other, _)| hash(hasher, *other),
        );
        entry.or_insert((id.0, 0)).into_mut().1 += 1;
    }

    fn leave(&mut self, id: Identity) {
        let hash = hash(&self.hasher, id.0);
        let Ok(mut entry) = self.counts.find_entry(hash, |(other, _)| *other == id.0) else {
            debug_assert!(false, "a held call that was not counted");
            return;
        };
        entry.get_mut().1 -= 1;
        if entry.get().1 == 0 {
            entry.remove();
        }
    }
}

fn hash(hasher: &FixedState, id: u64) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write_u64(id);
    hasher.finish()
}

/// The cap on the time in call, counted from the answer.
#[derive(Clone, Debug)]
pub(super) struct MaxDuration {
    cap: Option<Span>,
    /// INCALL calls in the order of their answers; empty without a cap.
    in_call: List,
}

impl MaxDuration {
    pub(super) fn new(config: &Config) -> Self {
        let cap = config
            .max_duration
            .and_then(|cap| cap.span(config.drop_factor.mean_call));
        Self {
            cap,
            in_call: List::EMPTY,
        }
    }

    /// Starts the clock of a call that has just become INCALL.
    pub(super) fn enter(&mut self, calls: &mut Calls, slot: Slot) {
        if self.cap.is_some() {
            self.in_call.push_back(calls, slot);
        }
    }

    pub(super) fn leave(&mut self, calls: &mut Calls, slot: Slot) {
        if self.cap.is_some() {
            self.in_call.remove(calls, slot);
        }
    }

    /// When the next call is due.
    pub(super) fn deadline(&self, calls: &Calls) -> Option<Time> {
        let first = self.in_call.first()?;
        Some(calls.get(first).answered + self.cap?)
    }

    /// A call that is due.
    pub(super) fn due(&self, calls: &Calls, now: Time) -> Option<Slot> {
        self.in_call
            .first()
            .filter(|_| self.deadline(calls).is_some_and(|due| due <= now))
    }
}
