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

/// Means over runs with half the width of their 95% intervals.
fn cells(setup: Setup, runs: u64, names: &[&str]) -> Vec<String> {
    let rows = values(setup, runs, names);
    let n = rows.len() as f64;
    let cell = |i: usize| {
        let mean = rows.iter().map(|row| row[i]).sum::<f64>() / n;
        let squares = rows.iter().map(|row| (row[i] - mean).powi(2)).sum::<f64>();
        let half = student(rows.len()) * (squares / (n - 1.0) / n).sqrt();
        if mean.is_nan() {
            "-".to_owned()
        } else if mean >= 1_000.0 {
            format!("{mean:.0} ± {half:.0}")
        } else {
            format!("{mean:.3} ± {half:.3}")
        }
    };
    (0..names.len()).map(cell).collect()
}

/// The 97.5% quantile of Student's t with `runs - 1` degrees of freedom; 2 for many.
fn student(runs: usize) -> f64 {
    const T: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
    T.get(runs - 2).copied().unwrap_or(2.0)
}

fn row(first: &str, cells: &[String]) {
    println!("| {first} | {} |", cells.join(" | "));
}

fn head(columns: &[&str]) {
    println!("\n| {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len()));
}

const SHARE: &str = "server.good_share";

/// Clients that wait as long as it takes, before a thinner that lets them.
fn patient(setup: &Setup, mode: Option<Mode>) -> Setup {
    let mut setup = with(setup, mode);
    setup.attack.patience = Span::from_secs(60);
    if let Some(defense) = &mut setup.defense {
        defense.patience = Span::from_secs(60);
        if mode == Some(Mode::Priced) {
            defense.burst = Some(1);
        }
    }
    setup
}

/// Good share against `G/(G+B)` at ten points.
fn shares(runs: u64) {
    head(&["G/(G+B)", "ideal", "bare", "retry", "priced", "auction"]);
    for good in (5..=50).step_by(5) {
        let mut setup = papers();
        setup.honest.clients = good;
        setup.attack.clients = 50 - good;
        let ideal = setup.ideal_share();
        let modes = [
            None,
            Some(Mode::Retry),
            Some(Mode::Priced),
            Some(Mode::Auction),
        ];
        let cells = modes.map(|mode| cells(patient(&setup, mode), runs, &[SHARE]).remove(0));
        row(
            &format!("{:.1} | {ideal:.2}", f64::from(good) / 50.0),
            &cells,
        );
    }
}

/// The good demand that is served against the server's capacity.
fn provisioning(runs: u64) {
    head(&[
        "C",
        "ideal",
        "bare",
        "retry",
        "auction",
        "wait, auction (s)",
        "price, auction (kB)",
        "tries, retry",
        "B/(C-g)",
        "(B+G)/C",
    ]);
    for c in [50.0, 75.0, 100.0, 115.0, 150.0, 200.0_f64] {
        let mut setup = papers();
        setup.server.rate = c;
        let served = |row: &[f64]| format!("{:.2}", row[0] / row[1]);
        let mean = |mode| {
            let names = [
                "honest.done",
                "honest.attempted",
                "honest.wait_mean",
                "honest.price_mean",
                "honest.tries_mean",
            ];
            let rows = values(patient(&setup, mode), runs, &names);
            let n = rows.len() as f64;
            (0..5)
                .map(|i| rows.iter().map(|r| r[i]).sum::<f64>() / n)
                .collect::<Vec<_>>()
        };
        let (bare, retry, auction) = (
            mean(None),
            mean(Some(Mode::Retry)),
            mean(Some(Mode::Auction)),
        );
        let tries = 25.0 * 250_000.0 / 1_500.0;
        let enough = if c > 50.0 {
            format!("{:.1}", tries / (c - 50.0))
        } else {
            "-".into()
        };
        let cells = [
            format!("{:.2}", (c / 100.0).min(1.0)),
            served(&bare),
            served(&retry),
            served(&auction),
            format!("{:.2}", auction[2]),
            format!("{:.1}", auction[3] / 1e3),
            format!("{:.1}", retry[4]),
            enough,
            format!("{:.1}", 2.0 * tries / c),
        ];
        row(&format!("{c}"), &cells);
    }
}

/// Each currency at 25 good and 25 bad clients; bad ones with as much processor, or ten times as much.
fn currencies(runs: u64) {
    let names = [SHARE, "honest.wait_mean", "server.worked"];
    head(&[
        "currency",
        "good share",
        "wait (s)",
        "server busy (s of 60)",
    ]);
    let all = [
        None,
        Some(Mode::Random),
        Some(Mode::Queue),
        Some(Mode::Retry),
        Some(Mode::Priced),
        Some(Mode::Auction),
        Some(Mode::ProofOfWork),
    ];
    for mode in all {
        let name = mode.map_or("bare", Mode::name);
        row(name, &cells(patient(&papers(), mode), runs, &names));
    }
    let mut setup = patient(&papers(), Some(Mode::ProofOfWork));
    setup.attack.hashes *= 10.0;
    row(
        "proof-of-work, bad ones have ten times the hashes",
        &cells(setup, runs, &names),
    );
    let mut setup = patient(&papers(), Some(Mode::Retry));
    setup.delay = Span::from_millis(20);
    row("retry, 20 ms one way", &cells(setup, runs, &names));
    let mut setup = patient(&papers(), Some(Mode::Auction));
    setup.delay = Span::from_millis(20);
    row("auction, 20 ms one way", &cells(setup, runs, &names));
}

/// Bad clients with other means, windows and habits.
fn adversaries(runs: u64) {
    head(&[
        "bad clients",
        "G/(G+B)",
        "good share",
        "thinner's patience 10 s",
    ]);
    let mut cases: Vec<(String, Setup)> = Vec::new();
    let mut base = papers();
    // Good clients that want more than they can get: their share is what is fought for.
    base.honest.rate = 10.0;
    base.honest.window = 3;
    for times in [0.5, 2.0, 4.0, 8.0] {
        let mut setup = base.clone();
        setup.attack.up *= times;
        cases.push((format!("bandwidth x {times}"), setup));
    }
    for window in [1, 5, 20, 100] {
        let mut setup = base.clone();
        setup.attack.window = window;
        cases.push((format!("window {window}"), setup));
    }
    for (name, split) in [
        ("one channel after the other", Split::Oldest),
        ("bytes banked on older channels", Split::Newest),
    ] {
        for window in [20, 100] {
            let mut setup = base.clone();
            setup.attack.split = split;
            setup.attack.window = window;
            cases.push((format!("{name}, window {window}"), setup));
        }
    }
    for (name, setup) in cases {
        let f = setup.honest.bandwidth() / (setup.honest.bandwidth() + setup.attack.bandwidth());
        let long = cells(patient(&setup, Some(Mode::Auction)), runs, &[SHARE]).remove(0);
        let mut short = patient(&setup, Some(Mode::Auction));
        if let Some(defense) = &mut short.defense {
            defense.patience = Span::from_secs(10);
        }
        let short = cells(short, runs, &[SHARE]).remove(0);
        row(&name, &[format!("{f:.3}"), long, short]);
    }
}

/// Bad requests that take ten times as long.
fn quanta(runs: u64) {
    head(&["quantum", "good share of the server's time"]);
    let mut setup = patient(&papers(), Some(Mode::Auction));
    setup.honest.rate = 10.0;
    setup.honest.window = 3;
    setup.attack.window = 3;
    setup.attack.work = 10.0;
    for quantum in [
        None,
        Some(Span::from_millis(50)),
        Some(Span::from_millis(20)),
    ] {
        if let Some(defense) = &mut setup.defense {
            defense.capacity = Capacity::Concurrency(1);
            defense.quantum = quantum;
        }
        let name = quantum.map_or("none".to_owned(), |q| q.to_string());
        row(&name, &cells(setup.clone(), runs, &[SHARE]));
    }
}

fn main() {
    let runs = std::env::args()
        .nth(1)
        .map_or(10, |runs| runs.parse().unwrap());
    shares(runs);
    provisioning(runs);
    currencies(runs);
    adversaries(runs);
    quanta(runs);
}
