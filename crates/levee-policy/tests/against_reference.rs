//! Random sequences of inputs through the fast machine and the plain one: same outputs, same table, and the invariants.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod reference;

use std::collections::{BTreeMap, BTreeSet};

use levee_policy::{
    Span, StateMachine, Time,
    selective::{
        Admit, Arrival, CallKey, CallState, Class, ClassId, Config, DropFactor, EvictCause,
        Forward, Identity, Input, Kind, MaxDuration, Output, Phase, PhaseId, RefuseCause,
        Selective, Strategy as Choice, phases_of_http,
    },
};
use proptest::{prelude::*, strategy::ValueTree, test_runner::RngSeed};
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use self::reference::{Candidate, Naive, Oracle};

/// Lets the plain machine make the choices that the fast one made.
struct Follow<'a> {
    outputs: &'a [Output],
    config: &'a Config,
}

impl Oracle for Follow<'_> {
    fn takes(&mut self, capacity: u32, pmod: u64) -> bool {
        let refused = self.outputs.iter().any(|output| {
            matches!(
                output,
                Output::Refuse {
                    cause: RefuseCause::Overload,
                    ..
                }
            )
        });
        assert!(
            !refused || pmod > 0,
            "refused with P1 = {capacity} / {capacity}"
        );
        !refused
    }

    fn victim(&mut self, calls: &[Candidate]) -> Option<usize> {
        let victim = self.outputs.iter().find_map(|output| match output {
            Output::Evict {
                call,
                cause: EvictCause::Displaced { .. },
                ..
            } => Some(*call),
            _ => None,
        });
        assert_eq!(
            victim.is_none(),
            calls.is_empty(),
            "a victim is dropped if and only if there is one"
        );
        let victim = victim.map(|victim| {
            calls
                .iter()
                .position(|call| call.key == victim)
                .expect("an exempt or unknown victim")
        });
        // Where all calls take part, only one of the largest can lose.
        if let (Some(victim), Choice::Tournament { size: Some(size) }) =
            (victim, self.config.strategy)
            && size as usize >= calls.len()
        {
            let d = |call: &Candidate| call.ln_drop_factor(&self.config.drop_factor);
            let largest = calls.iter().map(d).fold(f64::NEG_INFINITY, f64::max);
            let lost = d(&calls[victim]);
            assert!(lost >= largest - 1e-12 * largest.abs(), "{calls:?}");
        }
        victim
    }
}

/// What has become of each call, told from the outputs alone.
#[derive(Default)]
struct Ledger {
    /// Admitted and neither ended nor evicted; whether it was passed on.
    open: BTreeMap<CallKey, bool>,
    exempt: BTreeSet<CallKey>,
}

struct Pair {
    fast: Selective,
    naive: Naive,
    rng: Pcg64Mcg,
    now: Time,
    ledger: Ledger,
    /// Whether more calls than the capacity may be in service.
    loose: bool,
    /// What the machine was told when, `None` for a deadline, and what it said.
    log: Vec<(Time, Option<Input>, Vec<Output>)>,
}

impl Pair {
    fn new(capacity: u32, config: &Config, seed: u64) -> Self {
        Self {
            fast: Selective::new(capacity, config.clone()).unwrap(),
            naive: Naive::new(capacity, config.clone()),
            rng: Pcg64Mcg::seed_from_u64(seed),
            now: Time::ZERO,
            ledger: Ledger::default(),
            loose: config.kind == Kind::None,
            log: Vec::new(),
        }
    }

    fn drain(&mut self) -> Vec<Output> {
        let mut outputs = Vec::new();
        while let Some(output) = self.fast.poll_output() {
            outputs.push(output);
        }
        outputs
    }

    fn deadlines_until(&mut self, until: Time) {
        while let Some(due) = self.fast.deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.fast.handle_deadline(due, &mut self.rng);
            let outputs = self.drain();
            self.naive.advance(due);
            self.check(&outputs, None);
            self.log.push((due, None, outputs));
        }
    }

    fn input(&mut self, input: &Input) {
        if let Input::Reconfigure { config, .. } = input {
            self.loose |= config.validate().is_ok();
        }
        self.fast.handle(self.now, input.clone(), &mut self.rng);
        let outputs = self.drain();
        let config = self.fast.config();
        let mut follow = Follow {
            outputs: &outputs,
            config,
        };
        self.naive.handle(self.now, input, &mut follow);
        self.check(&outputs, Some(input));
        self.log.push((self.now, Some(input.clone()), outputs));
    }

    fn check(&mut self, outputs: &[Output], input: Option<&Input>) {
        // Two calls that were answered at the same time may be cut in either order.
        let sorted = |outputs: &[Output]| {
            let mut outputs = outputs.to_vec();
            if input
                .is_none_or(|input| matches!(input, Input::Reconfigure { .. }) || outputs.len() > 1)
            {
                outputs.sort_by_key(|output| match output {
                    Output::Evict {
                        call,
                        cause: EvictCause::MaxDuration,
                        ..
                    } => (0, call.0),
                    _ => (1, 0),
                });
            }
            outputs
        };
        assert_eq!(
            sorted(outputs),
            sorted(&self.naive.outputs),
            "at {} after {input:?}",
            self.now
        );
        self.naive.outputs.clear();
        self.check_ledger(outputs, input);
        self.check_table();
    }

    fn check_ledger(&mut self, outputs: &[Output], input: Option<&Input>) {
        let ledger = &mut self.ledger;
        if let Some(Input::Reconfigure { .. }) = input {
            // The new configuration may exempt other classes, and cut calls at once.
            ledger.exempt.clear();
        }
        for output in outputs {
            match output {
                Output::Forward { call } => {
                    assert_ne!(
                        ledger.open.insert(*call, true),
                        Some(true),
                        "forwarded twice"
                    );
                }
                Output::Refuse { call, .. } => {
                    assert!(!ledger.open.contains_key(call), "refused though held");
                }
                Output::Evict {
                    call,
                    forwarded,
                    cause,
                    ..
                } => {
                    assert!(
                        !ledger.exempt.contains(call),
                        "an exempt call was evicted: {cause:?}"
                    );
                    assert_eq!(ledger.open.remove(call).unwrap_or(false), *forwarded);
                }
            }
        }
        match input {
            Some(Input::Arrive(arrival)) if self.fast.held(arrival.call).is_some() => {
                let new = !ledger.open.contains_key(&arrival.call)
                    || outputs.contains(&Output::Forward { call: arrival.call });
                ledger.open.entry(arrival.call).or_insert(false);
                let class = usize::from(arrival.class.0)
                    .checked_sub(1)
                    .and_then(|id| self.fast.config().classes.get(id));
                if new && class.is_some_and(|class| class.exempt) {
                    ledger.exempt.insert(arrival.call);
                }
            }
            Some(Input::Ended { call }) => {
                ledger.open.remove(call);
                ledger.exempt.remove(call);
            }
            _ => {}
        }
        // Every admitted call is in the table until it has ended or was evicted, and no other is.
        assert_eq!(ledger.open.len(), self.fast.calls_held() as usize);
    }

    fn check_table(&self) {
        let (fast, naive) = (&self.fast, &self.naive);
        let held = naive.held();
        for (key, state, age) in &held {
            assert_eq!(fast.held(*key), Some((*state, *age)));
        }
        if !fast.config().phases.is_empty() {
            let mut in_phase = 0;
            for (key, phase, lag) in naive.lags() {
                assert_eq!(fast.phase(key), Some((phase, Some(lag))));
                in_phase += u32::from(phase == PhaseId(0));
            }
            assert!(fast.calls_in_phase(PhaseId(0)) >= in_phase);
            let phases = (0..8).map(|id| fast.calls_in_phase(PhaseId(id)));
            assert_eq!(phases.sum::<u32>(), fast.calls_held());
        }
        let waiting = held
            .iter()
            .filter(|(_, state, _)| *state == CallState::Waiting)
            .count();
        assert_eq!(fast.calls_waiting() as usize, waiting);
        assert_eq!(fast.calls_in_call() as usize, held.len() - waiting);
        assert_eq!(fast.calls_held() as usize, held.len());
        assert_eq!(fast.calls_evicting() as usize, naive.evicting.len());
        assert_eq!(fast.in_service() as usize, naive.in_service());
        assert_eq!(
            fast.calls_held() + fast.calls_evicting() - fast.calls_queued(),
            fast.in_service()
        );
        assert_eq!(fast.pmod(), naive.pmod);
        assert_eq!(fast.deadline(), naive.deadline());
        let stats = fast.stats();
        if !self.loose {
            let over = u32::try_from(stats.over_capacity).unwrap();
            assert!(fast.in_service() <= fast.capacity() + over);
            assert!(fast.calls_held() <= fast.capacity() + over);
        }
        assert_eq!(stats.arrivals, stats.admitted + stats.refused.total());
        assert_eq!(
            stats.admitted,
            u64::from(fast.calls_held()) + stats.ended + stats.evicted.total()
        );
        assert_eq!(
            stats.evicted.total() - stats.evicted_unforwarded,
            stats.evictions_done + u64::from(fast.calls_evicting())
        );
    }
}

#[derive(Clone, Debug)]
enum Step {
    Arrive {
        class: u16,
        phase: u8,
        caller: Option<u64>,
        source: Option<u64>,
    },
    /// Of a call that arrived this many arrivals ago.
    Answer(u64),
    End(u64),
    /// A phase that a call begins, of one that arrived this many arrivals ago.
    Enter(u64, u8),
    /// Progress of some held call.
    ProgressSome(usize, u64),
    /// Of some call that waits at the server.
    AnswerSome(usize),
    /// Of some call that is being evicted.
    EndEvicting(usize),
    /// An arrival with a key that was used this many arrivals ago.
    Again(u64),
    /// This many quarters of a second.
    Wait(u64),
    WaitLong(u64),
    /// Time passes, but nobody calls at the deadlines.
    Oversleep(u64),
    Reconfigure {
        capacity: u32,
        config: Box<Config>,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let id = || prop::option::of(0_u64..6);
    prop_oneof![
        12 => (0_u16..5, 0_u8..5, id(), id())
            .prop_map(|(class, phase, caller, source)| Step::Arrive { class, phase, caller, source }),
        4 => (0_u64..16, 0_u8..5).prop_map(|(ago, phase)| Step::Enter(ago, phase)),
        6 => (any::<usize>(), prop_oneof![0_u64..400, Just(u64::MAX)])
            .prop_map(|(pick, units)| Step::ProgressSome(pick, units)),
        4 => (0_u64..16).prop_map(Step::Answer),
        6 => any::<usize>().prop_map(Step::AnswerSome),
        4 => (0_u64..24).prop_map(Step::End),
        6 => any::<usize>().prop_map(Step::EndEvicting),
        1 => (0_u64..24).prop_map(Step::Again),
        6 => (0_u64..6).prop_map(Step::Wait),
        1 => (0_u64..3_000_000).prop_map(Step::WaitLong),
        1 => (0_u64..12).prop_map(Step::Oversleep),
        1 => (0_u32..9, config()).prop_map(|(capacity, config)| Step::Reconfigure { capacity, config: Box::new(config) }),
    ]
}

fn class(name: &'static str) -> impl Strategy<Value = Class> {
    (
        prop::sample::select(vec![1.0, 4.0, 0.25]),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(move |(factor, exempt, always)| {
            let admit = if always { Admit::Always } else { Admit::Normal };
            Class {
                factor,
                exempt,
                admit,
                ..Class::named(name)
            }
        })
}

/// No phases, or some of four, of which two may weigh the same.
fn phases() -> impl Strategy<Value = Vec<Phase>> {
    let phase = |name: &'static str| {
        (
            prop::sample::select(vec![0.5, 2.0, 64.0]),
            prop::option::of(1_u64..4),
            prop::sample::select(vec![0.0, 100.0]),
            prop::sample::select(vec![0, 2, 60]),
        )
            .prop_map(move |(weight, usual, rate, behind)| Phase {
                name: name.to_owned(),
                weight,
                usual: usual.map(Span::from_secs),
                rate,
                behind: Span::from_secs(behind),
            })
    };
    let all = (
        phase("idle"),
        phase("head"),
        phase("body"),
        phase("sending"),
    );
    (all, prop_oneof![Just(0_usize), 1_usize..5], 0_usize..4).prop_map(
        |((a, b, c, d), n, first)| {
            let all = Vec::from([a, b, c, d]);
            all.into_iter().cycle().skip(first).take(n).collect()
        },
    )
}

/// Means and rounds on the grid of the steps, so that calls stand exactly on the boundaries.
fn config() -> impl Strategy<Value = Config> {
    let kind = prop_oneof![1 => Just(Kind::None), 1 => Just(Kind::Refuse), 6 => Just(Kind::Seven)];
    let choice = prop_oneof![
        Just(Choice::Uniform),
        Just(Choice::Roulette),
        prop::option::of(1_u32..4).prop_map(|size| Choice::Tournament { size })
    ];
    let drop_factor = (
        1_u64..4,
        prop::sample::select(vec![0.0, 0.453, 1.0]),
        prop::sample::select(vec![0.0, 1.89]),
        1_u32..20,
    )
        .prop_map(|(mean, scale, alpha, in_call)| DropFactor {
            scale,
            alpha,
            in_call: in_call.into(),
            mean_call: Span::from_secs(mean),
            ..DropFactor::default()
        });
    let cap = prop_oneof![
        3 => Just(None),
        1 => (1_u64..8).prop_map(|secs| Some(MaxDuration::Fixed(Span::from_secs(secs)))),
        1 => Just(Some(MaxDuration::TimesMean(2.0))),
    ];
    let limit = || prop::option::weighted(0.3, 1_u32..4);
    let classes = (
        class("emergency"),
        class("trunk"),
        class("tariff"),
        0_usize..4,
    )
        .prop_map(|(a, b, c, n)| {
            Vec::from([a, b, c])
                .into_iter()
                .cycle()
                .skip(n % 3)
                .take(n)
                .collect::<Vec<_>>()
        });
    (
        kind,
        choice,
        drop_factor,
        cap,
        (limit(), limit()),
        classes,
        phases(),
        any::<bool>(),
        1_u64..5,
        0_u32..2,
    )
        .prop_map(
            |(
                kind,
                strategy,
                drop_factor,
                max_duration,
                (caller, source),
                classes,
                phases,
                immediate,
                round,
                pmod_start,
            )| Config {
                strategy,
                drop_factor,
                max_duration: max_duration.filter(|_| phases.is_empty()),
                calls_per_caller: caller,
                calls_per_source: source,
                classes,
                phases,
                forward: if immediate {
                    Forward::Immediate
                } else {
                    Forward::RoundEnd
                },
                round: Span::from_millis(250 * round),
                pmod_start,
                ..Config::of_kind(kind)
            },
        )
}

fn run(capacity: u32, config: &Config, seed: u64, steps: Vec<Step>) -> Pair {
    let mut pair = Pair::new(capacity, config, seed);
    let mut keys = 0_u64;
    for step in steps {
        let past = |ago: u64| CallKey(keys.saturating_sub(ago));
        match step {
            Step::Arrive {
                class,
                phase,
                caller,
                source,
            } => {
                keys += 1;
                let (caller, source) = (caller.map(Identity), source.map(Identity));
                pair.input(&Input::Arrive(Arrival {
                    call: CallKey(keys),
                    class: ClassId(class),
                    phase: PhaseId(phase),
                    caller,
                    source,
                }));
            }
            Step::Again(ago) => {
                let call = past(ago);
                pair.input(&Input::Arrive(Arrival {
                    call,
                    class: ClassId::DEFAULT,
                    phase: PhaseId::default(),
                    caller: None,
                    source: None,
                }));
            }
            Step::Enter(ago, phase) => pair.input(&Input::Enter {
                call: past(ago),
                phase: PhaseId(phase),
            }),
            Step::ProgressSome(pick, units) => {
                let held = pair.naive.held();
                if let Some((call, ..)) = held.get(pick % held.len().max(1)) {
                    pair.input(&Input::Progress { call: *call, units });
                }
            }
            Step::Answer(ago) => pair.input(&Input::Answered { call: past(ago) }),
            Step::AnswerSome(pick) => {
                let held = pair.naive.held();
                let waiting: Vec<CallKey> = held
                    .iter()
                    .filter(|(key, state, _)| {
                        *state == CallState::Waiting && pair.fast.holds_slot(*key) == Some(true)
                    })
                    .map(|(key, ..)| *key)
                    .collect();
                if let Some(call) = waiting.get(pick % waiting.len().max(1)) {
                    pair.input(&Input::Answered { call: *call });
                }
            }
            Step::EndEvicting(pick) => {
                let evicting = &pair.naive.evicting;
                if let Some(call) = evicting.get(pick % evicting.len().max(1)).copied() {
                    pair.input(&Input::Ended { call });
                }
            }
            Step::End(ago) => pair.input(&Input::Ended { call: past(ago) }),
            Step::Wait(quarters) | Step::WaitLong(quarters) => {
                let until = pair.now + Span::from_millis(250 * quarters);
                pair.deadlines_until(until);
                pair.now = until;
            }
            Step::Oversleep(quarters) => pair.now = pair.now + Span::from_millis(250 * quarters),
            Step::Reconfigure { capacity, config } => {
                pair.input(&Input::Reconfigure { capacity, config });
            }
        }
    }
    pair
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, rng_seed: RngSeed::Fixed(24), ..ProptestConfig::default() })]

    #[test]
    fn the_fast_machine_does_as_the_plain_one(
        capacity in 1_u32..9,
        config in config().prop_filter("valid for every capacity", |config| config.validate_for(8).is_ok()),
        seed: u64,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut config = config;
        if let Choice::Tournament { size: Some(size) } = &mut config.strategy {
            *size = (*size).min(capacity);
        }
        let reconfigured = steps.iter().any(|step| matches!(step, Step::Reconfigure { .. }));
        let pair = run(capacity, &config, seed, steps);
        if !reconfigured {
            check_restart(pair, seed);
        }
    }
}

/// A machine that was used and restarted says the same as when it was new.
fn check_restart(mut pair: Pair, seed: u64) {
    let stats = *pair.fast.stats();
    pair.fast.restart();
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    for (now, input, outputs) in std::mem::take(&mut pair.log) {
        match input {
            Some(input) => pair.fast.handle(now, input, &mut rng),
            None => pair.fast.handle_deadline(now, &mut rng),
        }
        assert_eq!(pair.drain(), outputs);
    }
    assert_eq!(*pair.fast.stats(), stats);
}

/// Long enough that every band is packed many times, and queues, lists, nodes and free records are used over and over.
#[test]
fn a_long_life_at_a_full_table() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for (seed, (choice, phases)) in [
        (Choice::Uniform, Vec::new()),
        (Choice::Roulette, Vec::new()),
        (Choice::Tournament { size: None }, Vec::new()),
        (Choice::Roulette, phases_of_http()),
        (Choice::Tournament { size: Some(16) }, phases_of_http()),
    ]
    .into_iter()
    .enumerate()
    {
        let in_phases = !phases.is_empty();
        let config = Config {
            strategy: choice,
            drop_factor: DropFactor {
                mean_call: Span::from_secs(3),
                ..DropFactor::default()
            },
            classes: vec![Class {
                factor: 4.0,
                ..Class::named("tariff")
            }],
            phases,
            ..Config::default()
        };
        let steps = step().prop_map(|step| {
            if let Step::Reconfigure { .. } = step {
                Step::Wait(1)
            } else {
                step
            }
        });
        let steps = prop::collection::vec(steps, 16_000)
            .new_tree(&mut runner)
            .unwrap()
            .current();
        let pair = run(16, &config, seed as u64, steps);
        let stats = pair.fast.stats();
        assert!(
            stats.evicted.total() > 500
                && stats.ended > 200
                && stats.evicted.in_call_displaced > 100,
            "{stats:?}"
        );
        if in_phases {
            let from = |id| stats.evicted.of_phase(PhaseId(id));
            assert!((0..5).all(|id| from(id) > 20), "{stats:?}");
            assert_eq!((0..8).map(from).sum::<u64>(), stats.evicted.total());
        }
    }
}
