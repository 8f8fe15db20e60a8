//! The held calls that share one drop factor but for their state and age, in order.

mod arrival;
mod reference;

use alloc::collections::BTreeMap;

use self::{arrival::ByArrival, reference::ByReference};
use super::{
    CallState, DropFactor,
    calls::{Call, Calls, Slot},
};
use crate::Time;

/// How the drop factor tells calls apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// WAITING.
    Waiting,
    /// INCALL, not longer than usual; or in a phase, not too far behind.
    Young,
    /// INCALL, longer than usual; or in a phase, too far behind.
    Old,
}

impl Group {
    pub(super) const ALL: [Self; 3] = [Self::Waiting, Self::Young, Self::Old];
}

/// The order of a band.
#[derive(Clone, Debug)]
enum Order {
    /// Of calls without phases: age counts, and an arrival is the last.
    Arrival(ByArrival),
    /// Of calls in a phase: lag counts, and progress moves a call towards the end.
    Reference(ByReference),
}

/// Held calls of one factor.
///
/// A call has a *position* in its band. The calls of one group are sorted by time (of arrival, or the reference time of their lag),
/// the earliest first, so the old ones are sorted by drop factor as well.
#[derive(Clone, Debug)]
pub(super) struct Band {
    /// The class factor.
    pub(super) factor: f64,
    /// What is multiplied by it.
    pub(super) drop_factor: DropFactor,
    /// Bands with the same number have the same drop factor for old calls of the same age, so those are ties.
    pub(super) curve: usize,
    order: Order,
    /// Old calls by the doubling (of the exponential) in which their times lie.
    doublings: BTreeMap<u64, u32>,
    /// No young call is old before this time.
    all_young_until: Time,
}

impl Band {
    /// For calls without phases.
    pub(super) fn new(factor: f64, drop_factor: DropFactor) -> Self {
        Self::ordered(factor, drop_factor, Order::Arrival(ByArrival::new()))
    }

    /// For calls in phases of this drop factor, with lag for age and every call INCALL.
    pub(super) fn of_phase(factor: f64, drop_factor: DropFactor) -> Self {
        Self::ordered(factor, drop_factor, Order::Reference(ByReference::new()))
    }

    fn ordered(factor: f64, drop_factor: DropFactor, order: Order) -> Self {
        Self {
            factor,
            drop_factor,
            curve: 0,
            order,
            doublings: BTreeMap::new(),
            all_young_until: Time::MAX,
        }
    }

    /// Whether old calls of the same age have the same drop factor in both.
    pub(super) fn has_curve_of(&self, other: &Self) -> bool {
        let young = self.drop_factor.in_call;
        let other_d = DropFactor {
            in_call: young,
            ..other.drop_factor
        };
        self.factor == other.factor && self.drop_factor == other_d
    }

    pub(super) fn clear(&mut self) {
        match &mut self.order {
            Order::Arrival(order) => order.clear(),
            Order::Reference(order) => order.clear(),
        }
        self.doublings.clear();
        self.all_young_until = Time::MAX;
    }

    pub(super) fn len(&self) -> u32 {
        match &self.order {
            Order::Arrival(order) => order.len(),
            Order::Reference(order) => order.len(),
        }
    }

    pub(super) fn count(&self, group: Group) -> u32 {
        match &self.order {
            Order::Arrival(order) => order.count(group),
            Order::Reference(order) => order.count(group),
        }
    }

    /// The position of the `rank`-th call of this group, the earliest first.
    pub(super) fn select(&self, group: Group, rank: u32) -> Option<u32> {
        match &self.order {
            Order::Arrival(order) => order.select(group, rank),
            Order::Reference(order) => order.select(group, rank),
        }
    }

    pub(super) fn slot(&self, position: u32) -> Slot {
        match &self.order {
            Order::Arrival(order) => order.slot(position),
            Order::Reference(order) => order.slot(position),
        }
    }

    /// Since when its age or lag counts.
    pub(super) fn since(&self, position: u32) -> Time {
        match &self.order {
            Order::Arrival(order) => order.arrived(position),
            Order::Reference(order) => order.reference(position),
        }
    }

    /// Old calls by the doubling in which their times lie, the earliest first.
    pub(super) fn doublings(&self) -> impl Iterator<Item = (u64, u32)> {
        self.doublings
            .iter()
            .map(|(doubling, count)| (*doubling, *count))
    }

    /// How many old calls have a time of which `early` is true; it must be true of a first part of all times.
    pub(super) fn old_while(&self, early: impl Fn(Time) -> bool) -> u32 {
        match &self.order {
            Order::Arrival(order) => order.old_while(early),
            Order::Reference(order) => order.old_while(early),
        }
    }

    /// Whether another call may have the same time.
    pub(super) fn has_twin(&self, position: u32) -> bool {
        match &self.order {
            Order::Arrival(order) => order.has_twin(position),
            Order::Reference(_) => true,
        }
    }

    /// Adds a call; without phases it must have arrived last, and in a phase this is its reference time.
    pub(super) fn push(&mut self, calls: &mut Calls, slot: Slot, reference: Time) {
        let (group, position) = match &mut self.order {
            Order::Arrival(order) => {
                let group = match calls.get(slot).state {
                    CallState::Waiting => Group::Waiting,
                    // It may be an old one; then the next promotion tells.
                    CallState::InCall => Group::Young,
                };
                (group, order.push(calls, slot, group))
            }
            Order::Reference(order) => {
                let position = order.insert(reference, slot);
                (order.group(position), position)
            }
        };
        calls.get_mut(slot).position = position;
        self.count_in(group, self.since(position));
    }

    pub(super) fn remove(&mut self, call: &Call) {
        let position = call.position;
        let since = self.since(position);
        let group = match &mut self.order {
            Order::Arrival(order) => {
                let group = order.group(call.state, position);
                order.remove(group, position);
                group
            }
            Order::Reference(order) => {
                let group = order.group(position);
                order.remove(position);
                group
            }
        };
        self.count_out(group, since);
    }

    /// WAITING becomes INCALL. In phases that makes no difference.
    pub(super) fn answer(&mut self, call: &Call, now: Time) {
        let Order::Arrival(order) = &mut self.order else {
            return;
        };
        let to = if self.drop_factor.is_old(now - call.arrived) {
            Group::Old
        } else {
            Group::Young
        };
        order.regroup(Group::Waiting, to, call.position);
        self.count_in(to, call.arrived);
    }

    /// Moves the young calls that have become old to the old ones.
    pub(super) fn promote(&mut self, now: Time) {
        while now > self.all_young_until {
            let Some(position) = self.select(Group::Young, 0) else {
                self.all_young_until = Time::MAX;
                return;
            };
            let since = self.since(position);
            if !self.drop_factor.is_old(now - since) {
                self.all_young_until = since + self.drop_factor.mean_call;
                return;
            }
            match &mut self.order {
                Order::Arrival(order) => order.regroup(Group::Young, Group::Old, position),
                Order::Reference(order) => order.promote_first(),
            }
            self.count_in(Group::Old, since);
        }
    }

    fn count_in(&mut self, group: Group, since: Time) {
        match group {
            Group::Waiting => {}
            Group::Young => {
                let until = since + self.drop_factor.mean_call;
                self.all_young_until = self.all_young_until.min(until);
            }
            Group::Old => {
                let doubling = self.drop_factor.doublings(since) as u64;
                *self.doublings.entry(doubling).or_insert(0) += 1;
            }
        }
    }

    fn count_out(&mut self, group: Group, since: Time) {
        if group != Group::Old {
            return;
        }
        let doubling = self.drop_factor.doublings(since) as u64;
        if let Some(count) = self.doublings.get_mut(&doubling) {
            *count -= 1;
            if *count == 0 {
                self.doublings.remove(&doubling);
            }
        }
    }
}
