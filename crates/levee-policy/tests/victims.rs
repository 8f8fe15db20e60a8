//! Who is dropped: frequencies of the fast machine against the exact probabilities, by chi-square.
//!
//! Seeds are fixed. Each test of a table has an error of [`ALPHA`](reference::law::ALPHA), so a right machine fails one of the some hundred with less
//! than 10^-3 for a seed picked blindly.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod reference;

use levee_policy::{
    Span, StateMachine, Time,
    selective::{
        Arrival, CallKey, CallState, Class, ClassId, Config, DropFactor, Input, Output, PhaseId,
        Selective, Strategy,
    },
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use self::reference::{
    Candidate,
    law::{chi_square, interval},
    probabilities,
};

const YEAR: Time = Time::from_nanos(365 * 86_400 * 1_000_000_000);

/// A call in a full table.
#[derive(Clone, Copy, Debug)]
struct Held {
    age: Span,
    state: CallState,
    class: u16,
}

fn waiting(age_ms: u64) -> Held {
    Held {
        age: Span::from_millis(age_ms),
        state: CallState::Waiting,
        class: 0,
    }
}

fn in_call(age_ms: u64) -> Held {
    Held {
        state: CallState::InCall,
        ..waiting(age_ms)
    }
}

fn of_class(class: u16, held: Held) -> Held {
    Held { class, ..held }
}

/// A table that is full of these calls at `now`; call `i` has key `i`.
fn full_table(config: &Config, held: &[Held], now: Time) -> Selective {
    let mut table = Selective::new(held.len() as u32, config.clone()).unwrap();
    let mut rng = Pcg64Mcg::seed_from_u64(0);
    let mut order: Vec<usize> = (0..held.len()).collect();
    order.sort_by_key(|index| now.saturating_sub(held[*index].age));
    for index in order {
        let call = CallKey(index as u64);
        let at = now.saturating_sub(held[index].age);
        let arrival = Arrival {
            call,
            class: ClassId(held[index].class),
            phase: PhaseId::default(),
            caller: None,
            source: None,
        };
        table.handle(at, Input::Arrive(arrival), &mut rng);
        // Answered at once; or late and out of turn, below.
        if held[index].state == CallState::InCall && !index.is_multiple_of(3) {
            table.handle(at, Input::Answered { call }, &mut rng);
        }
    }
    for index in (0..held.len())
        .rev()
        .filter(|index| index.is_multiple_of(3))
    {
        if held[index].state == CallState::InCall {
            table.handle(
                now,
                Input::Answered {
                    call: CallKey(index as u64),
                },
                &mut rng,
            );
        }
    }
    while table.poll_output().is_some() {}
    assert_eq!(table.calls_held(), table.capacity());
    table
}

/// The victim of one arrival. The first overload of a round is always taken.
fn victim(table: &Selective, now: Time, rng: &mut impl Rng) -> usize {
    let mut table = table.clone();
    let call = CallKey(u64::MAX);
    table.handle(
        now,
        Input::Arrive(Arrival {
            call,
            class: ClassId::DEFAULT,
            phase: PhaseId::default(),
            caller: None,
            source: None,
        }),
        rng,
    );
    match table.poll_output() {
        Some(Output::Evict { call, .. }) => call.0 as usize,
        other => panic!("no victim but {other:?}"),
    }
}

fn expected(config: &Config, held: &[Held]) -> Vec<f64> {
    let class = |held: &Held| config.classes.get(usize::from(held.class).wrapping_sub(1));
    let droppable: Vec<usize> = (0..held.len())
        .filter(|i| !class(&held[*i]).is_some_and(|class| class.exempt))
        .collect();
    let candidates: Vec<Candidate> = droppable
        .iter()
        .map(|index| Candidate {
            key: CallKey(*index as u64),
            factor: class(&held[*index]).map_or(1.0, |class| class.factor),
            state: held[*index].state,
            age: held[*index].age,
            phase: None,
        })
        .collect();
    let mut all = vec![0.0; held.len()];
    let own = probabilities(
        config.strategy,
        held.len() as u32,
        &candidates,
        &config.drop_factor,
    );
    assert!((own.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    for (index, probability) in droppable.into_iter().zip(own) {
        all[index] = probability;
    }
    all
}

fn check_at(now: Time, config: &Config, held: &[Held], draws: u64, what: &str) {
    let n = held.len() as u32;
    let tournament = |size| Strategy::Tournament { size };
    for strategy in [
        Strategy::Uniform,
        Strategy::Roulette,
        tournament(None),
        tournament(Some(1)),
        tournament(Some(2)),
        tournament(Some((n / 3).max(1))),
        tournament(Some(n)),
    ] {
        if matches!(strategy, Strategy::Tournament { size: Some(size) } if size > n) {
            continue;
        }
        let config = Config {
            strategy,
            ..config.clone()
        };
        let table = full_table(&config, held, now);
        let mut rng = Pcg64Mcg::seed_from_u64(24);
        let mut counts = vec![0; held.len()];
        for _ in 0..draws {
            counts[victim(&table, now, &mut rng)] += 1;
        }
        chi_square(
            &counts,
            &expected(&config, held),
            &format!("{what}, {strategy:?}, at {now}"),
        );
    }
}

/// Early, and after a year, where a careless machine has overflowed or lost its digits.
fn check(config: &Config, held: &[Held], what: &str) {
    for now in [Time::from_nanos(3_000_000_000_000), YEAR] {
        check_at(now, config, held, 10_000, what);
    }
}

fn with(drop_factor: DropFactor) -> Config {
    Config {
        drop_factor,
        ..Config::default()
    }
}

fn mixed() -> Vec<Held> {
    vec![
        waiting(0),
        waiting(40),
        waiting(9_000),
        in_call(100),
        in_call(2_000),
        in_call(4_999),
        in_call(5_001),
        in_call(6_000),
        in_call(7_500),
        in_call(8_000),
        in_call(11_000),
        in_call(12_000),
        waiting(12_000),
    ]
}

#[test]
fn calls_of_every_kind() {
    check(&Config::default(), &mixed(), "mixed");
}

#[test]
fn one_kind_only() {
    check(
        &Config::default(),
        &[waiting(1), waiting(2), waiting(2), waiting(60_000)],
        "waiting",
    );
    check(
        &Config::default(),
        &[in_call(1), in_call(2), in_call(5_000)],
        "young",
    );
    check(
        &Config::default(),
        &[
            in_call(5_001),
            in_call(6_000),
            in_call(9_000),
            in_call(9_500),
        ],
        "old",
    );
    check(&Config::default(), &[in_call(7_000)], "a single one");
}

#[test]
fn ties_of_every_kind() {
    let held = [
        in_call(9_000),
        in_call(9_000),
        in_call(9_000),
        in_call(8_000),
        in_call(8_000),
        waiting(3_000),
        waiting(8_000),
        in_call(3_000),
        in_call(5_000),
        in_call(9_100),
    ];
    check(&Config::default(), &held, "ties");
}

/// At `t = mean_call` a call still is as any other; a nanosecond later it is the likeliest victim.
#[test]
fn the_boundary_of_the_mean_call() {
    let after = Held {
        age: Span::from_secs(5) + Span::from_nanos(1),
        ..in_call(0)
    };
    let before = Held {
        age: Span::from_secs(5).saturating_sub(Span::from_nanos(1)),
        ..in_call(0)
    };
    check(
        &Config::default(),
        &[before, in_call(5_000), after, waiting(5_000)],
        "boundary",
    );
}

#[test]
fn young_calls_dearer_than_some_old_ones() {
    let d = DropFactor {
        in_call: 20.0,
        ..DropFactor::default()
    };
    check(&with(d), &mixed(), "in_call between the old ones");
    check(
        &with(DropFactor { in_call: 1e9, ..d }),
        &mixed(),
        "in_call above all",
    );
    check(
        &with(DropFactor { in_call: 8.0, ..d }),
        &mixed(),
        "in_call as waiting",
    );
}

#[test]
fn drop_factors_that_do_not_grow() {
    check(
        &with(DropFactor {
            scale: 0.0,
            ..DropFactor::default()
        }),
        &mixed(),
        "scale 0",
    );
    check(
        &with(DropFactor {
            alpha: 0.0,
            ..DropFactor::default()
        }),
        &mixed(),
        "alpha 0",
    );
    let d = DropFactor {
        alpha: 0.0,
        scale: 2.0,
        in_call: 10.0,
        ..DropFactor::default()
    };
    check(&with(d), &mixed(), "alpha 0, old as young");
}

#[test]
fn a_steep_growth() {
    let d = DropFactor {
        alpha: 100.0,
        mean_call: Span::from_secs(1),
        ..DropFactor::default()
    };
    check(&with(d), &mixed(), "alpha 100");
    let close = [
        in_call(10_000),
        in_call(10_001),
        in_call(10_002),
        in_call(10_010),
        in_call(10_030),
        waiting(0),
    ];
    check(&with(d), &close, "alpha 100, close");
}

fn classes() -> Config {
    Config {
        classes: vec![
            // 4 * in_call = waiting: ties across classes.
            Class {
                factor: 4.0,
                ..Class::named("tariff")
            },
            Class {
                factor: 0.25,
                ..Class::named("trunk")
            },
            Class {
                exempt: true,
                factor: 100.0,
                ..Class::named("emergency")
            },
            // As the built-in one.
            Class::named("plain"),
        ],
        ..Config::default()
    }
}

#[test]
fn classes_with_their_own_factors() {
    let held: Vec<Held> = mixed()
        .into_iter()
        .enumerate()
        .map(|(index, held)| of_class(index as u16 % 5, held))
        .collect();
    check(&classes(), &held, "classes");
    let all: Vec<Held> = mixed()
        .into_iter()
        .flat_map(|held| (0..5).map(move |class| of_class(class, held)))
        .collect();
    check(&classes(), &all, "each call in each class");
    let old: Vec<Held> = (0..40)
        .map(|i| of_class(i % 3, in_call(5_100 + 173 * u64::from(i * 7 % 40))))
        .collect();
    check(&classes(), &old, "old calls of three factors");
    let dear = Config {
        drop_factor: DropFactor {
            in_call: 15.0,
            ..DropFactor::default()
        },
        ..classes()
    };
    check(&dear, &all, "each call in each class, young calls dear");
}

/// Weeks of a call: its drop factor is far beyond a float's range, yet the odds between two such calls are exact.
#[test]
fn ancient_calls() {
    let day = 86_400_000;
    let two = [
        in_call(30 * day),
        in_call(30 * day + 1_000),
        waiting(0),
        in_call(100),
        in_call(9_000),
        waiting(40),
    ];
    check_at(YEAR, &Config::default(), &two, 20_000, "30 days");
    let spread: Vec<Held> = (0..30).map(|i| in_call(i * day + 500 * i)).collect();
    check_at(
        YEAR,
        &Config::default(),
        &spread,
        20_000,
        "a call of each age",
    );
    let near: Vec<Held> = (0..30)
        .map(|i| of_class(i as u16 % 3, in_call(30 * day + 700 * i)))
        .collect();
    check_at(YEAR, &classes(), &near, 20_000, "30 days, three factors");
}

/// Small tables in the middle of a busy life: many calls have come, gone and been dropped before.
#[test]
fn after_many_replacements() {
    for strategy in [
        Strategy::Uniform,
        Strategy::Roulette,
        Strategy::Tournament { size: Some(5) },
    ] {
        let config = Config {
            strategy,
            round: Span::from_millis(1),
            ..classes()
        };
        let mut table = Selective::new(30, config.clone()).unwrap();
        let mut rng = Pcg64Mcg::seed_from_u64(5);
        let mut now = Time::from_nanos(1);
        let mut live: Vec<(CallKey, u16)> = Vec::new();
        for key in 0..6_000 {
            now = now + Span::from_nanos(1_000_000 + rng.next_u64() % 600_000_000);
            // Keys of later draws are small: give the live calls large ones.
            let call = CallKey(1_000 + key);
            let class = (rng.next_u64() % 5) as u16;
            let arrival = Arrival {
                call,
                class: ClassId(class),
                phase: PhaseId::default(),
                caller: None,
                source: None,
            };
            table.handle(now, Input::Arrive(arrival), &mut rng);
            while let Some(output) = table.poll_output() {
                if let Output::Evict { call, .. } = output {
                    table.handle(now, Input::Ended { call }, &mut rng);
                }
            }
            live.push((call, class));
            if !rng.next_u64().is_multiple_of(4) {
                table.handle(
                    now,
                    Input::Answered {
                        call: live[rng.next_u64() as usize % live.len()].0,
                    },
                    &mut rng,
                );
            }
            live.retain(|(call, class)| {
                // Exempt calls would fill the table.
                let stays = table.held(*call).is_some()
                    && (*class != 3 || !rng.next_u64().is_multiple_of(8));
                if !stays {
                    table.handle(now, Input::Ended { call: *call }, &mut rng);
                }
                stays
            });
            while table.poll_output().is_some() {}
            if key < 3_000 || key % 500 != 0 || table.calls_held() < 30 {
                continue;
            }
            now = now + Span::from_millis(2);
            let held: Vec<Held> = live
                .iter()
                .map(|(call, class)| {
                    table.handle_deadline(now, &mut rng);
                    let (state, age) = table.held(*call).unwrap();
                    Held {
                        age,
                        state,
                        class: *class,
                    }
                })
                .collect();
            let mut counts = vec![0; held.len()];
            for _ in 0..10_000 {
                let victim = victim(&table, now, &mut rng) as u64;
                counts[live.iter().position(|(call, _)| call.0 == victim).unwrap()] += 1;
            }
            chi_square(
                &counts,
                &expected(&config, &held),
                &format!("after {key} arrivals, {strategy:?}"),
            );
        }
        assert!(table.stats().evicted.total() > 2_000);
    }
}

/// A large table through thousands of replacements, each under other probabilities: the places of the victims on the line of
/// all probabilities must be uniform. Trees have levels here, bands are packed, tournaments are small against the table.
#[test]
fn a_large_table_as_it_lives() {
    const CAPACITY: u32 = 2_000;
    const DRAWS: u64 = 4_000;
    const BINS: usize = 40;
    let tournament = |size| Strategy::Tournament { size };
    for strategy in [
        Strategy::Uniform,
        Strategy::Roulette,
        tournament(None),
        tournament(Some(2)),
        tournament(Some(3)),
        tournament(Some(50)),
        tournament(Some(200)),
    ] {
        // With classes the same, the order statistics over several bands.
        for classes in [Vec::new(), classes().classes] {
            let kinds = classes.len() as u64 + 1;
            let config = Config {
                strategy,
                classes,
                round: Span::from_millis(1),
                ..Config::default()
            };
            let mut table = Selective::new(CAPACITY, config.clone()).unwrap();
            let mut rng = Pcg64Mcg::seed_from_u64(24);
            let mut now = YEAR;
            let mut live: Vec<(CallKey, u16)> = Vec::new();
            let mut bins = [0; BINS];
            for key in 0..u64::from(CAPACITY) + DRAWS {
                now = now + Span::from_millis(1 + rng.next_u64() % 8);
                // Every class but the exempt one.
                let class = [0, 1, 2, 4][rng.next_u64() as usize % 4] % kinds as u16;
                let call = CallKey(key);
                table.handle_deadline(now, &mut rng);
                let candidates: Vec<Candidate> = live
                    .iter()
                    .map(|(key, class)| {
                        let (state, age) = table.held(*key).unwrap();
                        let factor = config
                            .classes
                            .get(usize::from(*class).wrapping_sub(1))
                            .map_or(1.0, |class| class.factor);
                        Candidate {
                            key: *key,
                            factor,
                            state,
                            age,
                            phase: None,
                        }
                    })
                    .collect();
                let arrival = Arrival {
                    call,
                    class: ClassId(class),
                    phase: PhaseId::default(),
                    caller: None,
                    source: None,
                };
                table.handle(now, Input::Arrive(arrival), &mut rng);
                while let Some(output) = table.poll_output() {
                    let Output::Evict { call, .. } = output else {
                        continue;
                    };
                    let victim = live.iter().position(|(key, _)| *key == call).unwrap();
                    let (from, share) =
                        interval(strategy, CAPACITY, &candidates, &config.drop_factor, victim);
                    let place = from + share * (rng.next_u64() as f64 / 2_f64.powi(64));
                    bins[((place * BINS as f64) as usize).min(BINS - 1)] += 1;
                    live.remove(victim);
                    table.handle(now, Input::Ended { call }, &mut rng);
                }
                live.push((call, class));
                if !rng.next_u64().is_multiple_of(3) {
                    let call = live[live.len() - 1 - rng.next_u64() as usize % live.len().min(9)].0;
                    table.handle(now, Input::Answered { call }, &mut rng);
                }
            }
            assert_eq!(bins.iter().sum::<u64>(), DRAWS);
            chi_square(
                &bins,
                &[1.0 / BINS as f64; BINS],
                &format!("{strategy:?}, {kinds} classes"),
            );
        }
    }
}
