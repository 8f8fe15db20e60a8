//! The calls of a band in the order of their arrival.

use alloc::vec::Vec;

use super::Group;
use crate::{
    Time,
    selective::{
        CallState,
        calls::{Calls, Slot},
        ranked_set::RankedSet,
    },
};

/// Fewest positions of a band.
const POSITIONS_MIN: usize = 512;
/// A band is packed when it has this many positions in use for each call.
const SPARSE: usize = 2;
/// Positions that are packed for each new call: so many that the calls which arrive meanwhile add little.
const PACK_STEP: usize = 16;

/// Each call has a *position*, given in the order of arrival, so that the calls of one group are sorted by age and the old
/// ones by drop factor as well. When many positions are of calls that are gone, they are *packed*: from the first position to the
/// last, calls move down to the next position that is free for good. That keeps the order at every moment, so it is done a
/// few positions a new call, and no decision waits for it. Only a band that grows copies its positions, once until it has doubled.
#[derive(Clone, Debug)]
pub(in crate::selective) struct ByArrival {
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
}

impl ByArrival {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            arrived: Vec::new(),
            packed: 0,
            unpacked: 0,
            sets: core::array::from_fn(|_| RankedSet::with_positions(POSITIONS_MIN)),
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.arrived.clear();
        (self.packed, self.unpacked) = (0, 0);
        self.sets.iter_mut().for_each(RankedSet::clear);
    }

    pub(super) fn len(&self) -> u32 {
        self.sets.iter().map(RankedSet::len).sum()
    }

    pub(super) fn count(&self, group: Group) -> u32 {
        self.sets[group as usize].len()
    }

    pub(super) fn select(&self, group: Group, rank: u32) -> Option<u32> {
        self.sets[group as usize].select(rank)
    }

    pub(super) fn slot(&self, position: u32) -> Slot {
        self.slots[position as usize]
    }

    pub(super) fn arrived(&self, position: u32) -> Time {
        self.arrived[position as usize]
    }

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

    /// Gives a call the position behind all others: it must have arrived last.
    pub(super) fn push(&mut self, calls: &mut Calls, slot: Slot, group: Group) -> u32 {
        self.pack(calls);
        if self.slots.len() == self.sets[0].positions() {
            self.sets.iter_mut().for_each(RankedSet::grow);
        }
        let position = self.slots.len() as u32;
        let arrived = calls.get(slot).arrived;
        debug_assert!(self.arrived.last().is_none_or(|last| *last <= arrived));
        self.slots.push(slot);
        self.arrived.push(arrived);
        self.sets[group as usize].insert(position);
        position
    }

    pub(super) fn remove(&mut self, group: Group, position: u32) {
        self.sets[group as usize].remove(position);
    }

    /// Puts a call into another group.
    pub(super) fn regroup(&mut self, from: Group, to: Group, position: u32) {
        self.sets[from as usize].remove(position);
        self.sets[to as usize].insert(position);
    }

    pub(super) fn group(&self, state: CallState, position: u32) -> Group {
        match state {
            CallState::Waiting => Group::Waiting,
            CallState::InCall if self.sets[Group::Young as usize].contains(position) => {
                Group::Young
            }
            CallState::InCall => Group::Old,
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
