//! The records of all calls that the defence knows, by key, and lists through them.

use alloc::vec::Vec;
use core::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;

use super::{Arrival, CallKey, CallState, ClassId, Identity, PhaseId};
pub(super) use crate::index::Slot;
use crate::{Time, index::Index};

/// Stands for no call in a link.
const NONE: u32 = u32::MAX;

/// Where a call stands between the front and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Held for the end of the round.
    Pending,
    /// Held for a slot at the server.
    Queued,
    /// Holds a slot.
    Forwarded,
    /// Out of the table, still holds a slot.
    Evicting,
}

/// What is known of a call: one cache line, so that whatever is done to a call touches no second one.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Call {
    pub(super) key: CallKey,
    pub(super) arrived: Time,
    /// When it became INCALL; its arrival before that.
    pub(super) answered: Time,
    caller: u64,
    source: u64,
    prev: Slot,
    next: Slot,
    /// In its band of the table.
    pub(super) position: u32,
    pub(super) class: ClassId,
    /// 0 if there are no phases.
    pub(super) phase: PhaseId,
    pub(super) state: CallState,
    pub(super) stage: Stage,
    has_caller: bool,
    has_source: bool,
}

impl Call {
    /// A WAITING call that holds no slot.
    fn new(arrival: &Arrival, arrived: Time) -> Self {
        Self {
            key: arrival.call,
            arrived,
            answered: arrived,
            caller: arrival.caller.map_or(0, |id| id.0),
            source: arrival.source.map_or(0, |id| id.0),
            prev: NONE,
            next: NONE,
            position: 0,
            class: arrival.class,
            phase: arrival.phase,
            state: CallState::Waiting,
            stage: Stage::Queued,
            has_caller: arrival.caller.is_some(),
            has_source: arrival.source.is_some(),
        }
    }

    pub(super) fn caller(&self) -> Option<Identity> {
        self.has_caller.then_some(Identity(self.caller))
    }

    pub(super) fn source(&self) -> Option<Identity> {
        self.has_source.then_some(Identity(self.source))
    }

    /// Whether it is in the table.
    pub(super) fn is_held(&self) -> bool {
        self.stage != Stage::Evicting
    }

    /// Whether it holds a slot at the server.
    pub(super) fn in_service(&self) -> bool {
        matches!(self.stage, Stage::Forwarded | Stage::Evicting)
    }
}

/// All records.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    records: Vec<Call>,
    free: Vec<Slot>,
    index: Index,
    hasher: FixedState,
}

impl Default for Calls {
    fn default() -> Self {
        // The front chooses the keys, so a fixed seed gives an outsider no hold, and replays agree.
        Self {
            records: Vec::new(),
            free: Vec::new(),
            index: Index::default(),
            hasher: FixedState::with_seed(0),
        }
    }
}

impl Calls {
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.free.clear();
        self.index.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn find(&self, key: CallKey) -> Option<Slot> {
        let hash = hash(&self.hasher, key);
        self.index
            .find(hash, |slot| self.records[slot as usize].key == key)
    }

    pub(super) fn get(&self, slot: Slot) -> &Call {
        &self.records[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Call {
        &mut self.records[slot as usize]
    }

    /// Adds a record of a WAITING call that holds no slot; its key must be new.
    pub(super) fn insert(&mut self, arrival: &Arrival, arrived: Time) -> Slot {
        debug_assert!(self.find(arrival.call).is_none());
        let Self {
            records,
            free,
            index,
            hasher,
        } = self;
        let call = Call::new(arrival, arrived);
        let slot = if let Some(slot) = free.pop() {
            records[slot as usize] = call;
            slot
        } else {
            records.push(call);
            (records.len() - 1) as Slot
        };
        index.insert(hash(hasher, arrival.call), slot, |other| {
            hash(hasher, records[other as usize].key)
        });
        slot
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        let hash = hash(&self.hasher, self.records[slot as usize].key);
        if self.index.remove(hash, slot) {
            self.free.push(slot);
        } else {
            debug_assert!(false, "a record without an index entry");
        }
    }

    /// All calls in the table by arrival; costs a sort, for a reconfiguration.
    pub(super) fn held_by_arrival(&self) -> Vec<Slot> {
        let mut live = alloc::vec![true; self.records.len()];
        for slot in &self.free {
            live[*slot as usize] = false;
        }
        let mut held: Vec<Slot> = (0..self.records.len() as Slot)
            .filter(|slot| live[*slot as usize] && self.get(*slot).is_held())
            .collect();
        held.sort_by_key(|slot| (self.get(*slot).arrived, *slot));
        held
    }
}

fn hash(hasher: &FixedState, key: CallKey) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write_u64(key.0);
    hasher.finish()
}

/// A list of calls in order, linked through their records. A call is in at most one list at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: Slot,
    tail: Slot,
    len: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        len: 0,
    };

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn first(&self) -> Option<Slot> {
        (self.head != NONE).then_some(self.head)
    }

    pub(super) fn push_back(&mut self, calls: &mut Calls, slot: Slot) {
        let tail = self.tail;
        let call = calls.get_mut(slot);
        call.prev = tail;
        call.next = NONE;
        if tail == NONE {
            self.head = slot;
        } else {
            calls.get_mut(tail).next = slot;
        }
        self.tail = slot;
        self.len += 1;
    }

    /// Takes out a call that is in this list.
    pub(super) fn remove(&mut self, calls: &mut Calls, slot: Slot) {
        let call = calls.get_mut(slot);
        let (prev, next) = (call.prev, call.next);
        call.prev = NONE;
        call.next = NONE;
        if prev == NONE {
            debug_assert_eq!(self.head, slot);
            self.head = next;
        } else {
            calls.get_mut(prev).next = next;
        }
        if next == NONE {
            debug_assert_eq!(self.tail, slot);
            self.tail = prev;
        } else {
            calls.get_mut(next).prev = prev;
        }
        self.len -= 1;
    }

    pub(super) fn pop_front(&mut self, calls: &mut Calls) -> Option<Slot> {
        let slot = self.first()?;
        self.remove(calls, slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_cache_line() {
        assert_eq!(size_of::<Call>(), 64);
    }
}
