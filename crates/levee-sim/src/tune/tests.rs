use levee_policy::selective::Config;

use super::*;
use crate::engine::Simulation;
use crate::model::Observed as _;
use crate::model::sip::{self, Sip};

const PAPER: &str = include_str!("../../../../scenarios/sip-paper.toml");
const HTTP: &str = include_str!("../../../../scenarios/http-slowloris.toml");
const MMKK: &str = include_str!("../../../../scenarios/mmkk.toml");

fn scenario(text: &str) -> Scenario {
    let read = |_: &str| Ok("1\n2\n".to_owned());
    Scenario::parse("s.toml", text, &read).unwrap()
}

fn task(text: &str) -> Task {
    Task::of(&scenario(text)).unwrap()
}

#[test]
fn the_papers_task_has_its_shares_and_durations() {
    let task = task(PAPER);
    let own: Vec<&str> = task.own.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(own, ["seven-roulette", "seven-uniform", "seven-tournament"]);
    assert_eq!(
        task.left_out,
        ["undefended", "max-duration-2x", "max-duration-4x"]
    );
    assert_eq!((task.attacks.len(), task.without_honest), (10, 0));
    for point in &task.attacks {
        let keys: Vec<&str> = point.at.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["honest.duration", "attack.share"]);
    }
    let defenses = [Config::default(), task.own[1].1.clone()];
    let points = task.points(&defenses);
    assert_eq!(points.len(), 20);
    assert_eq!(points[13].setup.defense.as_ref(), Some(&defenses[1]));
    assert_eq!(points[13].at, task.attacks[3].at);
}

#[test]
fn a_scenario_without_seven_begins_with_the_default() {
    let task = task(MMKK);
    let (name, config) = &task.own[0];
    assert_eq!(name, "default");
    let point = &task.attacks[0];
    let mean = point.setup.honest.durations.mean() + point.setup.run.ring;
    assert_eq!(
        config.drop_factor.mean_call.as_secs_f64(),
        mean.as_secs_f64()
    );
}

#[test]
fn an_http_task_takes_the_timeouts_of_its_lane() {
    let task = task(HTTP);
    assert_eq!(task.own[0].0, "seven-roulette");
    assert_eq!(task.attacks[0].lane, "seven-roulette");
}

#[test]
fn lists_in_a_defence_are_lanes() {
    let text = PAPER.replacen("alpha = 1.89", "alpha = [1.0, 2.0]", 1);
    let task = task(&text);
    assert_eq!(task.own.len(), 4);
    assert_eq!(
        task.own[1].0,
        "seven-roulette (defense.drop_factor.alpha = 2)"
    );
    assert_eq!(task.attacks.len(), 10);
    assert!(task.attacks.iter().all(|point| point.at.len() == 2));
}

#[test]
fn what_cannot_be_tuned_is_refused() {
    let with = |from: &str, to: &str| Task::of(&scenario(&PAPER.replacen(from, to, 1)));
    let paper = "[model]\npreset = \"paper\"\n[run]";
    assert_eq!(with("[run]", paper), Err(TaskError::Preset));
    let shares = "[0.17, 0.33, 0.50, 0.67, 0.83]";
    assert_eq!(with(shares, "1.0"), Err(TaskError::NoHonest));
    let some = with(shares, "[0.5, 1.0]").unwrap();
    assert_eq!((some.attacks.len(), some.without_honest), (2, 2));
}

/// A grid that has the ends.
fn grid(family: Family) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::new()];
    for _ in 0..family.dimensions() {
        let longer =
            |place: Vec<f64>| [0.0, 0.3, 0.6, 1.0].map(|x| [place.as_slice(), &[x]].concat());
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

#[test]
fn every_place_is_a_defence_that_can_be_run_and_is_found_again() {
    for capacity in [1, 2, 24, 100_000] {
        for mean_ms in [1, 100, 5_000, 90_000_000] {
            let mut base = Config::default();
            base.drop_factor.mean_call = Span::from_millis(mean_ms);
            let space = Space::new(base, capacity);
            for family in Family::ALL {
                for place in grid(family) {
                    let config = space.at(family, &place);
                    assert_eq!(config.validate_for(capacity), Ok(()), "{place:?}");
                    let (same, near) = space.place(&config);
                    assert_eq!((same, near.len()), (family, place.len()));
                    assert!(near.iter().all(|x| (0.0..=1.0).contains(x)), "{near:?}");
                    let again = space.at(family, &near);
                    assert_eq!(again.strategy, config.strategy, "{place:?}");
                    let close = |one: f64, other: f64| (one / other - 1.0).abs() < 0.1;
                    let (one, other) = (&again.drop_factor, &config.drop_factor);
                    assert!(close(one.in_call, other.in_call), "{one:?} {other:?}");
                    assert!(close(one.alpha, other.alpha), "{one:?} {other:?}");
                }
            }
        }
    }
}

#[test]
fn the_papers_defence_has_a_place_of_its_own() {
    let space = task(PAPER).space();
    let (family, place) = space.place(&Config::default());
    let again = space.at(family, &place);
    let (d, paper) = (again.drop_factor, DropFactor::default());
    assert_eq!(again.round, Config::default().round);
    assert_eq!((d.waiting, d.in_call), (paper.waiting, paper.in_call));
    assert_eq!((d.alpha, d.scale), (paper.alpha, paper.scale));
}

#[test]
fn numbers_are_as_short_as_they_can_be() {
    let space = Space::new(Config::default(), 24);
    for family in Family::ALL {
        for place in grid(family) {
            let d = space.at(family, &place).drop_factor;
            for value in [d.waiting, d.in_call, d.alpha, d.scale] {
                let digits = format!("{value:e}");
                let mantissa = digits.split('e').next().unwrap();
                assert!(mantissa.len() <= "1.23".len(), "{digits}");
            }
        }
    }
}

/// Complete, incomplete and dropped in set-up, in some runs.
fn outcomes(defense: Config) -> Vec<[f64; 2]> {
    let task = task(PAPER);
    let mut point = task.attacks[3].clone();
    point.setup.defense = Some(defense);
    let model = Sip::new(sip::Setup::new(&point.setup)).unwrap();
    let (end, ties) = (model.end(), model.setup().ties);
    let mut simulation = Simulation::new(model, end, ties);
    let columns = ["honest.complete", "honest.incomplete"].map(|name| {
        let mut all = Sip::observables().iter();
        all.position(|o| o.name == name).unwrap()
    });
    let run = |run| {
        simulation.restart(|model| model.restart(run));
        while simulation.step() {}
        columns.map(|column| simulation.model.observe(simulation.now(), column))
    };
    (0..20).map(run).collect()
}

/// What the space leaves out: defences of other numbers that do the same.
#[test]
fn what_is_left_out_changes_no_call() {
    let space = Space::new(Config::default(), 24);
    let times = |config: &Config, by: f64| {
        let mut other = config.clone();
        other.drop_factor.waiting *= by;
        other.drop_factor.in_call *= by;
        other.drop_factor.scale *= by;
        other
    };
    // A power of two rounds nothing.
    let roulette = space.at(Family::Roulette, &[0.4, 0.3, 0.5, 0.4]);
    let same = outcomes(roulette.clone());
    assert_eq!(outcomes(times(&roulette, 16.0)), same);
    let mut other = roulette.clone();
    other.drop_factor.in_call *= 16.0;
    assert_ne!(outcomes(other), same, "another ratio");

    let tournament = space.at(Family::Tournament, &[0.4, 0.5, 0.2]);
    let same = outcomes(tournament.clone());
    let mut other = tournament.clone();
    other.drop_factor = DropFactor {
        in_call: 7.0,
        alpha: 0.7,
        scale: 1e-3,
        ..other.drop_factor
    };
    assert_eq!(outcomes(other), same);
    assert_ne!(
        outcomes(space.at(Family::Tournament, &[0.4, 0.5, 0.8])),
        same
    );

    let uniform = space.at(Family::Uniform, &[0.4]);
    let mut other = uniform.clone();
    other.drop_factor = roulette.drop_factor;
    assert_eq!(outcomes(other), outcomes(uniform));
}
