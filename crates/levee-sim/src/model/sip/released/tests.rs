use std::time::Duration;

use levee_policy::selective::{Config, Strategy};
use rand_core::SeedableRng as _;

use super::*;
use crate::engine::Simulation;
use crate::erlang;
use crate::model::Rerun;
use crate::schedule::{Arrivals as Spacing, Durations, Plan, Stream};

const MEAN: Duration = Duration::from_secs(5);
const EXPONENTIAL: Durations = Durations::Exponential(MEAN);
/// Its spread is replaced by quirk (c).
const LOGNORMAL: Durations = Durations::Lognormal {
    mean: MEAN,
    sigma: 1.0,
};
const TOURNAMENT: Strategy = Strategy::Tournament { size: Some(12) };

/// A cell of the table of docs/presets.md: `honest` of six calls at a rate of `total` in all.
fn cell(strategy: Option<Strategy>, durations: Durations, total: f64, honest: u32) -> Setup {
    // The rate is a fortieth of a number written with six decimals.
    let part = |sixths: u32| (total * 40.0 * f64::from(sixths) / 6.0 * 1e6).round() / 1e6 / 40.0;
    let stream = |sixths, durations| Stream {
        calls: Calls::Rate(part(sixths)),
        durations,
        callers: 1,
    };
    Setup {
        capacity: 24,
        defense: strategy.map(|strategy| Config {
            strategy,
            ..Config::default()
        }),
        plan: Plan {
            honest: stream(honest, Some(durations)),
            attacker: stream(6 - honest, None),
            arrivals: Spacing::Poisson,
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

/// Shows the model at the end of each of so many runs.
fn runs(setup: &Setup, quirks: Quirks, runs: u64, mut look: impl FnMut(&Released)) {
    let model = Released::new(setup, quirks).unwrap();
    let (end, ties) = (model.end(), model.ties());
    let mut simulation = Simulation::new(model, end, ties);
    for run in 0..runs {
        simulation.restart(|model| Rerun::restart(model, run));
        simulation.run().unwrap();
        look(&simulation.model);
    }
}

fn observe(model: &Released, name: &str) -> f64 {
    let place = |o: &Observable| o.name == name;
    let index = Released::observables().iter().position(place).unwrap();
    model.observe(model.end(), index)
}

/// Mean and standard error of the shares complete, incomplete, unsuccessful.
fn shares(setup: &Setup, quirks: Quirks, n: u32) -> [(f64, f64); 3] {
    let mut sums = [(0.0, 0.0); 3];
    runs(setup, quirks, n.into(), |model| {
        let names = [
            "honest.complete",
            "honest.incomplete",
            "honest.unsuccessful",
        ];
        for (sum, name) in sums.iter_mut().zip(names) {
            let share = observe(model, name) / observe(model, "honest.attempted");
            sum.0 += share;
            sum.1 += share * share;
        }
    });
    sums.map(|(sum, squares)| mean_and_error(sum, squares, f64::from(n)))
}

fn mean_and_error(sum: f64, squares: f64, n: f64) -> (f64, f64) {
    let mean = sum / n;
    (mean, ((squares / n - mean * mean) / (n - 1.0)).sqrt())
}

/// The released files under umaudemc: 30 runs a cell, shares to two decimals, half-width of their intervals at most 0.025.
#[test]
fn six_cells_of_the_released_model() {
    let figures: [(Setup, [f64; 3]); 6] = [
        (
            cell(Some(Strategy::Uniform), EXPONENTIAL, 4.75, 3),
            [0.70, 0.24, 0.06],
        ),
        (
            cell(Some(Strategy::Roulette), EXPONENTIAL, 4.75, 5),
            [0.84, 0.14, 0.03],
        ),
        (
            cell(Some(Strategy::Roulette), EXPONENTIAL, 8.125, 1),
            [0.58, 0.27, 0.15],
        ),
        (
            cell(Some(TOURNAMENT), EXPONENTIAL, 8.125, 2),
            [0.64, 0.27, 0.08],
        ),
        (
            cell(Some(TOURNAMENT), LOGNORMAL, 4.75, 4),
            [0.96, 0.02, 0.02],
        ),
        (cell(None, LOGNORMAL, 4.75, 5), [0.61, 0.0, 0.39]),
    ];
    for (setup, figures) in figures {
        let ours = shares(&setup, Quirks::RELEASED, 400);
        for ((mean, error), figure) in ours.into_iter().zip(figures) {
            let tolerance = 0.025 + 0.005 + 5.0 * error;
            assert!(
                (mean - figure).abs() <= tolerance,
                "{:?}: {mean} against {figure}",
                setup.defense.map(|d| d.strategy)
            );
        }
    }
}

/// The released files under umaudemc again, 200 runs a cell, with rates as fractions: mean and half-width at 99% of COMPLETE, and of
/// the part of its time that a call cut short got, as they reckon it.
#[test]
fn longer_runs_of_the_released_model() {
    let figures = [
        (
            Some(Strategy::Uniform),
            4.75,
            3,
            [(0.698, 0.008), (0.763, 0.008)],
        ),
        (
            Some(Strategy::Uniform),
            8.125,
            5,
            [(0.661, 0.004), (0.742, 0.004)],
        ),
        (
            Some(Strategy::Uniform),
            8.125,
            1,
            [(0.597, 0.011), (0.741, 0.009)],
        ),
        (
            Some(Strategy::Roulette),
            4.75,
            5,
            [(0.843, 0.006), (0.731, 0.009)],
        ),
        (
            Some(Strategy::Roulette),
            8.125,
            3,
            [(0.626, 0.008), (0.738, 0.005)],
        ),
    ];
    for (strategy, total, honest, figures) in figures {
        let mut setup = cell(strategy, EXPONENTIAL, total, honest);
        for (stream, sixths) in [
            (&mut setup.plan.honest, honest),
            (&mut setup.plan.attacker, 6 - honest),
        ] {
            stream.calls = Calls::Rate(total * f64::from(sixths) / 6.0);
        }
        let mut sums = [(0.0, 0.0); 2];
        let n = 400;
        runs(&setup, Quirks::RELEASED, n, |model| {
            let complete = observe(model, "honest.complete") / observe(model, "honest.attempted");
            let got = observe(model, "honest.clock_ratio");
            for (sum, value) in sums.iter_mut().zip([complete, got]) {
                sum.0 += value;
                sum.1 += value * value;
            }
        });
        for ((sum, squares), (figure, half)) in sums.into_iter().zip(figures) {
            let (mean, error) = mean_and_error(sum, squares, n as f64);
            // The half-width is 2.576 standard errors.
            let tolerance = 5.0 * (error * error + (half / 2.576f64).powi(2)).sqrt();
            assert!(
                (mean - figure).abs() <= tolerance,
                "{strategy:?} {total} {honest}: {mean} against {figure}"
            );
        }
    }
}

/// Who is first where calls coincide decides the undefended cells.
#[test]
fn coinciding_calls() {
    let complete = |honest_rate: f64| {
        let mut setup = cell(None, EXPONENTIAL, 4.75, 4);
        setup.plan.honest.calls = Calls::Rate(4.75 * 4.0 / 6.0 * honest_rate);
        setup.plan.attacker.calls = Calls::Rate(4.75 * 2.0 / 6.0);
        shares(&setup, Quirks::RELEASED, 200)[0].0
    };
    let (honest_first, attackers_first) = (complete(1.0 + 1e-10), complete(1.0 - 1e-10));
    assert!(
        honest_first > attackers_first + 0.2,
        "{honest_first} {attackers_first}"
    );
}

#[track_caller]
fn check_order(honest: u32, last_in_first_out: bool, expect: &str) {
    let mut setup = cell(None, EXPONENTIAL, 4.75, honest);
    setup.plan.arrivals = Spacing::Even;
    let order: String = Arrivals::new(&setup, last_in_first_out, 0)
        .take(expect.len())
        .map(|(_, kind)| if kind == Kind::Honest { 'h' } else { 'a' })
        .collect();
    assert_eq!(order, expect);
}

#[test]
fn equal_rates_take_turns_only_if_the_last_is_served_first() {
    check_order(3, true, "ahhaahhaahha");
    check_order(3, false, "ahahahahahah");
    // Two honest calls take 2e-9 less than the gap of the attackers.
    check_order(4, true, "ahhhahhahha");
}

#[test]
fn what_is_removed_is_what_is_told_if_the_victim_is_drawn_once() {
    let setup = cell(Some(Strategy::Roulette), EXPONENTIAL, 8.125, 3);
    let cut_and_held = |quirks| {
        let mut n = 0;
        runs(&setup, quirks, 20, |model| {
            assert!(model.table.len() <= 24);
            let cut =
                |held: &&Held| model.calls[held.call as usize].state == CallerState::Incomplete;
            n += model.table.iter().filter(cut).count();
        });
        n
    };
    assert!(cut_and_held(Quirks::RELEASED) > 0);
    let once = Quirks {
        victim_drawn_twice: false,
        ..Quirks::RELEASED
    };
    assert_eq!(cut_and_held(once), 0);
}

/// Three calls: WAITING, of usual length, and 10 s old.
fn table() -> Vec<Held> {
    let at = |call, seconds, state| Held {
        call,
        since: Time::ZERO + Span::from_secs(seconds),
        state,
    };
    vec![
        at(0, 20, CallState::Waiting),
        at(1, 18, CallState::InCall),
        at(2, 10, CallState::InCall),
    ]
}

#[track_caller]
fn check_draw(strategy: Strategy, quirks: Quirks, expect: [f64; 3]) {
    let rules = Rules {
        strategy,
        drop_factor: levee_policy::selective::DropFactor {
            scale: 1.0,
            ..Default::default()
        },
        quirks,
    };
    let table = table();
    let now = Time::ZERO + Span::from_secs(20);
    let mut rng = Pcg64::seed_from_u64(1);
    let n = 20_000;
    let mut counts = [0.0; 3];
    for _ in 0..n {
        counts[rules.draw(&table, now, &mut Vec::new(), &mut rng)] += 1.0 / f64::from(n);
    }
    for (count, p) in counts.into_iter().zip(expect) {
        let error = (p * (1.0 - p) / f64::from(n)).sqrt();
        assert!(
            (count - p).abs() <= 5.0 * error + 1e-9,
            "{counts:?} against {expect:?}"
        );
    }
}

#[test]
fn draws_of_a_victim() {
    let released = Quirks::RELEASED;
    let third = 1.0 / 3.0;
    check_draw(Strategy::Uniform, released, [third; 3]);
    // floor(8 + e^3.78) = 51: one slot too many, and one missing at the end, which is the same call.
    check_draw(
        Strategy::Roulette,
        released,
        [8.0 / 61.0, 2.0 / 61.0, 51.0 / 61.0],
    );
    let exact = 8.0 + 3.78f64.exp();
    let total = exact + 10.0;
    check_draw(
        Strategy::Roulette,
        Quirks::NONE,
        [8.0 / total, 2.0 / total, exact / total],
    );
    // All enter: the oldest goes. One enters: any goes.
    let size = |size| Strategy::Tournament { size: Some(size) };
    check_draw(size(3), Quirks::NONE, [0.0, 0.0, 1.0]);
    check_draw(size(1), Quirks::NONE, [third; 3]);
    check_draw(size(1), released, [third; 3]);
    // Two of three enter, repeating: the oldest is drawn first with 1/3, or it stays with 2/3 and is drawn second with 1/2.
    let oldest = third + 2.0 * third * 2.0 * third / 2.0;
    // The young one wins if it is drawn twice: it stays with 2/3.
    let young = third * 2.0 * third / 2.0;
    check_draw(size(2), released, [1.0 - oldest - young, young, oldest]);
}

/// An M/G/24/24 queue with 5.3 s of holding time, 0.3 of them ringing, whose blocking is Erlang's whatever the distribution.
#[test]
fn undefended_without_attackers_it_is_erlangs_queue() {
    let setup = cell(None, EXPONENTIAL, 4.75, 6);
    let mut full = 0.0;
    let n = 3_000;
    runs(&setup, Quirks::NONE, n, |model| {
        full += observe(model, "server.full");
    });
    let p = erlang::blocking(24, 4.75 * 5.3);
    let error = (p * (1.0 - p) / n as f64).sqrt();
    assert!(
        (full / n as f64 - p).abs() <= 5.0 * error,
        "{full} of {n}, {p}"
    );
}

#[test]
fn a_run_depends_on_its_number_alone() {
    let setup = cell(Some(TOURNAMENT), EXPONENTIAL, 8.125, 3);
    let mut seen = Vec::new();
    runs(&setup, Quirks::RELEASED, 4, |model| seen.push(model.counts));
    let mut model = Released::new(&setup, Quirks::RELEASED).unwrap();
    model.restart(2);
    let (end, ties) = (model.end(), model.ties());
    let mut simulation = Simulation::new(model, end, ties);
    simulation.run().unwrap();
    assert_eq!(simulation.model.counts, seen[2]);
    assert_ne!(seen[2], seen[3]);
}

#[test]
fn what_the_released_model_has_no_counterpart_of() {
    let setup = cell(Some(Strategy::Roulette), EXPONENTIAL, 4.75, 3);
    let check = |change: &dyn Fn(&mut Setup), expect| {
        let mut setup = setup.clone();
        change(&mut setup);
        assert_eq!(Released::new(&setup, Quirks::RELEASED).err(), expect);
    };
    check(&|_| {}, None);
    check(&|s| s.redial = Some(Span::ZERO), Some(Unsupported::Redial));
    let within = Duration::from_secs(1);
    check(
        &|s| s.plan.attacker.calls = Calls::OnceEach { within },
        Some(Unsupported::Redial),
    );
    check(
        &|s| s.warmup = Span::from_secs(1),
        Some(Unsupported::Warmup),
    );
    check(
        &|s| s.defense.as_mut().unwrap().calls_per_caller = Some(1),
        Some(Unsupported::Rivals),
    );
}
