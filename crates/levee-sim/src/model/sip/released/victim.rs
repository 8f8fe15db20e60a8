//! How a victim is drawn.

use levee_policy::selective::{CallState, DropFactor, Strategy};
use levee_policy::{Span, Time};
use rand_core::Rng;

use super::super::quirks::Quirks;
use super::Held;
use crate::schedule::unit;

/// The rules of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) strategy: Strategy,
    pub(super) drop_factor: DropFactor,
    pub(super) quirks: Quirks,
}

impl Rules {
    /// The place of a victim in the table, which is not empty. `pool` is scratch memory.
    pub(super) fn draw(
        &self,
        table: &[Held],
        now: Time,
        pool: &mut Vec<usize>,
        rng: &mut impl Rng,
    ) -> usize {
        match self.strategy {
            Strategy::Uniform => below(rng, table.len()),
            Strategy::Roulette => self.roulette(table, now, rng),
            Strategy::Tournament { size } => {
                let size = size.map_or(table.len() / 2, |size| size as usize);
                self.tournament(table, now, size.clamp(1, table.len()), pool, rng)
            }
        }
    }

    fn roulette(&self, table: &[Held], now: Time, rng: &mut impl Rng) -> usize {
        let slots = |held: &Held| {
            let age = now.since(held.since);
            self.weight(held, age) + self.slot_too_many(held, age)
        };
        let total: f64 = table.iter().map(slots).sum();
        let missing = f64::from(self.quirks.roulette_slots_shifted);
        let mut drawn = unit(rng) * (total - missing);
        for (place, held) in table.iter().enumerate() {
            drawn -= slots(held);
            if drawn < 0.0 {
                return place;
            }
        }
        table.len() - 1
    }

    fn tournament(
        &self,
        table: &[Held],
        now: Time,
        size: usize,
        pool: &mut Vec<usize>,
        rng: &mut impl Rng,
    ) -> usize {
        pool.clear();
        pool.extend(0..table.len());
        let mut best = (0, 0.0);
        for _ in 0..size {
            let entrant = below(rng, pool.len());
            let place = pool[entrant];
            // The released model takes another call out of the pool than the one that enters.
            let leaves = if self.quirks.entrants_repeat {
                below(rng, pool.len())
            } else {
                entrant
            };
            pool.swap_remove(leaves);
            let held = &table[place];
            let weight = self.weight(held, now.since(held.since));
            // The first of equals wins; the order is random.
            if weight > best.1 {
                best = (place, weight);
            }
        }
        best.0
    }

    fn weight(&self, held: &Held, age: Span) -> f64 {
        let d = self.drop_factor.of(held.state, age);
        if self.quirks.drop_factor_truncated {
            libm::floor(d)
        } else {
            d
        }
    }

    fn slot_too_many(&self, held: &Held, age: Span) -> f64 {
        let old = held.state == CallState::InCall && age > self.drop_factor.mean_call;
        f64::from(self.quirks.roulette_slots_shifted && old)
    }
}

/// Uniform in `0..n`.
fn below(rng: &mut impl Rng, n: usize) -> usize {
    // The product of 64 bits and n: the bias is n / 2^64.
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}
