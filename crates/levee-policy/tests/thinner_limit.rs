//! The adaptive limit before simulated servers whose best limit is known.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::{cmp::Reverse, collections::BinaryHeap};

use levee_policy::{
    Time,
    thinner::{AdaptiveLimit, Outcome},
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Nanoseconds of the mean work of a request.
const WORK: f64 = 20e6;

/// How fast a server works when `n` requests are at it, in requests at full speed: `n` would be without any waiting.
type Speed = fn(u32) -> f64;

/// A server that shares its speed among all its requests, and clients that keep the limit used, or ask at a rate.
///
/// Sharing by virtual time: a request ends when the work given to each since its arrival reaches its own.
struct Run {
    limit: AdaptiveLimit,
    speed: Speed,
    /// Mean and odds of the work of costly requests.
    costly: Option<(f64, f64)>,
    /// Requests a second, where the clients do not saturate the limit.
    demand: Option<f64>,
    /// Part of the requests that fail while more than this many are at the server.
    fails: Option<(u32, f64)>,
    rng: Pcg64Mcg,
    now: f64,
    given: f64,
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    answered: u64,
    /// The limit after each thousand requests.
    limits: Vec<u32>,
    next_arrival: f64,
}

impl Run {
    fn new(least: u32, most: u32, speed: Speed) -> Self {
        Self {
            limit: AdaptiveLimit::new(least, most),
            speed,
            costly: None,
            demand: None,
            fails: None,
            rng: Pcg64Mcg::seed_from_u64(5),
            now: 0.0,
            given: 0.0,
            ends: BinaryHeap::new(),
            answered: 0,
            limits: Vec::new(),
            next_arrival: 0.0,
        }
    }

    fn unit(&mut self) -> f64 {
        ((self.rng.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    fn work(&mut self) -> f64 {
        let draw = self.unit();
        let mean = match self.costly {
            Some((mean, odds)) if draw < odds => mean,
            _ => 1.0,
        };
        mean * WORK * self.exponential()
    }

    fn start(&mut self) {
        self.limit.started(Time::from_nanos(self.now as u64));
        let end = self.given + self.work();
        self.ends.push(Reverse((end as u64, self.now as u64)));
    }

    fn requests(&mut self, count: u64) {
        let until = self.answered + count;
        while self.answered < until {
            if self.demand.is_none() {
                while (self.ends.len() as u32) < self.limit.limit() {
                    self.start();
                }
            }
            let n = self.ends.len() as u32;
            let each = if n == 0 {
                0.0
            } else {
                (self.speed)(n) / f64::from(n)
            };
            let end = self.ends.peek().map_or(f64::INFINITY, |Reverse((end, _))| {
                self.now + (*end as f64 - self.given).max(0.0) / each
            });
            let arrival = if self.demand.is_some() {
                self.next_arrival
            } else {
                f64::INFINITY
            };
            let next = end.min(arrival);
            self.given += (next - self.now) * each;
            self.now = next;
            if arrival < end {
                self.next_arrival += self.exponential() * 1e9 / self.demand.unwrap();
                // One that finds no place goes away.
                if n < self.limit.limit() {
                    self.start();
                }
                continue;
            }
            let Reverse((_, started)) = self.ends.pop().unwrap();
            let now = Time::from_nanos(self.now as u64);
            let draw = self.unit();
            let failed = self
                .fails
                .is_some_and(|(beyond, odds)| n > beyond && draw < odds);
            let outcome = if failed {
                Outcome::Failed
            } else {
                Outcome::Answered
            };
            self.limit
                .ended(now, now - Time::from_nanos(started), outcome);
            self.answered += 1;
            if self.answered.is_multiple_of(1_000) {
                self.limits.push(self.limit.limit());
            }
        }
    }

    fn limits_since(&self, thousands: usize) -> (u32, f64, u32) {
        let limits = &self.limits[thousands..];
        let mean = limits.iter().map(|limit| f64::from(*limit)).sum::<f64>() / limits.len() as f64;
        (
            *limits.iter().min().unwrap(),
            mean,
            *limits.iter().max().unwrap(),
        )
    }
}

/// So many places, and more requests share them.
fn places<const N: u32>(n: u32) -> f64 {
    f64::from(n.min(N))
}

/// Beyond 40 requests the server works ever slower.
fn thrashing(n: u32) -> f64 {
    let n = f64::from(n);
    if n <= 40.0 { n } else { 1_600.0 / n }
}

fn unlimited(n: u32) -> f64 {
    f64::from(n)
}

/// The bounds are those that the documentation of the algorithm names.
fn settles_at(best: f64, costly: Option<(f64, f64)>, speed: Speed) {
    for seed in 0..3 {
        let mut run = Run::new(1, 10_000, speed);
        run.rng = Pcg64Mcg::seed_from_u64(seed);
        run.costly = costly;
        run.requests(120_000);
        let (least, mean, most) = run.limits_since(40);
        assert!(
            mean > best * 0.75 && mean < best * 1.34,
            "{mean} in the mean, {best} is best, seed {seed}"
        );
        assert!(
            f64::from(least) >= libm::floor(best * 0.5)
                && f64::from(most) <= libm::ceil(best * 2.0),
            "from {least} to {most}, {best} is best, seed {seed}"
        );
    }
}

#[test]
fn settles_at_the_places_of_the_server() {
    settles_at(2.0, None, places::<2>);
    settles_at(8.0, None, places::<8>);
    settles_at(100.0, None, places::<100>);
    settles_at(1_000.0, None, places::<1_000>);
}

#[test]
fn settles_where_requests_begin_to_hinder_each_other() {
    settles_at(40.0, None, thrashing);
}

/// One request in twenty costs twenty times as much: half of all work.
#[test]
fn costly_requests_do_not_move_the_limit_for_all() {
    let costly = Some((20.0, 0.05));
    settles_at(8.0, costly, places::<8>);
    settles_at(100.0, costly, places::<100>);
    settles_at(40.0, costly, thrashing);
}

#[test]
fn keeps_to_its_bounds() {
    let mut run = Run::new(4, 64, unlimited);
    run.requests(60_000);
    let (least, _, most) = run.limits_since(40);
    assert!(least >= 32 && most == 64, "{least} {most}");
    let mut run = Run::new(12, 64, places::<2>);
    run.requests(60_000);
    let (least, _, most) = run.limits_since(40);
    assert!(least == 12 && most <= 24, "{least} {most}");
}

#[test]
fn a_limit_that_is_not_used_does_not_grow() {
    let mut run = Run::new(1, 10_000, places::<100>);
    // Four requests at once in the mean.
    run.demand = Some(200.0);
    run.requests(50_000);
    let (least, _, most) = run.limits_since(0);
    assert!(least >= 17 && most <= 23, "{least} {most}");
}

/// 8 places of 20 ms do 400 requests a second.
#[test]
fn mild_overload_makes_no_limit_grow() {
    let mut run = Run::new(1, 10_000, places::<8>);
    run.demand = Some(420.0);
    run.requests(200_000);
    let (_, _, most) = run.limits_since(0);
    assert!(most <= 23, "{most}");
}

#[test]
fn failures_lower_the_limit() {
    let mut run = Run::new(1, 10_000, unlimited);
    run.fails = Some((10, 0.5));
    run.requests(60_000);
    let (_, mean, most) = run.limits_since(20);
    assert!(mean > 4.0 && mean < 12.0 && most <= 20, "{mean} {most}");
}

#[test]
fn follows_a_server_that_becomes_slower_and_recovers() {
    let mut run = Run::new(1, 10_000, places::<100>);
    run.requests(60_000);
    run.speed = places::<10>;
    run.requests(60_000);
    let (_, slow, _) = run.limits_since(90);
    run.speed = places::<100>;
    run.requests(60_000);
    let (_, again, _) = run.limits_since(150);
    assert!(slow > 7.5 && slow < 13.4, "{slow}");
    assert!(again > 75.0 && again < 134.0, "{again}");
}

#[test]
fn a_server_that_is_slower_for_all_keeps_its_limit() {
    let mut run = Run::new(1, 10_000, |n| f64::from(n.min(50)) / 10.0);
    run.requests(100_000);
    let (_, mean, _) = run.limits_since(40);
    assert!(mean > 37.5 && mean < 67.0, "{mean}");
}
