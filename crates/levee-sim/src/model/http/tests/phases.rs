//! What a policy with phases hears of a connection, and when.

use super::*;

/// The phase and the lag of the only connection of the table, in milliseconds, at this time; a policy with phases before 24 places.
fn seen(setup: &Setup, at_ms: u64) -> Option<(PhaseId, u64)> {
    let defense = Some(Config {
        phases: phases_of_http(),
        ..Config::of_kind(DefenseKind::Seven)
    });
    let setup = Setup {
        defense,
        ..setup.clone()
    };
    let mut sim = simulation(&setup, Span::from_millis(at_ms));
    sim.run().unwrap();
    let at = Time::ZERO + Span::from_millis(at_ms);
    let front = sim.model.front.as_mut().unwrap();
    front.handle_deadline(at, &mut sim.model.policy_rng);
    let mut clients = sim.model.clients.iter().zip(0..);
    let (client, index) = clients.find(|(client, _)| client.known)?;
    let this = Try {
        client: index,
        number: client.number,
    };
    let (phase, lag) = front.phase(this.key())?;
    Some((phase, lag?.as_millis()))
}

fn attacked(kind: AttackKind) -> Setup {
    let mut setup = bare();
    setup.plan.honest.calls = Calls::Rate(0.0);
    setup.attack.fixed = attackers(1);
    setup.attack.kind = kind;
    setup.attack.response = 1_000_000;
    setup.attack.service = Span::from_secs(2);
    setup.send_buffer = 16_384;
    // It is accepted at six seconds.
    setup.delay = Span::from_secs(2);
    setup
}

#[test]
fn an_attackers_lag_grows_with_time_but_for_what_it_drips() {
    let byte = drip(Span::from_millis(500), 1);
    for (kind, expected) in [
        // Whoever has a request to send begins two seconds behind.
        (
            AttackKind::Connect,
            [(PhaseId::HEADERS, 3_100), (PhaseId::HEADERS, 12_100)],
        ),
        // Nothing but the end of its headers would count.
        (
            AttackKind::Slowloris(byte),
            [(PhaseId::HEADERS, 3_100), (PhaseId::HEADERS, 12_100)],
        ),
        // A byte earns 2 ms.
        (
            AttackKind::SlowPost(byte),
            [(PhaseId::BODY, 3_096), (PhaseId::BODY, 12_060)],
        ),
        // It waits for two seconds; the first byte is known to be taken after four seconds and a half.
        (
            AttackKind::SlowRead(byte),
            [(PhaseId::WAITING, 1_100), (PhaseId::SENDING, 10_084)],
        ),
    ] {
        let setup = attacked(kind);
        let lags = [1_100, 10_100].map(|at_ms| seen(&setup, 6_000 + at_ms).unwrap());
        assert_eq!(lags, expected, "{kind:?}");
    }
}

#[test]
fn a_client_goes_through_the_phases_and_its_progress_counts() {
    let mut setup = one_client(Duration::from_secs(2));
    setup.clients.headers = 1_000;
    setup.clients.header_pieces = 2;
    setup.clients.body = 4_000;
    setup.clients.response = 20_000;
    setup.clients.bandwidth = Bandwidth {
        up: 1_000.0,
        down: 2_000.0,
    };
    setup.send_buffer = 10_000;
    for (at_ms, expected) in [
        (600, Some((PhaseId::HEADERS, 2_600))),
        (1_500, Some((PhaseId::BODY, 2_500))),
        // A piece of a thousand bytes earns two seconds.
        (2_500, Some((PhaseId::BODY, 1_500))),
        (4_500, Some((PhaseId::BODY, 500))),
        (5_500, Some((PhaseId::WAITING, 500))),
        // Ten thousand bytes are the kernel's; each further thousand is taken in half a second.
        (7_400, Some((PhaseId::SENDING, 2_400))),
        (7_600, Some((PhaseId::SENDING, 600))),
        (9_600, Some((PhaseId::SENDING, 100))),
        (12_600, None),
    ] {
        // It comes at ten seconds.
        let seen = seen(&setup, 10_000 + at_ms);
        assert_eq!(seen, expected, "at {at_ms} ms");
    }
}

#[test]
fn phases_that_the_model_does_not_report_are_refused() {
    let check = |phases: Vec<Phase>| {
        let mut setup = bare();
        setup.defense = Some(Config {
            phases,
            ..Config::of_kind(DefenseKind::Seven)
        });
        setup.check()
    };
    assert_eq!(check(phases_of_http()), Ok(()));
    assert_eq!(check(phases_of_http().split_off(1)), Ok(()));
    let mut other = phases_of_http();
    other[0].name = "keep-alive".to_owned();
    for phases in [other, phases_of_http().split_off(2)] {
        let Err(SetupError::Value { key, .. }) = check(phases) else {
            panic!("taken");
        };
        assert_eq!(key, "defense.phase");
    }
}
