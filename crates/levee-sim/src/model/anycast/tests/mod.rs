//! The model against theory, and what holds of every run.

mod responder;
mod theory;

use std::sync::Arc;
use std::time::Duration;

use levee_policy::reroute::{Classes, Play, Playbook, Routing, Sites};

use super::*;
use crate::engine::{Simulation, TieOrder};
use crate::model::Observed as _;
use crate::schedule::Durations;

/// Three sites and four classes: two at A, one at B, one at C. A's first class goes to B with a prepend, and its second one
/// with two; with A withdrawn they go to C.
pub(super) fn playbook() -> Playbook {
    let site: [[u8; 4]; 4] = [[0, 0, 1, 2], [1, 0, 1, 2], [1, 1, 1, 2], [2, 2, 1, 2]];
    let weight = [100_u64, 200, 300, 400];
    let plays = site.iter().zip(["baseline", "+1xA", "+2xA", "0xA"]);
    let plays = plays.map(|(row, name)| {
        let mut blocks = vec![0; 3];
        for (site, weight) in row.iter().zip(weight) {
            blocks[usize::from(*site)] += weight;
        }
        Play {
            routing: Routing::parse(name, &sites()).unwrap(),
            blocks,
            unknown: 0,
            load: None,
            partial: false,
            ineffective: false,
        }
    });
    let classes = Classes {
        blocks: weight.to_vec(),
        load: Vec::new(),
        site: site.concat(),
    };
    Playbook::new(sites(), plays.collect(), Some(classes)).unwrap()
}

fn sites() -> Sites {
    Sites::new(["A", "B", "C"]).unwrap()
}

/// Ten thousand queries a second on sites that hold twice to seven times that, without noise, errors, delays or an attack.
pub(super) fn quiet() -> Setup {
    let playbook = playbook();
    Setup {
        world: Arc::new(World::of(&playbook)),
        playbook: Arc::new(playbook),
        sites: vec![site(20_000.0); 3],
        honest: Honest {
            load: 10_000.0,
            daily: 0.0,
            peak: Span::ZERO,
            clock: Span::ZERO,
            noise: 0.0,
            error: 0.0,
            known_good: KnownGood {
                rate: 50.0,
                error: 0.0,
                claims: 0.02,
                lasts: Span::from_secs(3_600),
                located: true,
            },
        },
        attack: None,
        network: Network {
            convergence: Durations::Fixed(Duration::ZERO),
            transient_loss: 0.0,
            deploy: Span::ZERO,
            deploy_failure: 0.0,
            wrong: 0.0,
            drift: 0.0,
            churn: 0.0,
        },
        measure: Measuring {
            interval: Span::from_secs(60),
            lost: 0.0,
        },
        defense: None,
        play: 0,
        calm: Span::from_secs(300),
        flap: Span::from_secs(1_800),
        time: Span::from_secs(7_200),
        seed: 1,
    }
}

fn site(capacity: f64) -> Site {
    Site {
        capacity,
        ingress: capacity,
    }
}

/// An attack on all that reaches the first site, from 10 minutes on, for an hour.
pub(super) fn attack(load: f64) -> Attack {
    Attack {
        load,
        from: Sources::Classes(vec![1.0, 1.0, 0.0, 0.0]),
        shape: Shape::Constant,
        start: Span::from_secs(600),
        length: Span::from_secs(3_600),
        moves: None,
    }
}

fn simulation(setup: &Setup) -> Simulation<Anycast> {
    let model = Anycast::new(setup.clone()).unwrap();
    let end = model.end();
    Simulation::new(model, end, TieOrder::FirstSent)
}

fn get(simulation: &Simulation<Anycast>, name: &str) -> f64 {
    let index = Anycast::observables().iter().position(|o| o.name == name);
    let index = index.unwrap_or_else(|| panic!("no observable {name}"));
    simulation.model.observe(simulation.now(), index)
}

/// What these are at the end of each run.
fn runs<const N: usize>(setup: &Setup, runs: u64, names: [&str; N]) -> Vec<[f64; N]> {
    let mut simulation = simulation(setup);
    let rows = (0..runs).map(|run| {
        simulation.restart(|model| model.restart(run));
        simulation.run().unwrap();
        names.map(|name| get(&simulation, name))
    });
    rows.collect()
}

/// The mean of a column and its standard error.
fn mean<const N: usize>(rows: &[[f64; N]], column: usize) -> (f64, f64) {
    let n = rows.len() as f64;
    let mean = rows.iter().map(|row| row[column]).sum::<f64>() / n;
    let squares = rows.iter().map(|row| (row[column] - mean).powi(2));
    (mean, (squares.sum::<f64>() / (n - 1.0) / n).sqrt())
}

#[test]
fn observables_have_names_of_their_own() {
    let mut names: Vec<_> = Anycast::observables().iter().map(|o| o.name).collect();
    names.extend(Anycast::samples().iter().map(|o| o.name));
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn a_run_is_a_function_of_its_number() {
    let mut setup = rough();
    setup.defense = Some(levee_policy::reroute::Config::default());
    let names: Vec<_> = Anycast::observables().iter().map(|o| o.name).collect();
    let all = |order: [u64; 4]| {
        let mut simulation = simulation(&setup);
        order.map(|run| {
            simulation.restart(|model| model.restart(run));
            simulation.run().unwrap();
            let values = names.iter().map(|name| get(&simulation, name).to_bits());
            (run, values.collect::<Vec<_>>(), simulation.delivered())
        })
    };
    let mut back = all([3, 2, 1, 0]);
    back.reverse();
    assert_eq!(all([0, 1, 2, 3]), back);
    // A seed is the run that it begins with.
    let later = Setup {
        seed: setup.seed + 2,
        ..setup.clone()
    };
    let mut first = simulation(&later);
    first.run().unwrap();
    let values: Vec<_> = names
        .iter()
        .map(|name| get(&first, name).to_bits())
        .collect();
    assert_eq!(values, back[2].1);
}

/// Everything that is random, at once.
pub(super) fn rough() -> Setup {
    let mut setup = quiet();
    setup.honest.daily = 0.3;
    setup.honest.noise = 0.1;
    setup.honest.error = 0.05;
    setup.honest.known_good.error = 0.05;
    setup.network = Network {
        convergence: Durations::Lognormal {
            mean: Duration::from_secs(40),
            sigma: 1.0,
        },
        transient_loss: 0.3,
        deploy: Span::from_secs(5),
        deploy_failure: 0.2,
        wrong: 0.1,
        drift: 0.05,
        churn: 1e-3,
    };
    setup.measure.lost = 0.05;
    setup.attack = Some(Attack {
        from: Sources::Concentrated { classes: 2 },
        shape: Shape::Pulse {
            on: Span::from_secs(250),
            off: Span::from_secs(100),
        },
        moves: Some(Span::from_secs(120)),
        ..attack(60_000.0)
    });
    setup
}

#[test]
fn a_setup_out_of_range_is_refused() {
    let check = |change: fn(&mut Setup), expect: &str| {
        let mut setup = rough();
        change(&mut setup);
        match Anycast::new(setup) {
            Err(SetupError::Value { key, .. }) => assert_eq!(key, expect),
            other => panic!("{expect}: {other:?}"),
        }
    };
    fn the(setup: &mut Setup) -> &mut Attack {
        setup.attack.as_mut().unwrap()
    }
    assert_eq!(rough().check(), Ok(()));
    check(|s| s.sites[1].capacity = 0.0, "service.site");
    check(|s| s.sites[1].ingress = f64::NAN, "service.site");
    check(|s| s.sites.truncate(2), "service.site");
    check(|s| s.play = 4, "lane.play");
    check(|s| s.honest.load = 0.0, "honest.load");
    check(|s| s.honest.daily = 1.0, "honest.daily");
    check(|s| s.honest.peak = Span::from_secs(86_400), "honest.peak");
    check(
        |s| s.honest.known_good.claims = -0.1,
        "honest.known_good.claims",
    );
    check(|s| s.network.wrong = 1.1, "network.wrong");
    check(|s| s.network.churn = 1e6, "network.churn");
    check(|s| s.measure.interval = Span::ZERO, "measure.interval");
    check(
        |s| s.measure.interval = Span::from_millis(1),
        "measure.interval",
    );
    check(|s| the(s).load = f64::INFINITY, "attack.load");
    check(
        |s| the(s).from = Sources::Concentrated { classes: 5 },
        "attack.from",
    );
    check(
        |s| the(s).from = Sources::Shares(vec![0.0; 3]),
        "attack.from",
    );
    check(|s| the(s).from = Sources::Spread, "attack.moves");
    check(|s| s.calm = Span::from_secs(100), "attack.shape");
    check(|s| s.time = Span::ZERO, "run.time");
}
