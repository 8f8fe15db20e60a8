//! How evenly the server and what is paid for it are shared among groups of clients, measured in fixed memory.
//!
//! A group is a hash that the front makes, say of a network or an account. However many there are, real or spoofed, the
//! measure takes some 70 kB: Jain's index needs the sum, the sum of squares and the number of groups, and each has a
//! sketch. Nothing is decided by it.

use alloc::{vec, vec::Vec};

use serde::Serialize;

use crate::{Identity, Span, Time};

/// Length of a period.
const PERIOD: Span = Span::from_secs(60);
/// Counters of the sketch of the sum of squares: its standard error is at most `sqrt(2 / WIDTH)`, 3 %.
const WIDTH: usize = 2_048;
/// Logarithm of the registers that count groups: the standard error is `1.04 / sqrt(registers)`, 3 %.
const REGISTER_BITS: u32 = 10;
const REGISTERS: usize = 1 << REGISTER_BITS;
/// Groups whose share is followed: any with more than a sixteenth is among them.
const TOP: usize = 16;

/// How admitted requests and payment were shared in the last whole minute, or since the start if that is less ago.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Fairness {
    /// Of admitted requests.
    pub admitted: Shares,
    /// Of what was paid for admission.
    pub paid: Shares,
}

/// How something was shared among groups. Estimates, but for the total.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Shares {
    /// All of it.
    pub total: u64,
    /// Groups that got some; the standard error is 3 %.
    pub groups: f64,
    /// Jain's index `(sum x)^2 / (n sum x^2)`: 1 when each group got the same, `1/n` when one got all; the standard error is 5 %.
    /// 1 if there was nothing to share.
    pub jain: f64,
    /// The groups that got most, the largest first.
    pub top: Vec<TopShare>,
}

/// The share of one group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TopShare {
    /// Which.
    pub group: Identity,
    /// Its part of the total is at least this,
    pub least: f64,
    /// and at most this.
    pub most: f64,
}

/// Two periods of both measures.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    end: Time,
    current: [Sketch; 2],
    /// The period before, once there is one.
    whole: Option<[Sketch; 2]>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            end: Time::ZERO + PERIOD,
            current: [Sketch::new(), Sketch::new()],
            whole: None,
        }
    }

    /// A request of a group was admitted.
    pub(super) fn note(&mut self, now: Time, group: Identity, paid: u64) {
        self.roll(now);
        let hash = mix(group.0);
        let [admitted, payment] = &mut self.current;
        admitted.add(hash, group, 1);
        payment.add(hash, group, paid);
    }

    pub(super) fn fairness(&self, now: Time) -> Fairness {
        let empty = Sketch::new();
        let [admitted, paid] = match &self.whole {
            // Nothing was admitted since that period, or the last one, ended.
            _ if now >= self.end + PERIOD => [&empty, &empty],
            _ if now >= self.end => self.current.each_ref(),
            Some(whole) => whole.each_ref(),
            None => self.current.each_ref(),
        };
        Fairness {
            admitted: admitted.shares(),
            paid: paid.shares(),
        }
    }

    fn roll(&mut self, now: Time) {
        if now < self.end {
            return;
        }
        let adjacent = now < self.end + PERIOD;
        let fresh = || [Sketch::new(), Sketch::new()];
        let last = core::mem::replace(&mut self.current, fresh());
        self.whole = Some(if adjacent { last } else { fresh() });
        let index = now.as_nanos() / PERIOD.as_nanos();
        self.end = Time::from_nanos((index + 1).saturating_mul(PERIOD.as_nanos()));
    }
}

/// What is kept of amounts by group.
#[derive(Clone, Debug)]
struct Sketch {
    total: u64,
    /// Each group adds to one, with a sign of its own: the sum of squares of all is, in the mean, that of the groups
    /// (Charikar, Chen and Farach-Colton 2002, after Alon, Matias and Szegedy 1996). Empty until something is added.
    signed: Vec<i64>,
    /// The longest run of zeros of a hash in each (HyperLogLog: Flajolet and others 2007).
    registers: Vec<u8>,
    /// The largest groups (Space-Saving: Metwally, Agrawal and El Abbadi 2005), at most [`TOP`].
    top: Vec<Counter>,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    group: Identity,
    /// At least what it got.
    amount: u64,
    /// By which that may be too much.
    excess: u64,
}

impl Sketch {
    fn new() -> Self {
        Self {
            total: 0,
            signed: Vec::new(),
            registers: Vec::new(),
            top: Vec::new(),
        }
    }

    fn add(&mut self, hash: u64, group: Identity, amount: u64) {
        // Sums of squares stay finite, and sums of sums far from overflow: a petabyte a request is not to be told from more.
        let amount = amount.min(1 << 50);
        if amount == 0 {
            return;
        }
        if self.signed.is_empty() {
            self.signed = vec![0; WIDTH];
            self.registers = vec![0; REGISTERS];
            self.top.reserve_exact(TOP);
        }
        self.total = self.total.saturating_add(amount);
        let cell = &mut self.signed[hash as usize % WIDTH];
        let sign = if hash >> 32 & 1 == 0 { 1 } else { -1 };
        *cell = cell.saturating_add(sign * amount as i64);
        // The upper bits choose the register, all others but those used above make the run.
        let register = &mut self.registers[(hash >> (64 - REGISTER_BITS)) as usize];
        let run = (mix(hash) | 1).leading_zeros() as u8 + 1;
        *register = (*register).max(run);
        self.add_top(group, amount);
    }

    fn add_top(&mut self, group: Identity, amount: u64) {
        if let Some(counter) = self.top.iter_mut().find(|counter| counter.group == group) {
            counter.amount = counter.amount.saturating_add(amount);
            return;
        }
        if self.top.len() < TOP {
            self.top.push(Counter {
                group,
                amount,
                excess: 0,
            });
            return;
        }
        if let Some(least) = self.top.iter_mut().min_by_key(|counter| counter.amount) {
            *least = Counter {
                group,
                amount: least.amount.saturating_add(amount),
                excess: least.amount,
            };
        }
    }

    fn shares(&self) -> Shares {
        let total = self.total as f64;
        let groups = self.groups();
        let squares: f64 = self
            .signed
            .iter()
            .map(|count| *count as f64 * *count as f64)
            .sum();
        let jain = if squares > 0.0 {
            (total * total / (groups * squares)).clamp(1.0 / groups, 1.0)
        } else {
            1.0
        };
        let mut top = self.top.clone();
        top.sort_by_key(|counter| core::cmp::Reverse(counter.amount));
        Shares {
            total: self.total,
            groups,
            jain,
            top: top
                .iter()
                .map(|counter| TopShare {
                    group: counter.group,
                    least: (counter.amount - counter.excess) as f64 / total,
                    most: counter.amount as f64 / total,
                })
                .collect(),
        }
    }

    /// HyperLogLog's estimate, and linear counting where many registers are empty.
    fn groups(&self) -> f64 {
        let count = REGISTERS as f64;
        let empty = self.registers.iter().filter(|run| **run == 0).count();
        if self.registers.is_empty() {
            return 0.0;
        }
        let bias = 0.7213 / (1.0 + 1.079 / count);
        let sum: f64 = self
            .registers
            .iter()
            .map(|run| libm::ldexp(1.0, -i32::from(*run)))
            .sum();
        let estimate = bias * count * count / sum;
        if estimate <= 2.5 * count && empty > 0 {
            count * libm::log(count / empty as f64)
        } else {
            estimate
        }
    }
}

/// Spreads a number over all bits (the finaliser of SplitMix64, Steele and others 2014).
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Amounts by group, added in turns so that no order helps.
    fn sketch(amounts: &[u64], turns: u64) -> Sketch {
        let mut sketch = Sketch::new();
        for _ in 0..turns {
            for (group, amount) in amounts.iter().enumerate() {
                let group = Identity(group as u64);
                sketch.add(mix(group.0), group, *amount);
            }
        }
        sketch
    }

    fn jain(amounts: &[u64]) -> f64 {
        let sum: f64 = amounts.iter().map(|amount| *amount as f64).sum();
        let squares: f64 = amounts
            .iter()
            .map(|amount| *amount as f64 * *amount as f64)
            .sum();
        sum * sum / (amounts.len() as f64 * squares)
    }

    /// Within five standard errors of either sketch.
    #[test]
    fn estimates_are_near_the_truth_for_any_number_of_groups() {
        let squares = 5.0 * libm::sqrt(2.0 / WIDTH as f64);
        let groups = 5.0 * 1.04 / libm::sqrt(REGISTERS as f64);
        for n in [1_usize, 2, 10, 100, 1_000, 10_000, 100_000] {
            let even = vec![7; n];
            let mut one_has_half = vec![1; n];
            one_has_half[n / 2] = n as u64;
            let some = (0..n as u64).map(|group| 1 + group % 10).collect();
            for amounts in [even, one_has_half, some] {
                let shares = sketch(&amounts, 2).shares();
                let sum: u64 = amounts.iter().sum();
                assert_eq!(shares.total, 2 * sum);
                let off = shares.groups / amounts.len() as f64 - 1.0;
                assert!(libm::fabs(off) <= groups, "{n}: {} groups", shares.groups);
                let off = shares.jain / jain(&amounts) - 1.0;
                let most = (1.0 + groups) * (1.0 + squares) - 1.0;
                assert!(libm::fabs(off) <= most, "{n}: {}", shares.jain);
            }
        }
    }

    #[test]
    fn the_largest_groups_are_named_and_their_shares_bracketed() {
        let mut amounts = vec![1; 10_000];
        (amounts[17], amounts[4_000]) = (5_000, 2_500);
        let shares = sketch(&amounts, 3).shares();
        let total: u64 = amounts.iter().sum();
        for (place, group) in [(0, 17), (1, 4_000)] {
            let top = shares.top[place];
            assert_eq!(top.group, Identity(group));
            let share = amounts[group as usize] as f64 / total as f64;
            assert!(
                top.least <= share && share <= top.most,
                "{top:?}, it has {share}"
            );
        }
        assert_eq!(shares.top.len(), TOP);
    }

    #[test]
    fn a_flood_of_groups_takes_no_more_memory() {
        let mut meter = Meter::new();
        for group in 0..200_000 {
            meter.note(Time::ZERO, Identity(group), 3);
        }
        for sketch in &meter.current {
            assert_eq!(sketch.signed.capacity(), WIDTH);
            assert_eq!(sketch.registers.capacity(), REGISTERS);
            assert_eq!(sketch.top.capacity(), TOP);
        }
    }

    #[test]
    fn the_last_whole_minute_is_told() {
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        let mut meter = Meter::new();
        let told = |meter: &Meter, seconds| {
            let Fairness { admitted, paid } = meter.fairness(at(seconds));
            (admitted.total, paid.total)
        };
        assert_eq!(told(&meter, 0), (0, 0));
        meter.note(at(10), Identity(1), 5);
        meter.note(at(59), Identity(2), 0);
        assert_eq!(told(&meter, 59), (2, 5));
        assert_eq!(told(&meter, 60), (2, 5));
        meter.note(at(70), Identity(1), 1);
        assert_eq!(told(&meter, 119), (2, 5));
        assert_eq!(told(&meter, 120), (1, 1));
        assert_eq!(told(&meter, 180), (0, 0));
        meter.note(at(500), Identity(1), 1);
        assert_eq!(told(&meter, 500), (0, 0));
        assert_eq!(meter.fairness(at(500)).admitted.jain, 1.0);
    }
}
