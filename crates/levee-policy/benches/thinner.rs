//! The cost of the thinner's decisions: a request below capacity, a payment, and an auction.
#![expect(
    clippy::unwrap_used,
    reason = "a bench stops at what it did not expect"
)]

use std::time::Duration;

use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main, measurement::WallTime,
};
use levee_policy::{
    Span, StateMachine, Time,
    thinner::{Arrival, Capacity, Config, Input, Mode, Outcome, Output, RequestKey, Thinner},
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const CONTENDERS: [u64; 3] = [10, 1_000, 100_000];

struct Bench {
    thinner: Thinner,
    rng: Pcg64Mcg,
    now: Time,
    key: u64,
}

impl Bench {
    fn new(config: Config) -> Self {
        Self {
            thinner: Thinner::new(config).unwrap(),
            rng: Pcg64Mcg::seed_from_u64(1),
            now: Time::ZERO,
            key: 0,
        }
    }

    fn tell(&mut self, input: Input) -> Option<RequestKey> {
        self.thinner.handle(self.now, input, &mut self.rng);
        let mut admitted = None;
        while let Some(output) = self.thinner.poll_output() {
            if let Output::Admit { request, .. } = output {
                admitted = Some(request);
            }
        }
        admitted
    }

    fn arrive(&mut self) -> Option<RequestKey> {
        self.key += 1;
        self.tell(Input::Arrive(Arrival {
            request: RequestKey(self.key),
            paid: 0,
            can_wait: true,
            group: None,
        }))
    }

    fn done(&mut self, request: RequestKey) -> Option<RequestKey> {
        let outcome = Outcome::Answered;
        self.tell(Input::Done { request, outcome })
    }

    /// One request at the server, the others bid what chance gives them.
    fn auction(contenders: u64) -> Self {
        let config = Config {
            contenders: contenders as u32,
            ..Config::of(Capacity::Concurrency(1))
        };
        let mut bench = Self::new(config);
        bench.arrive();
        for _ in 0..contenders {
            bench.arrive();
            bench.pay(bench.key);
        }
        bench
    }

    fn pay(&mut self, request: u64) {
        let request = RequestKey(request);
        let units = self.rng.next_u64() % 100_000;
        self.tell(Input::Pay { request, units });
    }
}

fn group<'c>(criterion: &'c mut Criterion, name: &str) -> BenchmarkGroup<'c, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_secs(1))
        .sample_size(20);
    group
}

/// An arrival that is admitted at once, and its end; fifty others are at the server.
fn below_capacity(criterion: &mut Criterion) {
    let mut group = group(criterion, "thinner-below-capacity");
    let adaptive = Capacity::Adaptive {
        least: 1_000,
        most: 1_000,
    };
    for (name, capacity) in [
        ("rate", Capacity::Rate(500_000.0)),
        ("concurrency", Capacity::Concurrency(1_000)),
        ("adaptive", adaptive),
    ] {
        let mut bench = Bench::new(Config::of(capacity));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                bench.now = bench.now + Span::from_nanos(10_000);
                let admitted = bench.arrive().unwrap();
                if admitted.0 > 50 {
                    bench.done(RequestKey(admitted.0 - 50));
                }
            });
            assert!(!bench.thinner.is_overloaded());
        });
    }
    group.finish();
}

/// A payment of a contender drawn at random.
fn pay(criterion: &mut Criterion) {
    let mut group = group(criterion, "thinner-pay");
    for contenders in CONTENDERS {
        let mut bench = Bench::auction(contenders);
        group.bench_function(BenchmarkId::from_parameter(contenders), |bencher| {
            bencher.iter(|| {
                let request = bench.rng.next_u64() % contenders + 2;
                bench.pay(request);
            });
        });
    }
    group.finish();
}

/// The request at the server ends, the highest bid of all takes its place, and a newcomer comes and pays.
fn auction(criterion: &mut Criterion) {
    let mut group = group(criterion, "thinner-auction");
    for contenders in CONTENDERS {
        let mut bench = Bench::auction(contenders);
        let mut active = RequestKey(1);
        group.bench_function(BenchmarkId::from_parameter(contenders), |bencher| {
            bencher.iter(|| {
                bench.now = bench.now + Span::from_nanos(10);
                active = bench.done(active).unwrap();
                bench.arrive();
                bench.pay(bench.key);
            });
        });
    }
    group.finish();
}

/// A newcomer at a full table, for which the lowest bid makes room.
fn crowded(criterion: &mut Criterion) {
    let mut group = group(criterion, "thinner-crowded");
    for contenders in CONTENDERS {
        let mut bench = Bench::auction(contenders);
        group.bench_function(BenchmarkId::from_parameter(contenders), |bencher| {
            bencher.iter(|| {
                bench.now = bench.now + Span::from_nanos(10);
                bench.arrive();
                bench.pay(bench.key);
            });
        });
    }
    group.finish();
}

/// A request refused by the draw.
fn refuse(criterion: &mut Criterion) {
    let mut group = group(criterion, "thinner-refuse");
    let config = Config {
        mode: Mode::Retry,
        ..Config::of(Capacity::Rate(100.0))
    };
    let mut bench = Bench::new(config);
    group.bench_function("retry", |bencher| {
        bencher.iter(|| {
            bench.now = bench.now + Span::from_nanos(1_000);
            bench.arrive();
        });
    });
    group.finish();
}

criterion_group!(benches, below_capacity, pay, auction, crowded, refuse);
criterion_main!(benches);
