//! What cannot be is said, with the remedy; what was not reached too.

use levee_smc::estimate::{
    Kind, Precision, ProbabilityMethod, Runs, Settings, Side, Source, Stopped, Target, Test, Tested,
};
use levee_smc::{Control, Pair, Point, Row, check, compare};
use rand_pcg::Pcg64;

use crate::world::{All, World, ask, settings, uniform};

const MEAN: Kind = Kind::Mean { column: 0 };
const COIN: Kind = Kind::Probability {
    column: 0,
    method: ProbabilityMethod::ClopperPearson,
};
const OKAMOTO: Kind = Kind::Probability {
    column: 0,
    method: ProbabilityMethod::Okamoto,
};

fn refused(kind: Kind, settings: &Settings) -> String {
    let world = World::new(1, 2, 0, |rng: &mut Pcg64, row: &mut Row| {
        row.values.fill(uniform(rng));
    });
    let measure = All {
        columns: 2,
        samples: 0,
    };
    let target = Target {
        place: "x.toml:3:7".to_owned(),
        ..Target::new("q", kind)
    };
    let point = Point {
        trial: &world,
        measure: &measure,
        targets: &[target],
    };
    check(&point, settings, Control::NONE)
        .expect_err("a refusal")
        .to_string()
}

fn sequential(precision: Precision, max: u64) -> Settings {
    Settings {
        precision: Some(precision),
        ..settings(Runs::Sequential { min: 64, max })
    }
}

#[test]
fn impossible_settings_are_refused() {
    let with = |confidence, simultaneous, runs| Settings {
        confidence,
        simultaneous,
        runs,
        ..Settings::default()
    };
    let fixed = Runs::Fixed(10);
    for (settings, expect) in [
        (with(0.0, 1, fixed), "confidence of 0:"),
        (with(1.0, 1, fixed), "between 0 and 1"),
        (with(95.0, 1, fixed), "0.95 is usual"),
        (with(f64::NAN, 1, fixed), "confidence of NaN"),
        (with(0.95, 0, fixed), "1 takes each on its own"),
        (with(0.95, 1, Runs::Fixed(0)), "0 runs"),
        (
            with(0.95, 1, Runs::Sequential { min: 1, max: 9 }),
            "fewer than 2",
        ),
        (
            with(0.95, 1, Runs::Sequential { min: 9, max: 8 }),
            "at most 8",
        ),
        (with(0.95, 1, Runs::default()), "give a precision"),
        (sequential(Precision::Absolute(0.0), 100), "above 0"),
        (
            sequential(Precision::Absolute(-0.1), 100),
            "precision of -0.1",
        ),
        (sequential(Precision::Absolute(f64::NAN), 100), "above 0"),
        (sequential(Precision::Relative(0.0), 100), "0.05 is 5%"),
        (sequential(Precision::Relative(1.0), 100), "between 0 and 1"),
    ] {
        let got = refused(MEAN, &settings);
        assert!(got.contains(expect), "{got}");
    }
}

#[test]
fn impossible_targets_are_refused_with_their_place() {
    let sprt = |indifference, bound| Kind::Hypothesis {
        of: Tested::Probability {
            column: 0,
            test: Test::Sprt {
                indifference,
                alpha: 0.05,
                beta: 0.05,
            },
        },
        side: Side::AtLeast,
        bound,
    };
    let quantile = |of, q| Kind::Quantile { of, q };
    for (kind, expect) in [
        (Kind::Mean { column: 2 }, "no column 2: a run gives 2"),
        (quantile(Source::Column(0), 1.0), "0.5 is the median"),
        (quantile(Source::Samples(0), 0.5), "no list 0"),
        (sprt(0.05, 1.5), "within 0 and 1"),
        (sprt(0.05, 0.97), "indifference 0.05 around 0.97"),
        (sprt(0.0, 0.5), "above 0"),
    ] {
        let got = refused(kind, &settings(Runs::Fixed(10)));
        assert!(
            got.starts_with("x.toml:3:7: q: ") && got.contains(expect),
            "{got}"
        );
    }
    let got = refused(OKAMOTO, &sequential(Precision::Absolute(0.01), 10_000));
    // ln(2/0.05) / (2 0.01^2)
    assert!(
        got.contains("takes 18445 runs, and there may be 10000"),
        "{got}"
    );
    let got = refused(OKAMOTO, &sequential(Precision::Relative(0.01), 10_000));
    assert!(got.contains("absolute precision"), "{got}");
    // The run is one, and its value is said.
    let got = refused(COIN, &settings(Runs::Fixed(10)));
    assert!(
        got.starts_with("run 0: x.toml:3:7: q: is 0.") && got.contains("ask for a mean"),
        "{got}"
    );
}

#[test]
fn okamoto_makes_the_runs_that_it_said() {
    let world = World::new(1, 1, 0, coin);
    let target = [Target::new("p", OKAMOTO)];
    let got = &ask(
        &world,
        &target,
        &sequential(Precision::Absolute(0.05), 1_000),
    )[0];
    assert_eq!((got.runs, got.stopped), (738, Stopped::Precision));
}

fn coin(rng: &mut Pcg64, row: &mut Row) {
    row.values[0] = f64::from(u8::from(uniform(rng) < 0.25));
}

#[test]
fn the_wider_of_two_precisions_will_do() {
    let world = World::new(1, 1, 0, |rng, row| {
        row.values[0] = 50.0 + 10.0 * uniform(rng);
    });
    let half = |absolute, relative| {
        let either = Precision::Either { absolute, relative };
        let got = &ask(
            &world,
            &[Target::new("m", MEAN)],
            &sequential(either, 100_000),
        )[0];
        assert_eq!(got.stopped, Stopped::Precision);
        (got.high - got.low) / 2.0
    };
    // About 55: a hundredth is 0.55, a thousandth 0.055.
    for (absolute, relative, goal) in [(0.1, 0.0001, 0.1), (0.01, 0.001, 0.056)] {
        let half = half(absolute, relative);
        assert!(half <= goal && half > goal / 2.0, "{half} for {goal}");
    }
    let tight = Precision::Either {
        absolute: 1e-6,
        relative: 1e-6,
    };
    let got = &ask(&world, &[Target::new("m", MEAN)], &sequential(tight, 100))[0];
    assert!(
        got.warnings[0]
            .starts_with("precision 0.000001, or 0.000001 of the estimate, is not reached")
    );
}

#[test]
fn what_was_not_reached_is_said() {
    let world = World::new(1, 1, 0, coin);
    let target = [Target::new("p", COIN)];
    let got = &ask(
        &world,
        &target,
        &sequential(Precision::Absolute(0.001), 1_000),
    )[0];
    assert_eq!((got.runs, got.stopped), (1_000, Stopped::MaxRuns));
    // 0.75 0.25 (1.96 / 0.001)^2 = 720,000.
    let said = got.warnings[0].rsplit("about ").next().unwrap();
    let runs: f64 = said.trim_end_matches(" runs").parse().unwrap();
    assert!(
        (600_000.0..900_000.0).contains(&runs),
        "{}",
        got.warnings[0]
    );
}

#[test]
fn nothing_that_varies_is_not_certainty() {
    let of = |value: f64, kind: Kind, precision| {
        let draw = move |_: &mut Pcg64, row: &mut Row| row.values.fill(value);
        let world = World::new(1, 2, 0, draw);
        ask(
            &world,
            &[Target::new("x", kind)],
            &sequential(precision, 5_000),
        )
        .remove(0)
    };
    let fine = Precision::Absolute(0.01);
    // A probability in all but name: 1 - 0.025^(1/n) <= 0.02 from 183 runs on.
    for kind in [MEAN, COIN] {
        let got = of(0.0, kind, fine);
        assert_eq!((got.low, got.stopped), (0.0, Stopped::Precision));
        assert!(
            got.runs >= 183 && got.high <= 0.02 && got.high > 0.0,
            "{got:?}"
        );
    }
    // ln(0.05) / ln(0.99) = 298.07.
    let got = of(7.5, MEAN, fine);
    assert!(
        got.runs >= 299 && got.warnings[0].contains("no variation"),
        "{got:?}"
    );
    let ratio = Kind::Ratio {
        numerator: 0,
        denominator: 1,
    };
    let got = of(3.0, ratio.clone(), fine);
    assert!(
        got.runs >= 299 && got.warnings[0].contains("no variation"),
        "{got:?}"
    );
    let got = of(0.0, ratio, fine);
    assert!(
        got.estimate.is_nan() && got.warnings[0].contains("no ratio"),
        "{got:?}"
    );
    // Relative to nothing.
    let got = of(0.0, MEAN, Precision::Relative(0.1));
    assert_eq!((got.runs, got.stopped), (5_000, Stopped::MaxRuns));
    assert!(
        got.warnings.iter().any(|w| w.contains("estimate of 0")),
        "{got:?}"
    );
    // No run has a value.
    let got = of(f64::NAN, MEAN, fine);
    assert!(got.estimate.is_nan() && got.runs == 0, "{got:?}");
    assert!(
        got.warnings[0].contains("5000 runs have no value"),
        "{got:?}"
    );
}

#[test]
fn what_has_no_difference_is_refused() {
    let world = World::new(1, 1, 0, coin);
    let measure = All {
        columns: 1,
        samples: 0,
    };
    let quantile = Kind::Quantile {
        of: Source::Column(0),
        q: 0.5,
    };
    let pair = Pair {
        one: &world,
        other: &world,
        measure: &measure,
        targets: &[Target::new("median", quantile)],
    };
    let got = compare(&[pair], &settings(Runs::Fixed(10)), Control::NONE).unwrap_err();
    assert!(
        got.to_string()
            .contains("median: two points are compared by"),
        "{got}"
    );
}
