//! What holds of every run.

use super::*;

/// One good client and no bad one, before an idle server; a way of 10 ms, and 50 ms of work.
fn alone(mode: Mode) -> Setup {
    let mut setup = small(mode);
    setup.honest.clients = 1;
    setup.attack.clients = 0;
    setup.server.jitter = 0.0;
    setup.delay = Span::from_millis(10);
    setup.warmup = Span::ZERO;
    setup
}

/// All that can be seen of a run; not a number as the one word for it.
fn seen(simulation: &Simulation<SpeakUp>) -> Vec<u64> {
    let all = 0..SpeakUp::observables().len();
    let value = |i| simulation.model.observe(simulation.now(), i).to_bits();
    all.map(value).collect()
}

#[test]
fn a_run_depends_on_its_number_alone() {
    for mode in Mode::ALL {
        let setup = small(mode);
        let mut used = simulation(&setup);
        used.run().unwrap();
        for run in [3, 1, 3] {
            used.restart(|model| model.restart(run));
            used.run().unwrap();
            let mut fresh = simulation(&Setup {
                seed: setup.seed + run,
                ..setup.clone()
            });
            fresh.run().unwrap();
            assert_eq!(seen(&used), seen(&fresh), "{mode:?} {run}");
            assert_eq!(used.delivered(), fresh.delivered());
        }
    }
}

#[test]
fn a_run_that_was_made_before_allocates_nothing() {
    let room = |simulation: &Simulation<SpeakUp>| {
        let model = &simulation.model;
        let clients = model.clients.iter().map(|c| c.waiting.capacity());
        (
            clients.sum::<usize>(),
            [
                model.clients.capacity(),
                model.requests.capacity(),
                model.free.capacity(),
                model.inputs.capacity(),
                model.backlog.capacity(),
                model.waited_s.capacity(),
            ],
        )
    };
    let mut simulation = simulation(&small(Mode::Auction));
    simulation.run().unwrap();
    let before = room(&simulation);
    simulation.restart(|model| model.restart(0));
    simulation.run().unwrap();
    assert_eq!(room(&simulation), before);
}

#[test]
fn every_request_is_served_denied_or_open() {
    for mode in Mode::ALL {
        let mut setup = small(mode);
        setup.delay = Span::from_millis(5);
        setup.defense.as_mut().unwrap().patience = Span::from_secs(3);
        setup.attack.patience = Span::from_secs(2);
        let mut simulation = simulation(&setup);
        simulation.run().unwrap();
        for kind in ["honest", "attacker"] {
            let get = |what: &str| get(&simulation, &format!("{kind}.{what}"));
            let known = get("served") + get("denied");
            assert_eq!(
                get("denied"),
                get("expired") + get("gave_up") + get("refused")
            );
            let open = get("attempted") - known;
            // Five clients with a window each, and what waits for it: no longer than a patience.
            let most = if kind == "honest" {
                5.0 * (1.0 + 60.0)
            } else {
                5.0 * (20.0 + 160.0)
            };
            assert!((0.0..=most).contains(&open), "{mode:?} {kind}: {open}");
            // Twenty priced payments at once take bad clients longer than their patience.
            let some = kind == "honest" || mode != Mode::Priced;
            assert_eq!(get("served") > 0.0, some, "{mode:?} {kind}");
        }
    }
}

#[test]
fn no_client_has_more_under_way_than_its_window() {
    for mode in [Mode::Retry, Mode::Auction] {
        let mut simulation = simulation(&small(mode));
        while simulation.step() {
            for client in &simulation.model.clients {
                let window = simulation.model.group(client.kind).window;
                assert!(client.open <= window);
            }
        }
    }
}

#[test]
fn below_capacity_a_thinner_changes_nothing() {
    for mode in Mode::ALL {
        let mut setup = small(mode);
        setup.attack.clients = 0;
        setup.honest.rate = 1.0;
        let mut with = simulation(&setup);
        with.run().unwrap();
        setup.defense = None;
        let mut without = simulation(&setup);
        without.run().unwrap();
        for name in [
            "honest.served",
            "honest.waited",
            "honest.bytes",
            "server.worked",
        ] {
            assert_eq!(get(&with, name), get(&without, name), "{mode:?} {name}");
        }
        assert_eq!(get(&with, "thinner.overloads"), 0.0);
        assert_eq!(get(&with, "honest.paid"), 0.0);
    }
}

#[test]
fn a_lone_request_takes_its_bytes_two_ways_and_its_work() {
    // 1,000 bytes at 50 kB/s are 20 ms; two ways 20 ms; work 50 ms.
    for mode in Mode::ALL {
        let mut simulation = simulation(&alone(mode));
        while get(&simulation, "honest.served") < 1.0 {
            assert!(simulation.step());
        }
        let waited = simulation.model.sample(0);
        assert!((waited[0] - 0.09).abs() < 1e-9, "{mode:?}: {waited:?}");
    }
}

#[test]
fn who_does_not_pay_is_refused_and_does_not_come_again() {
    for mode in [Mode::Retry, Mode::Priced, Mode::Auction, Mode::ProofOfWork] {
        let mut setup = small(mode);
        setup.attack.pays = false;
        setup.honest.window = 3;
        setup.attack.rate = 10.0;
        let mut simulation = simulation(&setup);
        simulation.run().unwrap();
        let (done, all) = (
            get(&simulation, "honest.done"),
            get(&simulation, "honest.attempted"),
        );
        assert!(done > 0.97 * all, "{mode:?}: {done} of {all}");
        // A try for each request that went out: one that is refused is not sent again.
        let [tries, attempted] =
            ["tries", "attempted"].map(|n| get(&simulation, &format!("attacker.{n}")));
        assert!(tries <= attempted + 100.0, "{mode:?}");
        assert_eq!(get(&simulation, "attacker.paid"), 0.0);
    }
}

#[test]
fn clients_of_one_kind_fare_alike() {
    let mut setup = small(Mode::Auction);
    setup.honest.rate = 20.0;
    let mut simulation = simulation(&setup);
    simulation.run().unwrap();
    let fairness = get(&simulation, "honest.fairness");
    assert!(fairness > 0.99, "{fairness}");
    let each: u32 = simulation.model.served_of(Kind::Honest).sum();
    assert!(f64::from(each) >= get(&simulation, "honest.served"));
}

#[test]
fn a_setup_that_cannot_run_says_which_key() {
    type Change = fn(&mut Setup);
    let cases: [(Change, &str); 8] = [
        (|s| s.server.rate = 0.0, "service.rate"),
        (|s| s.server.jitter = 1.5, "service.jitter"),
        (|s| s.honest.window = 0, "honest.window"),
        (|s| s.honest.up = f64::NAN, "honest.bandwidth.up"),
        (|s| s.attack.request = 0, "attack.request"),
        (|s| s.attack.clients = CLIENTS_MAX + 1, "attack.clients"),
        (|s| s.attack.work = 0.0, "attack.work"),
        (|s| s.attack.patience = Span::ZERO, "attack.patience"),
    ];
    for (change, expect) in cases {
        let mut setup = papers();
        change(&mut setup);
        let Err(SetupError::Value { key, .. }) = setup.check() else {
            panic!("{expect}");
        };
        assert_eq!(key, expect);
    }
    let mut setup = small(Mode::Auction);
    setup.defense.as_mut().unwrap().contenders = 0;
    let Err(SetupError::Defense(error)) = SpeakUp::new(setup) else {
        panic!("no contenders");
    };
    assert_eq!(error.key, "contenders");
}

#[test]
fn names_are_unique_and_described() {
    let all = SpeakUp::observables();
    for (i, one) in all.iter().enumerate() {
        assert!(!one.meaning.is_empty());
        assert!(
            all[..i].iter().all(|other| other.name != one.name),
            "{}",
            one.name
        );
    }
}

#[test]
fn all_that_is_sent_is_a_request_or_a_payment() {
    let mut setup = small(Mode::Auction);
    setup.warmup = Span::ZERO;
    let mut simulation = simulation(&setup);
    simulation.run().unwrap();
    let both = |name: &str| {
        get(&simulation, &format!("honest.{name}")) + get(&simulation, &format!("attacker.{name}"))
    };
    let left = both("bytes") - 1_000.0 * both("tries") - both("paid");
    // A payment may have a piece that was not told when it ended, or is not yet; one request of each client may be on its way.
    let piece = 500_000.0 / 20.0 / f64::from(CHUNKS);
    let most = piece * both("tries") + 1_000.0 * 10.0;
    assert!((0.0..=most).contains(&left), "{left} of {most}");
    assert!(both("price") <= both("paid"));
    assert!(
        both("price") > 0.8 * both("bytes"),
        "most of it buys places"
    );
}
