//! Handles that travel in SIP tags and branches.
//!
//! A tag or a branch is the place of its owner in a table and the generation of that place, so a message finds its call
//! without hashing a string, and one that arrives after its call has ended finds nothing.

use std::hash::{BuildHasher, RandomState};

/// A place in a [`Slab`] and its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// A key that no table gives out: a branch that no answer will name.
    pub(crate) fn of_no_place(generation: u32) -> Self {
        Self {
            index: u32::MAX,
            generation,
        }
    }

    /// Sixteen hexadecimal digits.
    pub(crate) fn hex(self) -> [u8; 16] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let n = (u64::from(self.generation) << 32) | u64::from(self.index);
        std::array::from_fn(|i| DIGITS[((n >> (60 - 4 * i)) & 15) as usize])
    }

    /// Reads what [`Key::hex`] wrote from the start of `text`, and returns it with what follows.
    pub(crate) fn read(text: &[u8]) -> Option<(Self, &[u8])> {
        let (digits, rest) = text.split_at_checked(16)?;
        let mut n = 0u64;
        for &d in digits {
            n = (n << 4) | u64::from(char::from(d).to_digit(16)?);
        }
        Some((
            Self {
                index: (n & 0xffff_ffff) as u32,
                generation: (n >> 32) as u32,
            },
            rest,
        ))
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// A table whose places are used again under a new generation.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    first_generation: u32,
}

impl<T> Slab<T> {
    /// An empty table. Generations start at a random number, so that a late datagram of an earlier run on the same port
    /// names nothing here.
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            first_generation: RandomState::new().hash_one(0u8) as u32,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The key that the next [`Slab::insert`] will give.
    pub(crate) fn next_key(&self) -> Key {
        let index = self.free.last().copied();
        let index = index.unwrap_or_else(|| u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        let slot = self.slots.get(index as usize);
        Key {
            index,
            generation: slot.map_or(self.first_generation, |s| s.generation),
        }
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        let key = self.next_key();
        if self.free.pop().is_none() {
            self.slots.push(Slot {
                generation: key.generation,
                value: None,
            });
        }
        if let Some(slot) = self.slots.get_mut(key.index as usize) {
            slot.value = Some(value);
        }
        key
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index as usize)?;
        slot.value
            .as_ref()
            .filter(|_| slot.generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        slot.value
            .as_mut()
            .filter(|_| slot.generation == key.generation)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        let used = |(index, slot): (usize, &Slot<T>)| {
            slot.value.as_ref()?;
            Some(Key {
                index: u32::try_from(index).ok()?,
                generation: slot.generation,
            })
        };
        self.slots.iter().enumerate().filter_map(used).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_text() {
        let mut slab = Slab::new();
        let keys: Vec<Key> = (0..40).map(|i| slab.insert(i)).collect();
        for k in keys {
            let text = [&k.hex()[..], b"b"].concat();
            assert_eq!(Key::read(&text), Some((k, &b"b"[..])));
        }
        assert_eq!(Key::read(b"0123"), None);
        assert_eq!(Key::read(b"0123456789abcdeg"), None);
    }

    #[test]
    fn a_place_used_again_does_not_answer_to_the_old_key() {
        let mut slab = Slab::new();
        let old = slab.insert("old");
        assert_eq!(slab.remove(old), Some("old"));
        let new = slab.insert("new");
        assert_eq!(old.index, new.index);
        assert_eq!(
            (slab.get(old), slab.get(new), slab.len()),
            (None, Some(&"new"), 1)
        );
        assert_eq!(slab.remove(old), None);
    }
}
