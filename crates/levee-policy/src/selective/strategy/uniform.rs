//! Uniform: each droppable call with the same probability.

use rand_core::Rng;

use crate::{
    random,
    selective::{band::Group, calls::Slot, table::Table},
};

pub(super) fn victim<R: Rng + ?Sized>(table: &Table, rng: &mut R) -> Option<Slot> {
    let mut rank = random::below(rng, u64::from(table.droppable())) as u32;
    for band in table.bands() {
        for group in Group::ALL {
            match rank.checked_sub(band.count(group)) {
                None => return band.select(group, rank).map(|position| band.slot(position)),
                Some(rest) => rank = rest,
            }
        }
    }
    None
}
