use std::{
    string::{String, ToString},
    vec,
    vec::Vec,
};

use proptest::prelude::*;
use rand_pcg::Pcg64Mcg;

use self::world::{CAPACITIES, Fate, PLAYS, Shares, World, at, playbook};
use super::*;
use crate::Span;

mod world;

#[test]
fn an_attack_is_mitigated_and_the_baseline_comes_back() {
    let mut world = World::new(PLAYS, Config::default());
    world.pass(60, 100.0);
    assert_eq!(world.log, []);
    world.pass(120, 240.0);
    assert!(world.responder.is_attacked() && world.responder.deployed() == 1);
    world.pass(120, 100.0);
    // 65 % of 240 is over 100; 37, 25 and 38 % are not. Two measures a minute apart show it, and half an hour of calm.
    assert_eq!(world.orders(), [(62, 1), (211, 0)]);
    // Five minutes to settle and two to look.
    assert_eq!(world.over(), [218]);
    assert_eq!(
        (world.next_line(), world.next_line_over()),
        (vec![], vec![])
    );
    assert!(!world.responder.is_attacked() && world.responder.level().is_none());
}

#[test]
fn an_attack_that_ends_by_itself_changes_nothing_back() {
    let mut world = World::new(PLAYS, Config::default());
    world.tell(Input::Operator(Operator::Hold));
    world.pass(30, 240.0);
    world.pass(30, 100.0);
    assert_eq!(world.orders(), []);
    assert_eq!(
        (world.next_line(), world.next_line_over()),
        (vec![2], vec![36])
    );
    assert_eq!(world.over(), [36]);
}

#[test]
fn a_play_that_the_playbook_is_wrong_about_is_not_chosen_again() {
    let mut world = World::new(PLAYS, Config::default()).with_truth(1, [0.65, 0.15, 0.2]);
    world.pass(120, 240.0);
    // Deployed at 2, settled at 7, judged at 8, and the dwell of ten minutes holds the next until 12.
    assert_eq!(world.orders(), [(2, 1), (12, 2)]);
    let wrong = world.journal.iter().filter(|(_, step)| {
        matches!(
            step,
            Step::Judged {
                play: 1,
                mitigated: false,
                wrong: true,
                ..
            }
        )
    });
    assert_eq!(wrong.count(), 1);
    let waits = world
        .journal
        .iter()
        .filter(|(_, step)| matches!(step, Step::Waiting { .. }));
    assert_eq!(waits.count(), 1);
    // A new attack soon after is the same one: that play is still out.
    world.pass(40, 100.0);
    world.pass(60, 240.0);
    assert!(world.plays().iter().filter(|play| **play == 1).count() == 1);
    // One after a day is not.
    world.pass(24 * 60, 100.0);
    world.pass(5, 240.0);
    assert_eq!(world.plays().last(), Some(&1));
}

#[test]
fn a_load_that_grows_is_not_the_playbooks_fault() {
    let mut world = World::new(PLAYS, Config::default());
    world.pass(4, 240.0);
    world.pass(60, 480.0);
    assert!(world.responder.state.ruled_out.is_empty());
    assert_eq!(world.next_line().len(), 1);
}

#[test]
fn when_there_is_no_capacity_it_says_so_once_and_when_that_is_over() {
    let mut world = World::new(PLAYS, Config::default());
    world.pass(60, 900.0);
    // AMS is severe at once, the others a minute later.
    assert_eq!(world.next_line(), [1, 2]);
    world.pass(60, 100.0);
    assert_eq!(world.next_line_over().len(), 1);
    world.pass(60, 100.0);
    assert_eq!(world.announced, 0);
    assert_eq!(world.over().len(), 1);
}

#[test]
fn what_cannot_be_deployed_gives_way_and_then_a_person_has_to_look() {
    let mut world = World::new(PLAYS, Config::default());
    world.fates = [Fate::Fails, Fate::Fails, Fate::Fails].into();
    world.pass(9, 220.0);
    // Plays 1 and 2 carry it. When both have failed there is no other.
    assert_eq!(world.orders(), [(2, 1), (2, 2)]);
    assert_eq!(world.next_line(), [2]);
    world.pass(30, 220.0);
    assert_eq!(world.orders()[2..], [(12, 1), (12, 2)]);

    let config = Config {
        deploy_tries: 2,
        ..Config::default()
    };
    let mut world = World::new(PLAYS, config);
    world.fates = [Fate::Fails, Fate::Fails].into();
    world.pass(30, 220.0);
    // Ten minutes later it is tried again.
    assert_eq!(world.orders(), [(2, 1), (2, 2), (12, 1)]);
    let gave_up = world
        .journal
        .iter()
        .filter(|(_, step)| matches!(step, Step::GaveUp { failures: 2, .. }));
    assert_eq!(gave_up.count(), 1);
    // The next line is on from 2 until the play is seen to work, at 19.
    assert_eq!(
        (world.next_line(), world.next_line_over()),
        (vec![2], vec![19])
    );
}

#[test]
fn an_order_without_an_answer_has_failed() {
    let mut world = World::new(PLAYS, Config::default());
    world.fates = [Fate::Unanswered].into();
    world.pass(30, 220.0);
    // The same again, since it may have been announced.
    assert_eq!(world.orders(), [(2, 1), (4, 1)]);
    assert_eq!(world.responder.deployed(), 1);
    // It stays unclear, and an operator who holds does not want to have it repeated.
    let mut world = World::new(PLAYS, Config::default());
    world.fates = [Fate::Unanswered; 3].into();
    world.pass(30, 220.0);
    assert_eq!(world.orders(), [(2, 1), (4, 1), (6, 1), (18, 1)]);
    let mut world = World::new(PLAYS, Config::default());
    world.fates = [Fate::Unanswered].into();
    world.pass(3, 220.0);
    world.tell(Input::Operator(Operator::Hold));
    world.pass(30, 220.0);
    assert_eq!(world.orders(), [(2, 1)]);
    // A late answer tells what is announced.
    let mut world = World::new(PLAYS, Config::default());
    world.fates = [Fate::Unanswered].into();
    world.pass(3, 220.0);
    assert_eq!(world.responder.deployed(), 0);
    world.unanswered = None;
    world.tell(Input::Deployed { play: 1 });
    assert_eq!(world.responder.deployed(), 1);
    world.pass(30, 220.0);
    assert_eq!(world.orders(), [(2, 1)]);
    // Answers that nobody waits for.
    world.tell(Input::Deployed { play: 99 });
    world.tell(Input::DeployFailed {
        play: 2,
        reason: String::new(),
    });
    assert_eq!(
        (world.responder.deployed(), world.responder.pending()),
        (1, None)
    );
}

#[test]
fn who_holds_holds_and_who_forces_gets_it() {
    let mut world = World::new(PLAYS, Config::default());
    world.tell(Input::Operator(Operator::Hold));
    world.pass(30, 240.0);
    assert_eq!(world.orders(), []);
    world.tell(Input::Operator(Operator::Force { play: 2 }));
    world.tell(Input::Operator(Operator::Force { play: 3 }));
    world.tell(Input::Operator(Operator::Force { play: 77 }));
    assert_eq!(world.orders(), [(30, 2), (30, 3)]);
    world.pass(30, 240.0);
    assert_eq!(world.orders().len(), 2);
    assert!(world.responder.is_held());
    world.tell(Input::Operator(Operator::Release));
    world.pass(30, 240.0);
    assert_eq!(world.plays(), [2, 3, 1]);
    let refused = Output::Record(Step::Refused { play: 77 });
    assert!(world.log.iter().any(|(_, output)| *output == refused));
}

#[test]
fn a_forced_play_waits_for_the_order_before_and_goes_back_when_released() {
    let mut world = World::new(PLAYS, Config::default());
    world.fates = [Fate::Unanswered].into();
    world.pass(2, 240.0);
    world.tell(Input::Operator(Operator::Force { play: 3 }));
    assert_eq!(world.responder.pending(), Some(1));
    world.unanswered = None;
    world.tell(Input::Deployed { play: 1 });
    assert_eq!(world.orders(), [(2, 1), (2, 3)]);
    world.tell(Input::Operator(Operator::Release));
    world.pass(120, 50.0);
    assert_eq!(world.plays(), [1, 3, 0]);
}

#[test]
fn a_site_that_is_silent_neither_begins_nor_ends_an_attack() {
    let mut world = World::new(PLAYS, Config::default());
    world.pass(30, 100.0);
    world.reports[0] = false;
    world.pass(60, 100.0);
    let silent = |world: &World| {
        let steps = world.journal.iter();
        steps
            .filter(|(_, step)| matches!(step, Step::Silent { .. }))
            .count()
    };
    assert_eq!((world.orders(), silent(&world)), (vec![], 1));
    world.reports[0] = true;
    world.pass(2, 240.0);
    assert_eq!(world.orders(), [(92, 1)]);
    // It is silent right after the change: whether that worked is not said until it counts as silent.
    world.reports[0] = false;
    world.pass(9, 240.0);
    let judged = |world: &World| {
        let steps = world.journal.iter();
        steps
            .filter(|(_, step)| matches!(step, Step::Judged { .. }))
            .count()
    };
    assert_eq!(judged(&world), 0);
    world.pass(2, 240.0);
    assert_eq!((judged(&world), silent(&world)), (1, 2));
    // No site reports at all: nothing is done.
    world.reports = [false; 3];
    world.pass(600, 900.0);
    assert_eq!(world.orders().len(), 1);
}

#[test]
fn nothing_more_is_moved_to_a_silent_site() {
    let plays: Shares<'_> = &[
        ("baseline", [60, 20, 20]),
        ("to-BOS", [40, 40, 20]),
        ("to-CNF", [30, 20, 50]),
    ];
    for (silent, expect) in [(None, 1), (Some(1), 2)] {
        let mut world = World::new(plays, Config::default());
        world.pass(30, 100.0);
        if let Some(site) = silent {
            world.reports[site] = false;
        }
        world.pass(15, 100.0);
        world.pass(5, 190.0);
        assert_eq!(world.plays(), [expect], "{silent:?}");
    }
}

#[test]
fn what_a_site_was_seen_to_lose_it_is_not_given_again() {
    // The link of AMS carries 60, whatever its servers could.
    let mut world = World::new(PLAYS, Config::default());
    world.links[0] = 60.0;
    world.pass(40, 150.0);
    // 65 % of 150 is below the capacity, but a third of it does not arrive. 37 % would likely do, 20 % do in the worst case too.
    assert_eq!(world.plays(), [2]);
    let [(_, Step::Estimated { carries, .. }), ..] = &world
        .journal
        .iter()
        .filter(|(_, step)| matches!(step, Step::Estimated { .. }))
        .collect::<Vec<_>>()[..]
    else {
        panic!("nothing was estimated");
    };
    assert!(
        (carries[0] - 60.0).abs() < 1e-9 && carries[1] == 100.0,
        "{carries:?}"
    );
}

#[test]
fn what_is_measured_while_routes_settle_is_not_used() {
    let mut world = World::new(PLAYS, Config::default());
    world.pass(2, 240.0);
    // The load is on its way: for five minutes each site sees anything.
    world.pass(4, 5_000.0);
    world.pass(30, 240.0);
    assert_eq!(world.orders(), [(2, 1)]);
    assert!(world.next_line().is_empty());
}

#[test]
fn a_clock_that_goes_back_stands_still() {
    let mut world = World::new(PLAYS, Config::default());
    world.pass(60, 100.0);
    world.pass(2, 240.0);
    assert_eq!(world.orders(), [(62, 1)]);
    world.minute = 10;
    world.pass(50, 240.0);
    // In its own reckoning no time has passed.
    assert!(world.responder.is_settling(at(60)));
    assert_eq!(world.orders().len(), 1);
    world.pass(60, 240.0);
    assert!(world.journal.iter().any(|(_, step)| matches!(
        step,
        Step::Judged {
            mitigated: true,
            ..
        }
    )));
}

#[test]
fn pulses_do_not_make_it_flap() {
    let mut world = World::new(PLAYS, Config::default());
    // On for ten minutes, off for fifty, for two days.
    for _ in 0..48 {
        world.pass(10, 240.0);
        world.pass(50, 100.0);
    }
    // Calm is never longer than 50 minutes: after the first return it takes an hour, and none comes any more.
    assert_eq!(world.plays(), [1, 0, 1]);
}

#[test]
fn noise_changes_nothing() {
    let mut world = World::new(PLAYS, Config::default());
    world.noise = 0.05;
    // AMS is at 85 % of its capacity for a week: 3.7 standard deviations below it, and two minutes in a row are needed.
    world.pass(7 * 24 * 60, 130.0);
    assert_eq!(world.orders(), []);
    assert!(!world.responder.is_attacked());
}

#[test]
fn observing_orders_nothing() {
    let config = Config {
        kind: Kind::Observe,
        ..Config::default()
    };
    let mut world = World::new(PLAYS, config);
    world.pass(60, 240.0);
    assert_eq!(world.orders(), []);
    assert!(world.responder.is_attacked());
}

/// An attack that the first play does not mitigate; the second cannot be deployed at first; and an end.
fn long_story(crash_at: Option<usize>) -> World {
    let mut world = World::new(PLAYS, Config::default()).with_truth(1, [0.65, 0.15, 0.2]);
    world.crash_at = crash_at;
    world.fates = [Fate::Done, Fate::Fails].into();
    world.pass(5, 100.0);
    world.pass(60, 220.0);
    world.pass(120, 100.0);
    world
}

#[test]
fn it_goes_on_after_a_crash_at_any_point() {
    let straight = long_story(None);
    assert!(
        straight.points > 25 && straight.over().len() == 1,
        "{:?} {:?}",
        straight.orders(),
        straight.over()
    );
    for point in 1..=straight.points {
        let crashed = long_story(Some(point));
        assert_eq!(crashed.crashes, 1, "at {point}");
        assert_eq!(crashed.plays(), straight.plays(), "at {point}");
        assert_eq!(crashed.announced, 0);
        assert_eq!(crashed.over().len(), 1, "at {point}");
        // Each order may be given twice, and comes no sooner.
        assert!(crashed.orders().len() <= straight.orders().len() + 1);
        for (minute, play) in crashed.orders() {
            let before = straight
                .orders()
                .iter()
                .any(|(then, same)| *same == play && *then <= minute);
            assert!(before, "{play} at {minute} sooner, at {point}");
        }
        let is_on = |world: &World| {
            let last = world.log.iter().rev();
            last.map(|(_, output)| output)
                .find(|output| matches!(output, Output::NextLine { .. } | Output::NextLineOver))
                .is_some_and(|output| *output != Output::NextLineOver)
        };
        assert!(!is_on(&crashed) && !is_on(&straight), "at {point}");
    }
}

#[test]
fn a_crash_at_every_point_still_gets_there() {
    let mut world = World::new(PLAYS, Config::default());
    world.pass(5, 100.0);
    for _ in 0..30 {
        world.crash();
        world.carry_out();
        world.pass(2, 240.0);
    }
    assert_eq!(world.plays(), [1]);
    assert_eq!(world.announced, 1);
}

#[test]
fn steps_of_another_playbook_are_refused() {
    let resume = |step: Step| {
        let (config, book) = (Config::default(), playbook(PLAYS));
        Responder::resume(
            config,
            book,
            CAPACITIES.to_vec(),
            [(at(1), Step::Held), (at(2), step)],
        )
        .map(|_| ())
        .map_err(|error| error.to_string())
    };
    let range = Range::exactly(1.0);
    for (step, says) in [
        (Step::Deployed { play: 3 }, None),
        (
            Step::Deployed { play: 4 },
            Some("step 2 names configuration 4, but there are 4 configurations"),
        ),
        (Step::Silent { site: SiteId(2) }, None),
        (
            Step::Silent { site: SiteId(3) },
            Some("step 2 names site 3, but there are 3 sites"),
        ),
        (
            Step::Estimated {
                offered: vec![range; 2],
                alpha: vec![None; 3],
                carries: vec![1.0; 3],
            },
            Some("step 2 names 2 sites, but there are 3 sites"),
        ),
    ] {
        let found = resume(step);
        match says {
            None => assert_eq!(found, Ok(())),
            Some(says) => assert!(
                found.as_ref().is_err_and(|text| text.contains(says)),
                "{found:?}"
            ),
        }
    }
    let resumed = Responder::resume(Config::default(), playbook(PLAYS), vec![1.0], []);
    assert!(
        resumed
            .unwrap_err()
            .to_string()
            .contains("`capacities` is 1 numbers")
    );
}

#[test]
fn a_table_needs_no_key_and_bad_ones_are_told() {
    let read = |text: &str| toml::from_str::<Config>(text).unwrap();
    assert_eq!(read(""), Config::default());
    assert_eq!(read("kind = 'observe'").kind, Kind::Observe);
    let text = toml::to_string(&Config::default()).unwrap();
    assert_eq!(read(&text), Config::default());
    assert!(toml::from_str::<Config>("settel = '5m'").is_err());
    for (text, key) in [
        ("", ""),
        ("confidence = 1.5", "confidence"),
        ("settle = '25h'", "settle"),
        ("deploy_timeout = '0s'", "deploy_timeout"),
        ("deploy_tries = 0", "deploy_tries"),
        ("calm = '5h'\ncalm_max = '4h'", "calm_max"),
        ("gain = -0.1", "gain"),
        ("level = []", "level"),
        ("budget = { changes = 0 }", "budget.changes"),
        ("planner = { concentration = 0.5 }", "concentration"),
    ] {
        let found = read(text)
            .check()
            .map_or_else(|error| error.key, |()| String::new());
        assert_eq!(found, key, "{text}");
    }
    let absorbers = Responder::new(
        read("absorbers = ['LHR']"),
        playbook(PLAYS),
        CAPACITIES.to_vec(),
    );
    assert_eq!(
        absorbers.unwrap_err().to_string(),
        "`absorbers` is \"LHR\", expected one of AMS, BOS, CNF"
    );
}

/// What holds whatever happens.
fn check_journal(world: &World) {
    let config = world.config.budget;
    let plays = world.playbook.plays();
    let (mut held, mut deployed, mut unclear) = (false, 0, None);
    let mut ruled_out = Vec::new();
    // Changes so far, with what each added.
    let mut changes: Vec<(Time, f64)> = Vec::new();
    let figure = |changes: &[(Time, f64)], now: Time| -> f64 {
        let left = |(then, penalty): &(Time, f64)| {
            penalty * (-((now - *then).as_secs_f64() / config.half_life.as_secs_f64())).exp2()
        };
        changes.iter().map(left).sum()
    };
    for (at, step) in &world.journal {
        match step {
            Step::Held => held = true,
            Step::Forced { .. } => held = true,
            Step::Released => held = false,
            Step::AttackBegan { .. } | Step::AttackOver => {}
            Step::Judged {
                play, wrong: true, ..
            } => ruled_out.push(*play),
            Step::Deploying { play, why, .. } => {
                // The same order again is no new change.
                let again = unclear == Some(*play);
                if *why == Why::Forced || again {
                    continue;
                }
                assert!(!held, "a change while held");
                assert!(
                    *why == Why::RollBack || !ruled_out.contains(play),
                    "{play} is ruled out"
                );
                let penalty = config.penalty(&plays[deployed].routing, &plays[*play].routing);
                assert!(figure(&changes, *at) + penalty < config.suppress, "damped");
                let of_late = changes
                    .iter()
                    .filter(|(then, _)| *at - *then < config.window);
                assert!(of_late.count() < config.changes as usize, "too many");
                if let Some((last, _)) = changes.last() {
                    assert!(*at - *last >= config.dwell, "in haste");
                }
            }
            Step::Deployed { play } => {
                let penalty = config.penalty(&plays[deployed].routing, &plays[*play].routing);
                changes.push((*at, penalty));
                deployed = *play;
                unclear = None;
            }
            Step::DeployFailed {
                play,
                unclear: true,
                ..
            } => {
                let penalty = config.penalty(&plays[deployed].routing, &plays[*play].routing);
                changes.push((*at, penalty));
                unclear = Some(*play);
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Loads, wrong playbooks, failing orders, silent sites, operators, steps of the clock and crashes, all at random: no order
    /// without its record, never two at once, none while held, none beyond the budget, none of a play that is ruled out.
    #[test]
    fn whatever_happens_it_holds_to_its_word(seed: u64) {
        // An attack that comes back within the window of relapses keeps what is ruled out: here every attack does.
        let config = Config { relapse: Span::from_secs(86_400), ..Config::default() };
        let mut world = World::new(PLAYS, config);
        world.rng = Pcg64Mcg::new(u128::from(seed) << 1 | 1);
        world.noise = 0.05;
        for play in 0..4 {
            if world.rng.next_u32().is_multiple_of(3) {
                let other = world.rng.next_u32() as usize % 4;
                world.shares[play] = world.shares[other];
            }
        }
        let mut offered = 100.0;
        for _ in 0..120 {
            let pick = world.rng.next_u32() % 100;
            let play = world.rng.next_u32() as usize % 5;
            match pick {
                0..30 => offered = 50.0 + 5.0 * f64::from(world.rng.next_u32() % 100),
                30..34 => world.tell(Input::Operator(Operator::Hold)),
                34..38 => world.tell(Input::Operator(Operator::Force { play })),
                38..46 => world.tell(Input::Operator(Operator::Release)),
                46..52 => world.fates.push_back(Fate::Fails),
                52..56 => world.fates.push_back(Fate::Unanswered),
                56..62 => world.reports[play % 3] ^= true,
                62..66 => { world.crash(); world.carry_out(); }
                66..70 => world.crash_at = Some(world.points + 1 + play),
                70..72 => {
                    world.unanswered = world.unanswered.filter(|asked| *asked != play);
                    world.tell(Input::DeployFailed { play, reason: String::new() });
                }
                72 => world.minute = world.minute.saturating_sub(3),
                _ => {}
            }
            let minutes = 1 + u64::from(world.rng.next_u32() % 12);
            world.pass(minutes, offered);
        }
        check_journal(&world);
    }
}
