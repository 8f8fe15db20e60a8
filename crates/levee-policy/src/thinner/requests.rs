//! The records of all requests that wait or are in service, by key, and lists through them.

use alloc::vec::Vec;
use core::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;

use super::{Arrival, RequestKey};
use crate::{
    Identity, Time,
    index::{Index, Slot},
};

/// Stands for no request in a link.
const NONE: Slot = Slot::MAX;

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A contender that has not been at the server.
    Waiting,
    /// It has a place at the server.
    Serving,
    /// A contender whose work the server has stopped.
    Suspended,
    /// Taken from the server, which has not let go of it yet.
    Aborting,
    /// As [`Self::Aborting`], but suspended before: it has no place.
    Discarded,
}

/// What is known of a request, in one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Request {
    pub(super) key: RequestKey,
    pub(super) arrived: Time,
    /// When its quantum or its suspension began; of one that waits, when its client first came.
    pub(super) since: Time,
    /// What it has paid and was not charged yet.
    pub(super) bid: u64,
    /// Its rank among the contenders by age.
    pub(super) order: u64,
    group: u64,
    prev: Slot,
    next: Slot,
    pub(super) state: State,
    has_group: bool,
}

impl Request {
    pub(super) fn group(&self) -> Option<Identity> {
        self.has_group.then_some(Identity(self.group))
    }

    pub(super) fn is_contender(&self) -> bool {
        matches!(self.state, State::Waiting | State::Suspended)
    }
}

/// All records.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    records: Vec<Request>,
    free: Vec<Slot>,
    index: Index,
    hasher: FixedState,
}

impl Default for Requests {
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

impl Requests {
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.free.clear();
        self.index.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn find(&self, key: RequestKey) -> Option<Slot> {
        let hash = hash(&self.hasher, key);
        self.index
            .find(hash, |slot| self.records[slot as usize].key == key)
    }

    pub(super) fn get(&self, slot: Slot) -> &Request {
        &self.records[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Request {
        &mut self.records[slot as usize]
    }

    /// Adds a record; its key must be new.
    pub(super) fn insert(&mut self, arrival: &Arrival, bid: u64, state: State, now: Time) -> Slot {
        debug_assert!(self.find(arrival.request).is_none());
        let Self {
            records,
            free,
            index,
            hasher,
        } = self;
        let request = Request {
            key: arrival.request,
            arrived: now,
            since: now,
            bid,
            order: 0,
            group: arrival.group.map_or(0, |group| group.0),
            prev: NONE,
            next: NONE,
            state,
            has_group: arrival.group.is_some(),
        };
        let slot = if let Some(slot) = free.pop() {
            records[slot as usize] = request;
            slot
        } else {
            records.push(request);
            (records.len() - 1) as Slot
        };
        index.insert(hash(hasher, arrival.request), slot, |other| {
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
}

fn hash(hasher: &FixedState, key: RequestKey) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write_u64(key.0);
    hasher.finish()
}

/// A list of requests in order, linked through their records. A request is in at most one list at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: Slot,
    tail: Slot,
}

impl List {
    pub(super) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
    };

    pub(super) fn first(&self) -> Option<Slot> {
        (self.head != NONE).then_some(self.head)
    }

    /// The one after `slot`, which is in this list.
    pub(super) fn after(requests: &Requests, slot: Slot) -> Option<Slot> {
        let next = requests.get(slot).next;
        (next != NONE).then_some(next)
    }

    pub(super) fn push_back(&mut self, requests: &mut Requests, slot: Slot) {
        let tail = self.tail;
        let request = requests.get_mut(slot);
        request.prev = tail;
        request.next = NONE;
        if tail == NONE {
            self.head = slot;
        } else {
            requests.get_mut(tail).next = slot;
        }
        self.tail = slot;
    }

    /// Takes out a request that is in this list.
    pub(super) fn remove(&mut self, requests: &mut Requests, slot: Slot) {
        let request = requests.get_mut(slot);
        let (prev, next) = (request.prev, request.next);
        request.prev = NONE;
        request.next = NONE;
        if prev == NONE {
            debug_assert_eq!(self.head, slot);
            self.head = next;
        } else {
            requests.get_mut(prev).next = next;
        }
        if next == NONE {
            debug_assert_eq!(self.tail, slot);
            self.tail = prev;
        } else {
            requests.get_mut(next).prev = prev;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_cache_line() {
        assert_eq!(size_of::<Request>(), 64);
    }
}
