//! A binary heap whose entries can be found by their slot, so that a bid can be raised and a contender taken out in `O(log n)`.

use alloc::vec::Vec;

use crate::index::Slot;

/// Stands for no place.
const NONE: u32 = u32::MAX;

/// The largest rank is first. Each slot is in it at most once.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    entries: Vec<Entry>,
    /// Place of each slot in `entries`.
    places: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    rank: u128,
    slot: Slot,
}

impl Heap {
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.places.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn first(&self) -> Option<Slot> {
        self.entries.first().map(|entry| entry.slot)
    }

    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.place(slot).is_some()
    }

    /// Adds a slot that is not there.
    pub(super) fn push(&mut self, slot: Slot, rank: u128) {
        debug_assert!(!self.contains(slot));
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, NONE);
        }
        self.entries.push(Entry { rank, slot });
        self.rise(self.entries.len() - 1, Entry { rank, slot });
    }

    /// Takes out a slot; false if it was not there.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        let Some(place) = self.place(slot) else {
            return false;
        };
        self.places[slot as usize] = NONE;
        if let Some(last) = self.entries.pop()
            && last.slot != slot
        {
            self.settle(place, last);
        }
        true
    }

    /// Gives a slot that is there another rank; false if it was not there.
    pub(super) fn update(&mut self, slot: Slot, rank: u128) -> bool {
        let Some(place) = self.place(slot) else {
            return false;
        };
        self.settle(place, Entry { rank, slot });
        true
    }

    fn place(&self, slot: Slot) -> Option<usize> {
        let place = *self.places.get(slot as usize)?;
        (place != NONE).then_some(place as usize)
    }

    /// Puts an entry at a place or where it belongs above or below it.
    fn settle(&mut self, place: usize, entry: Entry) {
        if place > 0 && self.entries[(place - 1) / 2].rank < entry.rank {
            self.rise(place, entry);
        } else {
            self.sink(place, entry);
        }
    }

    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.entries[parent].rank >= entry.rank {
                break;
            }
            self.put(place, self.entries[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize, entry: Entry) {
        loop {
            let mut child = 2 * place + 1;
            match self.entries.get(child..) {
                Some([left, right, ..]) if right.rank > left.rank => child += 1,
                Some([_, ..]) => {}
                _ => break,
            }
            if self.entries[child].rank <= entry.rank {
                break;
            }
            self.put(place, self.entries[child]);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.entries[place] = entry;
        self.places[entry.slot as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(steps in prop::collection::vec((0_u32..60, 0_u64..20, any::<bool>()), 1..400)) {
            let mut heap = Heap::default();
            let mut model = BTreeMap::new();
            for (slot, rank, remove) in steps {
                // Ranks differ, as those of contenders do.
                let rank = u128::from(rank) << 32 | u128::from(slot);
                if remove {
                    prop_assert_eq!(heap.remove(slot), model.remove(&slot).is_some());
                } else if model.insert(slot, rank).is_some() {
                    prop_assert!(heap.update(slot, rank));
                } else {
                    prop_assert!(!heap.update(slot, rank));
                    heap.push(slot, rank);
                }
                let first = model.iter().max_by_key(|(_, rank)| **rank).map(|(slot, _)| *slot);
                prop_assert_eq!(heap.first(), first);
                prop_assert_eq!(heap.len(), model.len());
                prop_assert_eq!(heap.contains(slot), model.contains_key(&slot));
            }
        }
    }
}
