//! The model against theory, and what holds of every run.

mod soundness;
mod theory;

use levee_policy::thinner::{Capacity, Config, Mode};

use super::*;
use crate::engine::{Simulation, TieOrder};
use crate::model::Observed as _;

/// The papers' experiment at `C` = 100/s: 25 good and 25 bad clients of 2 Mbit/s, for 60 s.
pub(super) fn papers() -> Setup {
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
        warmup: Span::ZERO,
        time: Span::from_secs(60),
        seed: 1,
    }
}

/// The same at a tenth of its size: five good and five bad clients, 20/s, and tries of 1 kB from 50 kB/s each. Bad clients wait as long
/// as it takes, and so does the thinner: nobody loses what he paid.
fn small(mode: Mode) -> Setup {
    let papers = papers();
    let (up, request) = (50_000.0, 1_000);
    let rate = 20.0;
    Setup {
        server: Server {
            rate,
            ..papers.server
        },
        defense: Some(Config {
            mode,
            patience: Span::from_secs(600),
            ..Config::of(Capacity::Rate(rate))
        }),
        honest: Group {
            clients: 5,
            up,
            request,
            ..papers.honest
        },
        attack: Group {
            clients: 5,
            up,
            request,
            patience: Span::from_secs(600),
            ..papers.attack
        },
        warmup: Span::from_secs(10),
        ..papers
    }
}

/// The same with a server of another rate, and a thinner that knows it.
fn at_rate(mut setup: Setup, rate: f64) -> Setup {
    setup.server.rate = rate;
    if let Some(defense) = &mut setup.defense {
        defense.capacity = Capacity::Rate(rate);
    }
    setup
}

fn simulation(setup: &Setup) -> Simulation<SpeakUp> {
    simulation_of(SpeakUp::new(setup.clone()).unwrap())
}

fn simulation_of(model: SpeakUp) -> Simulation<SpeakUp> {
    let end = model.end();
    Simulation::new(model, end, TieOrder::FirstSent)
}

fn get(simulation: &Simulation<SpeakUp>, name: &str) -> f64 {
    let index = SpeakUp::observables().iter().position(|o| o.name == name);
    let index = index.unwrap_or_else(|| panic!("no observable {name}"));
    simulation.model.observe(simulation.now(), index)
}

/// What these are at the end of each run.
fn runs<const N: usize>(model: SpeakUp, runs: u64, names: [&str; N]) -> Vec<[f64; N]> {
    let mut simulation = simulation_of(model);
    let rows = (0..runs).map(|run| {
        simulation.restart(|model| model.restart(run));
        simulation.run().unwrap();
        names.map(|name| get(&simulation, name))
    });
    rows.collect()
}

/// The ratio of two sums over runs, and its standard error (delta method).
fn ratio(rows: &[[f64; 2]]) -> (f64, f64) {
    let n = rows.len() as f64;
    let sum = |i: usize| rows.iter().map(|row| row[i]).sum::<f64>();
    let estimate = sum(0) / sum(1);
    let squares = rows.iter().map(|row| (row[0] - estimate * row[1]).powi(2));
    let variance = squares.sum::<f64>() / (n - 1.0);
    (estimate, (variance / n).sqrt() / (sum(1) / n))
}

/// The ratio of two observables in so many runs, and its standard error.
fn ratio_of(setup: &Setup, n: u64, names: [&str; 2]) -> (f64, f64) {
    ratio(&runs(SpeakUp::new(setup.clone()).unwrap(), n, names))
}

/// Holds an estimate to an exact value within 5 standard errors, and what the theory itself leaves open.
fn assert_near((estimate, error): (f64, f64), exact: f64, open: f64, what: &str) {
    assert!(
        (estimate - exact).abs() <= 5.0 * error + open,
        "{what}: {estimate} and not {exact}, standard error {error}, left open {open}"
    );
    // A test that could not fail is none.
    assert!(5.0 * error + open < 0.1 * exact.abs(), "{what}: {error}");
}

const GOOD_SHARE: [&str; 2] = ["honest.worked", "server.worked"];
