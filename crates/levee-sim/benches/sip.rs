//! Events of the SIP model: one measured iteration is one message or timer handed over, in the middle of a long run.
//!
//! Calls come at 1.7 times the rate that fills the lines, half of them attackers', so that a defended lane decides at a full table. The ringing
//! time is a hundredth of the mean call for every `k`.
#![expect(
    clippy::unwrap_used,
    reason = "a bench stops at what it did not expect"
)]

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use levee_policy::selective::{Config, Strategy};
use levee_policy::{Span, Time};
use levee_sim::engine::{Simulation, TieOrder};
use levee_sim::model::sip::{Setup, Sip};
use levee_sim::schedule::{Arrivals, Calls, Durations, Plan, Stream};

const CAPACITIES: [u32; 3] = [24, 1_000, 100_000];
/// By then as many calls have begun as there are lines, twice over.
const SETTLED: Span = Span::from_secs(6);

fn lanes() -> [(&'static str, Option<Config>); 4] {
    let seven = |strategy| {
        Some(Config {
            strategy,
            ..Config::default()
        })
    };
    [
        ("undefended", None),
        ("uniform", seven(Strategy::Uniform)),
        ("roulette", seven(Strategy::Roulette)),
        ("tournament", seven(Strategy::Tournament { size: None })),
    ]
}

fn setup(capacity: u32, defense: Option<Config>) -> Setup {
    let rate = 1.7 * f64::from(capacity) / 5.0;
    let stream = |durations| Stream {
        calls: Calls::Rate(rate / 2.0),
        durations,
        callers: 100_000_000,
    };
    Setup {
        capacity,
        defense,
        plan: Plan {
            honest: stream(Some(Durations::Exponential(Duration::from_secs(5)))),
            attacker: stream(None),
            arrivals: Arrivals::Poisson,
            until: Duration::from_secs(1_000_000),
            seed: 1,
        },
        warmup: Span::ZERO,
        delay: Span::from_millis(10),
        ring: Span::from_millis(50),
        ring_timeout: Span::from_secs(30),
        redial: None,
        ties: TieOrder::FirstSent,
    }
}

fn events(criterion: &mut Criterion) {
    for capacity in CAPACITIES {
        let mut group = criterion.benchmark_group(format!("sip/{capacity}"));
        group.throughput(Throughput::Elements(1));
        for (name, defense) in lanes() {
            let model = Sip::new(setup(capacity, defense)).unwrap();
            let end = model.end();
            let mut simulation = Simulation::new(model, end, TieOrder::FirstSent);
            while simulation.now() < Time::ZERO + SETTLED {
                assert!(simulation.step());
            }
            let mut run = 0;
            group.bench_function(name, |b| {
                b.iter(|| {
                    // A fast machine gets to the horizon.
                    if !simulation.step() {
                        run += 1;
                        simulation.restart(|model| model.restart(run));
                    }
                });
            });
        }
    }
}

/// A whole run of the paper's experiment, restart included.
fn runs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sip/run of 40 s, k 24");
    for (name, defense) in lanes() {
        let mut setup = setup(24, defense);
        setup.plan.until = Duration::from_secs(40);
        let model = Sip::new(setup).unwrap();
        let end = model.end();
        let mut simulation = Simulation::new(model, end, TieOrder::FirstSent);
        let mut run = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                run += 1;
                simulation.restart(|model| model.restart(run));
                simulation.run().unwrap();
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).sample_size(20);
    targets = events, runs
}
criterion_main!(benches);
