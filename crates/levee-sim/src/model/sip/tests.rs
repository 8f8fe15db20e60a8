mod traces;

use std::time::Duration;

use levee_policy::Span;
use levee_policy::selective::{Config, Forward, Kind as Defense, MaxDuration, Strategy};

use super::*;
use crate::engine::{Simulation, TieOrder};
use crate::model::Observed;
use crate::scenario::Preset;
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

/// Figures of each of `runs` runs, by name.
fn runs<const N: usize>(setup: Setup, runs: u64, names: [&str; N]) -> Vec<[f64; N]> {
    let mut simulation = start(setup);
    (0..runs)
        .map(|run| {
            simulation.restart(|model| model.restart(run));
            simulation.run().unwrap();
            names.map(|name| get(&simulation, name))
        })
        .collect()
}

/// Mean and standard error.
fn mean(all: &[f64]) -> (f64, f64) {
    let n = all.len() as f64;
    let mean = all.iter().sum::<f64>() / n;
    let square = |x: &f64| (x - mean) * (x - mean);
    let variance = all.iter().map(square).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// Ratio of two sums over runs and its standard error, by the delta method.
fn ratio(all: &[[f64; 2]]) -> (f64, f64) {
    let sum = |i: usize| all.iter().map(|run| run[i]).sum::<f64>();
    let ratio = sum(0) / sum(1);
    let n = all.len() as f64;
    let residuals: Vec<f64> = all.iter().map(|r| r[0] - ratio * r[1]).collect();
    (ratio, mean(&residuals).1 * n / sum(1))
}

/// The share of honest calls that were complete in each run.
fn complete(setup: Setup, count: u64) -> Vec<f64> {
    let all = runs(setup, count, ["honest.complete", "honest.attempted"]);
    all.iter().map(|[complete, all]| complete / all).collect()
}

/// Mean of the differences, run by run with the same calls, and its standard error.
fn difference(one: &[f64], other: &[f64]) -> (f64, f64) {
    let pairs = one.iter().zip(other);
    mean(&pairs.map(|(one, other)| one - other).collect::<Vec<_>>())
}

#[track_caller]
fn assert_near((found, error): (f64, f64), expected: f64, what: &str) {
    assert!(
        (found - expected).abs() <= 5.0 * error,
        "{what}: {found} +- {error}, expected {expected}"
    );
}

/// A server of its own, without ringing and delay: M/G/k/k.
fn queue(capacity: u32, rate: f64) -> Setup {
    Setup {
        capacity,
        delay: Span::ZERO,
        ring: Span::ZERO,
        ..paper(rate, 0.0, None)
    }
}

#[test]
fn an_undefended_server_is_the_exact_queue() {
    // M/M/24/24 from empty, exact by a probabilistic model checker (stormpy 2.0.0).
    let names = ["server.full", "server.busy", "server.was_full", "time"];
    let all = runs(queue(24, 4.75), 3_000, names);
    for (i, expected) in [0.141_124_46, 20.398_279_23, 0.998_142_86, 40.0]
        .into_iter()
        .enumerate()
    {
        let column: Vec<f64> = all.iter().map(|run| run[i]).collect();
        assert_near(mean(&column), expected, names[i]);
    }
}

#[test]
fn blocking_is_erlangs_whatever_the_durations() {
    let mean = Duration::from_secs(5);
    for (lines, rate, durations) in [
        (24, 4.75, Durations::Exponential(mean)),
        (24, 8.125, Durations::Lognormal { mean, sigma: 1.0 }),
        (10, 1.5, Durations::Fixed(mean)),
    ] {
        let mut setup = queue(lines, rate);
        setup.plan.honest.durations = Some(durations);
        // The memory of the empty start is gone after some mean calls.
        setup.warmup = Span::from_secs(100);
        setup.plan.until = Duration::from_secs(400);
        let all = runs(
            setup.clone(),
            60,
            ["honest.unsuccessful", "honest.attempted"],
        );
        let expected = crate::erlang::blocking(lines, rate * 5.0);
        assert_near(ratio(&all), expected, "blocking");
        // Calls that arrive at random see what the server is like at any time.
        let all = runs(setup, 60, ["server.full_seconds", "time"]);
        assert!((ratio(&all).0 - expected).abs() < 0.03);
    }
}

#[test]
fn strategies_that_are_the_same_by_definition_agree() {
    let shares = |strategy, weights: bool| {
        let mut setup = paper(4.75, 0.5, seven(strategy));
        if let Some(defense) = setup.defense.as_mut().filter(|_| !weights) {
            // d = 1 in every state.
            defense.drop_factor.waiting = 1.0;
            defense.drop_factor.in_call = 1.0;
            defense.drop_factor.scale = 0.0;
        }
        complete(setup, 400)
    };
    let uniform = shares(Strategy::Uniform, true);
    for (same, what) in [
        (
            shares(Strategy::Roulette, false),
            "roulette of equal weights",
        ),
        (
            shares(Strategy::Tournament { size: Some(1) }, true),
            "tournament of one",
        ),
    ] {
        assert_near(difference(&same, &uniform), 0.0, what);
    }
    // It would tell them apart: roulette with the paper's weights is another matter.
    let (by, error) = difference(&shares(Strategy::Roulette, true), &uniform);
    assert!(by > 5.0 * error, "{by} {error}");
}

#[test]
fn a_tournament_of_all_needs_no_luck() {
    // Every call in call is longer than usual, so that one of them always loses and no two are alike; a round is so short that P1 is 1.
    let mut defense = seven(Strategy::Tournament { size: Some(24) });
    if let Some(defense) = &mut defense {
        defense.drop_factor.mean_call = Span::from_millis(1);
        defense.round = Span::from_millis(1);
    }
    let outcome = |policy_seed: u64, strategy: Strategy| {
        let mut setup = paper(8.0, 0.5, defense.clone());
        if let Some(defense) = &mut setup.defense {
            defense.strategy = strategy;
        }
        let mut simulation = start(setup);
        if let Some(front) = &mut simulation.model.front {
            front.rng = crate::engine::Streams::new(policy_seed, 0).stream("policy");
        }
        simulation.run().unwrap();
        let values =
            (0..Sip::observables().len()).map(|i| simulation.model.observe(simulation.now(), i));
        values.map(f64::to_bits).collect::<Vec<_>>()
    };
    let all = Strategy::Tournament { size: Some(24) };
    assert_eq!(outcome(1, all), outcome(2, all));
    assert_ne!(outcome(1, Strategy::Uniform), outcome(2, Strategy::Uniform));
}

#[test]
fn the_trends_of_the_paper_hold() {
    let mean_call = Duration::from_secs(5);
    let exponential = Durations::Exponential(mean_call);
    let lognormal = Durations::Lognormal {
        mean: mean_call,
        sigma: 1.0,
    };
    for (preset, rate, durations) in [
        (Preset::Paper, 4.75, exponential.clone()),
        // As many calls as Erlang B lets 24 lines carry with 1% blocked.
        (Preset::Corrected, 3.06, exponential),
        (Preset::Corrected, 4.75, lognormal),
    ] {
        let mut first: Option<[(f64, f64); 4]> = None;
        let mut before = [(1.0, 0.0); 4];
        for share in [0.17, 0.33, 0.5, 0.67, 0.83] {
            let lanes = [
                None,
                seven(Strategy::Uniform),
                seven(Strategy::Roulette),
                seven(Strategy::Tournament { size: Some(12) }),
            ];
            let complete = lanes.map(|lane| {
                let mut setup = paper(rate, share, lane).with_preset(preset);
                setup.plan.honest.durations = Some(durations.clone());
                complete(setup, 80)
            });
            let better = |one: usize, other: usize| {
                let (by, error) = difference(&complete[one], &complete[other]);
                assert!(
                    by > 3.0 * error,
                    "{preset:?} {share} {one} {other}: {by} {error}"
                );
            };
            // Each strategy beats no defence, and the two that weigh calls beat the one that does not.
            better(1, 0);
            better(2, 1);
            better(3, 1);
            // More attackers, fewer complete calls: no step rises.
            let now = complete.map(|lane| mean(&lane));
            for (lane, (now, before)) in now.iter().zip(before).enumerate() {
                let rise = now.0 - before.0;
                assert!(
                    rise < 3.0 * now.1.hypot(before.1),
                    "{preset:?} {share} {lane}: {rise}"
                );
            }
            before = now;
            first.get_or_insert(now);
        }
        // And all the way it falls.
        for (lane, (first, last)) in first.unwrap().iter().zip(before).enumerate() {
            let fall = first.0 - last.0;
            assert!(
                fall > 3.0 * first.1.hypot(last.1),
                "{preset:?} {lane}: {fall}"
            );
        }
    }
}

#[test]
fn attackers_that_redial_leave_honest_callers_at_most_their_share_of_arrivals() {
    let names = ["honest.complete", "honest.attempted", "attacker.attempted"];
    for attackers in [25, 50] {
        let figures = |defense| {
            let mut setup = paper(3.06, 0.0, defense);
            setup.plan.attacker.calls = Calls::OnceEach {
                within: Duration::from_millis(200),
            };
            setup.plan.attacker.callers = attackers;
            setup.redial = Some(Span::from_millis(200));
            runs(setup, 60, names)
        };
        let undefended = figures(None);
        let complete = |all: &[[f64; 3]]| all.iter().map(|run| run[0]).collect::<Vec<_>>();
        let over = |all: &[[f64; 3]]| {
            let residuals = all.iter().map(|[complete, honest, attacker]| {
                complete - honest * honest / (honest + attacker)
            });
            mean(&residuals.collect::<Vec<_>>())
        };
        for strategy in [
            Strategy::Uniform,
            Strategy::Roulette,
            Strategy::Tournament { size: Some(12) },
        ] {
            let defended = figures(seven(strategy));
            let (by, error) = difference(&complete(&defended), &complete(&undefended));
            assert!(by > 3.0 * error, "{attackers} {strategy:?}: {by} {error}");
            let (by, error) = over(&defended);
            assert!(by < 3.0 * error, "{attackers} {strategy:?}: {by} {error}");
        }
        // Each attacker has one call at a time: a limit of one call for each caller never refuses.
        let limited = figures(Some(Config {
            calls_per_caller: Some(1),
            ..Config::of_kind(Defense::Refuse)
        }));
        assert_eq!(limited, undefended);
    }
}

/// Lanes that between them go through every state of a call.
fn lanes() -> Vec<(&'static str, Setup)> {
    let base = |defense| paper(8.0, 0.5, defense);
    let with = |change: fn(&mut Setup)| {
        let mut setup = base(seven(Strategy::Roulette));
        change(&mut setup);
        setup
    };
    let rival = |change: fn(&mut Config)| {
        let mut config = Config::of_kind(Defense::Refuse);
        change(&mut config);
        base(Some(config))
    };
    vec![
        ("undefended", base(None)),
        ("uniform", base(seven(Strategy::Uniform))),
        ("roulette", base(seven(Strategy::Roulette))),
        (
            "tournament",
            base(seven(Strategy::Tournament { size: None })),
        ),
        (
            "paper",
            base(seven(Strategy::Roulette)).with_preset(Preset::Paper),
        ),
        (
            "settings of the released model",
            base(seven(Strategy::Roulette)).with_preset(Preset::AsReleased),
        ),
        ("no delay", with(|s| s.delay = Span::ZERO)),
        (
            "no delay, no ringing",
            with(|s| (s.delay, s.ring) = (Span::ZERO, Span::ZERO)),
        ),
        ("far away", with(|s| s.delay = Span::from_millis(700))),
        (
            "no delay, last first",
            with(|s| (s.delay, s.ties) = (Span::ZERO, TieOrder::LastSent)),
        ),
        // The 200 crosses the CANCEL of some callers, and of the front.
        (
            "impatient",
            with(|s| s.ring_timeout = Span::from_millis(650)),
        ),
        ("at once", with(|s| s.ring_timeout = Span::from_nanos(1))),
        ("redial", with(|s| s.redial = Some(Span::from_millis(200)))),
        ("warm-up", with(|s| s.warmup = Span::from_secs(20))),
        ("only counted", rival(|c| c.kind = Defense::None)),
        ("refuse", rival(|_| {})),
        (
            "cap",
            rival(|c| c.max_duration = Some(MaxDuration::TimesMean(1.0))),
        ),
        (
            "cap at the round's end",
            rival(|c| {
                c.kind = Defense::Seven;
                c.forward = Forward::RoundEnd;
                c.max_duration = Some(MaxDuration::TimesMean(0.5));
            }),
        ),
        ("one for all", rival(|c| c.calls_per_source = Some(12))),
    ]
}

#[test]
fn nothing_is_lost_in_any_lane() {
    for (name, setup) in lanes() {
        let (counted, mut cut) = (setup.warmup.is_zero(), 0);
        let mut simulation = start(setup);
        for run in 0..8 {
            simulation.restart(|model| model.restart(run));
            while simulation.step() {
                let model = &simulation.model;
                assert!(model.server.busy <= 24, "{name}");
                if let Some(front) = &model.front {
                    assert!(
                        front.policy.calls_held() <= 24 || name == "only counted",
                        "{name}"
                    );
                }
                if counted {
                    for kind in crate::schedule::Kind::ALL {
                        let tally = model.tallies.of(kind);
                        let counts = &tally.whole;
                        let now = u64::from(tally.waiting) + u64::from(tally.in_call);
                        let over = counts.complete + counts.incomplete + counts.unsuccessful;
                        assert_eq!(counts.attempted, over + now, "{name}");
                    }
                }
            }
            assert_eq!(simulation.runaway(), None);
            cut += check_end(name, &simulation);
        }
        let cuts = !matches!(
            name,
            "undefended" | "only counted" | "refuse" | "one for all" | "impatient" | "at once"
        );
        assert_eq!(cut > 0, cuts, "{name}: {cut} calls cut");
    }
}

/// What must be true at the end of a run; the calls that were cut.
fn check_end(name: &str, simulation: &Simulation<Sip>) -> u64 {
    let model = &simulation.model;
    for kind in crate::schedule::Kind::ALL {
        let tally = model.tallies.of(kind);
        assert_eq!((tally.waiting, tally.in_call), (0, 0), "{name}");
        for counts in [&tally.whole, &tally.second_half] {
            let over = counts.complete + counts.incomplete + counts.unsuccessful;
            assert_eq!(counts.attempted, over, "{name}");
            assert_eq!(counts.set_up, counts.complete + counts.incomplete, "{name}");
        }
        assert!(tally.whole.attempted > 0, "{name}");
        assert!(
            tally.second_half.attempted <= tally.whole.attempted,
            "{name}"
        );
    }
    // Whoever is not in call has let go of the line, and no record is left over; but a cap goes on cutting to the end.
    let calls = model.calls.len();
    let busy = model.server.busy as usize;
    assert!(
        calls == busy || (name.starts_with("cap") && calls > busy),
        "{name}: {calls} {busy}"
    );
    let Some(front) = &model.front else { return 0 };
    assert_eq!(
        front.policy.calls_evicting(),
        0,
        "{name}: a dropped call keeps its slot"
    );
    assert_eq!(front.policy.in_service(), model.server.busy, "{name}");
    let stats = front.policy.stats();
    let evicted = stats.evicted.in_call_displaced + stats.evicted.max_duration;
    // A call that is dropped in call gets BYEs in both directions; so does one dropped between its 200 and its ACK. One whose 200 crossed the
    // CANCEL gets one downwards only.
    assert!(front.byes_to_callers >= evicted, "{name}");
    assert!(front.byes_to_callers <= stats.evicted.total(), "{name}");
    assert!(front.byes_to_server >= front.byes_to_callers, "{name}");
    // A caller may have hung up meanwhile.
    assert!(model.server.cut <= front.byes_to_server, "{name}");
    let incomplete: u64 = crate::schedule::Kind::ALL
        .map(|kind| model.tallies.of(kind).whole.incomplete)
        .iter()
        .sum();
    assert!(incomplete <= front.byes_to_callers, "{name}");
    incomplete
}

#[test]
fn the_same_run_is_the_same_again() {
    for (name, setup) in lanes() {
        let figures = |simulation: &Simulation<Sip>| {
            let values = (0..Sip::observables().len())
                .map(|i| simulation.model.observe(simulation.now(), i).to_bits());
            let samples: Vec<Vec<f64>> = (0..Sip::samples().len())
                .map(|i| simulation.model.sample(i).to_vec())
                .collect();
            (values.collect::<Vec<_>>(), samples, simulation.delivered())
        };
        let mut used = start(setup.clone());
        for run in [3, 0, 5] {
            used.restart(|model| model.restart(run));
            used.run().unwrap();
        }
        let mut fresh = start(setup);
        fresh.restart(|model| model.restart(5));
        fresh.run().unwrap();
        assert_eq!(figures(&used), figures(&fresh), "{name}");
    }
}

#[test]
fn attackers_that_are_refused_call_again_and_again() {
    let mut setup = paper(17.0, 1.0, Some(Config::of_kind(Defense::Refuse)));
    setup.redial = Some(Span::from_millis(200));
    setup.plan.until = Duration::from_secs(3);
    let until = setup.until().as_nanos();
    let begins: Vec<u64> = setup
        .plan
        .schedule()
        .map(|arrival| arrival.at.as_nanos() as u64)
        .collect();
    assert!(begins.len() > 24);
    // The first 24 have the lines. Any other hears 503 after 200 ms, and calls again 200 ms later.
    let tries = |begin: &u64| (until - begin).div_ceil(400_000_000);
    let expected = 24 + begins[24..].iter().map(tries).sum::<u64>();
    let mut simulation = start(setup);
    simulation.run().unwrap();
    assert_eq!(get(&simulation, "attacker.attempted"), expected as f64);
    assert_eq!(get(&simulation, "attacker.complete"), 24.0);
}

#[test]
fn calls_cut_by_a_cap_got_the_cap() {
    let config = Config {
        max_duration: Some(MaxDuration::Fixed(Span::from_secs(2))),
        ..Config::of_kind(Defense::Refuse)
    };
    let mut setup = paper(1.0, 0.5, Some(config));
    setup.delay = Span::ZERO;
    setup.plan.honest.durations = Some(Durations::Fixed(Duration::from_secs(8)));
    let mut simulation = start(setup);
    simulation.run().unwrap();
    let got = simulation.model.sample(1);
    assert!(!got.is_empty());
    assert!(
        got.iter().all(|share| (share - 0.25).abs() < 1e-9),
        "{got:?}"
    );
    assert!((get(&simulation, "honest.got_share") - 0.25).abs() < 1e-9);
    // From INVITE to the BYE: ringing and the cap, but for those that the horizon ended.
    let stays = simulation.model.sample(2);
    let cut = stays.iter().filter(|s| (**s - 2.3).abs() < 1e-9).count();
    assert_eq!(cut as f64, get(&simulation, "attacker.incomplete"));
    assert!(stays.iter().all(|stay| *stay < 2.3 + 1e-9));
    let setups = simulation.model.sample(0);
    assert!(setups.iter().all(|setup| (setup - 0.3).abs() < 1e-9));
}

#[test]
fn a_hundred_thousand_lines_fill_and_nothing_is_lost() {
    let mut setup = paper(40_000.0, 0.5, seven(Strategy::Roulette));
    setup.capacity = 100_000;
    setup.delay = Span::from_millis(10);
    setup.ring = Span::from_millis(50);
    setup.plan.until = Duration::from_secs(4);
    let mut simulation = start(setup);
    simulation.run().unwrap();
    assert_eq!(get(&simulation, "server.was_full"), 1.0);
    assert_eq!(get(&simulation, "server.busy_max"), 100_000.0);
    assert!(check_end("a hundred thousand", &simulation) > 1_000);
}
