//! Which record has which key: a hash table of slots whose buckets are one cache line each.
//!
//! Tables of millions of calls do not fit the caches, and their look-ups land anywhere: what counts is how many lines one
//! touches. Here it is one, for a look-up, the insertion that follows it, and a removal alike; the usual layout, control
//! bytes here and entries there, takes two.

use alloc::vec::Vec;

/// Index of a record; valid until the record is removed.
pub(crate) type Slot = u32;

/// Entries of a bucket: as many as fill the line.
const ENTRIES: usize = 12;
/// Mean entries of a bucket at most; then less than one bucket in eight overflows.
const MEAN_MAX: usize = 9;
/// The tag of an entry that is not in use.
const EMPTY: u8 = 0;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket {
    /// Eight bits of each entry's hash, never [`EMPTY`].
    tags: [u8; ENTRIES],
    /// Entries that lie in a later bucket since this one was full. None means that a look-up may stop here, so that removals
    /// leave no trace.
    passed: u32,
    slots: [Slot; ENTRIES],
}

impl Bucket {
    const VACANT: Self = Self {
        tags: [EMPTY; ENTRIES],
        passed: 0,
        slots: [0; ENTRIES],
    };

    /// The entries with this tag.
    fn tagged(&self, tag: u8) -> impl Iterator<Item = usize> + use<> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.tags;
        let low = zero_bytes(u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ repeat(tag));
        // The upper half is not EMPTY to any tag, nor a tag.
        let high = zero_bytes(u64::from(u32::from_le_bytes([i, j, k, l])) ^ repeat(tag))
            & u64::from(u32::MAX);
        let mut found = (u128::from(high) << 64) | u128::from(low);
        core::iter::from_fn(move || {
            let entry = found.trailing_zeros() as usize / 8;
            found &= found.wrapping_sub(1);
            (entry < ENTRIES).then_some(entry)
        })
    }
}

fn repeat(tag: u8) -> u64 {
    u64::from(tag) * 0x0101_0101_0101_0101
}

/// The highest bit of each byte that is zero, and no other bit.
fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    !(((word & LOW) + LOW) | word | LOW)
}

/// Slots by the hash of their key. A full bucket's entries go to the next one that has room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// None, or a power of two of them.
    buckets: Vec<Bucket>,
    len: usize,
}

impl Index {
    pub(crate) fn clear(&mut self) {
        self.buckets.fill(Bucket::VACANT);
        self.len = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The slot with this hash of which `is` is true.
    pub(crate) fn find(&self, hash: u64, is: impl Fn(Slot) -> bool) -> Option<Slot> {
        let (bucket, entry) = self.place(hash, is)?;
        Some(self.buckets[bucket].slots[entry])
    }

    /// Adds a slot that is not there; `hash_of` tells the hash of the others if the table must grow. Growth costs `O(k)`, once
    /// until the number of calls has doubled.
    pub(crate) fn insert(&mut self, hash: u64, slot: Slot, hash_of: impl Fn(Slot) -> u64) {
        if self.len >= self.buckets.len() * MEAN_MAX {
            let count = (self.buckets.len() * 2).max(1);
            let old = core::mem::replace(&mut self.buckets, alloc::vec![Bucket::VACANT; count]);
            for bucket in &old {
                for (tag, slot) in bucket.tags.iter().zip(bucket.slots) {
                    if *tag != EMPTY {
                        self.put(hash_of(slot), slot);
                    }
                }
            }
        }
        self.put(hash, slot);
        self.len += 1;
    }

    /// Takes out a slot; false if it was not there.
    pub(crate) fn remove(&mut self, hash: u64, slot: Slot) -> bool {
        let Some((bucket, entry)) = self.place(hash, |other| other == slot) else {
            return false;
        };
        self.buckets[bucket].tags[entry] = EMPTY;
        let mut passed = self.home(hash);
        while passed != bucket {
            self.buckets[passed].passed -= 1;
            passed = self.after(passed);
        }
        self.len -= 1;
        true
    }

    fn place(&self, hash: u64, is: impl Fn(Slot) -> bool) -> Option<(usize, usize)> {
        let tag = tag(hash);
        let mut index = self.home(hash);
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[index];
            if let Some(entry) = bucket.tagged(tag).find(|entry| is(bucket.slots[*entry])) {
                return Some((index, entry));
            }
            if bucket.passed == 0 {
                break;
            }
            index = self.after(index);
        }
        None
    }

    /// Ends, for the mean is below what a bucket holds.
    fn put(&mut self, hash: u64, slot: Slot) {
        let mut index = self.home(hash);
        loop {
            let bucket = &mut self.buckets[index];
            if let Some(entry) = bucket.tagged(EMPTY).next() {
                bucket.tags[entry] = tag(hash);
                bucket.slots[entry] = slot;
                return;
            }
            bucket.passed += 1;
            index = self.after(index);
        }
    }

    fn home(&self, hash: u64) -> usize {
        hash as usize & self.buckets.len().wrapping_sub(1)
    }

    fn after(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }
}

/// From the end of the hash that does not choose the bucket.
fn tag(hash: u64) -> u8 {
    ((hash >> 56) as u8).max(EMPTY + 1)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bucket_is_a_cache_line() {
        assert_eq!(size_of::<Bucket>(), 64);
    }

    #[test]
    fn zero_bytes_are_told_exactly() {
        assert_eq!(zero_bytes(0), 0x8080_8080_8080_8080);
        assert_eq!(zero_bytes(0x0100_8001_00FF_7F00), 0x0080_0000_8000_0080);
    }

    #[test]
    fn every_entry_of_a_bucket_is_found() {
        for entry in 0..ENTRIES {
            for tag in [1, 0x7F, 0x80, 0xFF] {
                let mut bucket = Bucket::VACANT;
                bucket.tags[entry] = tag;
                assert!(bucket.tagged(tag).eq([entry]));
                assert!(
                    bucket
                        .tagged(EMPTY)
                        .eq((0..ENTRIES).filter(|other| *other != entry))
                );
            }
        }
    }

    proptest! {
        /// Hashes of few values, so that buckets overflow, wrap round and share tags.
        #[test]
        fn agrees_with_a_map(
            toggles in prop::collection::vec((0_u32..300, any::<bool>()), 1..600),
            mask in prop::sample::select(std::vec![0, 3, 0x0300_0000_0000_000F, u64::MAX]),
        ) {
            let hash_of = |slot: Slot| u64::from(slot).wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask;
            let mut index = Index::default();
            let mut model = BTreeMap::new();
            for (slot, remove) in toggles {
                let known = model.contains_key(&slot);
                prop_assert_eq!(index.find(hash_of(slot), |other| other == slot), known.then_some(slot));
                if remove {
                    prop_assert_eq!(index.remove(hash_of(slot), slot), known);
                    model.remove(&slot);
                } else if !known {
                    index.insert(hash_of(slot), slot, hash_of);
                    model.insert(slot, ());
                }
                prop_assert_eq!(index.len(), model.len());
            }
            for slot in model.into_keys() {
                prop_assert_eq!(index.find(hash_of(slot), |other| other == slot), Some(slot));
                prop_assert!(index.remove(hash_of(slot), slot));
            }
            prop_assert!(index.buckets.iter().all(|bucket| bucket.passed == 0 && bucket.tags == [EMPTY; ENTRIES]));
        }
    }
}
