//! Connections weighed by phase and progress: who is dropped, by the exact law, and when.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod reference;

use levee_policy::{
    Span, StateMachine, Time,
    selective::{
        Arrival, CallKey, CallState, Class, ClassId, Config, DropFactor, EvictCause, Input, Output,
        Phase, PhaseId, Selective, Strategy, phases_of_http,
    },
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use self::reference::{
    Candidate,
    law::{chi_square, interval},
    probabilities,
};

const HOUR: Time = Time::from_nanos(3_600_000_000_000);
const YEAR: Time = Time::from_nanos(365 * 86_400 * 1_000_000_000);

fn arrival(key: u64, class: u16, phase: PhaseId) -> Input {
    Input::Arrive(Arrival {
        call: CallKey(key),
        class: ClassId(class),
        phase,
        caller: None,
        source: None,
    })
}

/// A connection in a full table: its phase, how far behind it is in milliseconds, its class.
#[derive(Clone, Copy, Debug)]
struct Held(u8, u64, u16);

fn is_exempt(config: &Config, class: u16) -> bool {
    let class = config.classes.get(usize::from(class).wrapping_sub(1));
    class.is_some_and(|class| class.exempt)
}

/// A table that is full of these at `now`; call `i` has key `i`. Some enter their phase late, others early and make progress.
fn full_table(config: &Config, held: &[Held], now: Time) -> Selective {
    let mut table = Selective::new(held.len() as u32, config.clone()).unwrap();
    let mut rng = Pcg64Mcg::seed_from_u64(0);
    let (mut entries, mut reports) = (Vec::new(), Vec::new());
    for (index, &Held(phase, lag_ms, class)) in held.iter().enumerate() {
        let of_phase = &config.phases[usize::from(phase)];
        let behind_ms = of_phase.behind.as_millis();
        let earned_ms = if of_phase.rate > 0.0 {
            behind_ms.saturating_sub(lag_ms) + 1_500 * (index as u64 % 2)
        } else {
            0
        };
        let call = CallKey(index as u64);
        let before = Span::from_millis(lag_ms + earned_ms - behind_ms);
        entries.push((now.saturating_sub(before), call, PhaseId(phase), class));
        // In two parts of whole units.
        let first = earned_ms / 4 * 2;
        for part in [first, earned_ms - first] {
            let units = (part as f64 * of_phase.rate / 1e3) as u64;
            reports.push(Input::Progress { call, units });
        }
    }
    entries.sort_by_key(|(at, call, ..)| (*at, *call));
    for (_, call, _, class) in &entries {
        table.handle(entries[0].0, arrival(call.0, *class, PhaseId(0)), &mut rng);
    }
    for (at, call, phase, _) in entries {
        table.handle(at, Input::Enter { call, phase }, &mut rng);
    }
    for report in reports.into_iter().rev() {
        table.handle(now, report, &mut rng);
    }
    while table.poll_output().is_some() {}
    assert_eq!(table.calls_held(), table.capacity());
    for (index, Held(phase, lag_ms, class)) in held.iter().enumerate() {
        let lag = (!is_exempt(config, *class)).then_some(Span::from_millis(*lag_ms));
        let call = CallKey(index as u64);
        assert_eq!(table.phase(call), Some((PhaseId(*phase), lag)));
    }
    table
}

/// The victim of one arrival. The first overload of a round is always taken.
fn victim(table: &Selective, now: Time, rng: &mut impl Rng) -> usize {
    let mut table = table.clone();
    table.handle(now, arrival(u64::MAX, 0, PhaseId(0)), rng);
    match table.poll_output() {
        Some(Output::Evict { call, .. }) => call.0 as usize,
        other => panic!("no victim but {other:?}"),
    }
}

fn candidate(config: &Config, key: CallKey, class: u16, phase: PhaseId, lag: Span) -> Candidate {
    let class = config.classes.get(usize::from(class).wrapping_sub(1));
    let phase = &config.phases[usize::from(phase.0)];
    Candidate {
        key,
        factor: class.map_or(1.0, |class| class.factor),
        state: CallState::Waiting,
        age: lag,
        phase: Some((phase.weight, phase.usual)),
    }
}

fn expected(config: &Config, held: &[Held]) -> Vec<f64> {
    let candidates: Vec<Candidate> = (0..held.len())
        .filter(|index| !is_exempt(config, held[*index].2))
        .map(|index| {
            let Held(phase, lag_ms, class) = held[index];
            let lag = Span::from_millis(lag_ms);
            candidate(config, CallKey(index as u64), class, PhaseId(phase), lag)
        })
        .collect();
    let k = held.len() as u32;
    let own = probabilities(config.strategy, k, &candidates, &config.drop_factor);
    let mut all = vec![0.0; held.len()];
    for (candidate, probability) in candidates.iter().zip(own) {
        all[candidate.key.0 as usize] = probability;
    }
    all
}

/// Frequencies of the victims against their exact probabilities, for every strategy. After a year, where a careless machine has
/// lost its digits.
fn check(config: &Config, held: &[Held], what: &str) {
    const DRAWS: u64 = 4_000;
    let n = held.len() as u32;
    let tournament = |size| Strategy::Tournament { size };
    for strategy in [
        Strategy::Uniform,
        Strategy::Roulette,
        tournament(None),
        tournament(Some(2)),
        tournament(Some(n)),
    ] {
        let config = Config {
            strategy,
            ..config.clone()
        };
        let table = full_table(&config, held, YEAR);
        let mut rng = Pcg64Mcg::seed_from_u64(24);
        let mut counts = vec![0; held.len()];
        for _ in 0..DRAWS {
            counts[victim(&table, YEAR, &mut rng)] += 1;
        }
        let what = format!("{what}, {strategy:?}");
        chi_square(&counts, &expected(&config, held), &what);
    }
}

fn http() -> Config {
    Config {
        phases: phases_of_http(),
        ..Config::default()
    }
}

fn mixed() -> Vec<Held> {
    Vec::from([
        Held(0, 10, 0),
        Held(0, 4_000, 0),
        Held(0, 9_000, 0),
        Held(1, 2_000, 0),
        Held(1, 2_900, 0),
        Held(1, 3_400, 0),
        Held(1, 5_300, 0),
        Held(2, 0, 0),
        Held(2, 3_000, 0),
        Held(2, 4_000, 0),
        Held(3, 2_500, 0),
        Held(4, 600, 0),
        Held(4, 1_200, 0),
        Held(4, 4_400, 0),
    ])
}

#[test]
fn every_phase_of_http() {
    check(&http(), &mixed(), "mixed");
    for phase in 0..5 {
        // In the headers nothing makes a lag shorter.
        let least = if phase == 1 { 2_000 } else { 0 };
        let one = [0, 700, 1_300, 3_100, 6_200].map(|lag| Held(phase, least + lag, 0));
        check(&http(), &one, "one phase");
    }
}

/// Body and sending weigh the same and share a band, headers have their curve; with equal lags any of them is as likely.
#[test]
fn ties_within_and_across_phases() {
    let held = [
        Held(2, 3_500, 0),
        Held(4, 3_500, 0),
        Held(2, 3_500, 0),
        Held(1, 3_500, 0),
        Held(1, 3_500, 0),
        Held(4, 3_100, 0),
        Held(1, 3_100, 0),
        Held(2, 100, 0),
        Held(4, 700, 0),
        Held(3, 0, 0),
        Held(1, 2_040, 0),
        Held(1, 2_990, 0),
    ];
    check(&http(), &held, "ties");
}

/// A lag of `usual` still is usual; with a nanosecond more a call weighs more than a newcomer in its headers.
#[test]
fn the_boundary_of_the_usual_lag() {
    let mut config = Config {
        strategy: Strategy::Tournament { size: Some(2) },
        ..http()
    };
    config.phases[1].behind = Span::ZERO;
    for (more, from) in [(0, PhaseId::HEADERS), (1, PhaseId::BODY)] {
        let mut table = Selective::new(2, config.clone()).unwrap();
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let (call, units) = (CallKey(0), 2 * 500);
        let began = HOUR.saturating_sub(Span::from_nanos(1_000_000_000 + more));
        table.handle(began, arrival(0, 0, PhaseId::BODY), &mut rng);
        table.handle(began, Input::Progress { call, units }, &mut rng);
        table.handle(HOUR, arrival(1, 0, PhaseId::HEADERS), &mut rng);
        table.handle(HOUR, arrival(2, 0, PhaseId::HEADERS), &mut rng);
        let evicted = std::iter::from_fn(|| table.poll_output()).find_map(|output| match output {
            Output::Evict { phase, .. } => Some(phase),
            _ => None,
        });
        assert_eq!(evicted, Some(from));
        assert_eq!(table.stats().evicted.of_phase(from), 1);
    }
}

#[test]
fn classes_and_phases_multiply() {
    let config = Config {
        classes: vec![
            Class {
                factor: 4.0,
                ..Class::named("tariff")
            },
            Class {
                exempt: true,
                ..Class::named("tunnel")
            },
            // A newcomer as if it were served.
            Class {
                factor: 1.0 / 32.0,
                ..Class::named("trusted")
            },
        ],
        ..http()
    };
    let held: Vec<Held> = mixed()
        .into_iter()
        .flat_map(|Held(phase, lag, _)| (0..4).map(move |class| Held(phase, lag, class)))
        .collect();
    check(&config, &held, "each in each class");
}

#[test]
fn other_drop_factors() {
    let with = |drop_factor| Config {
        drop_factor,
        ..http()
    };
    let d = DropFactor::default();
    check(&with(DropFactor { scale: 0.0, ..d }), &mixed(), "scale 0");
    check(&with(DropFactor { alpha: 0.0, ..d }), &mixed(), "alpha 0");
    check(&with(DropFactor { alpha: 100.0, ..d }), &mixed(), "steep");
    // Who is behind weighs less than a newcomer, until the exponential has grown.
    check(&with(DropFactor { waiting: 0.01, ..d }), &mixed(), "low");
}

/// Their drop factors are far beyond a float's range.
#[test]
fn weeks_behind() {
    let week = 7 * 86_400_000;
    let held = [
        Held(1, 2 * week, 0),
        Held(1, 2 * week + 300, 0),
        Held(2, 2 * week + 250, 0),
        Held(0, 11 * week, 0),
        Held(4, 2 * week - 1_000, 0),
        Held(3, week, 0),
        Held(1, 2_000, 0),
    ];
    check(&http(), &held, "weeks");
}

/// A large table through thousands of replacements, each under other probabilities, with phases and progress at random between
/// them: the places of the victims on the line of all probabilities must be uniform.
#[test]
fn a_large_table_as_it_lives() {
    const CAPACITY: u32 = 600;
    const DRAWS: u64 = 2_500;
    const BINS: usize = 40;
    let tournament = |size| Strategy::Tournament { size };
    for strategy in [
        Strategy::Uniform,
        Strategy::Roulette,
        tournament(None),
        tournament(Some(3)),
        tournament(Some(40)),
    ] {
        let config = Config {
            strategy,
            round: Span::from_millis(1),
            classes: vec![Class {
                factor: 2.0,
                ..Class::named("tariff")
            }],
            ..http()
        };
        let mut table = Selective::new(CAPACITY, config.clone()).unwrap();
        let mut rng = Pcg64Mcg::seed_from_u64(24);
        let mut now = YEAR;
        let mut live: Vec<(CallKey, u16)> = Vec::new();
        let mut bins = [0; BINS];
        for key in 0..u64::from(CAPACITY) + DRAWS {
            now = now + Span::from_millis(1 + rng.next_u64() % 12);
            table.handle_deadline(now, &mut rng);
            let class = (rng.next_u64() % 2) as u16;
            let candidates: Vec<Candidate> = live
                .iter()
                .map(|(key, class)| {
                    let (phase, lag) = table.phase(*key).unwrap();
                    candidate(&config, *key, *class, phase, lag.unwrap())
                })
                .collect();
            table.handle(now, arrival(key, class, PhaseId::HEADERS), &mut rng);
            while let Some(output) = table.poll_output() {
                let Output::Evict { call, .. } = output else {
                    continue;
                };
                let victim = live.iter().position(|(key, _)| *key == call).unwrap();
                let d = &config.drop_factor;
                let (from, share) = interval(strategy, CAPACITY, &candidates, d, victim);
                let place = from + share * (rng.next_u64() as f64 / 2_f64.powi(64));
                bins[((place * BINS as f64) as usize).min(BINS - 1)] += 1;
                live.remove(victim);
                table.handle(now, Input::Ended { call }, &mut rng);
            }
            live.push((CallKey(key), class));
            for _ in 0..3 {
                let (call, _) = live[rng.next_u64() as usize % live.len()];
                let input = if rng.next_u64().is_multiple_of(2) {
                    let phase = PhaseId((rng.next_u64() % 5) as u8);
                    Input::Enter { call, phase }
                } else {
                    let units = rng.next_u64() % 4_000;
                    Input::Progress { call, units }
                };
                table.handle(now, input, &mut rng);
            }
        }
        assert_eq!(bins.iter().sum::<u64>(), DRAWS);
        let even = [1.0 / BINS as f64; BINS];
        chi_square(&bins, &even, &format!("{strategy:?}"));
    }
}

/// A body of one byte each half second, which no timeout of the usual proxies cuts, beside uploads as they should be: nobody is
/// dropped while there is room, and then the dripper goes first, under each of the weighted strategies.
#[test]
fn a_dripped_body_goes_as_soon_as_its_place_is_needed_and_not_before() {
    for strategy in [Strategy::Roulette, Strategy::Tournament { size: Some(24) }] {
        for seed in 0..100 {
            let config = Config { strategy, ..http() };
            let mut table = Selective::new(24, config).unwrap();
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            let dripper = CallKey(seed % 24);
            let mut now = Time::ZERO;
            for key in 0..24 {
                table.handle(now, arrival(key, 0, PhaseId::BODY), &mut rng);
            }
            // The others send at Apache's least rate and more.
            for _ in 0..130 {
                now = now + Span::from_millis(500);
                for call in (0..24).map(CallKey) {
                    let fast = 250 + call.0 * 40;
                    let units = if call == dripper { 1 } else { fast };
                    table.handle(now, Input::Progress { call, units }, &mut rng);
                }
            }
            while let Some(output) = table.poll_output() {
                assert!(matches!(output, Output::Forward { .. }), "{output:?}");
            }
            table.handle(now, arrival(24, 0, PhaseId::HEADERS), &mut rng);
            assert_eq!(
                table.poll_output(),
                Some(Output::Evict {
                    call: dripper,
                    state: CallState::Waiting,
                    phase: PhaseId::BODY,
                    age: Span::from_secs(65),
                    forwarded: true,
                    cause: EvictCause::Displaced { by: CallKey(24) },
                })
            );
        }
    }
}

/// Whatever their order and speed: among those who send a body, whoever sends too slowly goes before all who send fast enough.
#[test]
fn a_fast_client_is_never_dropped_before_a_dripper() {
    /// Bytes in a tenth of a second at the rate of the phase.
    const ENOUGH: u64 = 50;
    let config = Config {
        strategy: Strategy::Tournament { size: Some(30) },
        round: Span::from_millis(1),
        ..http()
    };
    let mut rng = Pcg64Mcg::seed_from_u64(24);
    let (mut drippers, mut fast) = (0, 0);
    for _ in 0..60 {
        let mut table = Selective::new(30, config.clone()).unwrap();
        let mut now = HOUR;
        // Keys and bytes in a tenth of a second, the longest here first.
        let mut live: Vec<(CallKey, u64)> = Vec::new();
        for key in 0..120 {
            let units = if rng.next_u64().is_multiple_of(3) {
                rng.next_u64() % ENOUGH
            } else {
                ENOUGH + rng.next_u64() % 5_000
            };
            table.handle(now, arrival(key, 0, PhaseId::BODY), &mut rng);
            while let Some(output) = table.poll_output() {
                let Output::Evict { call, .. } = output else {
                    continue;
                };
                let victim = live.iter().position(|(key, _)| *key == call).unwrap();
                let (_, units) = live.remove(victim);
                table.handle(now, Input::Ended { call }, &mut rng);
                if units < ENOUGH {
                    drippers += 1;
                } else {
                    // Only one that had not begun to send when a dripper had not either.
                    let spared = live[..victim].iter().any(|(_, units)| *units < ENOUGH);
                    assert!(!spared, "before a dripper that was here first");
                    fast += 1;
                }
            }
            live.push((CallKey(key), units));
            for _ in 0..=rng.next_u64() % 3 {
                now = now + Span::from_millis(100);
                for (call, units) in live.iter().copied() {
                    table.handle(now, Input::Progress { call, units }, &mut rng);
                }
            }
        }
    }
    assert!(drippers > 1_000 && fast > 100, "{drippers} {fast}");
}

/// Calls keep their phase by its name, and their lag. Without phases age counts; when phases come back, they begin one.
#[test]
fn a_reload_keeps_phase_and_lag() {
    let mut table = Selective::new(4, http()).unwrap();
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let at = |secs: u64| Time::from_nanos(secs * 1_000_000_000);
    let (one, other) = (CallKey(0), CallKey(1));
    let some = Input::Progress {
        call: other,
        units: 1_000,
    };
    table.handle(at(10), arrival(0, 0, PhaseId::HEADERS), &mut rng);
    table.handle(at(10), arrival(1, 0, PhaseId::SENDING), &mut rng);
    table.handle(at(12), some, &mut rng);
    let phase = |name: &str| Phase {
        name: name.to_owned(),
        weight: 1.0,
        usual: Some(Span::from_secs(1)),
        rate: 100.0,
        behind: Span::from_secs(2),
    };
    let reload = |phases| Input::Reconfigure {
        capacity: 4,
        config: Box::new(Config { phases, ..http() }),
    };
    let lag = |secs| Some(Span::from_secs(secs));
    let others = vec![phase("sending"), phase("other")];
    table.handle(at(13), reload(others), &mut rng);
    assert_eq!(table.phase(one), Some((PhaseId(0), lag(2))));
    assert_eq!(table.phase(other), Some((PhaseId(0), lag(3))));
    table.handle(at(14), reload(Vec::new()), &mut rng);
    assert_eq!(table.phase(other), Some((PhaseId(0), None)));
    assert_eq!(
        table.held(other),
        Some((CallState::Waiting, Span::from_secs(4)))
    );
    table.handle(at(15), reload(phases_of_http()), &mut rng);
    assert_eq!(table.phase(other), Some((PhaseId::IDLE, lag(0))));
    assert_eq!(table.calls_in_phase(PhaseId::IDLE), 2);
    assert_eq!(table.stats().reconfigured, 3);
}

#[test]
fn reports_that_do_not_fit_are_counted_and_change_nothing() {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let (call, late, phase) = (CallKey(1), CallKey(7), PhaseId(5));
    for (config, counts) in [(http(), (2, 2)), (Config::default(), (4, 0))] {
        let mut table = Selective::new(2, config).unwrap();
        table.handle(HOUR, arrival(1, 0, phase), &mut rng);
        table.handle(HOUR, Input::Enter { call, phase }, &mut rng);
        let before = table.phase(call);
        assert_eq!(before.map(|(phase, _)| phase), Some(PhaseId(0)));
        let progress = Input::Progress {
            call: late,
            units: 1,
        };
        let enter = Input::Enter {
            call: late,
            phase: PhaseId(1),
        };
        table.handle(HOUR, progress, &mut rng);
        table.handle(HOUR, enter, &mut rng);
        let ignored = table.stats().ignored;
        assert_eq!((ignored.unknown_phases, ignored.late_phases), counts);
        assert_eq!(table.phase(call), before);
    }
}
