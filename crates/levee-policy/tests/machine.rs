//! One rule a test: what the machine does, told as an operator would tell it.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use levee_policy::{
    Span, StateMachine, Time,
    selective::{
        Admit, Arrival, CallKey, CallState, Class, ClassId, Config, EvictCause, Forward, Identity,
        Input, Kind, MaxDuration, Output, PhaseId, RefuseCause, Selective, Strategy,
        TRACKED_BEYOND,
    },
};
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

const EMERGENCY: ClassId = ClassId(1);

struct Desk {
    table: Selective,
    rng: Pcg64Mcg,
    now: Time,
}

impl Desk {
    fn new(capacity: u32, config: Config) -> Self {
        Self {
            table: Selective::new(capacity, config).unwrap(),
            rng: Pcg64Mcg::seed_from_u64(1),
            now: Time::ZERO,
        }
    }

    fn at(&mut self, ms: u64) -> &mut Self {
        self.now = Time::from_nanos(ms * 1_000_000);
        self
    }

    fn drain(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.table.poll_output()).collect()
    }

    fn input(&mut self, input: Input) -> Vec<Output> {
        self.table.handle(self.now, input, &mut self.rng);
        self.drain()
    }

    fn deadline(&mut self) -> Vec<Output> {
        self.table.handle_deadline(self.now, &mut self.rng);
        self.drain()
    }

    fn arrive(&mut self, call: u64) -> Vec<Output> {
        self.arrive_as(call, ClassId::DEFAULT)
    }

    fn arrive_as(&mut self, call: u64, class: ClassId) -> Vec<Output> {
        self.input(Input::Arrive(Arrival {
            call: CallKey(call),
            class,
            phase: PhaseId::default(),
            caller: None,
            source: None,
        }))
    }

    fn answered(&mut self, call: u64) -> Vec<Output> {
        self.input(Input::Answered {
            call: CallKey(call),
        })
    }

    fn ended(&mut self, call: u64) -> Vec<Output> {
        self.input(Input::Ended {
            call: CallKey(call),
        })
    }

    fn reconfigure(&mut self, capacity: u32, config: Config) -> Vec<Output> {
        self.input(Input::Reconfigure {
            capacity,
            config: Box::new(config),
        })
    }
}

fn forward(call: u64) -> Output {
    Output::Forward {
        call: CallKey(call),
    }
}

fn refuse(call: u64, cause: RefuseCause) -> Output {
    Output::Refuse {
        call: CallKey(call),
        cause,
        retry_after: Span::from_secs(5),
    }
}

fn displaced(outputs: &[Output]) -> Option<(u64, bool)> {
    outputs.iter().find_map(|output| match output {
        Output::Evict {
            call,
            forwarded,
            cause: EvictCause::Displaced { .. },
            ..
        } => Some((call.0, *forwarded)),
        _ => None,
    })
}

fn emergency() -> Config {
    Config {
        classes: vec![Class {
            exempt: true,
            admit: Admit::Always,
            ..Class::named("emergency")
        }],
        ..Config::default()
    }
}

#[test]
fn a_newcomer_waits_for_the_slot_of_its_victim() {
    let mut desk = Desk::new(1, Config::default());
    assert_eq!(desk.arrive(1), [forward(1)]);
    let cause = EvictCause::Displaced { by: CallKey(2) };
    let (call, state, age) = (CallKey(1), CallState::Waiting, Span::from_millis(30));
    assert_eq!(
        desk.at(30).arrive(2),
        [Output::Evict {
            call,
            state,
            phase: PhaseId(0),
            age,
            forwarded: true,
            cause
        }]
    );
    assert_eq!(
        (
            desk.table.calls_held(),
            desk.table.calls_evicting(),
            desk.table.in_service()
        ),
        (1, 1, 1)
    );
    assert_eq!(desk.ended(1), [forward(2)]);
    assert_eq!(
        (
            desk.table.calls_held(),
            desk.table.calls_evicting(),
            desk.table.in_service()
        ),
        (1, 0, 1)
    );
    assert_eq!(desk.table.stats().evictions_done, 1);
}

/// A victim that holds no slot frees none: its late end changes nothing.
#[test]
fn a_victim_that_was_never_passed_on_needs_no_end() {
    let mut desk = Desk::new(1, Config::default());
    desk.arrive(1);
    assert_eq!(displaced(&desk.at(100).arrive(2)), Some((1, true)));
    assert_eq!(displaced(&desk.at(200).arrive(3)), Some((2, false)));
    assert_eq!(desk.ended(2), []);
    assert_eq!(desk.table.stats().ignored.unknown_ends, 1);
    assert_eq!(desk.ended(1), [forward(3)]);
}

#[test]
fn any_slot_goes_to_the_call_that_waits_longest_emergencies_first() {
    let mut desk = Desk::new(
        4,
        Config {
            strategy: Strategy::Uniform,
            ..emergency()
        },
    );
    for call in 1..=4 {
        desk.arrive_as(
            call,
            if call == 4 {
                EMERGENCY
            } else {
                ClassId::DEFAULT
            },
        );
    }
    let (first, _) = displaced(&desk.at(100).arrive(11)).unwrap();
    // Let only the old three be victims.
    let mut newcomers = vec![11];
    let mut victims = vec![first];
    for (ms, call, class) in [(200, 12, ClassId::DEFAULT), (300, 13, EMERGENCY)] {
        let (victim, forwarded) = displaced(&desk.at(ms).arrive_as(call, class)).unwrap();
        if forwarded {
            victims.push(victim);
        } else {
            newcomers.retain(|call| *call != victim);
        }
        newcomers.push(call);
    }
    let mut served = Vec::new();
    for victim in victims {
        served.extend(desk.ended(victim));
    }
    newcomers.sort_by_key(|call| *call != 13);
    let expected: Vec<Output> = newcomers.into_iter().map(forward).collect();
    assert_eq!(served, expected[..served.len()]);
    assert_eq!(served[0], forward(13));
}

#[test]
fn an_exempt_call_is_never_dropped() {
    for strategy in [
        Strategy::Uniform,
        Strategy::Roulette,
        Strategy::Tournament { size: None },
    ] {
        let config = Config {
            strategy,
            max_duration: Some(MaxDuration::Fixed(Span::from_secs(1))),
            ..emergency()
        };
        let mut desk = Desk::new(3, config);
        desk.arrive_as(1, EMERGENCY);
        desk.answered(1);
        desk.arrive_as(2, EMERGENCY);
        let mut evicted = 0;
        for call in 3..2_000 {
            desk.at(call * 101);
            for output in desk.arrive(call) {
                if let Output::Evict { call, .. } = output {
                    assert!(call.0 > 2);
                    evicted += 1;
                    desk.ended(call.0);
                }
            }
        }
        assert!(evicted > 1_000, "{evicted}");
        assert_eq!(
            desk.table.held(CallKey(1)).map(|(state, _)| state),
            Some(CallState::InCall)
        );
    }
}

#[test]
fn a_table_of_exempt_calls_refuses_others_and_passes_emergencies_beyond_the_capacity() {
    let mut desk = Desk::new(2, emergency());
    desk.arrive_as(1, EMERGENCY);
    desk.arrive_as(2, EMERGENCY);
    assert_eq!(desk.arrive(3), [refuse(3, RefuseCause::NoVictim)]);
    assert_eq!(desk.arrive_as(4, EMERGENCY), [forward(4)]);
    assert_eq!(
        (desk.table.in_service(), desk.table.stats().over_capacity),
        (3, 1)
    );
    // Both count as overloads of the round.
    assert_eq!(desk.table.pmod(), 2);
    // The place beyond the capacity is not given anew.
    desk.ended(1);
    assert_eq!(desk.at(100).arrive(5), [refuse(5, RefuseCause::NoVictim)]);
    desk.ended(2);
    assert_eq!(desk.arrive(6), [forward(6)]);
}

#[test]
fn an_always_admitted_class_skips_limits_and_p1() {
    let config = Config {
        calls_per_source: Some(1),
        pmod_start: u32::MAX,
        ..emergency()
    };
    let mut desk = Desk::new(1, config);
    let arrival = |call, class| {
        Input::Arrive(Arrival {
            call: CallKey(call),
            class,
            phase: PhaseId::default(),
            caller: None,
            source: Some(Identity(9)),
        })
    };
    assert_eq!(desk.input(arrival(1, ClassId::DEFAULT)), [forward(1)]);
    assert_eq!(
        desk.input(arrival(2, ClassId::DEFAULT)),
        [refuse(2, RefuseCause::SourceLimit)]
    );
    // With this PMod, P1 is 2e-10.
    assert_eq!(desk.arrive(3), [refuse(3, RefuseCause::Overload)]);
    assert_eq!(
        displaced(&desk.input(arrival(4, EMERGENCY))),
        Some((1, true))
    );
    assert_eq!(desk.table.stats().p1_used, 1);
}

#[test]
fn the_first_overload_of_a_round_is_taken_and_pmod_starts_anew() {
    let mut desk = Desk::new(1, Config::default());
    desk.arrive(1);
    assert!(displaced(&desk.at(10).arrive(2)).is_some());
    assert_eq!(desk.table.pmod(), 1);
    let mut refused = 0;
    for call in 3..100 {
        refused += desk
            .at(20)
            .arrive(call)
            .iter()
            .filter(|output| matches!(output, Output::Refuse { .. }))
            .count();
    }
    assert_eq!(desk.table.pmod(), 98);
    // The sum of 1 / (1 + PMod) over PMod 1 to 97 is 4.2 takers; 97 less that, and 8 standard deviations at most.
    assert!((77..97).contains(&refused), "{refused}");
    assert!(displaced(&desk.at(100).arrive(100)).is_some());
    assert_eq!(
        (
            desk.table.pmod(),
            desk.table.stats().rounds,
            desk.table.stats().rounds_overloaded
        ),
        (1, 1, 1)
    );
}

#[test]
fn round_end_passes_on_the_survivors_of_the_round() {
    let mut desk = Desk::new(
        2,
        Config {
            forward: Forward::RoundEnd,
            ..emergency()
        },
    );
    assert_eq!(desk.at(10).arrive(1), []);
    assert_eq!(desk.at(20).arrive(2), []);
    assert_eq!(desk.table.deadline(), Some(Time::from_nanos(100_000_000)));
    let (victim, forwarded) = displaced(&desk.at(30).arrive(3)).unwrap();
    assert!(!forwarded);
    // An emergency does not wait for the end of the round.
    let outputs = desk.at(40).arrive_as(4, EMERGENCY);
    let (second, _) = displaced(&outputs).unwrap();
    assert_eq!(outputs.last(), Some(&forward(4)));
    let survivor = [1, 2, 3]
        .into_iter()
        .find(|call| ![victim, second].contains(call))
        .unwrap();
    assert_eq!(desk.at(99).deadline(), []);
    assert_eq!(desk.at(100).deadline(), [forward(survivor)]);
    assert_eq!(desk.table.deadline(), None);
}

#[test]
fn kind_none_passes_everything_and_kind_refuse_stops_at_k() {
    let mut desk = Desk::new(2, Config::of_kind(Kind::None));
    for call in 1..=5 {
        assert_eq!(desk.arrive(call), [forward(call)]);
    }
    assert_eq!(desk.table.calls_held(), 5);
    let mut desk = Desk::new(2, Config::of_kind(Kind::Refuse));
    desk.arrive(1);
    desk.arrive(2);
    assert_eq!(desk.arrive(3), [refuse(3, RefuseCause::Full)]);
    desk.ended(1);
    assert_eq!(desk.arrive(3), [forward(3)]);
}

#[test]
fn what_is_tracked_has_a_limit() {
    let mut desk = Desk::new(1, Config::of_kind(Kind::None));
    let most = u64::from(TRACKED_BEYOND) + 2;
    for call in 0..most + 10 {
        assert_eq!(desk.arrive(call), [forward(call)]);
    }
    assert_eq!(desk.table.stats().untracked, 10);
    assert_eq!(u64::from(desk.table.calls_held()), most);
    desk.ended(most + 1);
    assert_eq!(desk.table.stats().ignored.unknown_ends, 1);
    desk.ended(0);
    desk.arrive(most + 10);
    assert_eq!(desk.table.stats().untracked, 10);
}

#[test]
fn a_call_is_cut_when_it_was_in_call_for_the_maximum() {
    for (max_duration, ms) in [
        (MaxDuration::Fixed(Span::from_secs(12)), 12_000),
        (MaxDuration::TimesMean(2.0), 10_000),
    ] {
        let mut desk = Desk::new(
            9,
            Config {
                max_duration: Some(max_duration),
                ..Config::of_kind(Kind::None)
            },
        );
        desk.arrive(1);
        desk.at(500).answered(1);
        desk.at(600).arrive(2);
        let due = 500 + ms;
        assert_eq!(
            desk.table.deadline(),
            Some(Time::from_nanos(due * 1_000_000))
        );
        assert_eq!(desk.at(due - 1).deadline(), []);
        let age = Span::from_millis(due);
        let cause = EvictCause::MaxDuration;
        let call = CallKey(1);
        let evict = Output::Evict {
            call,
            state: CallState::InCall,
            phase: PhaseId(0),
            age,
            forwarded: true,
            cause,
        };
        assert_eq!(desk.at(due).deadline(), [evict]);
        assert_eq!(desk.table.deadline(), None, "a WAITING call is not capped");
    }
}

#[test]
fn limits_count_held_calls_only() {
    let config = Config {
        calls_per_caller: Some(2),
        calls_per_source: Some(3),
        ..Config::default()
    };
    let mut desk = Desk::new(9, config);
    let arrival = |call, caller, source| {
        let (caller, source) = (Some(Identity(caller)), Some(Identity(source)));
        Input::Arrive(Arrival {
            call: CallKey(call),
            class: ClassId::DEFAULT,
            phase: PhaseId::default(),
            caller,
            source,
        })
    };
    assert_eq!(desk.input(arrival(1, 1, 1)), [forward(1)]);
    assert_eq!(desk.input(arrival(2, 1, 1)), [forward(2)]);
    assert_eq!(
        desk.input(arrival(3, 1, 2)),
        [refuse(3, RefuseCause::CallerLimit)]
    );
    assert_eq!(desk.input(arrival(4, 2, 1)), [forward(4)]);
    assert_eq!(
        desk.input(arrival(5, 3, 1)),
        [refuse(5, RefuseCause::SourceLimit)]
    );
    desk.ended(1);
    assert_eq!(desk.input(arrival(6, 1, 1)), [forward(6)]);
    assert_eq!(desk.table.pmod(), 0);
}

#[test]
fn reports_that_do_not_fit_are_counted_and_change_nothing() {
    let mut desk = Desk::new(1, Config::default());
    desk.arrive(1);
    assert_eq!(desk.arrive(1), []);
    assert_eq!(desk.ended(9), []);
    assert_eq!(desk.answered(9), []);
    desk.answered(1);
    assert_eq!(desk.answered(1), []);
    desk.at(100).arrive(2);
    assert_eq!(desk.answered(1), [], "an evicted call");
    assert_eq!(desk.answered(2), [], "a call that was not passed on");
    assert_eq!(
        desk.arrive(1),
        [],
        "an evicted call that still holds its slot"
    );
    desk.ended(1);
    assert_eq!(desk.ended(1), []);
    let ignored = desk.table.stats().ignored;
    assert_eq!((ignored.duplicate_arrivals, ignored.unknown_ends), (2, 2));
    assert_eq!((ignored.late_answers, ignored.untimely_answers), (2, 2));
    assert_eq!(
        (
            desk.table.in_service(),
            desk.table.calls_held(),
            desk.table.calls_waiting()
        ),
        (1, 1, 1)
    );
    assert_eq!(desk.table.stats().arrivals, 2);
}

#[test]
fn time_never_goes_back() {
    let mut desk = Desk::new(2, Config::default());
    desk.at(500).arrive(1);
    desk.at(100).arrive(2);
    assert_eq!(
        desk.table.held(CallKey(2)),
        Some((CallState::Waiting, Span::ZERO))
    );
    desk.at(600).deadline();
    assert_eq!(
        desk.table.held(CallKey(2)),
        Some((CallState::Waiting, Span::from_millis(100)))
    );
}

#[test]
fn a_reload_keeps_all_calls_and_a_smaller_table_drains() {
    let mut desk = Desk::new(3, Config::default());
    for call in 1..=3 {
        desk.arrive(call);
        desk.answered(call);
    }
    assert_eq!(desk.reconfigure(1, Config::of_kind(Kind::Refuse)), []);
    assert_eq!((desk.table.calls_held(), desk.table.capacity()), (3, 1));
    assert_eq!(desk.arrive(4), [refuse(4, RefuseCause::Full)]);
    desk.ended(1);
    desk.ended(2);
    assert_eq!(desk.arrive(4), [refuse(4, RefuseCause::Full)]);
    desk.ended(3);
    assert_eq!(desk.arrive(4), [forward(4)]);
}

#[test]
fn a_larger_capacity_serves_who_waits() {
    let mut desk = Desk::new(1, Config::default());
    desk.arrive(1);
    desk.at(100).arrive(2);
    assert_eq!(desk.reconfigure(2, Config::default()), [forward(2)]);
}

/// Classes are found by name, wherever the new file has them.
#[test]
fn a_reload_keeps_exemptions_by_name() {
    let mut desk = Desk::new(2, emergency());
    desk.arrive_as(1, EMERGENCY);
    let mut config = emergency();
    config.classes.insert(
        0,
        Class {
            factor: 9.0,
            ..Class::named("tariff")
        },
    );
    desk.reconfigure(2, config);
    for call in 2..200 {
        if let Some((victim, true)) = displaced(&desk.at(call * 101).arrive(call)) {
            assert_ne!(victim, 1);
            desk.ended(victim);
        }
    }
    assert!(desk.table.held(CallKey(1)).is_some());
    desk.reconfigure(2, Config::default());
    let dropped = (200..400).any(|call| {
        displaced(&desk.at(call * 101).arrive(call)).is_some_and(|(victim, _)| victim == 1)
    });
    assert!(dropped, "no class, no exemption");
}

#[test]
fn a_cap_that_a_reload_brings_applies_to_calls_in_progress() {
    let mut desk = Desk::new(3, Config::default());
    for call in 1..=2 {
        desk.at(1_000 * call).arrive(call);
    }
    desk.at(3_000).answered(2);
    desk.at(5_000).answered(1);
    let config = Config {
        max_duration: Some(MaxDuration::Fixed(Span::from_secs(2))),
        ..Config::default()
    };
    let outputs = desk.at(6_000).reconfigure(3, config);
    assert!(
        matches!(
            outputs[..],
            [Output::Evict {
                call: CallKey(2),
                cause: EvictCause::MaxDuration,
                ..
            }]
        ),
        "{outputs:?}"
    );
    assert_eq!(desk.table.deadline(), Some(Time::from_nanos(7_000_000_000)));
}

#[test]
fn a_bad_reload_is_counted_and_the_old_configuration_kept() {
    let mut desk = Desk::new(3, Config::default());
    desk.arrive(1);
    let bad = Config {
        strategy: Strategy::Tournament { size: Some(9) },
        ..Config::default()
    };
    assert_eq!(desk.reconfigure(3, bad), []);
    assert_eq!(desk.reconfigure(0, Config::default()), []);
    assert_eq!(desk.table.stats().reconfigure_rejected, 2);
    assert_eq!(
        (desk.table.capacity(), desk.table.config()),
        (3, &Config::default())
    );
}

/// The same inputs and seed give the same outputs, whatever the driver did with a copy in between.
#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut desk = Desk::new(24, Config::default());
        desk.rng = Pcg64Mcg::seed_from_u64(seed);
        let mut all = Vec::new();
        for call in 0..3_000 {
            let outputs = desk.at(call * 37).arrive(call);
            desk.answered(call / 2);
            if let Some((victim, true)) = displaced(&outputs) {
                all.extend(desk.ended(victim));
            }
            all.extend(outputs);
        }
        all
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// A generator that always gives the same cannot hang a draw, whichever it gives.
#[test]
fn a_broken_generator_does_not_hang() {
    struct Stuck(u64);
    impl rand_core::TryRng for Stuck {
        type Error = core::convert::Infallible;
        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            Ok(self.0 as u32)
        }
        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Ok(self.0)
        }
        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            bytes.fill(self.0 as u8);
            Ok(())
        }
    }
    let sizes = [Some(1), Some(2), Some(12), None];
    let tournaments = sizes.into_iter().map(|size| Strategy::Tournament { size });
    for strategy in tournaments.chain([Strategy::Uniform, Strategy::Roulette]) {
        for stuck in [u64::MAX, u64::MAX / 2, 1 << 60] {
            let mut table = Selective::new(
                400,
                Config {
                    strategy,
                    ..Config::default()
                },
            )
            .unwrap();
            for call in 0..2_000 {
                let now = Time::from_nanos(call * 150_000_000);
                let key = CallKey(call);
                let arrival = Arrival {
                    call: key,
                    class: ClassId::DEFAULT,
                    phase: PhaseId::default(),
                    caller: None,
                    source: None,
                };
                table.handle(now, Input::Arrive(arrival), &mut Stuck(stuck));
                table.handle(now, Input::Answered { call: key }, &mut Stuck(stuck));
                while let Some(output) = table.poll_output() {
                    if let Output::Evict { call, .. } = output {
                        table.handle(now, Input::Ended { call }, &mut Stuck(stuck));
                    }
                }
            }
            assert_eq!(table.calls_held(), 400);
        }
    }
}
