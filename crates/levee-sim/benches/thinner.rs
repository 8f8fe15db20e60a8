//! Events of the thinner's model: one measured iteration is one message or timer handed over, in the middle of a long run.
//!
//! Half of the clients are good and half bad, as in the papers' experiment, and the server takes two requests a second for each.
#![expect(
    clippy::unwrap_used,
    reason = "a bench stops at what it did not expect"
)]

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use levee_policy::thinner::{Capacity, Config, Mode};
use levee_policy::{Span, Time};
use levee_sim::engine::{Simulation, TieOrder};
use levee_sim::model::thinner::{Group, Server, Setup, SpeakUp, Split};

const CLIENTS: [u32; 2] = [50, 5_000];
/// By then bad clients have filled their windows.
const SETTLED: Span = Span::from_secs(10);

fn setup(clients: u32, mode: Option<Mode>) -> Setup {
    let rate = 2.0 * f64::from(clients);
    let good = Group {
        clients: clients / 2,
        rate: 2.0,
        window: 1,
        up: 250_000.0,
        hashes: 1e6,
        patience: Span::from_secs(10),
        request: 1_500,
        work: 1.0,
        pays: true,
        split: Split::Equal,
    };
    Setup {
        server: Server {
            rate,
            jitter: 0.1,
            backlog: 50,
        },
        defense: mode.map(|mode| Config {
            mode,
            contenders: 100_000,
            ..Config::of(Capacity::Rate(rate))
        }),
        honest: good,
        attack: Group {
            rate: 40.0,
            window: 20,
            ..good
        },
        delay: Span::ZERO,
        warmup: Span::ZERO,
        time: Span::from_secs(1_000_000),
        seed: 1,
    }
}

fn events(criterion: &mut Criterion) {
    for clients in CLIENTS {
        let mut group = criterion.benchmark_group(format!("thinner/{clients}"));
        group.throughput(Throughput::Elements(1));
        let modes = [
            None,
            Some(Mode::Retry),
            Some(Mode::Priced),
            Some(Mode::Auction),
        ];
        for mode in modes {
            let model = SpeakUp::new(setup(clients, mode)).unwrap();
            let end = model.end();
            let mut simulation = Simulation::new(model, end, TieOrder::FirstSent);
            while simulation.now() < Time::ZERO + SETTLED {
                assert!(simulation.step());
            }
            group.bench_function(mode.map_or("undefended", Mode::name), |b| {
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
