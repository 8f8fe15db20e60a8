//! n-tournament: `n` distinct droppable calls are drawn uniformly, and the one with the largest drop factor loses; ties at
//! random.
//!
//! The entrants are never drawn. Order all `m` droppable calls by drop factor, the largest first. The loser is the entrant of least
//! rank, and that rank is at least `r` with probability `C(m - r, n) / C(m, n)`: exactly the skip of sequential random
//! sampling, which Vitter's Method D draws in constant expected time. The rest is order statistics over the table.

use alloc::vec::Vec;
use core::cmp::Ordering;

use rand_core::Rng;

use crate::{
    Span, Time, random,
    selective::{
        band::{Band, Group},
        calls::Slot,
        table::{Table, Tie},
    },
};

pub(super) fn victim<R: Rng + ?Sized>(
    table: &Table,
    now: Time,
    entrants: u32,
    rng: &mut R,
) -> Option<Slot> {
    let droppable = table.droppable();
    if droppable == 0 {
        return None;
    }
    let rank = least_rank(droppable, entrants.min(droppable), rng);
    at_rank(table, now, rank, rng)
}

/// The least of `n` distinct numbers drawn uniformly from `[0, m)`, `1 <= n <= m`.
///
/// J. S. Vitter, "An efficient algorithm for sequential random sampling", ACM TOMS 13(1), 1987: Method A (inversion, one
/// step a number skipped) where the skip is short, else Method D (rejection from a continuous law).
fn least_rank<R: Rng + ?Sized>(m: u32, n: u32, rng: &mut R) -> u32 {
    /// Up to this many expected steps inversion is the faster one (Vitter's 1/alpha).
    const INVERSION_MAX: u32 = 13;
    if n == 1 {
        return random::below(rng, u64::from(m)) as u32;
    }
    if m / n < INVERSION_MAX {
        least_rank_by_inversion(m, n, rng)
    } else {
        least_rank_by_rejection(m, n, rng)
    }
}

/// Method A: steps down the tail `P(rank >= r)`, whose factor at `r` is `(m - r - n) / (m - r)`.
fn least_rank_by_inversion<R: Rng + ?Sized>(m: u32, n: u32, rng: &mut R) -> u32 {
    let level = random::unit(rng);
    let mut rank = 0;
    let mut tail = 1.0;
    while rank < m - n {
        tail *= f64::from(m - rank - n) / f64::from(m - rank);
        if tail <= level {
            break;
        }
        rank += 1;
    }
    rank
}

/// Method D for one skip, `n >= 2`.
fn least_rank_by_rejection<R: Rng + ?Sized>(m: u32, n: u32, rng: &mut R) -> u32 {
    /// Each try succeeds with more than 1/2; reached only if the generator is broken.
    const TRIES_MAX: usize = 128;
    let (m, n) = (f64::from(m), f64::from(n));
    let largest = m - n + 1.0;
    let mut skip = 0.0;
    for _ in 0..TRIES_MAX {
        let x = m * (1.0 - libm::pow(1.0 - random::unit(rng), 1.0 / n));
        skip = libm::floor(x);
        if skip >= largest {
            skip = 0.0;
            continue;
        }
        let level = 1.0 - random::unit(rng);
        let y = libm::pow(level * m / largest, 1.0 / (n - 1.0));
        if y * (1.0 - x / m) * (largest / (largest - skip)) <= 1.0 {
            break;
        }
        // The squeeze failed: compare with the density itself, at `min(n, skip)` steps.
        let (mut bottom, limit) = if n - 1.0 > skip {
            (m - n, m - skip)
        } else {
            (m - 1.0 - skip, largest)
        };
        let mut product = 1.0;
        let mut top = m - 1.0;
        while top >= limit {
            product *= top / bottom;
            top -= 1.0;
            bottom -= 1.0;
        }
        if m / (m - x) >= y * libm::pow(product, 1.0 / (n - 1.0)) {
            break;
        }
    }
    skip as u32
}

/// Up to this many calls are stepped over one by one, in the order of their drop factors. Of a tournament among half of the
/// calls one winner in 2^17 lies behind them.
const STEPS_MAX: u32 = 16;

/// The call with `rank` others of larger drop factor, ties in random order.
fn at_rank<R: Rng + ?Sized>(table: &Table, now: Time, rank: u32, rng: &mut R) -> Option<Slot> {
    // The common case first: one factor, and old calls before all others.
    if let [band] = table.bands()
        && band.drop_factor.grows()
        && band.drop_factor.in_call <= band.drop_factor.waiting
    {
        return match rank.checked_sub(band.count(Group::Old)) {
            None => old_with_ties(table, band, rank, rng),
            Some(left) => in_ties(table, left, rng),
        };
    }
    if rank <= STEPS_MAX {
        at_small_rank(table, now, rank, rng)
    } else {
        at_any_rank(table, now, rank, rng)
    }
}

/// The call with `left` others before it among those whose drop factor does not change with time.
fn in_ties<R: Rng + ?Sized>(table: &Table, mut left: u32, rng: &mut R) -> Option<Slot> {
    for tie in table.ties() {
        let count = tie_count(table, tie);
        if left < count {
            return any_of(table, tie, rng);
        }
        left -= count;
    }
    None
}

/// The old call of a band that comes next in the order of drop factors.
struct Head<'a> {
    band: &'a Band,
    rank: u32,
    call: Old<'a>,
}

impl<'a> Head<'a> {
    fn new(band: &'a Band, rank: u32, now: Time) -> Option<Self> {
        let position = band.select(Group::Old, rank)?;
        let call = Old::new(band, now - band.since(position));
        Some(Self { band, rank, call })
    }
}

/// [`at_rank`] by a merge of the bands from their oldest calls on: a step costs a comparison a band.
fn at_small_rank<R: Rng + ?Sized>(
    table: &Table,
    now: Time,
    rank: u32,
    rng: &mut R,
) -> Option<Slot> {
    let growing = table.bands().iter().filter(|band| band.drop_factor.grows());
    let mut heads: Vec<Head<'_>> = growing.filter_map(|band| Head::new(band, 0, now)).collect();
    let mut left = rank;
    let mut ties = table.ties().iter().peekable();
    loop {
        let largest = (0..heads.len()).reduce(|one, other| {
            match heads[one].call.compare(&heads[other].call) {
                Ordering::Less => other,
                Ordering::Equal | Ordering::Greater => one,
            }
        });
        let above = |tie: &Tie| largest.is_some_and(|head| heads[head].call.is_above(tie.value));
        while let Some(tie) = ties.next_if(|tie| !above(tie)) {
            let count = tie_count(table, tie);
            if left < count {
                return any_of(table, tie, rng);
            }
            left -= count;
        }
        let head = &mut heads[largest?];
        if left == 0 {
            return old_with_ties(table, head.band, head.rank, rng);
        }
        left -= 1;
        match Head::new(head.band, head.rank + 1, now) {
            Some(next) => *head = next,
            None => {
                heads.swap_remove(largest?);
            }
        }
    }
}

/// [`at_rank`] by bisection.
fn at_any_rank<R: Rng + ?Sized>(table: &Table, now: Time, rank: u32, rng: &mut R) -> Option<Slot> {
    let mut before = 0;
    for tie in table.ties() {
        let count = tie_count(table, tie);
        if count == 0 {
            continue;
        }
        let growing = growing_above(table, now, tie.value);
        if rank < before + growing {
            break;
        }
        if rank < before + growing + count {
            return any_of(table, tie, rng);
        }
        before += count;
    }
    growing_at_rank(table, now, rank - before, rng)
}

fn tie_count(table: &Table, tie: &Tie) -> u32 {
    let count = |(band, group): &(usize, Group)| table.bands()[*band].count(*group);
    tie.members.iter().map(count).sum()
}

fn any_of<R: Rng + ?Sized>(table: &Table, tie: &Tie, rng: &mut R) -> Option<Slot> {
    let mut rank = random::below(rng, u64::from(tie_count(table, tie))) as u32;
    for (band, group) in &tie.members {
        let band = &table.bands()[*band];
        match rank.checked_sub(band.count(*group)) {
            None => {
                return band
                    .select(*group, rank)
                    .map(|position| band.slot(position));
            }
            Some(rest) => rank = rest,
        }
    }
    None
}

/// The bands that have growing old calls.
fn growing(table: &Table) -> impl Iterator<Item = &Band> {
    let grows = |band: &&Band| band.drop_factor.grows() && band.count(Group::Old) > 0;
    table.bands().iter().filter(grows)
}

/// How many growing old calls have a drop factor above `value`, which is that of a WAITING or young call of some band.
fn growing_above(table: &Table, now: Time, value: f64) -> u32 {
    let above = |band: &Band| {
        if value <= band.factor * band.drop_factor.waiting {
            return band.count(Group::Old);
        }
        band.old_while(|since| Old::new(band, now - since).is_above(value))
    };
    growing(table).map(above).sum()
}

/// The growing old call with `rank` growing others of larger drop factor.
fn growing_at_rank<R: Rng + ?Sized>(
    table: &Table,
    now: Time,
    rank: u32,
    rng: &mut R,
) -> Option<Slot> {
    let bands: Vec<&Band> = growing(table).collect();
    if let [band] = bands[..] {
        return old_with_ties(table, band, rank, rng);
    }
    // Each band is sorted; a window on each holds what may still be the one. The middle of the widest window splits them all.
    let mut windows: Vec<(u32, u32)> = bands
        .iter()
        .map(|band| (0, band.count(Group::Old)))
        .collect();
    loop {
        let widest =
            (0..windows.len()).max_by_key(|index| windows[*index].1 - windows[*index].0)?;
        let (low, high) = windows[widest];
        let pivot = Head::new(bands[widest], low + (high - low) / 2, now)?.call;
        let above: Vec<u32> = bands
            .iter()
            .map(|band| {
                band.old_while(|since| {
                    Old::new(band, now - since).compare(&pivot) == Ordering::Greater
                })
            })
            .collect();
        let tied: Vec<u32> = bands
            .iter()
            .zip(&above)
            .map(|(band, above)| {
                if band.curve == pivot.band.curve {
                    band.old_while(|since| now - since >= pivot.age) - above
                } else {
                    0
                }
            })
            .collect();
        // The answer is among the pivot and its ties if the rank is.
        let first: u32 = above.iter().sum();
        let behind = first + tied.iter().sum::<u32>();
        if (first..behind).contains(&rank) {
            return old_with_ties(table, bands[widest], above[widest], rng);
        }
        for (window, (above, tied)) in windows.iter_mut().zip(above.iter().zip(&tied)) {
            if rank < first {
                window.1 = window.1.min(*above);
            } else {
                window.0 = window.0.max(above + tied);
            }
        }
    }
}

/// What says how large the drop factor of a growing old call is.
struct Old<'a> {
    band: &'a Band,
    age: Span,
    /// The drop factor, or infinity.
    value: f64,
}

impl<'a> Old<'a> {
    fn new(band: &'a Band, age: Span) -> Self {
        let value = band.factor * band.drop_factor.past_mean(age);
        Self { band, age, value }
    }

    /// Whether its drop factor is above `value`, which is that of a WAITING or young call of some band.
    fn is_above(&self, value: f64) -> bool {
        // First as real numbers; the growing part may be below the last digit.
        value <= self.band.factor * self.band.drop_factor.waiting || self.value > value
    }

    /// Order by drop factor: on one curve by age, which tells calls apart where a float does not, and equal ones of two by curve.
    fn compare(&self, other: &Self) -> Ordering {
        if self.band.curve == other.band.curve {
            return self.age.cmp(&other.age);
        }
        let by_value = if self.value < f64::INFINITY || other.value < f64::INFINITY {
            self.value.total_cmp(&other.value)
        } else {
            self.ln().total_cmp(&other.ln())
        };
        by_value.then(self.band.curve.cmp(&other.band.curve))
    }

    fn ln(&self) -> f64 {
        libm::log(self.band.factor) + self.band.drop_factor.ln_past_mean(self.age)
    }
}

/// The old call of this rank in its band, the earliest first, or one of the same drop factor.
fn old_with_ties<R: Rng + ?Sized>(
    table: &Table,
    band: &Band,
    rank: u32,
    rng: &mut R,
) -> Option<Slot> {
    let position = band.select(Group::Old, rank)?;
    if !band.has_twin(position) {
        return Some(band.slot(position));
    }
    let since = band.since(position);
    // How many of a band are older, and how many are ties.
    let ties = |band: &Band| {
        let first = band.old_while(|time| time < since);
        (first, band.old_while(|time| time <= since) - first)
    };
    let tied: u32 = table.of_curve(band.curve).map(|band| ties(band).1).sum();
    let mut rank = random::below(rng, u64::from(tied)) as u32;
    for band in table.of_curve(band.curve) {
        let (first, count) = ties(band);
        match rank.checked_sub(count) {
            None => {
                return band
                    .select(Group::Old, first + rank)
                    .map(|position| band.slot(position));
            }
            Some(rest) => rank = rest,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64Mcg;
    use statrs::distribution::{ChiSquared, ContinuousCDF};

    use super::*;

    /// The least rank against `P(rank >= r) = C(m - r, n) / C(m, n)`, by chi-square with an error of 10^-6 a case.
    #[test]
    fn the_least_rank_has_its_exact_law() {
        const DRAWS: u32 = 100_000;
        let cases = [
            (10, 1),
            (10, 10),
            (24, 12),
            (26, 2),
            (100, 7),
            (2_000, 3),
            (5_000, 100),
            (300_000, 2),
            (1_000_000, 1_000),
        ];
        for (m, n) in cases {
            // Bins of at least a thirtieth each, by their first ranks; the last one may be smaller.
            let mut bins = Vec::from([(0_u32, 0.0)]);
            let mut tail = 1.0;
            for rank in 0..=m - n {
                let next = tail * f64::from(m - rank - n) / f64::from(m - rank);
                if bins.last().unwrap().1 >= 1.0 / 30.0 && tail > 1e-3 {
                    bins.push((rank, 0.0));
                }
                bins.last_mut().unwrap().1 += tail - next;
                tail = next;
            }
            let mut counts = std::vec![0_u32; bins.len()];
            let mut rng = Pcg64Mcg::new(u128::from(m));
            for _ in 0..DRAWS {
                let rank = least_rank(m, n, &mut rng);
                assert!(rank <= m - n);
                counts[bins.partition_point(|(first, _)| *first <= rank) - 1] += 1;
            }
            let statistic: f64 = bins
                .iter()
                .zip(&counts)
                .map(|((_, p), count)| (p * f64::from(DRAWS), f64::from(*count)))
                .map(|(expected, count)| (count - expected) * (count - expected) / expected)
                .sum();
            if bins.len() > 1 {
                let p = ChiSquared::new((bins.len() - 1) as f64)
                    .unwrap()
                    .sf(statistic);
                assert!(
                    p > 1e-6,
                    "least of {n} in {m}: p = {p:e}, {bins:?}, {counts:?}"
                );
            }
        }
    }
}
