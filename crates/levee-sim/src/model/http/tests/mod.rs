//! The model against theory, and what holds of every run.

mod phases;
mod soundness;
mod trends;

use std::time::Duration;

use levee_policy::selective::{
    Config, DropFactor, Kind as DefenseKind, Phase, Strategy, phases_of_http,
};

use super::*;
use crate::engine::{Simulation, TieOrder};
use crate::erlang;
use crate::model::Observed;
use crate::schedule::{Arrivals, Calls, Durations, Plan, Stream};

/// A server of 24 places that does nothing but work, 5 s a request on average, for clients without limit of bandwidth; no
/// attackers, no network.
fn bare() -> Setup {
    let stream = |rate, durations| Stream {
        calls: Calls::Rate(rate),
        durations,
        callers: 1_000_000,
    };
    let mean = Duration::from_secs(5);
    Setup {
        capacity: 24,
        backlog: 0,
        send_buffer: u32::MAX,
        segment: 1_000,
        timeouts: Timeouts::default(),
        defense: None,
        in_call: InCall::Request,
        delay: Span::ZERO,
        warmup: Span::ZERO,
        plan: Plan {
            honest: stream(4.75, Some(Durations::Exponential(mean))),
            attacker: stream(0.0, None),
            arrivals: Arrivals::Poisson,
            until: Duration::MAX,
            seed: 1,
        },
        clients: Clients {
            headers: 500,
            header_pieces: 1,
            body: 0,
            response: 10_000,
            bandwidth: Bandwidth::UNLIMITED,
            slow: None,
            patience: None,
            retries: 0,
            retry_wait: Span::ZERO,
        },
        attack: Attack {
            kind: AttackKind::Connect,
            fixed: None,
            redial: None,
            response: 10_000,
            service: Span::ZERO,
        },
    }
}

fn attackers(number: u32) -> Option<Fixed> {
    Some(Fixed {
        attackers: number,
        ramp: Span::ZERO,
    })
}

fn drip(every: Span, bytes: u32) -> Drip {
    Drip { every, bytes }
}

fn seven(strategy: Strategy, mean_call: Span) -> Option<Config> {
    Some(Config {
        strategy,
        drop_factor: DropFactor {
            mean_call,
            ..DropFactor::default()
        },
        ..Config::of_kind(DefenseKind::Seven)
    })
}

fn simulation(setup: &Setup, horizon: Span) -> Simulation<Http> {
    let model = Http::new(setup.clone()).unwrap();
    Simulation::new(model, Time::ZERO + horizon, TieOrder::FirstSent)
}

fn get(sim: &Simulation<Http>, name: &str) -> f64 {
    let index = Http::observables().iter().position(|o| o.name == name);
    sim.model.observe(sim.now(), index.expect(name))
}

/// The values of these observables at the end of each run.
fn runs<const N: usize>(
    setup: &Setup,
    horizon: Span,
    runs: u64,
    names: [&str; N],
) -> Vec<[f64; N]> {
    let mut sim = simulation(setup, horizon);
    (0..runs)
        .map(|run| {
            sim.restart(|model| model.restart(run));
            sim.run().unwrap();
            names.map(|name| get(&sim, name))
        })
        .collect()
}

/// Estimate and standard error of the ratio of the means of two columns (delta method).
fn ratio(rows: &[[f64; 2]]) -> (f64, f64) {
    let n = rows.len() as f64;
    let (a, b): (f64, f64) = rows
        .iter()
        .fold((0.0, 0.0), |s, r| (s.0 + r[0], s.1 + r[1]));
    let estimate = a / b;
    let squares: f64 = rows.iter().map(|r| (r[0] - estimate * r[1]).powi(2)).sum();
    (estimate, (squares / (n - 1.0) / n).sqrt() / (b / n))
}

/// Within 5 standard errors: for 20 runs and more, one test in some ten thousand fails by chance.
fn assert_near((estimate, error): (f64, f64), exact: f64, what: &str) {
    assert!(
        (estimate - exact).abs() <= 5.0 * error,
        "{what}: {estimate} +- {error}, exactly {exact}"
    );
}

#[test]
fn without_attackers_it_is_a_loss_system_whatever_the_distribution() {
    let mean = Duration::from_secs(5);
    let warm = Span::from_secs(100);
    for durations in [
        Durations::Fixed(mean),
        Durations::Exponential(mean),
        Durations::Lognormal { mean, sigma: 1.0 },
    ] {
        // Undefended, and through a policy that refuses at a full table.
        for defense in [None, Some(Config::of_kind(DefenseKind::Refuse))] {
            let mut setup = bare();
            setup.plan.honest.durations = Some(durations.clone());
            setup.defense = defense;
            setup.warmup = warm;
            let names = ["client.refused", "client.attempted", "server.busy_mean"];
            let rows = runs(&setup, Span::from_secs(1_100), 20, names);
            let blocked = erlang::blocking(24, 4.75 * 5.0);
            let of_calls: Vec<_> = rows.iter().map(|r| [r[0], r[1]]).collect();
            assert_near(ratio(&of_calls), blocked, "blocked");
            let busy: Vec<_> = rows.iter().map(|r| [r[2], 1.0]).collect();
            assert_near(ratio(&busy), 4.75 * 5.0 * (1.0 - blocked), "busy");
        }
    }
}

#[test]
fn a_backlog_makes_it_a_queue() {
    // M/M/4/7 at 0.9 Erlang a place: p_n = p_0 a^n/n! up to 4, then times a/4 each.
    let mut setup = bare();
    (setup.capacity, setup.backlog) = (4, 3);
    setup.plan.honest.calls = Calls::Rate(0.72);
    setup.warmup = Span::from_secs(200);
    let a = 3.6;
    let mut p = vec![1.0];
    for n in 1..=7 {
        p.push(p[n - 1] * a / (n.min(4) as f64));
    }
    let lost = p[7] / p.iter().sum::<f64>();
    let rows = runs(
        &setup,
        Span::from_secs(4_200),
        40,
        ["client.refused", "client.attempted"],
    );
    assert_near(ratio(&rows), lost, "lost");
}

#[test]
fn attackers_that_stay_take_their_places_away() {
    // n of them leave a loss system of k - n places; k and more leave nothing at all.
    let half = 2.375 * 5.0;
    for (number, blocked) in [
        (0, erlang::blocking(24, half)),
        (12, erlang::blocking(12, half)),
        (23, erlang::blocking(1, half)),
        (24, 1.0),
        (40, 1.0),
    ] {
        for kind in [
            AttackKind::Connect,
            AttackKind::Slowloris(drip(Span::from_secs(10), 20)),
            AttackKind::SlowPost(drip(Span::from_secs(10), 1)),
        ] {
            let mut setup = bare();
            setup.plan.honest.calls = Calls::Rate(2.375);
            setup.attack.kind = kind;
            setup.attack.fixed = attackers(number);
            setup.warmup = Span::from_secs(100);
            let rows = runs(
                &setup,
                Span::from_secs(600),
                40,
                ["client.refused", "client.attempted"],
            );
            assert_near(ratio(&rows), blocked, "blocked");
        }
    }
}

#[test]
fn the_time_to_fill_is_erlangs() {
    // The 24th of a Poisson stream of 8 a second: mean 3 s, variance 24/64; the handshake takes three ways more.
    let mut setup = bare();
    setup.plan.honest.calls = Calls::Rate(0.0);
    setup.plan.attacker.calls = Calls::Rate(8.0);
    setup.delay = Span::from_millis(100);
    let rows = runs(&setup, Span::from_secs(60), 400, ["server.filled_at"]);
    let n = rows.len() as f64;
    let mean = rows.iter().map(|r| r[0]).sum::<f64>() / n;
    assert_near((mean, (24.0_f64 / 64.0 / n).sqrt()), 3.3, "time to fill");
    let variance = rows.iter().map(|r| (r[0] - 3.3).powi(2)).sum::<f64>() / n;
    // Of a sum of 24 exponentials the fourth moment is (3 + 6/24) of the squared variance.
    let error = 24.0 / 64.0 * ((2.0 + 6.0 / 24.0) / n).sqrt();
    assert_near((variance, error), 24.0 / 64.0, "its variance");
}

/// Long-run honest connections served, a share, with uniform choice and `P1` = 1: the Markov chain of `n` honest and `m`
/// attackers' connections, by value iteration of its uniformised chain.
fn uniform_share(k: usize, honest: f64, attack: f64, rate: f64) -> f64 {
    let mut p = vec![vec![0.0; k + 1]; k + 1];
    p[0][0] = 1.0;
    let total = honest + attack + k as f64 * rate;
    for _ in 0..100_000 {
        let mut next = vec![vec![0.0; k + 1]; k + 1];
        for n in 0..=k {
            for m in 0..=k - n {
                let here = p[n][m] / total;
                let done = n as f64 * rate;
                next[n][m] += here * (k - n) as f64 * rate;
                if n > 0 {
                    next[n - 1][m] += here * done;
                }
                if n + m < k {
                    next[n + 1][m] += here * honest;
                    next[n][m + 1] += here * attack;
                    continue;
                }
                let (mine, theirs) = (n as f64 / k as f64, m as f64 / k as f64);
                next[n][m] += here * (honest * mine + attack * theirs);
                if m > 0 {
                    next[n + 1][m - 1] += here * honest * theirs;
                }
                if n > 0 {
                    next[n - 1][m + 1] += here * attack * mine;
                }
            }
        }
        let change: f64 = p
            .iter()
            .flatten()
            .zip(next.iter().flatten())
            .map(|(a, b)| (a - b).abs())
            .sum();
        p = next;
        if change < 1e-13 {
            break;
        }
    }
    let mean: f64 = (0..=k).map(|n| n as f64 * p[n].iter().sum::<f64>()).sum();
    mean * rate / honest
}

#[test]
fn uniform_choice_serves_what_its_markov_chain_says() {
    // Times so long that two arrivals hardly ever meet in one round of 1 ms, and so P1 is 1.
    for (honest, attack) in [(0.01, 0.01), (0.01, 0.05), (0.04, 0.01)] {
        let mut setup = bare();
        setup.capacity = 6;
        setup.plan.honest.calls = Calls::Rate(honest);
        setup.plan.attacker.calls = Calls::Rate(attack);
        setup.plan.honest.durations = Some(Durations::Exponential(Duration::from_secs(100)));
        setup.defense = seven(Strategy::Uniform, Span::from_secs(100));
        if let Some(config) = &mut setup.defense {
            config.round = Span::from_millis(1);
        }
        setup.warmup = Span::from_secs(5_000);
        let rows = runs(
            &setup,
            Span::from_secs(105_000),
            40,
            ["client.served", "client.attempted"],
        );
        let (share, error) = ratio(&rows);
        let exact = uniform_share(6, honest, attack, 0.01);
        // Those that are still on at the end count as attempted: less than 6 of them.
        let open = 6.0 / (honest * 100_000.0);
        assert!(
            share <= exact + 5.0 * error && share >= exact - open - 5.0 * error,
            "{share} +- {error}, exactly {exact}"
        );
        // Were the table always full, one would outlast each arrival that drew it with odds of one in k.
        let bound = 1.0 / (1.0 + (honest + attack) / (6.0 * 0.01));
        assert!(exact > bound, "{exact} {bound}");
    }
}

#[test]
fn an_honest_connection_takes_exactly_its_time() {
    let ms = Span::from_millis;
    // Each: change, time to service and time at the server, in ms. One client, 500 bytes up, work of 2 s.
    type Case = (&'static str, fn(&mut Setup), u64, u64);
    let cases: [Case; 7] = [
        ("nothing but work", |_| {}, 2_000, 2_000),
        // Three ways to connect, one for the response.
        ("delay", |s| s.delay = Span::from_millis(100), 2_400, 2_000),
        (
            "headers at 1,000 bytes a second",
            |s| s.clients.bandwidth.up = 1_000.0,
            2_500,
            2_500,
        ),
        (
            "in pieces that do not divide it, and a body",
            |s| {
                s.clients.bandwidth.up = 1_000.0;
                s.clients.header_pieces = 3;
                s.clients.body = 2_500;
            },
            5_000,
            5_000,
        ),
        (
            "the kernel takes the response",
            |s| s.clients.bandwidth.down = 1_000.0,
            12_000,
            2_000,
        ),
        (
            "or all but 4,000 bytes of it",
            |s| {
                s.clients.bandwidth.down = 1_000.0;
                s.send_buffer = 6_000;
            },
            12_000,
            6_000,
        ),
        (
            "and the word of what was taken takes its way",
            |s| {
                s.clients.bandwidth.down = 1_000.0;
                s.send_buffer = 6_000;
                s.delay = Span::from_millis(100);
            },
            12_400,
            6_200,
        ),
    ];
    for (what, change, tts, held) in cases {
        for defended in [false, true] {
            let mut setup = bare();
            setup.plan.arrivals = Arrivals::Even;
            setup.plan.honest.calls = Calls::Rate(0.01);
            setup.plan.until = Duration::from_secs(150);
            setup.plan.honest.durations = Some(Durations::Fixed(Duration::from_secs(2)));
            change(&mut setup);
            if defended {
                setup.defense = Some(Config::default());
            }
            let mut sim = simulation(&setup, Span::from_secs(200));
            sim.run().unwrap();
            assert_eq!(get(&sim, "client.served"), 1.0, "{what}");
            let expected = ms(tts).as_secs_f64();
            assert!((sim.model.sample(0)[0] - expected).abs() < 1e-9, "{what}");
            let at_server = get(&sim, "server.busy_mean") * 200.0;
            assert!(
                (at_server - ms(held).as_secs_f64()).abs() < 1e-6,
                "{what}: {at_server}"
            );
            assert_eq!(setup.mean_connection(), ms(held), "{what}");
            assert_eq!(get(&sim, "network.down"), 10_000.0, "{what}");
            let up = f64::from(500 + setup.clients.body);
            assert_eq!(get(&sim, "network.up"), up, "{what}");
        }
    }
}

#[test]
fn a_timeout_cuts_when_it_says() {
    let s = Span::from_secs;
    let whole = |seconds| Some(Deadline::fixed(s(seconds)));
    let apache = |most| Deadline {
        initial: s(20),
        min_rate: Some(500.0),
        most,
    };
    let loris = |seconds| AttackKind::Slowloris(drip(s(seconds), 20));
    let post = |seconds| AttackKind::SlowPost(drip(s(seconds), 1));
    let read = |seconds| AttackKind::SlowRead(drip(s(seconds), 1));
    let none = Timeouts::default();
    let reads = |seconds| Timeouts {
        between_reads: Some(s(seconds)),
        ..none
    };
    let header = |deadline| Timeouts {
        header: deadline,
        ..none
    };
    let body = |deadline| Timeouts {
        body: deadline,
        ..none
    };
    // An attacker connects at 0 and sends its 500 bytes of headers at once; when is it cut, in seconds?
    let cases: [(Timeouts, AttackKind, Option<f64>); 21] = [
        (none, loris(1), None),
        (reads(10), AttackKind::Connect, Some(10.0)),
        (reads(10), loris(9), None),
        (reads(10), loris(11), Some(10.0)),
        (header(whole(10)), AttackKind::Connect, Some(10.0)),
        (header(whole(10)), loris(9), Some(10.0)),
        (header(whole(10)), post(9), None),
        // 20 s and one for the 500 bytes; a line of 20 bytes adds 40 ms: 5 of them by 21.2 s.
        (header(Some(apache(None))), loris(4), Some(21.2)),
        (header(Some(apache(Some(s(21))))), loris(4), Some(21.0)),
        // As fast as the rate demands, and only the bound cuts.
        (
            header(Some(apache(None))),
            AttackKind::Slowloris(drip(Span::from_millis(100), 51)),
            None,
        ),
        (
            header(Some(apache(Some(s(40))))),
            AttackKind::Slowloris(drip(Span::from_millis(100), 51)),
            Some(40.0),
        ),
        (reads(10), post(9), None),
        (reads(10), post(11), Some(10.0)),
        (body(whole(20)), post(9), Some(20.0)),
        (body(whole(20)), loris(9), None),
        // One byte each 5 s, 4 by 20 s: 20 s and 8 ms.
        (body(Some(apache(None))), post(5), Some(20.008)),
        (reads(10), read(9), None),
        (reads(10), read(1_000), None),
        (
            Timeouts {
                between_writes: Some(s(10)),
                ..none
            },
            read(9),
            None,
        ),
        (
            Timeouts {
                between_writes: Some(s(10)),
                ..none
            },
            read(11),
            Some(10.0),
        ),
        (
            Timeouts {
                send: Some(apache(None)),
                ..none
            },
            read(5),
            Some(20.008),
        ),
    ];
    for (timeouts, kind, expected) in cases {
        let mut setup = bare();
        setup.plan.honest.calls = Calls::Rate(0.0);
        setup.send_buffer = 1_000;
        setup.timeouts = timeouts;
        setup.attack.kind = kind;
        setup.attack.fixed = attackers(1);
        let mut sim = simulation(&setup, Span::from_secs(2_000));
        let mut cut = None;
        while sim.step() {
            if get(&sim, "attacker.timed_out") > 0.0 {
                cut = Some(sim.now().as_secs_f64());
                break;
            }
        }
        assert_eq!(cut, expected, "{timeouts:?} {kind:?}");
    }
}

#[test]
fn a_slow_reader_holds_what_the_kernel_does_not_take() {
    // 1 byte a second of 10,000: the place is held for as many seconds as bytes do not fit.
    for (buffer, held) in [(10_000, 0.0), (9_999, 1.0), (9_000, 1_000.0)] {
        let mut setup = bare();
        setup.plan.honest.calls = Calls::Rate(0.0);
        setup.send_buffer = buffer;
        setup.attack.kind = AttackKind::SlowRead(drip(Span::from_secs(1), 1));
        setup.attack.fixed = attackers(1);
        let rows = runs(
            &setup,
            Span::from_secs(2_000),
            1,
            ["attacker.connections_mean"],
        );
        assert!((rows[0][0] * 2_000.0 - held).abs() < 1e-6, "{buffer}");
    }
}

#[test]
fn attackers_that_come_again_hold_their_share_of_the_time() {
    // 10 s until the timeout, 2.5 s outside: 0.8 of 10 attackers.
    let mut setup = bare();
    setup.plan.honest.calls = Calls::Rate(0.0);
    setup.timeouts.header = Some(Deadline::fixed(Span::from_secs(10)));
    setup.attack.fixed = attackers(10);
    setup.attack.redial = Some(Span::from_millis(2_500));
    let rows = runs(
        &setup,
        Span::from_secs(1_250),
        1,
        ["attacker.connections_mean", "attacker.timed_out"],
    );
    assert!((rows[0][0] - 8.0).abs() < 1e-9);
    assert_eq!(rows[0][1], 1_000.0);
}

/// One client, which comes at 10 s and has `work` done.
fn one_client(work: Duration) -> Setup {
    let mut setup = bare();
    setup.plan.arrivals = Arrivals::Even;
    setup.plan.honest.calls = Calls::Rate(0.1);
    setup.plan.honest.durations = Some(Durations::Fixed(work));
    setup.plan.until = Duration::from_secs(15);
    setup
}

#[test]
fn a_timeout_runs_anew_for_a_connection_after_one_that_was_dropped() {
    // The client takes the attacker's place at 10 s; it is back at 11 s, and has 15 s again, though the first 15 are over before.
    let mut setup = one_client(Duration::from_millis(500));
    setup.capacity = 1;
    setup.attack.fixed = attackers(1);
    setup.attack.redial = Some(Span::from_secs(1));
    setup.timeouts.header = Some(Deadline::fixed(Span::from_secs(15)));
    setup.defense = seven(Strategy::Uniform, Span::from_secs(1));
    let mut sim = simulation(&setup, Span::from_secs(100));
    while sim.step() && get(&sim, "attacker.timed_out") == 0.0 {}
    assert_eq!(get(&sim, "attacker.dropped"), 1.0);
    assert_eq!(sim.now().as_secs_f64(), 26.0);
}

#[test]
fn what_is_served_at_the_instant_of_its_cap_is_not_dropped() {
    // The server is done before the policy looks at its clock; the client still reads for 10 s.
    let mut setup = one_client(Duration::from_secs(2));
    setup.clients.bandwidth.down = 1_000.0;
    setup.defense = Some(Config {
        max_duration: Some(selective::MaxDuration::Fixed(Span::from_secs(2))),
        ..Config::default()
    });
    let mut sim = simulation(&setup, Span::from_secs(100));
    sim.run().unwrap();
    assert_eq!(get(&sim, "client.dropped"), 0.0);
    assert_eq!(sim.model.sample(0), [12.0]);
}

#[test]
fn a_limit_by_source_stops_one_source_and_no_more() {
    for (sources, held, served) in [(1, 3.0, true), (8, 24.0, false), (1_000_000, 24.0, false)] {
        let mut setup = bare();
        setup.plan.honest.calls = Calls::Rate(1.0);
        setup.plan.attacker.callers = sources;
        setup.attack.fixed = attackers(400);
        setup.attack.redial = Some(Span::from_secs(1));
        setup.defense = Some(Config {
            calls_per_source: Some(3),
            ..Config::of_kind(DefenseKind::Refuse)
        });
        let mut sim = simulation(&setup, Span::from_secs(300));
        sim.run().unwrap();
        assert_eq!(get(&sim, "attacker.connections"), held, "{sources}");
        assert_eq!(get(&sim, "client.served") > 0.0, served, "{sources}");
    }
}

#[test]
fn patience_ends_a_wait_in_the_backlog_and_tries_are_counted() {
    let mut setup = bare();
    setup.attack.fixed = attackers(24);
    setup.backlog = 1_000;
    setup.plan.arrivals = Arrivals::Even;
    setup.plan.honest.calls = Calls::Rate(0.1);
    setup.plan.until = Duration::from_secs(15);
    setup.clients.patience = Some(Span::from_secs(7));
    (setup.clients.retries, setup.clients.retry_wait) = (2, Span::from_secs(1));
    let mut sim = simulation(&setup, Span::from_secs(100));
    let mut end = 0.0;
    while sim.step() && get(&sim, "client.gave_up") == 0.0 {
        end = sim.now().as_secs_f64();
    }
    // Three tries of 7 s with 1 s between them, from 10 s on.
    assert_eq!(
        sim.now().as_secs_f64(),
        33.0,
        "the event before was at {end}"
    );
    assert_eq!(get(&sim, "client.tries"), 3.0);
    assert_eq!(get(&sim, "client.attempted"), 1.0);
    assert_eq!(get(&sim, "client.failed"), 1.0);
}

#[test]
fn the_papers_forwarding_at_the_end_of_a_round_works_for_connections() {
    let mut setup = bare();
    setup.plan.arrivals = Arrivals::Even;
    setup.plan.honest.calls = Calls::Rate(0.1);
    setup.plan.until = Duration::from_secs(15);
    setup.plan.honest.durations = Some(Durations::Fixed(Duration::from_secs(2)));
    setup.defense = Some(Config {
        forward: selective::Forward::RoundEnd,
        round: Span::from_secs(3),
        ..Config::default()
    });
    let mut sim = simulation(&setup, Span::from_secs(100));
    sim.run().unwrap();
    // It comes at 10 s; the round ends at 12 s.
    assert_eq!(sim.model.sample(0), [4.0]);
}

#[test]
fn a_run_depends_on_its_number_alone() {
    let mut setup = hard();
    setup.attack.fixed = attackers(30);
    let end = |sim: &Simulation<Http>| {
        let all = 0..Http::observables().len();
        let values: Vec<u64> = all
            .map(|i| sim.model.observe(sim.now(), i).to_bits())
            .collect();
        (values, sim.model.sample(0).to_vec(), sim.delivered())
    };
    let mut sim = simulation(&setup, Span::from_secs(30));
    sim.run().unwrap();
    let first = end(&sim);
    sim.restart(|m| m.restart(3));
    sim.run().unwrap();
    let third = end(&sim);
    assert_ne!(first, third);
    sim.restart(|m| m.restart(0));
    sim.run().unwrap();
    assert_eq!(end(&sim), first);
    // Run 3 is run 0 of a seed 3 further.
    setup.plan.seed += 3;
    let mut sim = simulation(&setup, Span::from_secs(30));
    sim.run().unwrap();
    assert_eq!(end(&sim), third);
}

/// Everything that can go wrong for a client goes wrong here.
fn hard() -> Setup {
    let mut setup = bare();
    setup.capacity = 10;
    setup.send_buffer = 4_000;
    setup.delay = Span::from_millis(40);
    setup.plan.honest.calls = Calls::Rate(6.0);
    setup.plan.honest.durations = Some(Durations::Exponential(Duration::from_millis(600)));
    setup.plan.attacker.calls = Calls::Rate(3.0);
    setup.plan.attacker.callers = 20;
    setup.clients.header_pieces = 2;
    setup.clients.body = 700;
    setup.clients.bandwidth = Bandwidth {
        up: 20_000.0,
        down: 40_000.0,
    };
    setup.clients.slow = Some(Slow {
        share: 0.2,
        bandwidth: Bandwidth {
            up: 1_000.0,
            down: 2_000.0,
        },
    });
    setup.clients.patience = Some(Span::from_secs(4));
    (setup.clients.retries, setup.clients.retry_wait) = (1, Span::from_millis(500));
    setup.attack.kind = AttackKind::Slowloris(drip(Span::from_secs(1), 10));
    setup.attack.redial = Some(Span::from_millis(300));
    setup.timeouts = Timeouts {
        header: Some(Deadline::fixed(Span::from_secs(3))),
        body: Some(Deadline::fixed(Span::from_secs(2))),
        send: Some(Deadline::fixed(Span::from_secs(3))),
        between_reads: Some(Span::from_secs(2)),
        between_writes: Some(Span::from_secs(2)),
    };
    setup.defense = seven(Strategy::Roulette, Span::from_secs(1));
    setup
}

#[test]
fn a_front_that_only_passes_on_changes_nothing() {
    for backlog in [0, 5] {
        let mut setup = hard();
        setup.backlog = backlog;
        setup.defense = None;
        let names = [
            "client.served",
            "client.refused",
            "client.gave_up",
            "network.up",
        ];
        let alone = runs(&setup, Span::from_secs(60), 3, names);
        setup.defense = Some(Config::of_kind(DefenseKind::None));
        assert_eq!(runs(&setup, Span::from_secs(60), 3, names), alone);
    }
}

#[test]
fn a_setup_that_cannot_run_says_which_key() {
    type Case = (&'static str, fn(&mut Setup));
    let cases: [Case; 13] = [
        ("service.capacity", |s| s.capacity = 0),
        ("service.segment", |s| s.segment = 0),
        ("honest.headers", |s| s.clients.headers = 0),
        ("honest.header_pieces", |s| s.clients.header_pieces = 0),
        ("honest.header_pieces", |s| s.clients.header_pieces = 501),
        ("honest.bandwidth", |s| s.clients.bandwidth.up = 0.0),
        ("honest.bandwidth", |s| s.clients.bandwidth.down = f64::NAN),
        ("honest.slow.share", |s| {
            s.clients.slow = Some(Slow {
                share: 1.5,
                bandwidth: Bandwidth::UNLIMITED,
            });
        }),
        ("honest.patience", |s| {
            s.delay = Span::from_secs(1);
            s.clients.patience = Some(Span::from_millis(1_999));
        }),
        ("attack.redial", |s| s.attack.redial = Some(Span::ZERO)),
        ("attack.every", |s| {
            s.attack.kind = AttackKind::SlowRead(drip(Span::ZERO, 1));
        }),
        ("attack.bytes", |s| {
            s.attack.kind = AttackKind::Slowloris(drip(Span::from_secs(1), 0));
        }),
        ("timeouts.min_rate", |s| {
            s.timeouts.body = Some(Deadline {
                min_rate: Some(0.0),
                ..Deadline::fixed(Span::from_secs(1))
            });
        }),
    ];
    for (key, spoil) in cases {
        let mut setup = bare();
        spoil(&mut setup);
        match setup.check() {
            Err(SetupError::Value { key: found, .. }) => assert_eq!(found, key),
            other => panic!("{key}: {other:?}"),
        }
    }
    let mut setup = bare();
    setup.defense = Some(Config {
        round: Span::ZERO,
        ..Config::default()
    });
    assert!(matches!(Http::new(setup), Err(SetupError::Defense(_))));
}
