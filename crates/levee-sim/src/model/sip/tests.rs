use std::time::Duration;

use levee_policy::Span;
use levee_policy::selective::{Config, Strategy};

use super::*;
use crate::engine::{Simulation, TieOrder};
use crate::model::Observed;
use crate::schedule::{Arrivals, Calls, Durations, Plan, Stream};

/// The paper's server and calls: 24 lines, mean 5 s, 40 s, with this rate of all calls and share of attackers.
fn paper(rate: f64, share: f64, defense: Option<Config>) -> Setup {
    let mean = Duration::from_secs(5);
    Setup {
        capacity: 24,
        defense,
        plan: Plan {
            honest: Stream {
                calls: Calls::Rate(rate * (1.0 - share)),
                durations: Some(Durations::Exponential(mean)),
                callers: 100_000_000,
            },
            attacker: Stream {
                calls: Calls::Rate(rate * share),
                durations: None,
                callers: 100_000_000,
            },
            arrivals: Arrivals::Poisson,
            until: Duration::from_secs(40),
            seed: 1,
        },
        warmup: Span::ZERO,
        delay: Span::from_millis(100),
        ring: Span::from_millis(300),
        ring_timeout: Span::from_secs(30),
        redial: None,
        ties: TieOrder::FirstSent,
    }
}

fn seven(strategy: Strategy) -> Option<Config> {
    Some(Config {
        strategy,
        ..Config::default()
    })
}

fn start(setup: Setup) -> Simulation<Sip> {
    let ties = setup.ties;
    let model = Sip::new(setup).unwrap();
    let end = model.end();
    Simulation::new(model, end, ties)
}

fn get(simulation: &Simulation<Sip>, name: &str) -> f64 {
    let index = Sip::observables().iter().position(|o| o.name == name);
    let index = index.unwrap_or_else(|| panic!("no observable {name}"));
    simulation.model.observe(simulation.now(), index)
}

fn share(simulation: &Simulation<Sip>) -> [f64; 2] {
    ["honest.complete", "honest.attempted"].map(|name| get(simulation, name))
}

/// Runs `runs` runs and collects some figures of each.
fn runs<const N: usize>(
    setup: Setup,
    runs: u64,
    figures: impl Fn(&Simulation<Sip>) -> [f64; N],
) -> Vec<[f64; N]> {
    let mut simulation = start(setup);
    (0..runs)
        .map(|run| {
            simulation.restart(|model| model.restart(run));
            simulation.run().unwrap();
            figures(&simulation)
        })
        .collect()
}

#[test]
fn smoke() {
    for defense in [None, seven(Strategy::Roulette)] {
        let r = runs(paper(4.75, 0.5, defense), 100, share);
        let (c, a) = r.iter().fold((0.0, 0.0), |s, r| (s.0 + r[0], s.1 + r[1]));
        eprintln!("{}", c / a);
    }
}
