//! The released model beside itself with one quirk after the other switched off: the tables of docs/presets.md.
//!
//! `cargo run --release -p levee-sim --example released [RUNS]` prints, for each cell, the mean over the runs of the shares of honest calls
//! that are complete / incomplete / unsuccessful, and the half-width of the 99% interval of the first.

use std::time::Duration;

use levee_policy::Span;
use levee_policy::selective::{Config, Strategy};
use levee_sim::engine::{Simulation, TieOrder};
use levee_sim::model::Observed as _;
use levee_sim::model::sip::released::{Released, Unsupported};
use levee_sim::model::sip::{Quirks, Setup};
use levee_sim::schedule::{Arrivals, Calls, Durations, Plan, Stream};

/// Honest calls of six.
const SHARES: [(u32, &str); 5] = [(5, "83%"), (4, "67%"), (3, "50%"), (2, "33%"), (1, "17%")];
const STRATEGIES: [(&str, Option<Strategy>); 4] = [
    ("none", None),
    ("uniform", Some(Strategy::Uniform)),
    ("roulette", Some(Strategy::Roulette)),
    ("tournament", Some(Strategy::Tournament { size: Some(12) })),
];
const MEAN: Duration = Duration::from_secs(5);
const EXPONENTIAL: Durations = Durations::Exponential(MEAN);
const LOGNORMAL: Durations = Durations::Lognormal {
    mean: MEAN,
    sigma: 1.0,
};

/// A quirk's letter and name, and all of them but this one.
fn without() -> Vec<(&'static str, Quirks)> {
    let mut each = Vec::new();
    macro_rules! off {
        ($($name:literal $field:ident),*) => {$(
            let mut quirks = Quirks::RELEASED;
            quirks.$field = false;
            each.push(($name, quirks));
        )*};
    }
    off!(
        "a victim drawn once" victim_drawn_twice,
        "b duration drawn once" duration_drawn_twice,
        "d roulette slots straight" roulette_slots_shifted,
        "e entrants distinct" entrants_repeat,
        "f PMod from 0" pmod_starts_at_one,
        "g round 0.1" round_doubled,
        "h random arrivals" even_arrivals,
        "i first in first out" last_in_first_out,
        "j rings at once" rings_from_round_end,
        "k scale 0.453, not truncated" drop_factor_truncated,
        "l drop heard in set-up" setup_drop_unheard
    );
    each
}

/// The rate as the released model writes it: a fortieth of a number that is split in six.
fn rate(total: f64, sixths: u32) -> f64 {
    let k = total * 40.0;
    let part = match sixths {
        5 => 5.0 * k / 6.0,
        4 => 2.0 * k / 3.0,
        3 => k / 2.0,
        2 => k / 3.0,
        _ => k / 6.0,
    };
    120.0 / 4800.0 * part
}

fn setup(strategy: Option<Strategy>, total: f64, honest: u32, durations: Durations) -> Setup {
    let stream = |rate, durations| Stream {
        calls: Calls::Rate(rate),
        durations,
        callers: 1_000,
    };
    Setup {
        capacity: 24,
        defense: strategy.map(|strategy| Config {
            strategy,
            ..Config::default()
        }),
        plan: Plan {
            honest: stream(rate(total, honest), Some(durations)),
            attacker: stream(rate(total, 6 - honest), None),
            arrivals: Arrivals::Poisson,
            until: Duration::from_secs(40),
            seed: 1,
        },
        warmup: Span::ZERO,
        delay: Span::from_millis(100),
        ring: Span::ZERO,
        ring_timeout: Span::MAX,
        redial: None,
        ties: TieOrder::FirstSent,
    }
}

/// Means of three shares over runs, and the 99% half-width of the first.
fn shares(setup: &Setup, quirks: Quirks, runs: u64) -> Result<[f64; 4], Unsupported> {
    let model = Released::new(setup, quirks)?;
    let (end, ties) = (model.end(), model.ties());
    let mut simulation = Simulation::new(model, end, ties);
    let mut sums = [0.0; 3];
    let mut squares = 0.0;
    for run in 0..runs {
        simulation.restart(|model| model.restart(run));
        simulation.run().expect("within limits");
        let of = |index| simulation.model.observe(end, index);
        let share = [1, 2, 3].map(|index| of(index) / of(0));
        squares += share[0] * share[0];
        for (sum, share) in sums.iter_mut().zip(share) {
            *sum += share;
        }
    }
    let n = runs as f64;
    let mean = sums.map(|sum| sum / n);
    let variance = (squares / n - mean[0] * mean[0]) * n / (n - 1.0);
    Ok([mean[0], mean[1], mean[2], 2.576 * (variance / n).sqrt()])
}

fn row(
    name: &str,
    quirks: Quirks,
    runs: u64,
    (strategy, total, durations): (Option<Strategy>, f64, &Durations),
) -> Result<(), Unsupported> {
    print!("| {name} |");
    for (honest, _) in SHARES {
        let setup = setup(strategy, total, honest, durations.clone());
        let [complete, incomplete, unsuccessful, half] = shares(&setup, quirks, runs)?;
        print!(" {complete:.3} / {incomplete:.3} / {unsuccessful:.3} ±{half:.3} |");
    }
    println!();
    Ok(())
}

fn main() -> Result<(), Unsupported> {
    let runs = std::env::args()
        .nth(1)
        .and_then(|runs| runs.parse().ok())
        .unwrap_or(2_000);
    let released = Quirks::RELEASED;
    for (total, durations, name) in [
        (4.75, EXPONENTIAL, "exponential"),
        (8.125, EXPONENTIAL, "exponential"),
        (4.75, LOGNORMAL, "lognormal as coded"),
    ] {
        println!("\nR {total}, {name}, as released ({runs} runs)");
        for (name, strategy) in STRATEGIES {
            row(name, released, runs, (strategy, total, &durations))?;
        }
    }
    for (defense, strategy) in STRATEGIES {
        for total in [4.75, 8.125] {
            println!("\nR {total}, exponential, {defense}: one quirk off");
            let cell = (strategy, total, &EXPONENTIAL);
            row("as released", released, runs, cell)?;
            for (name, quirks) in without() {
                row(name, quirks, runs, cell)?;
            }
            row("none of them", Quirks::NONE, runs, cell)?;
        }
    }
    Ok(())
}
