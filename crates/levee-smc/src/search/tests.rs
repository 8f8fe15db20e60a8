use std::convert::Infallible;

use super::*;

/// A box of four dimensions and one of one.
struct Boxes;

const FAMILIES: [Family; 2] = [
    Family {
        dimensions: 4,
        weight: 3.0,
    },
    Family {
        dimensions: 1,
        weight: 1.0,
    },
];

impl Space for Boxes {
    type Candidate = Place;

    fn families(&self) -> &[Family] {
        &FAMILIES
    }

    fn at(&self, place: &Place) -> Place {
        place.clone()
    }
}

const PLAN: Plan = Plan {
    candidates: 96,
    runs: 10,
    runs_max: u64::MAX,
    seed: 5,
};

fn middle_of(family: usize) -> Given<Place> {
    let at = vec![0.5; FAMILIES[family].dimensions];
    let place = Place { family, at };
    Given {
        candidate: place.clone(),
        place: Some(place),
    }
}

/// A hill in the first box with its top of 1 at `top`; the second box is flat at 0.3.
fn hill(place: &Place, top: [f64; 4]) -> f64 {
    if place.family == 1 {
        return 0.3;
    }
    let far: f64 = place.at.iter().zip(top).map(|(x, t)| (x - t).powi(2)).sum();
    1.0 - far
}

/// Of standard deviation 1, the same for each candidate in a run, and of standard deviation 0.005 on its own.
fn noise(place: &Place, run: u64) -> f64 {
    let own: u64 = place.at.iter().fold(run, |sum, x| {
        sum.wrapping_mul(31).wrapping_add(x.to_bits() >> 8)
    });
    3.46 * (unit(run, 1) - 0.5) + 0.0173 * (unit(own, 2) - 0.5)
}

fn found(
    plan: &Plan,
    given: &[Given<Place>],
    score: impl Fn(&Place, u64) -> Score,
) -> Found<Place> {
    let mut judge = |places: &[Place], runs: u64| -> Result<_, Infallible> {
        Ok(Some(places.iter().map(|p| score(p, runs)).collect()))
    };
    let Ok(found) = search(&Boxes, given, plan, &mut judge);
    found
}

fn free(value: f64) -> Score {
    Score {
        value,
        excess: -1.0,
    }
}

#[test]
fn a_planted_top_is_found_through_noise() {
    for (seed, top) in [
        (1, [0.2, 0.8, 0.5, 0.9]),
        (2, [0.0, 1.0, 0.3, 0.6]),
        (3, [0.71, 0.13, 0.99, 0.4]),
    ] {
        let mean = |place: &Place, runs: u64| {
            let sum: f64 = (0..runs).map(|run| noise(place, run)).sum();
            free(hill(place, top) + sum / runs as f64)
        };
        let plan = Plan { seed, ..PLAN };
        let found = found(&plan, &[middle_of(0), middle_of(1)], mean);
        assert_eq!((found.best.family, found.ended), (0, Ended::Complete));
        // A step s at a distance x from the top gains 2xs - s^2. With s = 1/16 that is five standard errors of a difference, 5 * 0.005 *
        // sqrt(2/90) = 0.0037, for x above 0.061: each of four coordinates comes closer.
        let left = 1.0 - hill(&found.best, top);
        assert!(left < 4.0 * 0.061_f64.powi(2), "{seed}: {left}");
        assert_eq!((found.best_given, found.given), (0, false));
    }
}

#[test]
fn what_must_be_kept_is_kept() {
    // The top is out of bounds: the best that is in has its first coordinate at 0.5.
    let score = |place: &Place, _: u64| Score {
        value: hill(place, [0.9, 0.5, 0.5, 0.5]),
        excess: place.at[0] - 0.5,
    };
    let found = found(&PLAN, &[middle_of(0)], score);
    assert!(found.best.at[0] <= 0.5, "{found:?}");
    assert!(
        hill(&found.best, [0.9, 0.5, 0.5, 0.5]) >= 0.84 - 1e-9,
        "{found:?}"
    );
}

#[test]
fn when_all_break_it_the_least_breach_wins() {
    let score = |place: &Place, _: u64| Score {
        value: place.at[0],
        excess: 1.0 + place.at[0],
    };
    let found = found(&PLAN, &[middle_of(0)], score);
    assert!(found.best.at[0] < 0.02, "{found:?}");
}

#[test]
fn scores_are_ordered() {
    let score = |value, excess| Score { value, excess };
    for (one, other, expect) in [
        (score(0.5, 0.0), score(0.4, -1.0), Ordering::Greater),
        (score(0.5, 0.1), score(0.4, 0.0), Ordering::Less),
        (score(0.9, 0.2), score(0.1, 0.1), Ordering::Less),
        (score(0.5, -2.0), score(0.5, -1.0), Ordering::Equal),
        (Score::NONE, score(-9.0, 9.0), Ordering::Less),
    ] {
        assert_eq!(one.compare(&other), expect, "{one:?} {other:?}");
        assert_eq!(other.compare(&one), expect.reverse(), "{one:?} {other:?}");
    }
}

#[test]
fn a_given_candidate_that_is_best_wins() {
    let score = |place: &Place, _: u64| {
        free(if *place == middle_of(1).candidate {
            9.0
        } else {
            hill(place, [0.5; 4])
        })
    };
    let found = found(&PLAN, &[middle_of(0), middle_of(1)], score);
    assert_eq!(found.best, middle_of(1).candidate);
    assert_eq!((found.best_given, found.given), (1, true));
}

#[test]
fn budgets_end_it_with_the_best_so_far() {
    let score = |place: &Place, _: u64| free(hill(place, [0.2; 4]));
    let whole = found(&PLAN, &[middle_of(0)], score);
    assert_eq!(whole.ended, Ended::Complete);
    let mut before = f64::NEG_INFINITY;
    for share in [0.0, 0.2, 0.5, 0.9] {
        let runs_max = (whole.runs as f64 * share) as u64;
        let found = found(&Plan { runs_max, ..PLAN }, &[middle_of(0)], score);
        assert!(found.runs <= runs_max, "{found:?}");
        assert_eq!(found.ended, Ended::Runs);
        let value = hill(&found.best, [0.2; 4]);
        assert!(value >= before, "{share}: {value} after {before}");
        before = value;
    }
}

#[test]
fn a_judge_that_stops_ends_it() {
    for stop_at in 0..8 {
        let mut calls = 0;
        let mut judge = |places: &[Place], _: u64| -> Result<_, Infallible> {
            calls += 1;
            let scores = places.iter().map(|p| free(hill(p, [0.2; 4])));
            Ok((calls <= stop_at).then(|| scores.collect()))
        };
        let Ok(found) = search(&Boxes, &[middle_of(0)], &PLAN, &mut judge);
        assert_eq!(found.ended, Ended::Halted, "{stop_at}");
        assert_eq!(found.given, stop_at == 0, "{stop_at}");
    }
    let mut judge = |_: &[Place], _: u64| Err("no");
    assert_eq!(
        search(&Boxes, &[middle_of(0)], &PLAN, &mut judge),
        Err("no")
    );
}

#[test]
fn what_is_no_number_is_the_worst() {
    let score = |place: &Place, _: u64| free(if place.family == 0 { f64::NAN } else { -5.0 });
    assert_eq!(found(&PLAN, &[middle_of(0)], score).best.family, 1);
}

#[test]
fn the_spread_is_even_and_of_the_seed() {
    let places = spread(&FAMILIES, &PLAN);
    let own = |family| places.iter().filter(move |p| p.family == family);
    assert_eq!((own(0).count(), own(1).count()), (72, 24));
    for i in 0..4 {
        let mut strata: Vec<usize> = own(0).map(|p| (p.at[i] * 72.0) as usize).collect();
        strata.sort_unstable();
        assert_eq!(strata, (0..72).collect::<Vec<_>>(), "{i}");
    }
    // Coordinates are shuffled on their own.
    assert!(own(0).any(|p| (p.at[0] - p.at[1]).abs() > 0.5));
    assert_eq!(places, spread(&FAMILIES, &PLAN));
    assert_ne!(places, spread(&FAMILIES, &Plan { seed: 6, ..PLAN }));
}
