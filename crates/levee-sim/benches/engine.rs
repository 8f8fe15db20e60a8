//! The cost of a message.
//!
//! - `queue`: one taken and one sent while `n` timers are pending, with exponential delays of 5 s: the classic hold model.
//!   `levee` is the scheduler, with its numbering, horizon and limits; `naive` the standard binary heap and nothing else.
//! - `link`: the same over plain links of one delay, which have a lane.
//! - `dispatch`: a message that actors hand on, each with a state of its own, through [`Simulation::step`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use levee_policy::{Span, Time};
use levee_sim::engine::{ActorId, Link, LinkId, Model, Scheduler, Simulation, TieOrder};

const PENDING: [usize; 4] = [24, 1_000, 100_000, 1_000_000];
/// Of a message: as large as that of the models.
type Message = [u32; 2];
/// Of the naive queue: when, tie, to whom and what.
type Entry = Reverse<(Time, u64, (ActorId, Message))>;

/// Exponential delays, from a table so that the draw costs little beside the queue.
struct Delays {
    table: Vec<Span>,
    state: u64,
}

impl Delays {
    const BITS: u32 = 10;

    fn new() -> Self {
        let size = 1 << Self::BITS;
        let quantile = |i: u32| -(1.0 - (f64::from(i) + 0.5) / f64::from(size)).ln();
        let delay = |i| Span::from_nanos((5e9 * quantile(i)) as u64);
        Self {
            table: (0..size).map(delay).collect(),
            state: 1,
        }
    }

    fn draw(&mut self) -> Span {
        // A linear congruential generator (Knuth's MMIX). Its other bits keep equal delays from being due together.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let delay = self.table[(self.state >> (64 - Self::BITS)) as usize];
        delay + Span::from_nanos(self.state >> 32 & 0xf_ffff)
    }
}

fn queue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("queue");
    group.throughput(Throughput::Elements(1));
    for pending in PENDING {
        let mut delays = Delays::new();
        let mut scheduler = Scheduler::<Message>::new(TieOrder::FirstSent);
        let mut hold = |scheduler: &mut Scheduler<Message>| {
            if let Some((to, message)) = scheduler.take() {
                scheduler.after(delays.draw(), to, message);
            }
        };
        let mut first = Delays::new();
        for n in 0..pending as u32 {
            scheduler.after(first.draw(), ActorId(n), [n; 2]);
        }
        // Until the times are those of a steady state.
        (0..3 * pending).for_each(|_| hold(&mut scheduler));
        group.bench_function(BenchmarkId::new("levee", pending), |bench| {
            bench.iter(|| hold(&mut scheduler));
        });
        black_box(&scheduler);

        let mut delays = Delays::new();
        let mut heap = BinaryHeap::new();
        let mut sent = 0;
        let mut push = |heap: &mut BinaryHeap<Entry>, now: Time, what: (ActorId, Message)| {
            sent += 1;
            heap.push(Reverse((now + delays.draw(), sent, what)));
        };
        for n in 0..pending as u32 {
            push(&mut heap, Time::ZERO, (ActorId(n), [n; 2]));
        }
        let mut hold = |heap: &mut BinaryHeap<Entry>| {
            if let Some(Reverse((now, _, what))) = heap.pop() {
                push(heap, now, what);
            }
        };
        (0..3 * pending).for_each(|_| hold(&mut heap));
        group.bench_function(BenchmarkId::new("naive", pending), |bench| {
            bench.iter(|| hold(&mut heap));
        });
        black_box(&heap);
    }
    group.finish();
}

fn link(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("link");
    group.throughput(Throughput::Elements(1));
    for pending in PENDING {
        let mut scheduler = Scheduler::<Message>::new(TieOrder::FirstSent);
        let link = scheduler.link(Link {
            delay: Span::from_millis(100),
        });
        let gap = scheduler.link(Link {
            delay: Span::from_nanos(100_000_000 / pending as u64),
        });
        // One of the messages comes often, and brings the times of the others apart.
        scheduler.send(gap, ActorId(0), [0; 2]);
        for n in 1..pending as u32 {
            if let Some((to, message)) = scheduler.take() {
                scheduler.send(gap, to, message);
            }
            scheduler.send(link, ActorId(n), [n; 2]);
        }
        group.bench_function(BenchmarkId::from_parameter(pending), |bench| {
            bench.iter(|| {
                if let Some((to, message)) = scheduler.take() {
                    scheduler.send(if to == ActorId(0) { gap } else { link }, to, message);
                }
            });
        });
    }
    group.finish();
}

/// Actors in a ring; each counts what it hands on.
struct Ring {
    counts: Vec<u64>,
    link: LinkId,
}

impl Model for Ring {
    type Message = Message;

    fn start(&mut self, scheduler: &mut Scheduler<Message>) {
        self.link = scheduler.link(Link {
            delay: Span::from_millis(100),
        });
        for n in 0..self.counts.len() as u32 {
            scheduler.after(Span::from_nanos(u64::from(n) * 7), ActorId(n), [n, 0]);
        }
    }

    fn deliver(&mut self, to: ActorId, [from, hops]: Message, scheduler: &mut Scheduler<Message>) {
        let count = &mut self.counts[to.0 as usize];
        *count += u64::from(from ^ hops);
        let next = (to.0 + 1) % self.counts.len() as u32;
        scheduler.send(self.link, ActorId(next), [from, hops.wrapping_add(1)]);
    }
}

fn dispatch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dispatch");
    group.throughput(Throughput::Elements(1));
    for actors in [24, 100_000] {
        let ring = Ring {
            counts: vec![0; actors],
            link: LinkId::default(),
        };
        let mut simulation = Simulation::new(ring, Time::MAX, TieOrder::FirstSent);
        group.bench_function(BenchmarkId::from_parameter(actors), |bench| {
            bench.iter(|| simulation.step());
        });
        black_box(&simulation.model.counts);
    }
    group.finish();
}

fn quick() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
}

criterion_group! {
    name = benches;
    config = quick();
    targets = queue, link, dispatch
}
criterion_main!(benches);
