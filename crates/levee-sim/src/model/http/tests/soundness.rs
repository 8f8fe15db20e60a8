//! What holds in every run of every setup.

use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
use proptest::strategy::Strategy as _;

use super::*;

/// What holds between any two events.
fn assert_sound(sim: &Simulation<Http>) {
    let m = &sim.model;
    let placed = |kind: Option<Kind>| {
        m.clients
            .iter()
            .filter(|c| c.placed && kind.is_none_or(|kind| c.kind == kind))
            .count()
    };
    assert_eq!(m.busy as usize, placed(None));
    for kind in Kind::ALL {
        assert_eq!(m.busy_by[kind.index()] as usize, placed(Some(kind)));
    }
    assert!(m.busy <= m.setup.capacity);
    assert!(m.backlog.len() <= m.setup.backlog as usize);
    assert!(m.inputs.is_empty());
    let known = m.clients.iter().filter(|c| c.known).count();
    if let Some(front) = &m.front {
        assert_eq!(front.calls_held() as usize, known);
        assert_eq!(front.calls_evicting(), 0);
        assert!(front.in_service() >= m.busy);
        let mut ignored = front.stats().ignored;
        // A newcomer at the very end of a round may be passed on, served and dropped for the next at one instant.
        ignored.late_answers = 0;
        assert_eq!(ignored, selective::Stats::default().ignored);
        for client in m.clients.iter().filter(|c| c.placed) {
            let this = Try {
                client: m
                    .clients
                    .iter()
                    .position(|c| std::ptr::eq(c, client))
                    .unwrap() as u32,
                number: client.number,
            };
            let in_call = match m.setup.in_call {
                InCall::Accept => true,
                InCall::Request => matches!(client.stage, Stage::Working | Stage::Sending),
            };
            let state = front.held(this.key()).map(|(state, _)| state);
            let expected = if in_call {
                selective::CallState::InCall
            } else {
                selective::CallState::Waiting
            };
            assert_eq!(state, Some(expected));
        }
    } else {
        assert_eq!(known, 0);
    }
    let counts = ["client.served", "client.failed", "client.open"];
    let sum: f64 = counts.iter().map(|name| get(sim, name)).sum();
    assert_eq!(sum, get(sim, "client.attempted"));
    let causes = ["refused", "dropped", "timed_out", "gave_up"];
    let sum: f64 = causes
        .iter()
        .map(|c| get(sim, &format!("client.{c}")))
        .sum();
    assert_eq!(sum, get(sim, "client.failed"));
}

fn any_setup() -> impl proptest::strategy::Strategy<Value = Setup> {
    let kind = (0_u8..5, 20_u64..3_000, 1_u32..500).prop_map(|(kind, every, bytes)| {
        let drip = drip(Span::from_millis(every), bytes);
        match kind {
            0 => AttackKind::Connect,
            1 => AttackKind::Slowloris(drip),
            2 => AttackKind::SlowPost(drip),
            3 => AttackKind::SlowRead(drip),
            _ => AttackKind::GetFlood,
        }
    });
    let switches = any::<[bool; 4]>();
    let defense = (0_u8..5, switches).prop_map(|(which, [round_end, cap, source, phases])| {
        let strategy = match which {
            0 => return None,
            1 => Strategy::Uniform,
            2 => Strategy::Roulette,
            _ => Strategy::Tournament { size: None },
        };
        let mut config = seven(strategy, Span::from_millis(900))?;
        if which == 4 {
            config.kind = DefenseKind::Refuse;
        }
        if round_end {
            config.forward = selective::Forward::RoundEnd;
        }
        config.max_duration = cap.then(|| selective::MaxDuration::Fixed(Span::from_secs(1)));
        config.calls_per_source = source.then_some(2);
        if !cap && phases {
            config.phases = phases_of_http();
        }
        Some(config)
    });
    let numbers = (1_u32..12, 0_u32..6, 0_u64..80, 0_u32..12_000, any::<u64>());
    let switches = (any::<[bool; 5]>(), 0_u32..25);
    (kind, defense, numbers, switches).prop_map(|(kind, defense, numbers, (on, fixed))| {
        let mut setup = hard();
        let (capacity, backlog, delay, send_buffer, seed) = numbers;
        setup.capacity = capacity;
        setup.backlog = backlog;
        setup.delay = Span::from_millis(delay);
        setup.send_buffer = send_buffer;
        setup.plan.seed = seed;
        setup.attack.kind = kind;
        setup.attack.fixed = attackers(fixed);
        setup.defense = defense;
        if on[0] {
            setup.in_call = InCall::Accept;
        }
        if on[1] {
            setup.timeouts = Timeouts::default();
        }
        if on[2] {
            setup.clients.patience = None;
        }
        if on[3] {
            setup.clients.bandwidth = Bandwidth::UNLIMITED;
        }
        if on[4] {
            setup.attack.redial = None;
        }
        setup
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_run_is_sound_at_every_event(setup in any_setup()) {
        let mut sim = simulation(&setup, Span::from_secs(8));
        while sim.step() {
            assert_sound(&sim);
        }
    }

    #[test]
    fn when_nobody_comes_any_more_all_are_gone(mut setup in any_setup()) {
        setup.plan.until = Duration::from_secs(4);
        setup.attack.kind = AttackKind::GetFlood;
        setup.attack.redial = None;
        let mut sim = simulation(&setup, Span::from_secs(200));
        sim.run().unwrap();
        assert_sound(&sim);
        for name in ["client.open", "server.busy", "front.held", "attacker.connections"] {
            prop_assert_eq!(get(&sim, name), 0.0, "{}", name);
        }
        prop_assert_eq!(sim.model.free.len(), sim.model.clients.len());
    }
}
