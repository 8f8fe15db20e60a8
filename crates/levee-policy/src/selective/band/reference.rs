//! The calls of a band in the order of their reference times, which move.

use super::Group;
use crate::{
    Span, Time,
    selective::{calls::Slot, rank_tree::RankTree},
};

/// Old calls are a first part of the order, so one tree holds both groups; a position is a node of it.
#[derive(Clone, Debug)]
pub(in crate::selective) struct ByReference {
    tree: RankTree,
    /// Calls that are old.
    old: u32,
    /// Those whose reference time is before this.
    old_before: Time,
}

impl ByReference {
    pub(super) const fn new() -> Self {
        Self {
            tree: RankTree::new(),
            old: 0,
            old_before: Time::ZERO,
        }
    }

    pub(super) fn clear(&mut self) {
        self.tree.clear();
        (self.old, self.old_before) = (0, Time::ZERO);
    }

    pub(super) fn len(&self) -> u32 {
        self.tree.len()
    }

    pub(super) fn count(&self, group: Group) -> u32 {
        match group {
            Group::Waiting => 0,
            Group::Young => self.tree.len() - self.old,
            Group::Old => self.old,
        }
    }

    pub(super) fn select(&self, group: Group, rank: u32) -> Option<u32> {
        if rank >= self.count(group) {
            return None;
        }
        let before = if group == Group::Young { self.old } else { 0 };
        self.tree.select(before + rank)
    }

    pub(super) fn slot(&self, position: u32) -> Slot {
        self.tree.slot(position)
    }

    pub(super) fn reference(&self, position: u32) -> Time {
        self.tree.time(position)
    }

    pub(super) fn old_while(&self, early: impl Fn(Time) -> bool) -> u32 {
        self.tree.count_while(early).min(self.old)
    }

    /// Adds a call; one that is old may still count as young, until the next promotion.
    pub(super) fn insert(&mut self, reference: Time, slot: Slot) -> u32 {
        self.old += u32::from(reference < self.old_before);
        self.tree.insert(reference, slot)
    }

    pub(super) fn remove(&mut self, position: u32) {
        self.old -= u32::from(self.group(position) == Group::Old);
        self.tree.remove(position);
    }

    /// The first young call is old now, and with it whoever has the same reference time.
    pub(super) fn promote_first(&mut self) {
        if let Some(first) = self.tree.select(self.old) {
            self.old += 1;
            self.old_before = self.reference(first).saturating_add(Span::from_nanos(1));
        }
    }

    pub(super) fn group(&self, position: u32) -> Group {
        if self.reference(position) < self.old_before {
            Group::Old
        } else {
            Group::Young
        }
    }
}
