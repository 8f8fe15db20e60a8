//! How the victim is chosen among the held calls that are not exempt: [`uniform`], [`roulette`] (the default), [`tournament`].
//!
//! Each is exact to its definition and costs `O(log k)`.

mod roulette;
mod tournament;
mod uniform;

use rand_core::Rng;

use super::{Strategy, calls::Slot, table::Table};
use crate::Time;

/// Draws a victim; `None` if every held call is exempt. The table must have been brought up to `now`.
pub(super) fn victim<R: Rng + ?Sized>(
    strategy: Strategy,
    capacity: u32,
    table: &Table,
    now: Time,
    rng: &mut R,
) -> Option<Slot> {
    match strategy {
        Strategy::Uniform => uniform::victim(table, rng),
        Strategy::Roulette => roulette::victim(table, now, rng),
        Strategy::Tournament { size } => {
            tournament::victim(table, now, Strategy::entrants(size, capacity), rng)
        }
    }
}
