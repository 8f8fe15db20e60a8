//! The `[defense]` table: what it takes, what it says when it is wrong, and that it survives being written and read.

use levee_policy::{
    Span,
    selective::{
        Admit, Arrival, CallKey, CallState, Class, ClassId, Config, DropFactor, EvictCause,
        Forward, Identity, Input, Kind, MaxDuration, Output, PhaseId, RefuseCause, Selective,
        Strategy, phases_of_http,
    },
};
use serde::{Serialize, de::DeserializeOwned};

fn read(text: &str) -> Config {
    toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> String {
    toml::from_str::<Config>(text).expect_err(text).to_string()
}

#[test]
fn the_kind_alone_gives_the_papers_defaults() {
    let config = read("kind = \"seven\"");
    assert_eq!(config, Config::default());
    assert_eq!(config.round, Span::from_millis(100));
    assert_eq!(config.strategy, Strategy::Roulette);
    assert_eq!(config.forward, Forward::Immediate);
    assert_eq!(config.pmod_start, 0);
    let DropFactor {
        waiting,
        in_call,
        alpha,
        scale,
        mean_call,
    } = config.drop_factor;
    assert_eq!(
        (waiting, in_call, alpha, scale, mean_call),
        (8.0, 2.0, 1.89, 0.453, Span::from_secs(5))
    );
    Selective::check(24, &config).unwrap();
}

#[test]
fn every_key_is_read() {
    let config = read(
        r#"
        kind = "refuse"
        round = "200ms"
        forward = "round-end"
        strategy = { kind = "tournament", size = 12 }
        drop_factor = { waiting = 4, alpha = 0.5, mean_call = "2m" }
        pmod_start = 1
        retry_after = "30s"
        max_duration = { times_mean = 2 }
        calls_per_caller = 3
        calls_per_source = 10

        [[class]]
        name = "emergency"
        exempt = true
        admit = "always"

        [[class]]
        name = "tariff"
        factor = 4.0
        "#,
    );
    let expected = Config {
        kind: Kind::Refuse,
        round: Span::from_millis(200),
        forward: Forward::RoundEnd,
        strategy: Strategy::Tournament { size: Some(12) },
        drop_factor: DropFactor {
            waiting: 4.0,
            alpha: 0.5,
            mean_call: Span::from_secs(120),
            ..DropFactor::default()
        },
        pmod_start: 1,
        retry_after: Span::from_secs(30),
        max_duration: Some(MaxDuration::TimesMean(2.0)),
        calls_per_caller: Some(3),
        calls_per_source: Some(10),
        classes: vec![
            Class {
                exempt: true,
                admit: Admit::Always,
                ..Class::named("emergency")
            },
            Class {
                factor: 4.0,
                ..Class::named("tariff")
            },
        ],
        phases: Vec::new(),
    };
    assert_eq!(config, expected);
    assert_eq!(config.class_id("tariff"), Some(ClassId(2)));
    assert_eq!(config.class_id("default"), Some(ClassId::DEFAULT));
    assert_eq!(config.class_id("other"), None);
    assert_eq!(config.class_name(ClassId(1)), Some("emergency"));
    assert_eq!(config.class_name(ClassId(3)), None);
    assert_eq!(read(&toml::to_string(&config).unwrap()), config);
    assert_eq!(
        read("kind = \"none\"\nmax_duration = \"12s\"").max_duration,
        Some(MaxDuration::Fixed(Span::from_secs(12)))
    );
    for name in ["uniform", "roulette", "tournament"] {
        let short = read(&format!("kind = \"seven\"\nstrategy = \"{name}\""));
        let long = read(&format!(
            "kind = \"seven\"\nstrategy = {{ kind = \"{name}\" }}"
        ));
        assert_eq!(short, long);
        assert_eq!(short.strategy.name(), name);
        assert_eq!(read(&toml::to_string(&short).unwrap()), short);
    }
}

#[test]
fn phases_are_read() {
    let config = read(
        r#"
        kind = "seven"

        [[phase]]
        name = "headers"
        weight = 8
        usual = "1s"
        behind = "2s"

        [[phase]]
        name = "waiting"
        weight = 0.25

        [[phase]]
        name = "sending"
        weight = 0.25
        usual = "1s"
        rate = 500.0
        behind = "2s"
        "#,
    );
    let http = phases_of_http();
    let of = |id: PhaseId| http[usize::from(id.0)].clone();
    let phases = [PhaseId::HEADERS, PhaseId::WAITING, PhaseId::SENDING].map(of);
    assert_eq!(config.phases, phases);
    assert_eq!(config.phase_id("sending"), Some(PhaseId(2)));
    assert_eq!(config.phase_id("idle"), None);
    assert_eq!(read(&toml::to_string(&config).unwrap()), config);
    let all = Config {
        phases: http,
        ..Config::default()
    };
    Selective::check(1, &all).unwrap();
    for (id, name) in ["idle", "headers", "body", "waiting", "sending"]
        .into_iter()
        .enumerate()
    {
        assert_eq!(all.phase_id(name), Some(PhaseId(id as u8)));
    }
    assert!(
        error("kind = \"seven\"\nphase = [{ name = \"idle\" }]").contains("missing field `weight`")
    );
}

#[test]
fn a_file_that_cannot_be_read_says_why_and_where() {
    for (text, parts) in [
        ("round = \"1s\"", &["missing field `kind`"][..]),
        (
            "kind = \"sieben\"",
            &[
                "line 1",
                "unknown variant `sieben`",
                "none",
                "refuse",
                "seven",
            ],
        ),
        (
            "kind = \"seven\"\nstrategy = \"rulette\"",
            &[
                "line 2",
                "unknown strategy `rulette`, expected uniform, roulette or tournament",
            ],
        ),
        (
            "kind = \"seven\"\nstrategy = { kind = \"turnament\", size = 3 }",
            &[
                "line 2",
                "unknown strategy `turnament`, expected uniform, roulette or tournament",
            ],
        ),
        (
            "kind = \"seven\"\nstrategy = { kind = \"roulette\", size = 3 }",
            &["line 2", "`size` belongs to the tournament"],
        ),
        (
            "kind = \"seven\"\nstrategy = { size = 3 }",
            &["missing field `kind`"],
        ),
        (
            "kind = \"seven\"\nstrategy = { kind = \"tournament\", entrants = 3 }",
            &["unknown field `entrants`", "`kind` or `size`"],
        ),
        (
            "kind = \"seven\"\nstrategy = 7",
            &[
                "invalid type: integer `7`",
                "uniform, roulette, tournament, or { kind",
            ],
        ),
        (
            "kind = \"seven\"\nstrategy = { kind = \"tournament\", size = -1 }",
            &["invalid value: integer `-1`", "u32"],
        ),
        (
            "kind = \"seven\"\nround = 100",
            &[
                "line 2",
                "invalid type: integer `100`",
                "for example \"100ms\"",
            ],
        ),
        (
            "kind = \"seven\"\nround = \"100\"",
            &["line 2", "bad duration `100`: the unit is missing"],
        ),
        (
            "kind = \"seven\"\nmax_duration = { times = 2 }",
            &["unknown field `times`", "times_mean"],
        ),
        (
            "kind = \"seven\"\nmax_duration = 12",
            &[
                "invalid type: integer `12`",
                "\"12s\", or { times_mean = 2.0 }",
            ],
        ),
        (
            "kind = \"seven\"\nforward = \"later\"",
            &["unknown variant `later`", "immediate", "round-end"],
        ),
        (
            "kind = \"seven\"\nfoward = \"immediate\"",
            &["line 2", "unknown field `foward`"],
        ),
        (
            "kind = \"seven\"\ndrop_factor = { beta = 1 }",
            &["unknown field `beta`", "alpha"],
        ),
        (
            "kind = \"seven\"\n[[class]]\nfactor = 2.0",
            &["missing field `name`"],
        ),
        (
            "kind = \"seven\"\n[[class]]\nname = \"a\"\nadmit = \"maybe\"",
            &["unknown variant `maybe`", "always"],
        ),
    ] {
        let message = error(text);
        for part in parts {
            assert!(
                message.contains(part),
                "{text}\ngives\n{message}\nwithout\n{part}"
            );
        }
    }
}

/// A change of a configuration that makes it wrong, the key at fault, and a part of what is expected.
type Fault = (fn(&mut Config), &'static str, &'static str);

#[test]
fn a_value_out_of_range_is_named_with_its_key() {
    let faults: [Fault; 32] = [
        (|c| c.round = Span::ZERO, "round", "from 1ms to 1h"),
        (
            |c| c.round = Span::from_secs(3_601),
            "round",
            "from 1ms to 1h",
        ),
        (
            |c| c.retry_after = Span::ZERO,
            "retry_after",
            "a duration from",
        ),
        (
            |c| c.drop_factor.mean_call = Span::ZERO,
            "drop_factor.mean_call",
            "a duration from 1ms",
        ),
        (
            |c| c.drop_factor.waiting = 0.0,
            "drop_factor.waiting",
            "from 1e-12 to 1e12",
        ),
        (
            |c| c.drop_factor.waiting = f64::INFINITY,
            "drop_factor.waiting",
            "from 1e-12 to 1e12",
        ),
        (
            |c| c.drop_factor.in_call = -2.0,
            "drop_factor.in_call",
            "from 1e-12 to 1e12",
        ),
        (
            |c| c.drop_factor.in_call = f64::NAN,
            "drop_factor.in_call",
            "from 1e-12 to 1e12",
        ),
        (
            |c| c.drop_factor.alpha = -1.0,
            "drop_factor.alpha",
            "a number from 0 to 100",
        ),
        (
            |c| c.drop_factor.alpha = 101.0,
            "drop_factor.alpha",
            "a number from 0 to 100",
        ),
        (
            |c| c.drop_factor.alpha = f64::NAN,
            "drop_factor.alpha",
            "a number from 0 to 100",
        ),
        (
            |c| c.drop_factor.scale = -0.1,
            "drop_factor.scale",
            "0, or a number from 1e-12",
        ),
        (
            |c| c.drop_factor.scale = f64::NAN,
            "drop_factor.scale",
            "0, or a number from 1e-12",
        ),
        (
            |c| c.strategy = Strategy::Tournament { size: Some(0) },
            "strategy.size",
            "at least 1",
        ),
        (
            |c| c.strategy = Strategy::Tournament { size: Some(25) },
            "strategy.size",
            "at most the capacity, 24",
        ),
        (
            |c| c.max_duration = Some(MaxDuration::Fixed(Span::ZERO)),
            "max_duration",
            "a duration from 1ms",
        ),
        (
            |c| c.max_duration = Some(MaxDuration::TimesMean(0.0)),
            "max_duration.times_mean",
            "from 0.001 to 1e6",
        ),
        (
            |c| c.max_duration = Some(MaxDuration::TimesMean(f64::NAN)),
            "max_duration.times_mean",
            "from 0.001 to 1e6",
        ),
        (
            |c| c.calls_per_caller = Some(0),
            "calls_per_caller",
            "at least 1",
        ),
        (
            |c| c.calls_per_source = Some(0),
            "calls_per_source",
            "at least 1",
        ),
        (
            |c| {
                c.classes = vec![Class {
                    factor: 0.0,
                    ..Class::named("a")
                }];
            },
            "class[0].factor",
            "from 1e-12",
        ),
        (
            |c| c.classes = vec![Class::named("a"), Class::named("a")],
            "class[1].name",
            "no earlier class",
        ),
        (
            |c| c.classes = vec![Class::named("")],
            "class[0].name",
            "a name that the front can refer to",
        ),
        (
            |c| c.classes = vec![Class::named("default")],
            "class[0].name",
            "`default` is the built-in class",
        ),
        (
            |c| c.phases = [phases_of_http(), phases_of_http()].concat(),
            "phase",
            "at most 8",
        ),
        (
            |c| {
                c.phases = phases_of_http();
                c.phases[3].name = "body".to_owned();
            },
            "phase[3].name",
            "no earlier phase has",
        ),
        (
            |c| {
                c.phases = phases_of_http();
                c.phases[0].weight = 0.0;
            },
            "phase[0].weight",
            "from 1e-12 to 1e12",
        ),
        (
            |c| {
                c.phases = phases_of_http();
                c.phases[1].rate = -1.0;
            },
            "phase[1].rate",
            "0, or units a second from 1e-6 to 1e12",
        ),
        (
            |c| {
                c.phases = phases_of_http();
                c.phases[1].usual = Some(Span::ZERO);
            },
            "phase[1].usual",
            "a duration from 1ms",
        ),
        (
            |c| {
                c.phases = phases_of_http();
                c.phases[2].behind = Span::MAX;
            },
            "phase[2].behind",
            "a duration from 0",
        ),
        (
            |c| {
                c.phases = phases_of_http();
                c.max_duration = Some(MaxDuration::TimesMean(2.0));
            },
            "max_duration",
            "no such key",
        ),
        (
            |c| {
                c.phases = phases_of_http();
                c.classes = (1..=13)
                    .map(|factor| Class {
                        factor: f64::from(factor) + 1.0,
                        ..Class::named(&format!("c{factor}"))
                    })
                    .collect();
            },
            "phase",
            "at most 65 for both multiplied",
        ),
    ];
    for (fault, key, expected) in faults {
        let mut config = Config::default();
        fault(&mut config);
        let error = Selective::check(24, &config).expect_err(key);
        assert_eq!(error.key, key);
        assert!(error.expected.contains(expected), "{error}");
        assert!(
            error.to_string().starts_with(&format!("`{key}` is ")),
            "{error}"
        );
        assert!(Selective::new(24, config).is_err());
    }
    let many: Vec<Class> = (0..65)
        .map(|index| Class::named(&format!("c{index}")))
        .collect();
    let error = Config {
        classes: many,
        ..Config::default()
    }
    .validate()
    .expect_err("65 classes");
    assert_eq!(
        error.to_string(),
        "`class` is 65 tables, expected at most 64"
    );
    let error = Selective::check(0, &Config::default()).expect_err("no capacity");
    assert_eq!(
        error.to_string(),
        "`capacity` is 0, expected a number of calls from 1 to 4194304"
    );
}

/// The limits themselves are allowed.
#[test]
fn the_ends_of_the_ranges_are_valid() {
    let config = Config {
        strategy: Strategy::Tournament { size: Some(24) },
        drop_factor: DropFactor {
            alpha: 100.0,
            scale: 0.0,
            waiting: 1e12,
            in_call: 1e-12,
            ..DropFactor::default()
        },
        round: Span::from_millis(1),
        calls_per_caller: Some(1),
        ..Config::default()
    };
    assert_eq!(Selective::check(24, &config), Ok(()));
    let phases = Config {
        // With the built-in class 13 factors.
        classes: (1..=14_u32)
            .map(|index| Class {
                factor: f64::from(index.min(13)),
                ..Class::named(&format!("c{index}"))
            })
            .collect(),
        phases: phases_of_http(),
        ..Config::default()
    };
    assert_eq!(Selective::check(24, &phases), Ok(()));
}

fn survives<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, json: &str) {
    assert_eq!(serde_json::to_string(value).expect(json), json);
    assert_eq!(serde_json::from_str::<T>(json).expect(json), *value);
}

/// A recording holds these lines: they may only be changed with its version.
#[test]
fn the_lines_of_a_recording() {
    let arrival = Arrival {
        call: CallKey(7),
        class: ClassId(1),
        phase: PhaseId::default(),
        caller: Some(Identity(3)),
        source: None,
    };
    survives(
        &Input::Arrive(arrival),
        r#"{"arrive":{"call":7,"class":1,"caller":3}}"#,
    );
    survives(
        &Input::Answered { call: CallKey(7) },
        r#"{"answered":{"call":7}}"#,
    );
    survives(
        &Input::Arrive(Arrival {
            phase: PhaseId::HEADERS,
            ..arrival
        }),
        r#"{"arrive":{"call":7,"class":1,"phase":1,"caller":3}}"#,
    );
    survives(
        &Input::Enter {
            call: CallKey(7),
            phase: PhaseId::BODY,
        },
        r#"{"enter":{"call":7,"phase":2}}"#,
    );
    survives(
        &Input::Progress {
            call: CallKey(7),
            units: 16_384,
        },
        r#"{"progress":{"call":7,"units":16384}}"#,
    );
    survives(
        &Input::Ended { call: CallKey(7) },
        r#"{"ended":{"call":7}}"#,
    );
    survives(
        &Input::Reconfigure {
            capacity: 24,
            config: Box::new(Config::default()),
        },
        concat!(
            r#"{"reconfigure":{"capacity":24,"config":{"kind":"seven","round":"100ms","forward":"immediate","#,
            r#""strategy":"roulette","drop_factor":{"waiting":8.0,"in_call":2.0,"alpha":1.89,"scale":0.453,"#,
            r#""mean_call":"5s"},"pmod_start":0,"retry_after":"5s"}}}"#
        ),
    );
    survives(
        &Output::Forward { call: CallKey(7) },
        r#"{"forward":{"call":7}}"#,
    );
    survives(
        &Output::Refuse {
            call: CallKey(7),
            cause: RefuseCause::CallerLimit,
            retry_after: Span::from_secs(5),
        },
        r#"{"refuse":{"call":7,"cause":"caller_limit","retry_after":"5s"}}"#,
    );
    let cause = EvictCause::Displaced { by: CallKey(8) };
    survives(
        &Output::Evict {
            call: CallKey(7),
            state: CallState::InCall,
            phase: PhaseId(0),
            age: Span::from_millis(1_500),
            forwarded: true,
            cause,
        },
        r#"{"evict":{"call":7,"state":"in_call","age":"1.5s","forwarded":true,"cause":{"displaced":{"by":8}}}}"#,
    );
    survives(
        &Output::Evict {
            call: CallKey(7),
            state: CallState::Waiting,
            phase: PhaseId::SENDING,
            age: Span::from_secs(1),
            forwarded: true,
            cause,
        },
        r#"{"evict":{"call":7,"state":"waiting","phase":4,"age":"1s","forwarded":true,"cause":{"displaced":{"by":8}}}}"#,
    );
    survives(&EvictCause::MaxDuration, r#""max_duration""#);
}
