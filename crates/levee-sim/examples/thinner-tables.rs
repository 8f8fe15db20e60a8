//! Prints the tables of docs/model-thinner.md.
//!
//! `cargo run --release -p levee-sim --example thinner-tables [RUNS]`, 10 runs unless given.
#![expect(
    clippy::unwrap_used,
    reason = "an example stops at what it did not expect"
)]

use levee_policy::Span;
use levee_policy::thinner::{Capacity, Config, Mode};
use levee_sim::engine::{Simulation, TieOrder};
use levee_sim::model::Observed as _;
use levee_sim::model::thinner::{Group, Server, Setup, SpeakUp, Split};

/// The papers' experiment: 25 good and 25 bad clients of 2 Mbit/s before a server of 100 requests a second.
fn papers() -> Setup {
    let good = Group {
        clients: 25,
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
            rate: 100.0,
            jitter: 0.1,
            backlog: 50,
        },
        defense: None,
        honest: good,
        attack: Group {
            rate: 40.0,
            window: 20,
            ..good
        },
        delay: Span::ZERO,
        warmup: Span::from_secs(20),
        time: Span::from_secs(60),
        seed: 1,
    }
}

fn with(setup: &Setup, mode: Option<Mode>) -> Setup {
    let capacity = Capacity::Rate(setup.server.rate);
    Setup {
        defense: mode.map(|mode| Config {
            mode,
            ..Config::of(capacity)
        }),
        ..setup.clone()
    }
}

fn index(name: &str) -> usize {
    SpeakUp::observables()
        .iter()
        .position(|o| o.name == name)
        .unwrap()
}

/// Values of these observables at the end of each run.
fn values(setup: Setup, runs: u64, names: &[&str]) -> Vec<Vec<f64>> {
    let model = SpeakUp::new(setup).unwrap();
    let end = model.end();
    let mut simulation = Simulation::new(model, end, TieOrder::FirstSent);
    (0..runs)
        .map(|run| {
            simulation.restart(|model| model.restart(run));
            simulation.run().unwrap();
            names
                .iter()
                .map(|n| simulation.model.observe(end, index(n)))
                .collect()
        })
        .collect()
}

fn main() {
    let runs = 4;
    let modes = [
        None,
        Some(Mode::Random),
        Some(Mode::Retry),
        Some(Mode::Priced),
        Some(Mode::Auction),
        Some(Mode::ProofOfWork),
        Some(Mode::Queue),
    ];
    for c in [50.0, 100.0, 200.0] {
        for mode in modes {
            let mut s = papers();
            s.server.rate = c;
            let setup = with(&s, mode);
            let t = std::time::Instant::now();
            let names = [
                "server.good_share",
                "honest.served",
                "honest.attempted",
                "honest.wait_mean",
                "honest.price_mean",
                "honest.tries_mean",
                "server.done",
                "server.refused",
                "thinner.forfeited",
            ];
            let v = values(setup, runs, &names);
            let mean = |i: usize| v.iter().map(|r| r[i]).sum::<f64>() / runs as f64;
            print!("{c} {mode:?}: ");
            for (i, n) in names.iter().enumerate() {
                print!("{n}={:.3} ", mean(i));
            }
            println!(" {:.2}s", t.elapsed().as_secs_f64());
        }
    }
}
