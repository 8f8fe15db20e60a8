//! The loop with its responder: what follows from its settings.

use levee_policy::reroute::{Config, Kind};

use super::*;

/// Three sites of 25,000 queries a second, of which one is sent 33,000: with a prepend there all is carried.
fn defended() -> Setup {
    let mut setup = quiet();
    setup.sites = vec![site(25_000.0); 3];
    setup.defense = Some(Config::default());
    setup.attack = Some(Attack {
        from: Sources::Site(levee_policy::reroute::SiteId(0)),
        ..attack(30_000.0)
    });
    setup
}

#[test]
fn mitigation_takes_detection_deployment_and_convergence() {
    let s = Span::from_secs;
    // Interval, beginning of the attack, deployment, convergence; and when it is detected.
    for (interval, start, deploy, convergence, detected) in [
        // The first interval of the attack is over, and so is the minute for which the level `attack` has to last.
        (60, 600, 5, 40, 120),
        (60, 600, 0, 0, 120),
        (30, 600, 5, 240, 90),
        // The minute is not over after one more interval of 40 s.
        (40, 600, 5, 40, 120),
        // Half of an interval is not enough.
        (60, 630, 15, 40, 150),
    ] {
        let mut setup = defended();
        setup.measure.interval = s(interval);
        // As many known-good queries in each interval.
        setup.honest.known_good.rate *= 60.0 / interval as f64;
        setup.network.deploy = s(deploy);
        setup.network.convergence = Durations::Fixed(Duration::from_secs(convergence));
        setup.attack.as_mut().unwrap().start = s(start);
        let names = [
            "detect.time",
            "change.first",
            "mitigation.wait",
            "mitigation.done",
        ];
        let first = detected + deploy;
        let wait = first + convergence;
        let expect = [detected as f64, first as f64, wait as f64, 1.0];
        for row in runs(&setup, 20, names) {
            assert_eq!(row, expect, "{interval} {start}");
        }
    }
}

#[test]
fn an_attack_that_is_over_leaves_the_baseline_without_a_flap() {
    let mut setup = defended();
    setup.time = Span::from_secs(4 * 3_600);
    let names = [
        "change.count",
        "change.flaps",
        "play.baseline",
        "next_line.on",
        "honest.after.share",
    ];
    for row in runs(&setup, 20, names) {
        assert_eq!(row, [2.0, 0.0, 1.0, 0.0, 1.0]);
    }
}

#[test]
fn what_no_play_carries_is_for_the_next_line() {
    let mut setup = defended();
    setup.attack.as_mut().unwrap().load = 500_000.0;
    setup.time = Span::from_secs(6 * 3_600);
    let names = [
        "mitigation.done",
        "next_line.called",
        "next_line.on",
        "play.baseline",
    ];
    for [done, called, on, home] in runs(&setup, 10, names) {
        assert_eq!([done, on, home], [0.0, 0.0, 1.0]);
        assert!(called >= 1.0);
    }
}

#[test]
fn what_fails_changes_nothing() {
    let mut setup = defended();
    setup.network.deploy_failure = 1.0;
    let names = [
        "change.count",
        "mitigation.wait",
        "play.number",
        "change.failed",
    ];
    for [count, wait, play, failed] in runs(&setup, 5, names) {
        assert_eq!([count, wait, play], [0.0, 3_600.0, 0.0]);
        assert!(failed >= 1.0, "{failed}");
    }
}

#[test]
fn who_only_observes_changes_nothing() {
    let mut setup = defended();
    setup.defense.as_mut().unwrap().kind = Kind::Observe;
    let undefended = Setup {
        defense: None,
        ..setup.clone()
    };
    let names = ["change.count", "honest.attack.share", "overload.time"];
    assert_eq!(runs(&setup, 5, names), runs(&undefended, 5, names));
}

/// Half a day of everything that is random.
fn long() -> Setup {
    let mut setup = rough();
    setup.time = Span::from_secs(12 * 3_600);
    setup.attack.as_mut().unwrap().length = Span::from_secs(9 * 3_600);
    setup
}

#[test]
fn changes_stay_within_the_budget() {
    let most = |changes: u32, dwell: u64| {
        let mut setup = long();
        let mut config = Config::default();
        config.budget.suppress = 1e6;
        config.budget.changes = changes;
        config.budget.window = Span::from_secs(3_600);
        config.budget.dwell = Span::from_secs(dwell);
        config.settle = Span::from_secs(60);
        config.calm = Span::from_secs(60);
        config.calm_max = Span::from_secs(60);
        setup.defense = Some(config);
        let all = runs(&setup, 40, ["change.hour_max"]);
        all.iter().map(|row| row[0]).fold(0.0, f64::max)
    };
    // One that is at work at the bound, and one that would be beyond it.
    assert_eq!(most(2, 0), 2.0);
    assert!(most(1_000, 0) > 2.0);
    // So many changes have room in an hour at this distance, the first at its beginning.
    assert!(most(1_000, 1_200) <= 3.0);
}

/// A month of honest load that comes to 85% of the capacity each day, with noise and forecasts that are wrong by a twentieth.
fn month() -> Setup {
    let mut setup = quiet();
    setup.honest.daily = 0.3;
    setup.honest.noise = 0.05;
    setup.honest.error = 0.05;
    setup.honest.known_good.error = 0.05;
    setup.honest.known_good.claims = 0.05;
    setup.sites = [3_000.0, 3_000.0, 4_000.0]
        .map(|load| site(load * 1.3 / 0.85))
        .to_vec();
    setup.time = Span::from_secs(30 * 86_400);
    setup
}

/// A false alarm takes two measures in a row. By known-good traffic: a forecast that is 4.5 of its standard deviations too high, which is
/// drawn 2,160 times in a month: less than 1%. By load: noise and forecast that are 4 standard deviations of their sum too high together, twice in
/// a row at a time of the peak, where the forecast is the same: about 1e-7 for each of 20,000 intervals. So a month has an
/// alarm with a probability below 2%.
#[test]
fn a_month_of_noise_changes_nothing() {
    let mut setup = month();
    setup.defense = Some(Config::default());
    let names = ["change.count", "detect.false", "next_line.called"];
    for row in runs(&setup, 3, names) {
        assert_eq!(row, [0.0, 0.0, 0.0]);
    }
    // Without hysteresis, and nearer to the load, it is another matter.
    let levels = &mut setup.defense.as_mut().unwrap().levels;
    for level in levels.iter_mut() {
        level.enter_after = Span::ZERO;
    }
    levels[1].load.enter = 0.85;
    levels[1].load.leave = 0.84;
    levels[0].load.enter = 0.8;
    assert!(runs(&setup, 1, ["detect.false"])[0][0] > 5.0);
}

#[test]
fn intervals_of_the_estimate_hold_the_truth_as_often_as_they_say() {
    for load in [30_000.0, 100_000.0, 250_000.0] {
        let mut setup = defended();
        setup.defense.as_mut().unwrap().kind = Kind::Observe;
        let known = &mut setup.honest.known_good;
        (known.error, known.claims) = (0.05, 0.05);
        known.lasts = setup.measure.interval;
        setup.attack.as_mut().unwrap().load = load;
        let names = ["estimate.held", "estimate.count", "estimate.bias"];
        let rows = runs(&setup, 20, names);
        let sum = |i: usize| rows.iter().map(|row| row[i]).sum::<f64>();
        // An hour of minutes, three sites, twenty runs.
        assert_eq!(sum(1), 20.0 * 3.0 * 60.0);
        let error = (0.95 * 0.05 / sum(1)).sqrt();
        let coverage = sum(0) / sum(1);
        // Intervals are for counts that scatter twice as much as those of probes that ask at set times: they may hold it more often.
        assert!(coverage > 0.95 - 5.0 * error, "{load}: {coverage}");
        let (bias, error) = mean(&rows, 2);
        // The mean of 1/x is above 1/mean by the variance of x, relative to its square.
        assert!(
            bias.abs() < 0.05_f64.powi(2) + 10.0 / 900.0 + 5.0 * error,
            "{load}: {bias}"
        );
    }
}

#[test]
fn a_responder_with_a_right_playbook_serves_more_than_none() {
    for load in [30_000.0, 45_000.0, 60_000.0] {
        let mut setup = defended();
        setup.attack.as_mut().unwrap().load = load;
        setup.network.convergence = Durations::Exponential(Duration::from_secs(30));
        let names = ["honest.attack.share", "overload.excess"];
        let with = runs(&setup, 10, names);
        setup.defense = None;
        for ([share, excess], [bare, all]) in with.into_iter().zip(runs(&setup, 10, names)) {
            assert!(share > bare && excess < all, "{load}: {share} {bare}");
        }
    }
}

#[test]
fn a_wrong_playbook_takes_longer() {
    let wait = |wrong: f64| {
        let mut setup = defended();
        setup.network.wrong = wrong;
        mean(&runs(&setup, 200, ["mitigation.wait"]), 0)
    };
    let (right, wrong) = (wait(0.0), wait(0.5));
    assert!(wrong.0 - 5.0 * wrong.1 > right.0, "{right:?} {wrong:?}");
}
