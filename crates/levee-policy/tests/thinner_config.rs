//! The `[defense]` table of a thinner: what it takes, what it says when it is wrong, and that it survives being written and read.

use levee_policy::{
    ConfigError, Identity, Span,
    thinner::{
        Arrival, Capacity, Config, Input, Kind, Mode, Outcome, Output, RefuseCause, RequestKey,
        Thinner,
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
fn kind_and_capacity_give_the_papers_auction() {
    let config = read("kind = \"thinner\"\ncapacity = { rate = 100 }");
    assert_eq!(config, Config::of(Capacity::Rate(100.0)));
    assert_eq!(
        (config.kind, config.mode, config.patience),
        (Kind::Thinner, Mode::Auction, Span::from_secs(10))
    );
    assert_eq!((config.burst, config.quantum), (None, None));
    assert_eq!(Thinner::check(&config), Ok(()));
}

#[test]
fn every_key_is_read() {
    let config = read(
        r#"
        kind = "thinner"
        capacity = { adaptive = { least = 4, most = 1000 } }
        mode = "proof-of-work"
        contenders = 5000
        patience = "30s"
        retry_after = "2s"
        quantum = "100ms"
        suspended = "0s"
        "#,
    );
    let expected = Config {
        kind: Kind::Thinner,
        capacity: Capacity::Adaptive {
            least: 4,
            most: 1_000,
        },
        mode: Mode::ProofOfWork,
        burst: None,
        contenders: 5_000,
        patience: Span::from_secs(30),
        retry_after: Span::from_secs(2),
        quantum: Some(Span::from_millis(100)),
        suspended: Span::ZERO,
    };
    assert_eq!(config, expected);
    assert_eq!(read(&toml::to_string(&config).unwrap()), config);
    let burst = read("kind = \"thinner\"\ncapacity = { rate = 0.5 }\nburst = 3");
    assert_eq!(burst.burst, Some(3));
    assert_eq!(read(&toml::to_string(&burst).unwrap()), burst);
    for mode in Mode::ALL {
        let text = format!(
            "kind = \"thinner\"\ncapacity = {{ concurrency = 64 }}\nmode = \"{}\"",
            mode.name()
        );
        let config = read(&text);
        assert_eq!(
            (config.mode, config.capacity),
            (mode, Capacity::Concurrency(64))
        );
        assert_eq!(read(&toml::to_string(&config).unwrap()), config);
    }
}

#[test]
fn a_file_that_cannot_be_read_says_why_and_where() {
    for (text, parts) in [
        ("kind = \"thinner\"", &["missing field `capacity`"][..]),
        (
            "kind = \"seven\"\ncapacity = { rate = 1 }",
            &["line 1", "unknown variant `seven`", "thinner"],
        ),
        (
            "kind = \"thinner\"\ncapacity = { speed = 1 }",
            &["line 2", "unknown field `speed`", "rate", "concurrency"],
        ),
        (
            "kind = \"thinner\"\ncapacity = { rate = 1 }\nmode = \"bid\"",
            &["line 3", "unknown variant `bid`", "auction"],
        ),
        (
            "kind = \"thinner\"\ncapacity = { adaptive = { least = 1, max = 3 } }",
            &["line 2", "max", "most"],
        ),
        (
            "kind = \"thinner\"\ncapacity = { rate = 1 }\nprice = 3",
            &["line 3", "unknown field `price`"],
        ),
        (
            "kind = \"thinner\"\ncapacity = { rate = 1 }\npatience = \"10\"",
            &["line 3"],
        ),
    ] {
        let error = error(text);
        for part in parts {
            assert!(error.contains(part), "{error}\nlacks {part}");
        }
    }
}

/// Each neighbour of what is allowed, and what is said of it.
#[test]
fn what_is_out_of_its_range_is_named_with_what_was_expected() {
    type Fault = fn(&mut Config);
    let faults: [(Fault, &str, &str); 17] = [
        (
            |c| c.capacity = Capacity::Rate(0.0),
            "capacity.rate",
            "a number from 0.001 to 1e6",
        ),
        (
            |c| c.capacity = Capacity::Rate(f64::NAN),
            "capacity.rate",
            "a number from 0.001 to 1e6",
        ),
        (
            |c| c.capacity = Capacity::Rate(1e6 + 1.0),
            "capacity.rate",
            "a number from 0.001 to 1e6",
        ),
        (
            |c| c.capacity = Capacity::Concurrency(0),
            "capacity.concurrency",
            "a number of requests from 1 to 1048576",
        ),
        (
            |c| c.capacity = Capacity::Concurrency((1 << 20) + 1),
            "capacity.concurrency",
            "a number of requests from 1 to 1048576",
        ),
        (
            |c| c.capacity = Capacity::Adaptive { least: 0, most: 5 },
            "capacity.adaptive.least",
            "a number of requests from 1",
        ),
        (
            |c| c.capacity = Capacity::Adaptive { least: 6, most: 5 },
            "capacity.adaptive.most",
            "at least `least`, 6",
        ),
        (
            |c| c.burst = Some(0),
            "burst",
            "a number of requests from 1",
        ),
        (
            |c| {
                c.capacity = Capacity::Concurrency(1);
                c.burst = Some(1);
            },
            "burst",
            "no such key without `capacity.rate`",
        ),
        (
            |c| c.contenders = 0,
            "contenders",
            "a number of requests from 1 to 1048576",
        ),
        (
            |c| c.contenders = (1 << 20) + 1,
            "contenders",
            "a number of requests from 1 to 1048576",
        ),
        (
            |c| c.patience = Span::ZERO,
            "patience",
            "a duration from 1ms to 24h",
        ),
        (
            |c| c.retry_after = Span::ZERO,
            "retry_after",
            "a duration from 1ns to 24h",
        ),
        (
            |c| c.suspended = Span::MAX,
            "suspended",
            "a duration from 0s to 24h",
        ),
        (
            |c| {
                c.capacity = Capacity::Concurrency(1);
                c.quantum = Some(Span::ZERO);
            },
            "quantum",
            "a duration from 1ms to 24h",
        ),
        (
            |c| {
                c.capacity = Capacity::Concurrency(1);
                c.quantum = Some(Span::from_secs(1));
                c.mode = Mode::Queue;
            },
            "mode",
            "`auction` or `proof-of-work`",
        ),
        (
            |c| c.quantum = Some(Span::from_secs(1)),
            "capacity.rate",
            "`concurrency` or `adaptive`",
        ),
    ];
    for (fault, key, expected) in faults {
        let mut config = Config::of(Capacity::Rate(100.0));
        fault(&mut config);
        let error: ConfigError = Thinner::check(&config).expect_err(key);
        assert_eq!(error.key, key);
        assert!(error.expected.contains(expected), "{error}");
        assert!(
            error.to_string().starts_with(&format!("`{key}` is ")),
            "{error}"
        );
        assert!(Thinner::new(config).is_err());
    }
}

/// The limits themselves are allowed.
#[test]
fn the_ends_of_the_ranges_are_valid() {
    for capacity in [
        Capacity::Rate(1e-3),
        Capacity::Rate(1e6),
        Capacity::Concurrency(1),
        Capacity::Concurrency(1 << 20),
        Capacity::Adaptive { least: 1, most: 1 },
    ] {
        let config = Config {
            contenders: 1,
            patience: Span::from_millis(1),
            suspended: Span::ZERO,
            ..Config::of(capacity)
        };
        assert_eq!(Thinner::check(&config), Ok(()));
    }
}

#[test]
fn the_burst_of_a_rate_is_50_ms_of_it_and_at_least_16() {
    for (rate, burst) in [
        (0.001, 16),
        (100.0, 16),
        (320.0, 16),
        (330.0, 17),
        (1e6, 50_000),
    ] {
        assert_eq!(Config::burst_of(rate), burst, "{rate}");
    }
}

fn survives<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, json: &str) {
    assert_eq!(serde_json::to_string(value).expect(json), json);
    assert_eq!(serde_json::from_str::<T>(json).expect(json), *value);
}

/// A recording holds these lines: they may only be changed with its version.
#[test]
fn the_lines_of_a_recording() {
    let request = RequestKey(7);
    let arrival = Arrival {
        request,
        paid: 3,
        can_wait: true,
        group: Some(Identity(5)),
    };
    survives(
        &Input::Arrive(arrival),
        r#"{"arrive":{"request":7,"paid":3,"can_wait":true,"group":5}}"#,
    );
    survives(
        &Input::Arrive(Arrival {
            group: None,
            ..arrival
        }),
        r#"{"arrive":{"request":7,"paid":3,"can_wait":true}}"#,
    );
    survives(
        &Input::Pay { request, units: 9 },
        r#"{"pay":{"request":7,"units":9}}"#,
    );
    survives(&Input::Leave { request }, r#"{"leave":{"request":7}}"#);
    for (outcome, name) in [
        (Outcome::Answered, "answered"),
        (Outcome::Failed, "failed"),
        (Outcome::Broken, "broken"),
    ] {
        survives(
            &Input::Done { request, outcome },
            &format!(r#"{{"done":{{"request":7,"outcome":"{name}"}}}}"#),
        );
    }
    survives(
        &Input::Reconfigure(Box::new(Config::of(Capacity::Rate(12.5)))),
        concat!(
            r#"{"reconfigure":{"kind":"thinner","capacity":{"rate":12.5},"mode":"auction","contenders":10000,"#,
            r#""patience":"10s","retry_after":"1s","suspended":"30s"}}"#
        ),
    );
    survives(
        &Output::Admit {
            request,
            price: 8,
            waited: Span::from_millis(1_500),
        },
        r#"{"admit":{"request":7,"price":8,"waited":"1.5s"}}"#,
    );
    survives(&Output::Hold { request }, r#"{"hold":{"request":7}}"#);
    for (cause, name) in [
        (RefuseCause::Drawn, "drawn"),
        (RefuseCause::Unpaid, "unpaid"),
        (RefuseCause::Outbid, "outbid"),
        (RefuseCause::Crowded, "crowded"),
    ] {
        survives(
            &Output::Refuse {
                request,
                cause,
                retry_after: Span::ZERO,
                price: 2,
            },
            &format!(
                r#"{{"refuse":{{"request":7,"cause":"{name}","retry_after":"0s","price":2}}}}"#
            ),
        );
    }
    survives(&Output::Suspend { request }, r#"{"suspend":{"request":7}}"#);
    survives(
        &Output::Resume { request, price: 4 },
        r#"{"resume":{"request":7,"price":4}}"#,
    );
    survives(&Output::Abort { request }, r#"{"abort":{"request":7}}"#);
}
