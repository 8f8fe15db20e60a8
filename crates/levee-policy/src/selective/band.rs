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
/// ones by drop factor as well. A position is used once; when they run out, the band is packed. It then has at least as many
/// free positions as calls, so packing costs each call a constant.
#[derive(Clone, Debug)]
pub(super) struct Band {
    /// The class factor.
    pub(super) factor: f64,
    /// By position.
    slots: Vec<Slot>,
    /// By position, never falling; it stands for a call that is gone, too.
    arrived: Vec<Time>,
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
            sets: core::array::from_fn(|_| RankedSet::with_positions(POSITIONS_MIN)),
            doublings: BTreeMap::new(),
            all_young_until: Time::MAX,
        }
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
        let position = self.arrived.partition_point(|time| early(*time));
        self.sets[Group::Old as usize].rank(position as u32)
    }

    /// Whether another call had the same time of arrival (it may be gone).
    pub(super) fn has_twin(&self, position: u32) -> bool {
        let index = position as usize;
        let same = |other: Option<&Time>| other == self.arrived.get(index);
        same(self.arrived.get(index + 1)) || (index > 0 && same(self.arrived.get(index - 1)))
    }

    /// Adds a call behind all others: it must have arrived last.
    pub(super) fn push(&mut self, drop_factor: &DropFactor, calls: &mut Calls, slot: Slot) {
        if self.slots.len() == self.sets[0].positions() {
            self.pack(calls);
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

    /// Closes the gaps that calls left behind, and makes room.
    fn pack(&mut self, calls: &mut Calls) {
        let room = (2 * self.len() as usize).max(POSITIONS_MIN);
        let old = core::mem::replace(
            &mut self.sets,
            core::array::from_fn(|_| RankedSet::with_positions(room)),
        );
        let mut packed = 0_u32;
        for position in 0..self.slots.len() as u32 {
            let Some(group) = Group::ALL
                .into_iter()
                .find(|group| old[*group as usize].contains(position))
            else {
                continue;
            };
            let slot = self.slots[position as usize];
            self.slots[packed as usize] = slot;
            self.arrived[packed as usize] = self.arrived[position as usize];
            self.sets[group as usize].insert(packed);
            calls.get_mut(slot).position = packed;
            packed += 1;
        }
        self.slots.truncate(packed as usize);
        self.arrived.truncate(packed as usize);
    }
}
