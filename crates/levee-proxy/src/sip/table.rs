//! A table whose entries are named by numbers that are never used again, so that a late timer, answer or lookup of the
//! dead finds nothing.

/// Entries of type `T`, found by the number that [`Table::insert`] gave.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    len: usize,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    entry: Option<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Table<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts an entry in and returns its number, which is never 0.
    pub(crate) fn insert(&mut self, entry: T) -> u64 {
        self.len += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                entry: None,
            });
            u32::try_from(self.slots.len() - 1).expect("limits keep tables below 2^32 entries")
        });
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1).max(1);
        slot.entry = Some(entry);
        u64::from(slot.generation) << 32 | u64::from(index)
    }

    fn slot(&self, id: u64) -> Option<&Slot<T>> {
        let slot = self.slots.get(id as u32 as usize)?;
        (slot.generation == (id >> 32) as u32).then_some(slot)
    }

    pub(crate) fn get(&self, id: u64) -> Option<&T> {
        self.slot(id)?.entry.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let slot = self.slots.get_mut(id as u32 as usize)?;
        if slot.generation == (id >> 32) as u32 {
            slot.entry.as_mut()
        } else {
            None
        }
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let slot = self.slots.get_mut(id as u32 as usize)?;
        if slot.generation != (id >> 32) as u32 {
            return None;
        }
        let entry = slot.entry.take()?;
        self.free.push(id as u32);
        self.len -= 1;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_used_again() {
        let mut t = Table::default();
        let a = t.insert("a");
        assert_eq!(t.remove(a), Some("a"));
        let b = t.insert("b");
        assert_eq!(t.remove(a), None);
        assert_eq!((t.get(a), t.get(b), t.len()), (None, Some(&"b"), 1));
        assert_ne!(a, 0);
    }
}
