//! The cost of a decision at a full table: one arrival, one victim, its end, and the answer of the newcomer.
//!
//! `fast` is the machine as it runs, `phases` the same with the phases of HTTP: a newcomer in its headers, a victim, its end, and the newcomer
//! goes on to another phase; `progress` is one report of a connection anywhere in a full table. `naive` is only the choice of the victim, drawn in `O(k)` as the strategy is defined,
//! without tables, look-ups or bookkeeping: a lower bound of what a plain implementation costs. Its uniform draw is one index
//! into a list without exempt calls, so that it says nothing about `O(k)`.
#![expect(
    clippy::unwrap_used,
    reason = "a bench stops at what it did not expect"
)]

#[path = "../tests/reference/mod.rs"]
mod reference;

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use levee_policy::{
    Span, StateMachine, Time,
    selective::{
        Arrival, CallKey, CallState, Class, ClassId, Config, DropFactor, Input, MEAN_CALL, Output,
        PhaseId, Selective, Strategy, phases_of_http,
    },
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use self::reference::Candidate;

const STRATEGIES: [Strategy; 3] = [
    Strategy::Uniform,
    Strategy::Roulette,
    Strategy::Tournament { size: None },
];
const CAPACITIES: [u32; 4] = [24, 1_000, 100_000, 1_000_000];

/// A full table under a steady load of newcomers.
struct Steady {
    table: Selective,
    rng: Pcg64Mcg,
    now: Time,
    gap: Span,
    key: u64,
    classes: u64,
}

impl Steady {
    fn new(capacity: u32, strategy: Strategy, factors: &[f64]) -> Self {
        let classes = factors.iter().map(|factor| Class {
            factor: *factor,
            ..Class::named(&format!("x{factor}"))
        });
        let config = Config {
            strategy,
            round: Span::from_millis(1),
            classes: classes.collect(),
            ..Config::default()
        };
        let mut steady = Self {
            table: Selective::new(capacity, config).unwrap(),
            rng: Pcg64Mcg::seed_from_u64(1),
            now: Time::ZERO,
            // Two mean calls until every place has been given anew: calls of every kind.
            gap: Span::from_nanos(2 * MEAN_CALL.as_nanos() / u64::from(capacity)),
            key: 0,
            classes: factors.len() as u64 + 1,
        };
        for _ in 0..4 * u64::from(capacity) {
            steady.step();
        }
        steady
    }

    /// With phases, and each call gone on to the next one.
    fn in_phases(capacity: u32, strategy: Strategy) -> Self {
        let config = Config {
            strategy,
            round: Span::from_millis(1),
            phases: phases_of_http(),
            ..Config::default()
        };
        let mut steady = Self {
            table: Selective::new(capacity, config).unwrap(),
            rng: Pcg64Mcg::seed_from_u64(1),
            now: Time::ZERO,
            // Four seconds until every place has been given anew: some fall behind.
            gap: Span::from_nanos(4_000_000_000 / u64::from(capacity)),
            key: 0,
            classes: 1,
        };
        for _ in 0..4 * u64::from(capacity) {
            steady.phase_step();
        }
        steady
    }

    fn phase_step(&mut self) {
        self.now = self.now + self.gap;
        self.key += 1;
        let call = CallKey(self.key);
        let arrival = Arrival {
            call,
            class: ClassId::DEFAULT,
            phase: PhaseId::HEADERS,
            caller: None,
            source: None,
        };
        self.tell(Input::Arrive(arrival));
        let phase = PhaseId((self.key % 5) as u8);
        self.tell(Input::Enter { call, phase });
    }

    fn tell(&mut self, input: Input) {
        self.table.handle(self.now, input, &mut self.rng);
        while let Some(output) = self.table.poll_output() {
            if let Output::Evict { call, .. } = output {
                let ended = Input::Ended { call };
                self.table.handle(self.now, ended, &mut self.rng);
            }
        }
    }

    /// A report of one of the calls that came last, of whom most are held.
    fn report(&mut self) {
        self.now = self.now + Span::from_nanos(1_000);
        let ago = self.rng.next_u64() % u64::from(self.table.capacity());
        let call = CallKey(self.key - ago);
        self.tell(Input::Progress { call, units: 300 });
    }

    fn step(&mut self) {
        self.now = self.now + self.gap;
        self.key += 1;
        let call = CallKey(self.key);
        let class = ClassId((self.key % self.classes) as u16);
        let arrival = Arrival {
            call,
            class,
            phase: PhaseId::default(),
            caller: None,
            source: None,
        };
        self.table
            .handle(self.now, Input::Arrive(arrival), &mut self.rng);
        while let Some(output) = self.table.poll_output() {
            if let Output::Evict { call, .. } = output {
                self.table
                    .handle(self.now, Input::Ended { call }, &mut self.rng);
            }
        }
        // One call in four stays WAITING.
        if !self.key.is_multiple_of(4) {
            self.table
                .handle(self.now, Input::Answered { call }, &mut self.rng);
            while self.table.poll_output().is_some() {}
        }
    }
}

fn fast(criterion: &mut Criterion) {
    for (group, factors) in [("fast", &[][..]), ("fast-3-factors", &[4.0, 0.25][..])] {
        let mut group = criterion.benchmark_group(group);
        group
            .measurement_time(Duration::from_secs(2))
            .warm_up_time(Duration::from_secs(1))
            .sample_size(20);
        for strategy in STRATEGIES {
            for capacity in CAPACITIES {
                let id = BenchmarkId::new(strategy.name(), capacity);
                let mut steady = None;
                group.bench_function(id, |bencher| {
                    let steady =
                        steady.get_or_insert_with(|| Steady::new(capacity, strategy, factors));
                    bencher.iter(|| steady.step());
                    assert!(
                        steady.table.stats().refused.total() * 100 < steady.key,
                        "mostly replacements"
                    );
                });
            }
        }
        group.finish();
    }
}

fn phases(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("phases");
    group
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_secs(1))
        .sample_size(20);
    for strategy in STRATEGIES {
        for capacity in CAPACITIES {
            let id = BenchmarkId::new(strategy.name(), capacity);
            let mut steady = None;
            group.bench_function(id, |bencher| {
                let steady = steady.get_or_insert_with(|| Steady::in_phases(capacity, strategy));
                bencher.iter(|| steady.phase_step());
            });
        }
    }
    for capacity in CAPACITIES {
        let mut steady = None;
        group.bench_function(BenchmarkId::new("progress", capacity), |bencher| {
            let roulette = Strategy::Roulette;
            let steady = steady.get_or_insert_with(|| Steady::in_phases(capacity, roulette));
            bencher.iter(|| steady.report());
        });
    }
    group.finish();
}

fn naive(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("naive");
    group
        .measurement_time(Duration::from_secs(1))
        .warm_up_time(Duration::from_millis(200))
        .sample_size(10);
    group.sampling_mode(SamplingMode::Flat);
    let drop_factor = DropFactor::default();
    for strategy in STRATEGIES {
        for capacity in CAPACITIES {
            let mut rng = Pcg64Mcg::seed_from_u64(1);
            let mut calls: Vec<Candidate> = (0..u64::from(capacity))
                .map(|key| Candidate {
                    key: CallKey(key),
                    factor: 1.0,
                    state: if key.is_multiple_of(4) {
                        CallState::Waiting
                    } else {
                        CallState::InCall
                    },
                    age: Span::from_nanos(rng.next_u64() % (2 * MEAN_CALL.as_nanos())),
                    phase: None,
                })
                .collect();
            group.bench_function(BenchmarkId::new(strategy.name(), capacity), |bencher| {
                bencher.iter(|| {
                    let victim =
                        reference::draw(strategy, capacity, &calls, &drop_factor, &mut rng)
                            .unwrap();
                    calls[victim].age = Span::ZERO;
                    black_box(victim)
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, fast, phases, naive);
criterion_main!(benches);
