//! The requests that compete for the server: who has bid most, who least, and who has waited long enough.

use super::{
    heap::Heap,
    requests::{List, Request, Requests, State},
};
use crate::index::Slot;

/// The newest of this part of a full table do not make room for others, so that a newcomer has the time to pay.
const YOUNG_PART: u32 = 4;

/// All contenders.
#[derive(Clone, Debug)]
pub(super) struct Contenders {
    /// All, the highest bid first, the oldest of equals.
    best: Heap,
    /// All but the young, the lowest bid first, the oldest of equals. By age: all, the latest first.
    worst: Heap,
    /// Those that wait, by arrival; the last `young` of them are young.
    waiting: List,
    first_young: Option<Slot>,
    young: u32,
    /// Those that are suspended, by the time of it.
    suspended: List,
    next_order: u64,
    /// Whether they rank by [`Request::since`], the earliest first, and not by bid.
    by_age: bool,
}

impl Contenders {
    pub(super) fn new(by_age: bool) -> Self {
        Self {
            by_age,
            best: Heap::default(),
            worst: Heap::default(),
            waiting: List::EMPTY,
            first_young: None,
            young: 0,
            suspended: List::EMPTY,
            next_order: 0,
        }
    }

    /// As good as new, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.best.clear();
        self.worst.clear();
        *self = Self {
            best: core::mem::take(&mut self.best),
            worst: core::mem::take(&mut self.worst),
            ..Self::new(self.by_age)
        };
    }

    pub(super) fn len(&self) -> u32 {
        self.best.len() as u32
    }

    pub(super) fn is_empty(&self) -> bool {
        self.best.len() == 0
    }

    /// Whose turn is next: the highest bid, or who came first.
    pub(super) fn best(&self) -> Option<Slot> {
        self.best.first()
    }

    /// Who makes room for a newcomer.
    pub(super) fn worst(&self) -> Option<Slot> {
        self.worst.first()
    }

    /// Who waits longest, of those that were never at the server.
    pub(super) fn oldest_waiting(&self) -> Option<Slot> {
        self.waiting.first()
    }

    /// Who is suspended longest.
    pub(super) fn oldest_suspended(&self) -> Option<Slot> {
        self.suspended.first()
    }

    /// Takes in a request by its state; `most` is the size of a full table.
    pub(super) fn enter(&mut self, requests: &mut Requests, slot: Slot, most: u32) {
        let order = self.next_order;
        self.next_order += 1;
        requests.get_mut(slot).order = order;
        let request = requests.get(slot);
        self.best.push(slot, self.best_rank(request));
        if request.state == State::Suspended {
            self.worst.push(slot, self.worst_rank(request));
            self.suspended.push_back(requests, slot);
            return;
        }
        self.waiting.push_back(requests, slot);
        self.first_young.get_or_insert(slot);
        self.young += 1;
        let young_most = if self.by_age { 0 } else { most / YOUNG_PART };
        while self.young > young_most {
            self.settle(requests);
        }
    }

    /// The oldest of the young is young no more.
    fn settle(&mut self, requests: &Requests) {
        let Some(slot) = self.first_young else {
            debug_assert!(false, "young ones are counted that are not there");
            self.young = 0;
            return;
        };
        self.first_young = List::after(requests, slot);
        self.young -= 1;
        self.worst.push(slot, self.worst_rank(requests.get(slot)));
    }

    /// Takes out a contender; its state must be as it was.
    pub(super) fn leave(&mut self, requests: &mut Requests, slot: Slot) {
        let known = self.best.remove(slot);
        debug_assert!(known, "not a contender");
        if !self.worst.remove(slot) {
            self.young -= 1;
            if self.first_young == Some(slot) {
                self.first_young = List::after(requests, slot);
            }
        }
        if requests.get(slot).state == State::Suspended {
            self.suspended.remove(requests, slot);
        } else {
            self.waiting.remove(requests, slot);
        }
    }

    /// Its bid has changed.
    pub(super) fn bid_changed(&mut self, request: &Request, slot: Slot) {
        self.best.update(slot, self.best_rank(request));
        self.worst.update(slot, self.worst_rank(request));
    }

    /// From now on they rank by age, or by bid; [`bid_changed`](Self::bid_changed) is to be told of each.
    pub(super) fn rank_by_age(&mut self, by_age: bool) {
        self.by_age = by_age;
    }

    fn best_rank(&self, request: &Request) -> u128 {
        let first = if self.by_age {
            !request.since.as_nanos()
        } else {
            request.bid
        };
        rank(first, !request.order)
    }

    fn worst_rank(&self, request: &Request) -> u128 {
        if self.by_age {
            rank(request.since.as_nanos(), request.order)
        } else {
            rank(!request.bid, !request.order)
        }
    }

    /// Each of them, the suspended last.
    pub(super) fn iter(&self, requests: &Requests) -> impl Iterator<Item = Slot> {
        let walk = |first: Option<Slot>| {
            core::iter::successors(first, |slot| List::after(requests, *slot))
        };
        walk(self.waiting.first()).chain(walk(self.suspended.first()))
    }
}

fn rank(first: u64, then: u64) -> u128 {
    u128::from(first) << 64 | u128::from(then)
}
