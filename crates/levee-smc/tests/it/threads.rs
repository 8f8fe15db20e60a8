//! What comes out does not depend on who did it, nor on when it was stopped.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use levee_smc::estimate::{
    CheckError, Estimate, Kind, Precision, ProbabilityMethod, Runs, Settings, Side, Source, Steady,
    Stopped, Target, Test, Tested, Verdict,
};
use levee_smc::{Control, Halt, Pair, Point, Progress, Row, check, check_points, compare};
use proptest::prelude::*;
use rand_pcg::Pcg64;

use crate::world::{All, World, exponential, settings, threads, uniform};

const MEASURE: All = All {
    columns: 4,
    samples: 2,
};

/// A coin, a part, its whole, a time that some runs do not have; times of calls; a series. Some runs take longer than others.
fn draw(rng: &mut Pcg64, row: &mut Row) {
    if uniform(rng) < 0.125 {
        std::thread::yield_now();
    }
    let calls = 1.0 + (uniform(rng) * 20.0).floor();
    let part = (0..calls as u32).filter(|_| uniform(rng) < 0.7).count();
    let time = exponential(rng, 2.0);
    let time = if time < 0.1 { f64::NAN } else { time };
    let coin = f64::from(u8::from(uniform(rng) < 0.8));
    row.values
        .copy_from_slice(&[coin, part as f64, calls, time]);
    row.samples[0].extend((0..calls as u32).map(|_| exponential(rng, 1.0)));
    let mut x = 0.0;
    row.samples[1].extend((0..40).map(|_| {
        x = 0.5 * x + uniform(rng);
        x
    }));
}

fn world(seed: u64) -> World<fn(&mut Pcg64, &mut Row)> {
    World::new(seed, 4, 2, draw)
}

/// One of every kind.
fn targets() -> Vec<Target> {
    let claim = |of, bound| Kind::Hypothesis {
        of,
        side: Side::AtLeast,
        bound,
    };
    let sprt = Test::Sprt {
        indifference: 0.05,
        alpha: 0.01,
        beta: 0.01,
    };
    let steady = |batches| {
        Kind::Steady(Steady {
            samples: 1,
            warm_up: 8,
            batches: NonZeroUsize::new(batches).expect("some batches"),
        })
    };
    let share = Kind::Ratio {
        numerator: 1,
        denominator: 2,
    };
    let probability = |method| Kind::Probability { column: 0, method };
    let mut targets: Vec<_> = [
        Kind::Mean { column: 3 },
        probability(ProbabilityMethod::ClopperPearson),
        probability(ProbabilityMethod::Wilson),
        share,
        Kind::Quantile {
            of: Source::Column(3),
            q: 0.9,
        },
        Kind::Quantile {
            of: Source::Samples(0),
            q: 0.5,
        },
        steady(8),
        steady(1),
        claim(
            Tested::Probability {
                column: 0,
                test: sprt,
            },
            0.7,
        ),
        claim(
            Tested::Probability {
                column: 0,
                test: Test::Interval,
            },
            0.75,
        ),
        claim(Tested::Mean { column: 3 }, 3.0),
        claim(
            Tested::Ratio {
                numerator: 1,
                denominator: 2,
            },
            0.7,
        ),
    ]
    .into_iter()
    .enumerate()
    .map(|(i, kind)| Target::new(format!("q{i}"), kind))
    .collect();
    let mut okamoto = Target::new("okamoto", probability(ProbabilityMethod::Okamoto));
    okamoto.precision = Some(Precision::Absolute(0.05));
    targets.push(okamoto);
    let mut tight = Target::new("tight", Kind::Mean { column: 3 });
    tight.confidence = Some(0.99);
    tight.precision = Some(Precision::Relative(0.07));
    targets.push(tight);
    targets
}

fn sequential() -> Settings {
    Settings {
        precision: Some(Precision::Absolute(0.3)),
        ..settings(Runs::Sequential {
            min: 50,
            max: 20_000,
        })
    }
}

fn ask(seed: u64, settings: &Settings, control: Control<'_>) -> Vec<Estimate> {
    let (world, targets) = (world(seed), targets());
    let point = Point {
        trial: &world,
        measure: &MEASURE,
        targets: &targets,
    };
    check(&point, settings, control).expect("an answer")
}

fn json(answer: &impl serde::Serialize) -> String {
    serde_json::to_string(answer).expect("numbers and names")
}

#[test]
fn the_number_of_threads_is_not_in_the_answer() {
    for (seed, settings) in [
        (1, sequential()),
        (2, settings(Runs::Fixed(777))),
        (
            3,
            Settings {
                simultaneous: 14,
                ..sequential()
            },
        ),
    ] {
        let alone = json(&ask(seed, &settings, Control::NONE));
        for n in [2, 3, 7] {
            let many = json(&ask(seed, &threads(&settings, n), Control::NONE));
            assert_eq!(alone, many, "{n} threads");
        }
    }
}

#[test]
fn every_kind_gives_what_it_promises() {
    let got = ask(1, &sequential(), Control::NONE);
    for (target, estimate) in targets().iter().zip(&got) {
        assert_eq!(target.name, estimate.name);
        assert!(estimate.low <= estimate.estimate && estimate.estimate <= estimate.high);
        let decided = estimate.decided_after.is_some();
        let wanted = if decided {
            Stopped::Decided
        } else {
            Stopped::Precision
        };
        assert_eq!(estimate.stopped, wanted, "{estimate:?}");
        let hypothesis = matches!(target.kind, Kind::Hypothesis { .. });
        assert_eq!(estimate.verdict.is_some(), hypothesis, "{estimate:?}");
    }
    // The truths: coin 0.8, share 0.7, time above 0.1: 2.1.
    let verdicts: Vec<_> = got.iter().filter_map(|e| e.verdict).collect();
    assert_eq!(verdicts[0], Verdict::Holds, "0.8 >= 0.7");
    assert_eq!(verdicts[2], Verdict::Rejected, "2.1 >= 3");
    // A twentieth of the runs have no time.
    assert!(got[0].runs < got[1].runs && got[0].warnings[0].contains("no value"));
}

#[test]
fn the_answer_has_the_names_that_are_promised() {
    let got = serde_json::to_value(&ask(2, &settings(Runs::Fixed(20)), Control::NONE)[1]).unwrap();
    let keys: Vec<_> = got
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        [
            "confidence",
            "estimate",
            "high",
            "low",
            "method",
            "name",
            "runs",
            "stopped"
        ]
    );
    assert_eq!(
        (&got["stopped"], &got["method"]),
        (&"runs".into(), &"clopper-pearson".into())
    );
}

/// The numbers of an answer, without why it ended.
fn numbers(answer: &[Estimate]) -> Vec<(u64, [u64; 3], Option<Verdict>)> {
    let bits = |e: &Estimate| [e.estimate, e.low, e.high].map(f64::to_bits);
    answer
        .iter()
        .map(|e| (e.runs, bits(e), e.verdict))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Stopped wherever, what is left is the answer of just so many runs.
    #[test]
    fn an_interrupted_check_is_a_shorter_one(after in 0_u64..1_500, n in 1_usize..5, budget: bool) {
        let (halt, name) = if budget { (Halt::Budget, Stopped::Budget) } else { (Halt::Interrupted, Stopped::Interrupted) };
        let asked = AtomicU64::new(0);
        let made = AtomicU64::new(0);
        let control = Control {
            stop: &|_| (asked.fetch_add(1, Ordering::Relaxed) >= after).then_some(halt),
            progress: &|progress| made.store(progress.runs_done, Ordering::Relaxed),
        };
        let got = ask(5, &threads(&settings(Runs::Fixed(1_500)), n), control);
        // The coin has a value in every run.
        let runs = got[1].runs;
        // 64 parts of 23 runs; each thread may be four ahead of the first that is not done.
        let lost = if n == 1 { 0 } else { 4 * 23 * n as u64 };
        prop_assert!(runs <= after && runs + lost >= after, "{} of {}", runs, after);
        prop_assert_eq!(runs, made.load(Ordering::Relaxed));
        prop_assert_eq!(got[1].stopped, name);
        if runs > 0 {
            let whole = ask(5, &settings(Runs::Fixed(runs)), Control::NONE);
            prop_assert_eq!(numbers(&got), numbers(&whole));
        } else {
            prop_assert!(got[1].estimate.is_nan() && json(&got).contains("\"estimate\":null"));
        }
    }
}

#[test]
fn a_sweep_is_its_points() {
    let worlds: Vec<_> = (0..9).map(world).collect();
    let targets = targets();
    let points: Vec<_> = worlds
        .iter()
        .map(|trial| Point {
            trial,
            measure: &MEASURE,
            targets: &targets,
        })
        .collect();
    let seen = Mutex::new(Vec::<Progress>::new());
    let control = Control {
        progress: &|progress| seen.lock().unwrap().push(*progress),
        ..Control::NONE
    };
    let sweep = check_points(&points, &threads(&sequential(), 3), control).unwrap();
    for (seed, got) in sweep.iter().enumerate() {
        let alone = ask(seed as u64, &sequential(), Control::NONE);
        assert_eq!(json(got), json(&alone), "point {seed}");
    }
    let seen = seen.into_inner().unwrap();
    let total: u64 = sweep.iter().map(|got| got[1].runs).sum();
    assert!(seen.windows(2).all(|w| w[0].runs_done <= w[1].runs_done));
    assert!(seen.iter().all(|p| p.points == 9));
    let last = seen.last().unwrap();
    assert_eq!(
        (last.points_done, last.runs_done, last.runs_expected),
        (9, total, total)
    );
    // When half is done, the rest is known within a factor of two.
    let middle = seen.iter().find(|p| p.runs_done >= total / 2).unwrap();
    assert!(
        (total / 2..2 * total).contains(&middle.runs_expected),
        "{middle:?}"
    );
}

#[test]
fn a_budget_of_one_point_leaves_the_others_theirs() {
    let worlds: Vec<_> = (0..3).map(world).collect();
    let targets = targets();
    let points: Vec<_> = worlds
        .iter()
        .map(|trial| Point {
            trial,
            measure: &MEASURE,
            targets: &targets,
        })
        .collect();
    let control = Control {
        stop: &|point| (point == 1).then_some(Halt::Budget),
        ..Control::NONE
    };
    let got = check_points(&points, &threads(&sequential(), 2), control).unwrap();
    assert_eq!((got[1][0].runs, got[1][0].stopped), (0, Stopped::Budget));
    assert_eq!(got[2][0].stopped, Stopped::Precision);
}

#[test]
fn pairs_do_not_depend_on_threads_either() {
    let other: fn(&mut Pcg64, &mut Row) = |rng, row| {
        draw(rng, row);
        row.values[1] = (row.values[1] - 1.0).max(0.0);
    };
    let (one, other) = (world(4), World::new(4, 4, 2, other));
    let targets: Vec<_> = targets()
        .into_iter()
        .filter(|t| {
            matches!(
                t.kind,
                Kind::Mean { .. } | Kind::Ratio { .. } | Kind::Probability { .. }
            )
        })
        .map(|mut t| {
            t.precision = Some(Precision::Absolute(0.1));
            t
        })
        .collect();
    let ask = |n| {
        let pair = Pair {
            one: &one,
            other: &other,
            measure: &MEASURE,
            targets: &targets,
        };
        compare(&[pair], &threads(&sequential(), n), Control::NONE).unwrap()
    };
    let alone = ask(1);
    for n in [2, 3, 7] {
        assert_eq!(json(&alone), json(&ask(n)));
    }
    // The same coins: no difference was seen, and that is said. A call less of 10.5 is.
    let by_name = |name: &str| alone[0].iter().find(|e| e.name == name).unwrap();
    let coin = by_name("q1");
    assert_eq!((coin.estimate, coin.low, coin.high), (0.0, 0.0, 0.0));
    assert!(coin.warnings[0].contains("no variation"), "{coin:?}");
    let share = by_name("q3");
    assert!(share.low > 0.05 && share.high < 0.15, "{share:?}");
}

#[test]
fn the_first_run_without_an_answer_is_told() {
    // One run in twenty: each thread finds one of its own.
    let broken: fn(&mut Pcg64, &mut Row) = |rng, row| {
        draw(rng, row);
        if row.values[2] == 20.0 {
            row.values[0] = f64::INFINITY;
        }
    };
    let targets = targets();
    let worlds = [
        world(1),
        world(2),
        World::new(3, 4, 2, broken),
        World::new(4, 4, 2, broken),
    ];
    let points: Vec<_> = worlds
        .iter()
        .map(|trial| Point {
            trial,
            measure: &MEASURE,
            targets: &targets,
        })
        .collect();
    let ask = |n| check_points(&points, &threads(&sequential(), n), Control::NONE).unwrap_err();
    let alone = ask(1);
    let CheckError::Run { point, problem, .. } = &alone else {
        panic!("{alone}");
    };
    assert_eq!((*point, problem.as_str()), (2, "it never ends"));
    for n in [2, 3, 7] {
        assert_eq!(alone, ask(n));
    }
}

#[test]
#[should_panic(expected = "the model is wrong")]
fn a_panic_is_passed_on_by_one_thread() {
    panicking(1);
}

#[test]
fn a_panic_is_passed_on_by_many_threads() {
    // Those that wait must not wait forever.
    assert!(std::panic::catch_unwind(|| panicking(3)).is_err());
}

fn panicking(n: usize) {
    let draw: fn(&mut Pcg64, &mut Row) = |rng, row| {
        assert!(uniform(rng) < 0.99, "the model is wrong");
        draw(rng, row);
    };
    let world = World::new(1, 4, 2, draw);
    let targets = targets();
    let point = Point {
        trial: &world,
        measure: &MEASURE,
        targets: &targets,
    };
    let _ = check(
        &point,
        &threads(&settings(Runs::Fixed(10_000)), n),
        Control::NONE,
    );
}
