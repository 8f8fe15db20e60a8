//! Roulette: each droppable call with probability `d / sum of d`.
//!
//! The drop factor of an old call is a constant part, `waiting`, plus a growing part, `scale * 2^(age / D)`, where `D` is the
//! time in which the exponential of its band doubles. So the draw first chooses a *share*: the constant parts of the calls of one band
//! and group, or the growing parts of its old calls; then a call within the share.
//!
//! Time is cut into doublings of length `D`. Growing parts of calls whose times lie in the same doubling differ by less than a
//! factor of 2, so one is drawn uniformly and accepted with the ratio of its growing part to the largest that the doubling can hold (an
//! expected 1.4 tries). Nothing is summed up over time, hence nothing drifts; and since exponents are kept apart from the
//! weights, nothing overflows, however old a call is.

use rand_core::Rng;

use crate::{
    Time, random,
    selective::{
        BANDS_MAX,
        band::{Band, Group},
        calls::Slot,
        table::Table,
    },
};

/// Doublings after the oldest call's beyond which growing parts are left out. With less than 2^32 calls they add up to less than
/// 2^-64 of the oldest call's, which no draw of 53 bits can tell from nothing.
const DOUBLINGS_MAX: u64 = 96;

/// Tries of the rejection. Each succeeds with probability 1/2 at least, so the last is reached with 2^-128: only if the
/// generator is broken, and then the draw must still end.
const TRIES_MAX: usize = 128;

pub(super) fn victim<R: Rng + ?Sized>(table: &Table, now: Time, rng: &mut R) -> Option<Slot> {
    // Exponents are relative to the largest of all bands, so that its growing part is a normal number.
    let top = table
        .bands()
        .iter()
        .filter(|band| band.drop_factor.scale > 0.0)
        .filter_map(|band| Some(doublings_since(band, oldest(band)?, now)))
        .fold(0.0, f64::max);
    let unit = libm::exp2(-top);
    let mut growing = [0.0; BANDS_MAX];
    let mut total = 0.0;
    for (band, growing) in table.bands().iter().zip(&mut growing) {
        *growing = growing_share(band, now, top);
        total += constant_shares(band, unit).iter().sum::<f64>() + *growing;
    }
    let mut choice = None;
    for _ in 0..TRIES_MAX {
        let (band, share) = choose(table, &growing, unit, random::unit(rng) * total)?;
        if let Some(group) = share {
            let rank = random::below(rng, u64::from(band.count(group))) as u32;
            return band.select(group, rank).map(|position| band.slot(position));
        }
        let position = propose(band, rng)?;
        choice = Some(band.slot(position));
        let since = band.drop_factor.doublings(band.since(position));
        if random::unit(rng) < libm::exp2(libm::floor(since) - since) {
            break;
        }
    }
    choice
}

/// The doubling of a band's oldest old call.
fn oldest(band: &Band) -> Option<u64> {
    band.doublings().next().map(|(doubling, _)| doubling)
}

/// Doublings of a band's exponential from the start of this one until now.
fn doublings_since(band: &Band, doubling: u64, now: Time) -> f64 {
    band.drop_factor.doublings(now) - doubling as f64
}

/// The weights of the constant parts by group, in units of `2^top`.
fn constant_shares(band: &Band, unit: f64) -> [f64; 3] {
    let d = &band.drop_factor;
    let share = |group, d: f64| band.factor * d * f64::from(band.count(group)) * unit;
    [
        share(Group::Waiting, d.waiting),
        share(Group::Young, d.in_call),
        share(Group::Old, d.waiting),
    ]
}

/// The weight of the growing parts, each as large as its doubling allows, in units of `2^top`.
fn growing_share(band: &Band, now: Time, top: f64) -> f64 {
    let scale = band.drop_factor.scale;
    match oldest(band) {
        Some(oldest) if scale > 0.0 => {
            let largest = libm::exp2(doublings_since(band, oldest, now) - top);
            band.factor * scale * largest * growing_sum(band, oldest)
        }
        _ => 0.0,
    }
}

/// The band and the share in which the point `at` of the line of all shares lies; the growing share is `None`.
fn choose<'a>(
    table: &'a Table,
    growing: &[f64],
    unit: f64,
    mut at: f64,
) -> Option<(&'a Band, Option<Group>)> {
    let mut last = None;
    for (band, growing) in table.bands().iter().zip(growing) {
        let constant = Group::ALL
            .into_iter()
            .map(Some)
            .zip(constant_shares(band, unit));
        for (share, weight) in constant.chain([(None, *growing)]) {
            if weight > 0.0 {
                last = Some((band, share));
                if at < weight {
                    return last;
                }
                at -= weight;
            }
        }
    }
    // Rounding can carry the point past the end.
    last
}

/// Bounds of the growing parts of a band, in units of its oldest doubling's.
fn growing_sum(band: &Band, oldest: u64) -> f64 {
    near(band, oldest)
        .map(|(weight, count)| weight * f64::from(count))
        .sum()
}

/// An old call of the band, with probability as the bound of its growing part.
fn propose<R: Rng + ?Sized>(band: &Band, rng: &mut R) -> Option<u32> {
    let oldest = oldest(band)?;
    let mut at = random::unit(rng) * growing_sum(band, oldest);
    let mut before = 0;
    let mut chosen = (0, 0);
    for (weight, count) in near(band, oldest) {
        chosen = (before, count);
        let part = weight * f64::from(count);
        if at < part {
            break;
        }
        at -= part;
        before += count;
    }
    let (before, count) = chosen;
    band.select(
        Group::Old,
        before + random::below(rng, u64::from(count)) as u32,
    )
}

/// The doublings that matter: bound of a growing part in units of the oldest's, and calls.
fn near(band: &Band, oldest: u64) -> impl Iterator<Item = (f64, u32)> {
    band.doublings()
        .map(move |(doubling, count)| (doubling - oldest, count))
        .take_while(|(later, _)| *later <= DOUBLINGS_MAX)
        .map(|(later, count)| (f64::from_bits((1023 - later) << 52), count))
}
