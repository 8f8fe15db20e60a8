//! Roulette: each droppable call with probability `d / sum of d`.
//!
//! The drop factor of an old call is a constant part, `waiting`, plus a growing part, `scale * 2^(age / D)`, where `D` is the
//! time in which the exponential doubles. So the draw first chooses a *share*: the constant parts of the calls of one band
//! and kind, or the growing parts of its old calls; then a call within the share.
//!
//! Time is cut into doublings of length `D`. Growing parts of calls that arrived in the same doubling differ by less than a
//! factor of 2, so one is drawn uniformly and accepted with the ratio of its growing part to the largest that the doubling can hold (an
//! expected 1.4 tries). Nothing is summed up over time, hence nothing drifts; and since exponents are kept apart from the
//! weights, nothing overflows, however old a call is.

use rand_core::Rng;

use crate::{
    Time, random,
    selective::{
        band::Band,
        calls::{Kind, Slot},
        table::Table,
    },
};

/// Doublings after the oldest call's beyond which growing parts are left out. With less than 2^32 calls they add up to less than
/// 2^-64 of the oldest call's, which no draw of 53 bits can tell from nothing.
const DOUBLINGS_MAX: u64 = 96;

/// Tries of the rejection. Each succeeds with probability 1/2 at least, so the last is reached with 2^-128: only if the
/// generator is broken, and then the draw must still end.
const TRIES_MAX: usize = 128;

/// Constant parts by kind and growing parts of one band.
const SHARES: usize = 4;

pub(super) fn victim<R: Rng + ?Sized>(table: &Table, now: Time, rng: &mut R) -> Option<Slot> {
    let d = table.drop_factor();
    let now = d.doublings(now);
    // Exponents are relative to the oldest call's, so that its growing part is a normal number.
    let top = if d.scale > 0.0 {
        table
            .bands()
            .iter()
            .filter_map(oldest)
            .map(|oldest| now - oldest as f64)
            .fold(0.0, f64::max)
    } else {
        0.0
    };
    let unit = libm::exp2(-top);
    let mut total = 0.0;
    for band in table.bands() {
        total += shares(table, band, now, top, unit).iter().sum::<f64>();
    }
    let mut choice = None;
    for _ in 0..TRIES_MAX {
        let (band, share) = choose(table, now, top, unit, random::unit(rng) * total)?;
        if share < Kind::ALL.len() {
            let kind = Kind::ALL[share];
            let rank = random::below(rng, u64::from(band.count(kind))) as u32;
            return band.select(kind, rank).map(|position| band.slot(position));
        }
        let position = propose(band, rng)?;
        choice = Some(band.slot(position));
        let arrived = d.doublings(band.arrived(position));
        if random::unit(rng) < libm::exp2(libm::floor(arrived) - arrived) {
            break;
        }
    }
    choice
}

/// The doubling of a band's oldest old call.
fn oldest(band: &Band) -> Option<u64> {
    band.doublings().next().map(|(doubling, _)| doubling)
}

/// The weights of a band's shares, in units of `2^top`; the growing parts as large as their doublings allow.
fn shares(table: &Table, band: &Band, now: f64, top: f64, unit: f64) -> [f64; SHARES] {
    let d = table.drop_factor();
    let constant = |kind, d: f64| band.factor * d * f64::from(band.count(kind)) * unit;
    let growing = match oldest(band) {
        Some(oldest) if d.scale > 0.0 => {
            band.factor
                * d.scale
                * libm::exp2(now - oldest as f64 - top)
                * growing_sum(band, oldest)
        }
        _ => 0.0,
    };
    [
        constant(Kind::Waiting, d.waiting),
        constant(Kind::Young, d.in_call),
        constant(Kind::Old, d.waiting),
        growing,
    ]
}

/// The band and the share in which the point `at` of the line of all shares lies.
fn choose(table: &Table, now: f64, top: f64, unit: f64, mut at: f64) -> Option<(&Band, usize)> {
    let mut last = None;
    for band in table.bands() {
        for (share, weight) in shares(table, band, now, top, unit).into_iter().enumerate() {
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
        Kind::Old,
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
