//! The three readings of the paper side by side, and the released model with one quirk after the other switched off: the
//! tables of docs/presets.md.
//!
//! `cargo run --release -p levee-sim --example presets [RUNS]`. A cell is the mean over the runs of the shares of honest
//! calls that are complete / incomplete / unsuccessful, in hundredths, and after ± half the 99% interval of the first.

use std::error::Error;
use std::time::Duration;

use levee_policy::Span;
use levee_policy::selective::{Config, Strategy};
use levee_sim::engine::{Simulation, TieOrder};
use levee_sim::model::Rerun;
use levee_sim::model::sip::released::Released;
use levee_sim::model::sip::{Quirks, Setup, Sip};
use levee_sim::scenario::Preset;
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

/// How the rates of the two kinds are written. It decides who is first where their calls coincide.
#[derive(Clone, Copy)]
enum Written {
    /// A fortieth of a number of six decimals: how the figures of the released model were made.
    Decimals,
    /// A fortieth of a fraction: as the released files suggest.
    Fractions,
    /// In tenths of a billionth to the advantage of one kind.
    HonestFirst,
    AttackersFirst,
}

/// Calls a second of so many sixths of all.
fn rate(total: f64, sixths: u32, written: Written, honest: bool) -> f64 {
    let k = total * 40.0;
    let part = match sixths {
        5 => 5.0 * k / 6.0,
        4 => 2.0 * k / 3.0,
        3 => k / 2.0,
        2 => k / 3.0,
        _ => k / 6.0,
    };
    let alpha = 120.0 / 4800.0;
    match (written, honest) {
        (Written::Decimals, _) => alpha * ((part * 1e6).round() / 1e6),
        (Written::HonestFirst, true) | (Written::AttackersFirst, false) => {
            alpha * part * (1.0 + 1e-10)
        }
        _ => alpha * part,
    }
}

#[derive(Clone)]
struct Cell {
    strategy: Option<Strategy>,
    total: f64,
    honest: u32,
    durations: Durations,
    written: Written,
}

impl Cell {
    fn setup(&self) -> Setup {
        let stream = |sixths, durations: Option<Durations>| Stream {
            calls: Calls::Rate(rate(self.total, sixths, self.written, durations.is_some())),
            durations,
            callers: 100_000_000,
        };
        Setup {
            capacity: 24,
            defense: self.strategy.map(|strategy| Config {
                strategy,
                ..Config::default()
            }),
            plan: Plan {
                honest: stream(self.honest, Some(self.durations.clone())),
                attacker: stream(6 - self.honest, None),
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
}

/// Which model runs a cell.
#[derive(Clone, Copy)]
enum Reading {
    Preset(Preset),
    Quirks(Quirks),
}

fn run(cell: &Cell, reading: Reading, runs: u64) -> Result<String, Box<dyn Error>> {
    Ok(match reading {
        Reading::Preset(Preset::AsReleased) => {
            shares(Released::new(&cell.setup(), Quirks::RELEASED)?, runs)?
        }
        Reading::Preset(preset) => shares(Sip::new(cell.setup().with_preset(preset))?, runs)?,
        Reading::Quirks(quirks) => shares(Released::new(&cell.setup(), quirks)?, runs)?,
    })
}

fn shares<M: Rerun>(model: M, runs: u64) -> Result<String, Box<dyn Error>> {
    let (end, ties) = (model.end(), model.ties());
    let places = [
        "honest.attempted",
        "honest.complete",
        "honest.incomplete",
        "honest.unsuccessful",
    ]
    .map(|name| M::observables().iter().position(|o| o.name == name));
    let mut simulation = Simulation::new(model, end, ties);
    let mut sums = [0.0; 3];
    let mut squares = 0.0;
    for run in 0..runs {
        simulation.restart(|model| model.restart(run));
        simulation.run()?;
        let of = |index: usize| {
            places[index].map_or(f64::NAN, |place| simulation.model.observe(end, place))
        };
        let share = [1, 2, 3].map(|index| of(index) / of(0));
        squares += share[0] * share[0];
        for (sum, share) in sums.iter_mut().zip(share) {
            *sum += share;
        }
    }
    let n = runs as f64;
    let [complete, incomplete, unsuccessful] = sums.map(|sum| 100.0 * sum / n);
    let mean = sums[0] / n;
    let variance = (squares / n - mean * mean) * n / (n - 1.0);
    let half = 100.0 * 2.576 * (variance / n).sqrt();
    Ok(format!(
        "{complete:.1}/{incomplete:.1}/{unsuccessful:.1} ±{half:.1}"
    ))
}

/// A row over the five shares.
fn row(name: &str, cell: &Cell, reading: Reading, runs: u64) -> Result<(), Box<dyn Error>> {
    print!("| {name} |");
    for (honest, _) in SHARES {
        let cell = Cell {
            honest,
            ..cell.clone()
        };
        print!(" {} |", run(&cell, reading, runs)?);
    }
    println!();
    Ok(())
}

fn heading(title: &str) {
    print!("\n{title}\n\n| |");
    for (_, share) in SHARES {
        print!(" {share} |");
    }
    println!("\n|---|---|---|---|---|---|");
}

fn main() -> Result<(), Box<dyn Error>> {
    let runs = std::env::args()
        .nth(1)
        .map_or(Ok(1_000), |runs| runs.parse())?;
    let cell = |strategy, total, durations: &Durations, written| Cell {
        strategy,
        total,
        honest: 3,
        durations: durations.clone(),
        written,
    };
    for (durations, total, name) in [
        (EXPONENTIAL, 4.75, "exponential"),
        (EXPONENTIAL, 8.125, "exponential"),
        (LOGNORMAL, 4.75, "lognormal"),
        (LOGNORMAL, 8.125, "lognormal"),
    ] {
        heading(&format!("R {total}, {name}"));
        for (defense, strategy) in STRATEGIES {
            let cell = cell(strategy, total, &durations, Written::Decimals);
            for (name, preset) in [
                ("corrected", Preset::Corrected),
                ("paper", Preset::Paper),
                ("as-released", Preset::AsReleased),
            ] {
                let name = format!("{defense}, {name}");
                row(&name, &cell, Reading::Preset(preset), runs)?;
            }
        }
    }
    for (defense, strategy) in STRATEGIES.into_iter().skip(1) {
        for total in [4.75, 8.125] {
            heading(&format!("R {total}, exponential, {defense}"));
            let cell = cell(strategy, total, &EXPONENTIAL, Written::Decimals);
            row("all", &cell, Reading::Quirks(Quirks::RELEASED), runs)?;
            for name in Quirks::names() {
                let mut quirks = Quirks::RELEASED;
                if let Some(quirk) = quirks.switch(name) {
                    *quirk = false;
                }
                row(name, &cell, Reading::Quirks(quirks), runs)?;
            }
            row("none", &cell, Reading::Quirks(Quirks::NONE), runs)?;
        }
    }
    for total in [4.75, 8.125] {
        heading(&format!(
            "R {total}, exponential, undefended: coinciding calls"
        ));
        for (name, written) in [
            ("rates as decimals", Written::Decimals),
            ("rates as fractions", Written::Fractions),
            ("honest first", Written::HonestFirst),
            ("attackers first", Written::AttackersFirst),
        ] {
            let cell = cell(None, total, &EXPONENTIAL, written);
            row(name, &cell, Reading::Quirks(Quirks::RELEASED), runs)?;
        }
        let random = Quirks {
            even_arrivals: false,
            ..Quirks::RELEASED
        };
        let cell = cell(None, total, &EXPONENTIAL, Written::Decimals);
        row("random arrivals", &cell, Reading::Quirks(random), runs)?;
    }
    Ok(())
}
