//! What is known without a simulation.

use super::*;

/// Holds a number to an exact one, but for the rounding of some thousand sums.
#[track_caller]
fn assert_exact(found: f64, exact: f64) {
    assert!(
        (found - exact).abs() <= 1e-9 * exact.abs().max(1.0),
        "{found} and not {exact}"
    );
}

#[test]
fn an_undefended_site_answers_its_capacity_of_what_is_offered() {
    // A is sent 3,000 of the normal load and all of the attack; B and C are well.
    for (load, ingress) in [
        (37_000.0, 20_000.0),
        (37_000.0, 30_000.0),
        (37_000.0, 1e6),
        (1e6, 5_000.0),
    ] {
        let mut setup = quiet();
        setup.sites[0].ingress = ingress;
        setup.attack = Some(attack(load));
        let names = [
            "honest.attack.share",
            "honest.share",
            "overload.site1",
            "overload.time",
            "overload.excess",
            "mitigation.wait",
        ];
        let [[attacked, all, site, over, excess, wait]] = runs(&setup, 1, names)[..] else {
            panic!("one run");
        };
        let offered = load + 3_000.0;
        let share = 0.3 * 20_000_f64.min(ingress) / offered + 0.7;
        assert_exact(attacked, share);
        // An hour of two.
        assert_exact(all, (share + 1.0) / 2.0);
        for time in [site, over, wait] {
            assert_exact(time, 3_600.0);
        }
        assert_exact(excess, 3_600.0 * (offered - 20_000_f64.min(ingress)));
    }
}

#[test]
fn a_load_at_its_capacity_is_answered_and_one_beyond_it_is_not() {
    for (load, over) in [(16_999.0, 0.0), (17_000.0, 0.0), (17_001.0, 3_600.0)] {
        let mut setup = quiet();
        setup.attack = Some(attack(load));
        let names = ["overload.time", "mitigation.wait", "mitigation.done"];
        let done = f64::from(u8::from(over == 0.0));
        assert_eq!(runs(&setup, 1, names), [[over, over, done]], "{load}");
    }
}

#[test]
fn a_static_play_sends_the_attack_where_it_says() {
    // All of A's goes to C with A withdrawn: 7,000 of the normal load.
    let mut setup = quiet();
    setup.attack = Some(attack(37_000.0));
    setup.play = 3;
    let names = ["honest.attack.share", "overload.site1", "overload.site3"];
    let [[share, first, third]] = runs(&setup, 1, names)[..] else {
        panic!("one run");
    };
    assert_exact(share, 0.7 * 20_000.0 / 44_000.0 + 0.3);
    assert_eq!([first, third], [0.0, 3_600.0]);
}

#[test]
fn the_season_has_its_mean_and_its_peak() {
    let mut setup = quiet();
    setup.honest.daily = 0.4;
    setup.honest.peak = Span::from_secs(14 * 3_600);
    setup.honest.clock = Span::from_secs(2 * 3_600);
    setup.time = Span::from_secs(12 * 3_600);
    let mut simulation = simulation(&setup);
    simulation.run().unwrap();
    // From the lowest to the highest: half a day has the mean of a day. Each interval has the value of its beginning, so the mean
    // of a cosine is off by half a step.
    let mean = get(&simulation, "honest.offered") / setup.time.as_secs_f64();
    let step = 4_000.0 * 2.0 * 60.0 / setup.time.as_secs_f64() / 2.0;
    assert!((mean - 10_000.0 + step).abs() < 0.1, "{mean}");
    assert!((get(&simulation, "offered") - 14_000.0).abs() < 0.1);
    assert_exact(get(&simulation, "honest.share"), 1.0);
}

#[test]
fn pulses_count_for_their_time() {
    let mut setup = quiet();
    setup.attack = Some(Attack {
        shape: Shape::Pulse {
            on: Span::from_secs(100),
            off: Span::from_secs(50),
        },
        ..attack(37_000.0)
    });
    let names = [
        "overload.time",
        "attack.sent",
        "mitigation.done",
        "mitigation.wait",
    ];
    // An hour has 24 periods.
    assert_eq!(
        runs(&setup, 1, names),
        [[2_400.0, 37_000.0 * 2_400.0, 0.0, 3_600.0]]
    );
}

#[test]
fn an_attack_that_grows_is_not_mitigated_before_it_is_there() {
    let mut setup = quiet();
    setup.attack = Some(Attack {
        shape: Shape::Ramp {
            over: Span::from_secs(1_800),
        },
        ..attack(34_000.0)
    });
    let names = ["overload.time", "mitigation.done", "mitigation.wait"];
    // Over capacity from half of its height on, which is in the step that begins 15 minutes on: at half it is just carried.
    assert_eq!(runs(&setup, 1, names), [[2_640.0, 0.0, 3_600.0]]);
    setup.attack.as_mut().unwrap().load = 10_000.0;
    assert_eq!(runs(&setup, 1, names), [[0.0, 1.0, 0.0]]);
}

#[test]
fn a_wrong_playbook_is_wrong_as_often_as_it_says() {
    let mut setup = quiet();
    setup.network.wrong = 0.3;
    setup.network.drift = 0.2;
    let (n, streams) = (5_000, |run| Streams::new(1, run));
    let mut truth = Truth::default();
    let (mut elsewhere, mut drifted) = ([0.0; 4], 0.0);
    for run in 0..n {
        truth.draw(&setup.world, &setup.network, &streams(run));
        drifted += f64::from(u8::from(truth.sites(0) != setup.world.sites(0)));
        for (play, elsewhere) in elsewhere.iter_mut().enumerate() {
            *elsewhere += f64::from(u8::from(truth.sites(play)[3] != setup.world.sites(play)[3]));
        }
    }
    // The last class, at C in all plays, drifts with 0.2 to one of four, all others elsewhere in the baseline.
    let base = 0.2 * 0.75;
    // In "0xA" two of four are like it; there and in "+1xA" a wrong entry may bring it back to C: to one of 2 others, or the only one.
    let back =
        |away: f64, others: f64| away * (0.7 + 0.3 * (1.0 - 1.0 / others)) + (1.0 - away) * 0.3;
    let expect = [
        base,
        back(0.15, 2.0),
        back(0.15, 1.0),
        back(0.2 * 0.25, 1.0),
    ];
    for (play, (found, exact)) in elsewhere.iter().zip(expect).enumerate() {
        let (found, error) = (found / n as f64, (exact * (1.0 - exact) / n as f64).sqrt());
        assert!(
            (found - exact).abs() < 5.0 * error,
            "{play}: {found} and not {exact}"
        );
    }
    // The baseline is wrong by drift alone: some class of A, A, B, C behaves like one of another site.
    let none = (1.0 - 0.2 * 0.5_f64).powi(2) * (1.0 - base).powi(2);
    let error = (none * (1.0 - none) / n as f64).sqrt();
    assert!((drifted / n as f64 - (1.0 - none)).abs() < 5.0 * error);
}

#[test]
fn reports_tell_the_load_that_comes_in_and_what_is_lost_of_the_known_good() {
    let mut setup = quiet();
    setup.attack = Some(attack(97_000.0));
    setup.time = Span::from_secs(3_600);
    let mut simulation = simulation(&setup);
    let (mut seen, mut sent, mut reports) = (0.0, 0.0, 0.0);
    while simulation.step() {
        let now = simulation.now();
        let measure = &simulation.model.measure;
        if now <= Time::ZERO + Span::from_secs(600)
            || !now.as_nanos().is_multiple_of(60_000_000_000)
        {
            continue;
        }
        let [a, b, c] = &measure.sites[..] else {
            panic!("{measure:?}");
        };
        assert_exact(a.observed.unwrap(), 20_000.0);
        assert_exact(b.observed.unwrap(), 3_000.0);
        assert_exact(c.normal.unwrap(), 4_000.0);
        let known = a.known_good[0];
        // 30% of 50 a second for a minute.
        assert_exact(known.expected, 900.0);
        assert_eq!(
            [b.known_good[0].observed, c.known_good[0].observed],
            [900.0, 1_200.0]
        );
        seen += known.observed;
        sent += known.expected;
        reports += 1.0;
    }
    assert!(reports >= 50.0);
    // One in five comes in: binomial.
    let (share, error) = (seen / sent, (0.2 * 0.8 / sent).sqrt());
    assert!((share - 0.2).abs() < 5.0 * error, "{share}");
}

#[test]
fn lost_reports_are_as_many_as_it_says() {
    let mut setup = quiet();
    setup.measure.lost = 0.1;
    setup.time = Span::from_secs(60 * 5_000);
    let [[lost]] = runs(&setup, 1, ["report.lost"])[..] else {
        panic!("one run");
    };
    let error = (15_000.0 * 0.1 * 0.9_f64).sqrt();
    assert!((lost - 1_500.0).abs() < 5.0 * error, "{lost}");
}
