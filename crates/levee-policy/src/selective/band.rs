//! The held calls that share one class factor, in the order of their arrival.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{
    CallState, DropFactor,
    calls::{Call, Calls, Slot},
    ranked_set::RankedSet,
};
use crate::Time;

/// Fewest positions of a band.
const POSITIONS_MIN: usize = 512;
/// A band is packed when it has this many positions in use for each call.
const SPARSE: usize = 2;
/// Positions that are packed for each new call: so many that the calls which arrive meanwhile add little.
const PACK_STEP: usize = 16;

/// How the drop factor tells calls apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// WAITING.
    Waiting,
    /// INCALL, not longer than usual.
    Young,
    /// INCALL, longer than usual.
    Old,
}

impl Group {
    pub(super) const ALL: [Self; 3] = [Self::Waiting, Self::Young, Self::Old];
}

/// Held calls of one class factor.
///
/// Each call has a *position*, given in the order of arrival, so that the calls of one group are sorted by age and the old
/// ones by drop factor as well. When many positions are of calls that are gone, the band is *packed*: from the first position to the
/// last, calls move down to the next position that is free for good. That keeps the order at every moment, so it is done a
/// few positions a new call, and no decision waits for it. Only a band that grows copies its positions, once until it has doubled.
#[derive(Clone, Debug)]
pub(super) struct Band {
    /// The class factor.
    pub(super) factor: f64,
    /// By position.
    slots: Vec<Slot>,
    /// By position, never falling but for the gap; it stands for a call that is gone, too.
    arrived: Vec<Time>,
    /// The gap that the packing has opened, without a call: from here
    packed: usize,
    /// to here, where the packing goes on; both 0 when there is nothing to pack.
    unpacked: usize,
    /// Members by group, in the order of [`Group::ALL`].
    sets: [RankedSet; 3],
    /// Old calls by the doubling (of the exponential) in which they arrived.
    doublings: BTreeMap<u64, u32>,
    /// No young call is longer than usual before this time.
    all_young_until: Time,
}

impl Band {
    pub(super) fn new(factor: f64) -> Self {
        Self {
            factor,
            slots: Vec::new(),
            arrived: Vec::new(),
            packed: 0,
            unpacked: 0,
            sets: core::array::from_fn(|_| RankedSet::with_positions(POSITIONS_MIN)),
            doublings: BTreeMap::new(),
            all_young_until: Time::MAX,
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.arrived.clear();
        (self.packed, self.unpacked) = (0, 0);
        self.sets.iter_mut().for_each(RankedSet::clear);
        self.doublings.clear();
        self.all_young_until = Time::MAX;
    }

    pub(super) fn len(&self) -> u32 {
        self.sets.iter().map(RankedSet::len).sum()
    }

    pub(super) fn count(&self, group: Group) -> u32 {
        self.sets[group as usize].len()
    }

    /// The position of the `rank`-th call of this group, oldest first.
    pub(super) fn select(&self, group: Group, rank: u32) -> Option<u32> {
        self.sets[group as usize].select(rank)
    }

    pub(super) fn slot(&self, position: u32) -> Slot {
        self.slots[position as usize]
    }

    pub(super) fn arrived(&self, position: u32) -> Time {
        self.arrived[position as usize]
    }

    /// Old calls by the doubling in which they arrived, the earliest first.
    pub(super) fn doublings(&self) -> impl Iterator<Item = (u64, u32)> {
        self.doublings
            .iter()
            .map(|(doubling, count)| (*doubling, *count))
    }

    /// How many old calls arrived at a time of which `early` is true; it must be true of a first part of all times.
    pub(super) fn old_while(&self, early: impl Fn(Time) -> bool) -> u32 {
        let first = |times: &[Time]| times.partition_point(|time| early(*time));
        let position = if self
            .arrived
            .get(self.unpacked)
            .is_some_and(|time| early(*time))
        {
            self.unpacked + first(&self.arrived[self.unpacked..])
        } else {
            first(&self.arrived[..self.packed])
        };
        self.sets[Group::Old as usize].rank(position as u32)
    }

    /// Whether another call had the same time of arrival (it may be gone).
    pub(super) fn has_twin(&self, position: u32) -> bool {
        let index = position as usize;
        let after = if index + 1 == self.packed {
            self.unpacked
        } else {
            index + 1
        };
        let before = if index == self.unpacked {
            self.packed
        } else {
            index
        };
        let same = |other: Option<&Time>| other == self.arrived.get(index);
        same(self.arrived.get(after)) || (before > 0 && same(self.arrived.get(before - 1)))
    }

    /// Adds a call behind all others: it must have arrived last.
    pub(super) fn push(&mut self, drop_factor: &DropFactor, calls: &mut Calls, slot: Slot) {
        self.pack(calls);
        if self.slots.len() == self.sets[0].positions() {
            self.sets.iter_mut().for_each(RankedSet::grow);
        }
        let position = self.slots.len() as u32;
        let call = calls.get_mut(slot);
        call.position = position;
        debug_assert!(self.arrived.last().is_none_or(|last| *last <= call.arrived));
        self.slots.push(slot);
        self.arrived.push(call.arrived);
        let arrived = call.arrived;
        let group = match call.state {
            CallState::Waiting => Group::Waiting,
            // It may be an old one; then the next promotion tells.
            CallState::InCall => Group::Young,
        };
        self.enter(drop_factor, group, position, arrived);
    }

    pub(super) fn remove(&mut self, drop_factor: &DropFactor, call: &Call) {
        let group = self.group(call.state, call.position);
        self.leave(drop_factor, group, call.position, call.arrived);
    }

    /// WAITING becomes INCALL.
    pub(super) fn answer(&mut self, drop_factor: &DropFactor, call: &Call, now: Time) {
        let to = if drop_factor.is_old(now - call.arrived) {
            Group::Old
        } else {
            Group::Young
        };
        self.leave(drop_factor, Group::Waiting, call.position, call.arrived);
        self.enter(drop_factor, to, call.position, call.arrived);
    }

    /// Moves the young calls that have become longer than usual to the old ones.
    pub(super) fn promote(&mut self, drop_factor: &DropFactor, now: Time) {
        while now > self.all_young_until {
            let Some(position) = self.select(Group::Young, 0) else {
                self.all_young_until = Time::MAX;
                return;
            };
            let arrived = self.arrived(position);
            if !drop_factor.is_old(now - arrived) {
                self.all_young_until = arrived + drop_factor.mean_call;
                return;
            }
            self.leave(drop_factor, Group::Young, position, arrived);
            self.enter(drop_factor, Group::Old, position, arrived);
        }
    }

    fn group(&self, state: CallState, position: u32) -> Group {
        match state {
            CallState::Waiting => Group::Waiting,
            CallState::InCall if self.sets[Group::Young as usize].contains(position) => {
                Group::Young
            }
            CallState::InCall => Group::Old,
        }
    }

    fn enter(&mut self, drop_factor: &DropFactor, group: Group, position: u32, arrived: Time) {
        self.sets[group as usize].insert(position);
        match group {
            Group::Waiting => {}
            Group::Young => {
                self.all_young_until = self.all_young_until.min(arrived + drop_factor.mean_call);
            }
            Group::Old => {
                *self
                    .doublings
                    .entry(drop_factor.doublings(arrived) as u64)
                    .or_insert(0) += 1;
            }
        }
    }

    fn leave(&mut self, drop_factor: &DropFactor, group: Group, position: u32, arrived: Time) {
        self.sets[group as usize].remove(position);
        if group != Group::Old {
            return;
        }
        let doubling = drop_factor.doublings(arrived) as u64;
        if let Some(count) = self.doublings.get_mut(&doubling) {
            *count -= 1;
            if *count == 0 {
                self.doublings.remove(&doubling);
            }
        }
    }

    /// Goes on with the packing, or begins if it is worth while.
    fn pack(&mut self, calls: &mut Calls) {
        let end = self.slots.len();
        if self.unpacked == 0 && end < POSITIONS_MIN.max(SPARSE * self.len() as usize) {
            return;
        }
        let until = end.min(self.unpacked + PACK_STEP);
        for from in self.unpacked..until {
            let Some(set) = self.sets.iter_mut().find(|set| set.contains(from as u32)) else {
                continue;
            };
            let to = self.packed;
            self.packed += 1;
            if to == from {
                continue;
            }
            set.relocate(from as u32, to as u32);
            self.slots[to] = self.slots[from];
            self.arrived[to] = self.arrived[from];
            calls.get_mut(self.slots[to]).position = to as u32;
        }
        self.unpacked = until;
        if until == end {
            self.slots.truncate(self.packed);
            self.arrived.truncate(self.packed);
            (self.packed, self.unpacked) = (0, 0);
        }
    }
}
