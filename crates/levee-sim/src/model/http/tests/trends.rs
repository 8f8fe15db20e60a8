//! What the tables of docs/model-http.md say, as inequalities, and a formula for uniform choice.

use super::*;

/// 20 places; 8 honest clients a second with 0.3 s of work each; Slowloris attackers come as often and stay.
fn service() -> Setup {
    let mut setup = bare();
    setup.capacity = 20;
    setup.send_buffer = 16_384;
    setup.delay = Span::from_millis(10);
    setup.warmup = Span::from_secs(20);
    setup.plan.honest.calls = Calls::Rate(8.0);
    setup.plan.honest.durations = Some(Durations::Exponential(Duration::from_millis(300)));
    setup.plan.attacker.calls = Calls::Rate(8.0);
    setup.attack.kind = AttackKind::Slowloris(drip(Span::from_millis(4_900), 20));
    setup.attack.response = 10_000_000;
    setup
}

/// Their first connections are spread over a second: all at once they would come in waves, and lose by `P1`.
fn staggered(attackers: u32) -> Option<Fixed> {
    Some(Fixed {
        attackers,
        ramp: Span::from_secs(1),
    })
}

/// 80 attackers that are back after a second instead.
fn redialling() -> Setup {
    let mut setup = service();
    setup.plan.attacker.calls = Calls::Rate(0.0);
    setup.attack.fixed = staggered(80);
    setup.attack.redial = Some(Span::from_secs(1));
    setup
}

fn slow_attacks() -> [AttackKind; 4] {
    let slow = drip(Span::from_millis(4_900), 20);
    [
        AttackKind::Connect,
        AttackKind::Slowloris(slow),
        AttackKind::SlowPost(slow),
        AttackKind::SlowRead(slow),
    ]
}

fn strategies() -> [Strategy; 3] {
    [
        Strategy::Uniform,
        Strategy::Roulette,
        Strategy::Tournament { size: None },
    ]
}

fn defended(mut setup: Setup, strategy: Strategy) -> Setup {
    setup.defense = seven(strategy, setup.mean_connection());
    setup
}

/// Served share of the clients of whom it is known, and its standard error.
fn served(setup: &Setup) -> (f64, f64) {
    let names = ["client.served", "client.failed"];
    let rows = runs(setup, Span::from_secs(60), 15, names);
    let rows: Vec<_> = rows.iter().map(|r| [r[0], r[0] + r[1]]).collect();
    ratio(&rows)
}

/// By more than 5 standard errors of the difference, were the runs independent; common random numbers make it less.
fn assert_above(high: (f64, f64), low: (f64, f64), what: &str) {
    let error = (high.1 * high.1 + low.1 * low.1).sqrt();
    assert!(high.0 - low.0 > 5.0 * error, "{what}: {high:?} {low:?}");
}

#[test]
fn every_slow_attack_takes_all_of_a_bare_server_and_seven_gives_most_of_it_back() {
    for kind in slow_attacks() {
        let mut setup = service();
        setup.attack.kind = kind;
        assert_eq!(served(&setup).0, 0.0, "{kind:?}");
        for strategy in strategies() {
            let (share, error) = served(&defended(setup.clone(), strategy));
            assert!(share - 5.0 * error > 0.5, "{kind:?} {strategy:?}: {share}");
        }
    }
}

#[test]
fn a_server_with_room_for_all_serves_all_whatever_the_defence() {
    let mut setup = service();
    setup.plan.attacker.calls = Calls::Rate(0.0);
    setup.capacity = 60;
    for setup in [setup.clone(), defended(setup, Strategy::Roulette)] {
        assert_eq!(served(&setup).0, 1.0);
    }
}

#[test]
fn a_drip_just_below_a_pause_limit_defeats_it() {
    let mut setup = service();
    setup.timeouts.between_reads = Some(Span::from_secs(5));
    assert_eq!(served(&setup).0, 0.0);
    setup.attack.kind = AttackKind::Slowloris(drip(Span::from_millis(5_100), 20));
    assert_above(served(&setup), (0.0, 0.0), "a drip just above it");
}

#[test]
fn a_deadline_for_headers_helps_against_slowloris_only() {
    for (kind, helps) in slow_attacks().into_iter().zip([true, true, false, false]) {
        let mut setup = service();
        setup.timeouts = Timeouts::haproxy();
        setup.attack.kind = kind;
        assert_eq!(served(&setup).0 > 0.0, helps, "{kind:?}");
    }
}

#[test]
fn seven_with_a_timeout_is_better_than_either() {
    let mut both = defended(service(), Strategy::Uniform);
    both.timeouts.header = Some(Deadline::fixed(Span::from_secs(2)));
    let alone = served(&both);
    let mut other = both.clone();
    other.timeouts = Timeouts::default();
    assert_above(alone, served(&other), "than SeVen");
    other = both;
    other.defense = None;
    assert_above(alone, served(&other), "than the timeout");
}

#[test]
fn attackers_that_come_back_hurt_every_defence() {
    for strategy in strategies() {
        let stays = served(&defended(service(), strategy));
        let back = served(&defended(redialling(), strategy));
        assert_above(stays, back, "once or again and again");
        assert_above(back, (0.0, 0.0), "yet some are served");
    }
    let timeout = |mut setup: Setup| {
        setup.timeouts = Timeouts::haproxy();
        served(&setup)
    };
    assert_above(timeout(service()), timeout(redialling()), "a timeout");
    let seven = served(&defended(redialling(), Strategy::Uniform));
    assert_above(seven, timeout(redialling()), "SeVen and a timeout");
}

#[test]
fn age_tells_those_who_stay_and_state_those_who_come_back() {
    let by_age = |mut setup: Setup| {
        setup.in_call = InCall::Accept;
        served(&setup)
    };
    // So long that few honest connections are older.
    let patient = |mut setup: Setup| {
        setup.defense = seven(Strategy::Roulette, Span::from_secs(1));
        setup
    };
    let mut stay = patient(service());
    // Honest clients that need a second for their headers look like attackers by state.
    stay.clients.bandwidth.up = 500.0;
    assert_above(by_age(stay.clone()), served(&stay), "those who stay");
    let back = patient(redialling());
    assert_above(served(&back), by_age(back), "those who come back");
}

fn by_phase(mut setup: Setup, strategy: Strategy) -> Setup {
    setup.defense = Some(Config {
        phases: phases_of_http(),
        ..seven(strategy, Span::from_secs(1)).unwrap()
    });
    setup
}

/// Neither state nor age is better by more than a hundredth against attackers who stay, nor at all against those who come back,
/// whatever they do with a connection.
#[test]
fn phases_are_the_best_sign_of_those_who_stay_and_of_those_who_come_back() {
    let clients = |mut setup: Setup| {
        setup.clients.bandwidth.up = 4_000.0;
        setup.clients.body = 1_000;
        // Progress is seen long before the body is complete.
        setup.segment = 100;
        setup
    };
    let (stay, back) = (clients(service()), clients(redialling()));
    for strategy in [Strategy::Roulette, Strategy::Tournament { size: None }] {
        for kind in slow_attacks() {
            for (attack, margin) in [(&stay, 0.01), (&back, 0.0)] {
                let mut setup = attack.clone();
                setup.attack.kind = kind;
                let (phases, error) = served(&by_phase(setup.clone(), strategy));
                let mut other = defended(setup, strategy);
                let state = served(&other);
                other.in_call = InCall::Accept;
                let age = served(&other);
                let what = format!("{kind:?} {strategy:?} {:?}", attack.attack.redial);
                assert_above((phases + margin, error), state, &what);
                assert_above((phases + margin, error), age, &what);
            }
        }
    }
}

/// The share of honest clients that uniform choice serves, for many places: a fixed point.
///
/// Of `rate` arrivals a second as many as there are completions find a hole, and the others a full table. In a round of
/// `t` the j-th of them is taken with k/(k+j): a part ln(1+x)/x of them, x = their number over k. Each taken one drops a held
/// connection, so a held one lasts for its time H with E[exp(-H e/k)], e the drops a second.
fn mean_field(setup: &Setup, outside: impl Fn(f64) -> f64, lasts: impl Fn(f64) -> f64) -> f64 {
    let k = f64::from(setup.capacity);
    let honest = setup.plan.honest.calls.rate();
    let round = selective::ROUND.as_secs_f64();
    let mut share = 0.5;
    for _ in 0..200 {
        let completions = honest * share;
        // Attackers hold what the honest leave, by Little's law at most their mean time.
        let rate = honest + outside(k - completions * 0.3);
        let full = rate - completions;
        let x = full * round / k;
        let taken = libm::log1p(x) / x;
        let drops = full * taken;
        let enters = (completions + full * taken) / rate;
        share = (share + enters * lasts(drops / k)) / 2.0;
    }
    share
}

#[test]
fn uniform_choice_among_many_places_follows_the_mean_field() {
    // Work is exponential, and nothing else takes time: E[exp(-H v)] = 1 / (1 + 0.3 v).
    let lasts = |v: f64| 1.0 / (1.0 + 0.3 * v);
    let scaled = |mut setup: Setup| {
        setup.capacity *= 10;
        for stream in [&mut setup.plan.honest, &mut setup.plan.attacker] {
            if let Calls::Rate(rate) = &mut stream.calls {
                *rate *= 10.0;
            }
        }
        setup.attack.fixed = setup.attack.fixed.and_then(|f| staggered(10 * f.attackers));
        defended(setup, Strategy::Uniform)
    };
    let stay = scaled(service());
    let back = scaled(redialling());
    // One way to tell an attacker, and three until its next connection is there.
    let pause = 1.0 + 4.0 * 0.01;
    for (setup, expected) in [
        (&stay, mean_field(&stay, |_| 80.0, lasts)),
        (
            &back,
            mean_field(&back, |held| (800.0 - held) / pause, lasts),
        ),
    ] {
        let (share, error) = served(setup);
        // What it leaves out is of the order of one place in k.
        let k = f64::from(setup.capacity);
        assert!(
            (share - expected).abs() < 5.0 * error + 2.0 / k,
            "{share} +- {error}, by formula {expected}"
        );
    }
}
