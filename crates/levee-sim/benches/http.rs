//! Events of the HTTP model: one measured iteration is one message or timer handed over, in the middle of a long run.
//!
//! Slowloris attackers hold the server, and for each place two connections a second come, half of them attackers'.
#![expect(
    clippy::unwrap_used,
    reason = "a bench stops at what it did not expect"
)]

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use levee_policy::selective::{Config, Strategy};
use levee_policy::{Span, Time};
use levee_sim::engine::{Simulation, TieOrder};
use levee_sim::model::http::{
    Attack, AttackKind, Bandwidth, Clients, Drip, Http, InCall, Setup, Timeouts,
};
use levee_sim::schedule::{Arrivals, Calls, Durations, Plan, Stream};

const CAPACITIES: [u32; 3] = [24, 1_000, 100_000];
/// By then twelve times as many connections have come as there are places.
const SETTLED: Span = Span::from_secs(6);

fn lanes() -> [(&'static str, Option<Config>, Timeouts); 4] {
    let seven = |strategy| {
        Some(Config {
            strategy,
            ..Config::default()
        })
    };
    let none = Timeouts::default();
    [
        ("undefended", None, none),
        ("timeouts", None, Timeouts::apache()),
        ("roulette", seven(Strategy::Roulette), none),
        (
            "tournament",
            seven(Strategy::Tournament { size: None }),
            none,
        ),
    ]
}

fn setup(capacity: u32, defense: Option<Config>, timeouts: Timeouts) -> Setup {
    let stream = |durations| Stream {
        calls: Calls::Rate(f64::from(capacity)),
        durations,
        callers: 100_000_000,
    };
    Setup {
        capacity,
        backlog: 0,
        send_buffer: 65_536,
        segment: 16_384,
        timeouts,
        defense,
        in_call: InCall::Request,
        delay: Span::from_millis(25),
        warmup: Span::ZERO,
        plan: Plan {
            honest: stream(Some(Durations::Exponential(Duration::from_millis(300)))),
            attacker: stream(None),
            arrivals: Arrivals::Poisson,
            until: Duration::from_secs(1_000_000),
            seed: 1,
        },
        clients: Clients {
            headers: 600,
            header_pieces: 2,
            body: 0,
            response: 50_000,
            bandwidth: Bandwidth {
                up: 125_000.0,
                down: 625_000.0,
            },
            slow: None,
            patience: None,
            retries: 0,
            retry_wait: Span::ZERO,
        },
        attack: Attack {
            kind: AttackKind::Slowloris(Drip {
                every: Span::from_secs(1),
                bytes: 20,
            }),
            fixed: None,
            redial: None,
            response: 0,
            service: Span::ZERO,
        },
    }
}

fn events(criterion: &mut Criterion) {
    for capacity in CAPACITIES {
        let mut group = criterion.benchmark_group(format!("http/{capacity}"));
        group.throughput(Throughput::Elements(1));
        for (name, defense, timeouts) in lanes() {
            let model = Http::new(setup(capacity, defense, timeouts)).unwrap();
            let end = model.end();
            let mut simulation = Simulation::new(model, end, TieOrder::FirstSent);
            while simulation.now() < Time::ZERO + SETTLED {
                assert!(simulation.step());
            }
            group.bench_function(name, |b| {
                b.iter(|| assert!(simulation.step()));
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).sample_size(20);
    targets = events
}
criterion_main!(benches);
