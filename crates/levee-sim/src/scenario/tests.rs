//! Golden tests of what is said about a bad file, and of what a good one means. `UPDATE_GOLDEN=1` writes the files anew.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use super::*;
use crate::schedule::Kind;

const GOOD: &str = r#"[service]
kind = "sip"
capacity = 24

[defense]
kind = "seven"
strategy = "roulette"

[honest]
rate = "3.1/s"
duration = { kind = "exponential", mean = "5s" }

[attack]
kind = "coordinated-call"
share = 0.5

[run]
time = "40s"
"#;

pub(super) fn parse(text: &str) -> Result<Scenario, Problems> {
    Scenario::parse("s.toml", text, &|path| match path {
        "seconds.txt" => Ok("# three calls\n1.5\n\n2.5 # long\n5\n".into()),
        "bad.txt" => Ok("1\n2\nfive\n".into()),
        _ => Err(io::ErrorKind::NotFound.into()),
    })
}

fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}

const HTTP: &str = r#"[service]
kind = "http"
capacity = 150
backlog = 0

[[lane]]
name = "bare"
timeouts = "nginx"
in_call = "accept"

[honest]
rate = "10/s"
duration = { kind = "exponential", mean = "50ms" }
headers = 500
bandwidth = { up = 1000.0 }
slow = { share = 0.1, up = 10.0, down = 10.0 }
patience = "10s"
retry = { most = 2, wait = "1s" }

[attack]
kind = "slowloris"
attackers = 200
redial = "1s"
bytes = 10

[run]
time = "120s"
delay = "1ms"
"#;

fn http(from: &str, to: &str) -> String {
    assert!(HTTP.contains(from), "{from}");
    HTTP.replacen(from, to, 1)
}

#[test]
fn an_http_service_is_what_its_model_takes() {
    use crate::model::http::{AttackKind, Deadline, InCall};
    use levee_policy::Span;
    let setup = &parse(HTTP).unwrap().points[0].setup;
    let model = setup.http_model().unwrap();
    assert_eq!(model.check(), Ok(()));
    assert_eq!((model.capacity, model.backlog), (150, 0));
    assert_eq!(model.in_call, InCall::Accept);
    let minute = Some(Deadline::fixed(Span::from_secs(60)));
    assert_eq!((model.timeouts.header, model.timeouts.body), (minute, None));
    let clients = &model.clients;
    assert_eq!(
        (clients.bandwidth.up, clients.bandwidth.down),
        (1_000.0, f64::INFINITY)
    );
    assert_eq!(
        (clients.retries, clients.retry_wait),
        (2, Span::from_secs(1))
    );
    assert_eq!(
        (clients.slow.unwrap().share, clients.patience),
        (0.1, Some(Span::from_secs(10)))
    );
    let AttackKind::Slowloris(drip) = model.attack.kind else {
        panic!("{:?}", model.attack);
    };
    assert_eq!((drip.every, drip.bytes), (Span::from_secs(15), 10));
    // All attackers come by the plan, as in a SIP scenario.
    assert_eq!(
        (model.attack.fixed, model.attack.redial),
        (None, Some(Span::from_secs(1)))
    );
    let attackers = model.plan.schedule().filter(|a| a.kind == Kind::Attacker);
    assert_eq!(attackers.count(), 200);
    assert_eq!(parse(GOOD).unwrap().points[0].setup.http_model(), None);
}

#[test]
fn seven_before_http_weighs_phases_unless_a_lane_says_when_a_connection_is_in_call() {
    use levee_policy::selective::phases_of_http;
    let phases = |lane: &str| {
        let text = http("timeouts = \"nginx\"\nin_call = \"accept\"\n", lane);
        let setup = parse(&text).unwrap().points[0].setup.clone();
        let model = setup.http_model().unwrap();
        assert_eq!(model.check(), Ok(()));
        assert_eq!(model.defense, setup.defense);
        setup.defense.unwrap().phases
    };
    let seven = "defense = { kind = \"seven\" }\n";
    assert_eq!(phases(seven), phases_of_http());
    assert_eq!(phases(&format!("{seven}in_call = \"request\"\n")), []);
    assert_eq!(phases("defense = { kind = \"refuse\" }\n"), []);
    let capped = "defense = { kind = \"seven\", max_duration = \"9s\" }\n";
    assert_eq!(phases(capped), []);
    let one = "defense = { kind = \"seven\", phase = [{ name = \"body\", weight = 3.0 }] }\n";
    let mut own = phases_of_http();
    own[2].weight = 3.0;
    (own[2].usual, own[2].rate, own[2].behind) = (None, 0.0, Span::ZERO);
    assert_eq!(phases(one), own);
    let unknown = http(
        "timeouts = \"nginx\"\nin_call = \"accept\"\n",
        &one.replace("body", "boddy"),
    );
    let problems = parse(&unknown).unwrap_err().to_string();
    assert!(
        problems.contains("defense.phase") && problems.contains("`headers`"),
        "{problems}"
    );
}

#[test]
fn http_is_swept_too() {
    assert_eq!(
        at(&http(
            "\"nginx\"",
            "[\"nginx\", { header = { initial = [\"5s\", \"9s\"] } }]"
        )
        .replace("\"slowloris\"", "[\"slowloris\", \"slow-post\"]"))[..4],
        [
            "bare: attack.kind=slowloris lane.timeouts=nginx",
            "bare: attack.kind=slowloris lane.timeouts=header.initial lane.timeouts.header.initial=5s",
            "bare: attack.kind=slowloris lane.timeouts=header.initial lane.timeouts.header.initial=9s",
            "bare: attack.kind=slow-post lane.timeouts=nginx",
        ]
    );
}

/// A list of that many numbers from 0 to below 1, and one of times.
fn numbers(n: u32) -> String {
    let all: Vec<_> = (0..n)
        .map(|i| (f64::from(i) / 1_000.0).to_string())
        .collect();
    format!("[{}]", all.join(", "))
}

fn times(n: u32) -> String {
    let all: Vec<_> = (1..=n).map(|i| format!("\"{i}s\"")).collect();
    format!("[{}]", all.join(", "))
}

#[test]
fn errors_are_as_people_know_them() {
    let duration = r#"{ kind = "exponential", mean = "5s" }"#;
    let cases = [
        ("not TOML", with("capacity = 24", "capacity 24")),
        ("unknown table", with("[attack]", "[atack]")),
        ("unknown key", with("capacity = 24", "capasity = 24")),
        ("wrong type", with("capacity = 24", "capacity = \"24\"")),
        ("no capacity", with("capacity = 24", "capacity = 0")),
        ("unknown service", with("\"sip\"", "\"smtp\"")),
        ("rate without unit", with("3.1/s", "3.1")),
        ("negative rate", with("3.1/s", "-3/s")),
        (
            "blocking of one",
            with("\"3.1/s\"", "{ erlang = { blocking = 1.0 } }"),
        ),
        ("lognormal without sigma", with("exponential", "lognormal")),
        (
            "sigma without lognormal",
            with("mean = \"5s\"", "mean = \"5s\", sigma = 1.0"),
        ),
        ("mean of no length", with("mean = \"5s\"", "mean = \"0s\"")),
        (
            "a bad second duration",
            with(
                duration,
                &format!("[{duration}, {{ kind = \"fixed\", mean = \"five\" }}]"),
            ),
        ),
        (
            "two of a kind",
            with(duration, &format!("[{duration}, {duration}]")),
        ),
        (
            "a file that is not there",
            with(duration, "{ kind = \"file\", path = \"none.txt\" }"),
        ),
        (
            "a file with a bad line",
            with(duration, "{ kind = \"file\", path = \"bad.txt\" }"),
        ),
        (
            "a share above one",
            with("share = 0.5", "share = [0.5, 50]"),
        ),
        (
            "a share that is a word",
            with("share = 0.5", "share = \"half\""),
        ),
        ("no shares", with("share = 0.5", "share = []")),
        (
            "unknown strategy",
            with("\"roulette\"", "[\"roulette\", \"lottery\"]"),
        ),
        (
            "a tournament larger than the server",
            with("\"roulette\"", "{ kind = \"tournament\", size = 30 }"),
        ),
        (
            "unknown key of a defence",
            with("kind = \"seven\"", "kind = \"seven\"\nrounds = \"1s\""),
        ),
        (
            "defense and lane",
            with("[run]", "[[lane]]\nname = \"x\"\n\n[run]"),
        ),
        (
            "a scale of nothing",
            with("time = \"40s\"", "time = \"40s\"\nscale = 0"),
        ),
        (
            "too many calls",
            with("3.1/s", "90000/s").replace("40s", "1h"),
        ),
    ];
    let run = |more: &str| with("[run]", &format!("{more}\n[run]"));
    let check = |more: &str| format!("{GOOD}\n[check]\n{more}\n");
    let query = |more: &str| format!("{GOOD}\n[[query]]\nname = \"q\"\n{more}\n");
    let more = [
        ("a value twice", with("share = 0.5", "share = [0.5, 0.50]")),
        ("a list in a list", with("24", "[24, [48]]")),
        ("a swept seed", with("\"40s\"", "\"40s\"\nseed = [1, 2]")),
        (
            "too many combinations of one table",
            with(
                "share = 0.5",
                &format!("share = {}\nredial = {}", numbers(101), times(100)),
            ),
        ),
        (
            "too many combinations of all tables",
            with("share = 0.5", &format!("share = {}", numbers(101)))
                .replace("\"5s\"", &times(100)),
        ),
        (
            "a bad value deep in a list",
            with(
                duration,
                "[{ kind = \"lognormal\", mean = \"5s\", sigma = [1, 50] }, { kind = \"fixed\", mean = \"5s\" }]",
            ),
        ),
        (
            "a tournament larger than one of the servers",
            with(
                "\"roulette\"",
                "[\"uniform\", { kind = \"tournament\", size = 30 }]",
            )
            .replace("24", "[24, 48]"),
        ),
        (
            "a lane that is swept",
            with(
                "[defense]\nkind = \"seven\"\nstrategy = \"roulette\"\n",
                "[[lane]]\nname = [\"a\", \"b\"]\n",
            ),
        ),
        ("gamma without shape", with("exponential", "gamma")),
        (
            "a shape of nothing",
            with(duration, "{ kind = \"weibull\", mean = \"5s\", shape = 0 }"),
        ),
        (
            "attackers that call once",
            with("share = 0.5", "attackers = 50"),
        ),
        (
            "attackers without number",
            with("share = 0.5", "redial = \"1s\""),
        ),
        (
            "a redial at once",
            with("share = 0.5", "attackers = 50\nredial = \"0s\""),
        ),
        (
            "attackers that redial too often",
            with("share = 0.5", "attackers = 5000\nredial = \"1ms\""),
        ),
        (
            "a ramp of a share",
            with("share = 0.5", "share = 0.5\nramp = \"1s\""),
        ),
        ("unknown preset", run("[model]\npreset = \"released\"")),
        ("quirks that are no list", run("[model]\nquirks = \"a\"")),
        (
            "an unknown quirk",
            run("[model]\nquirks = [[], [\"even_arrivals\", \"odd_arrivals\"]]"),
        ),
        ("unknown method", check("method = \"wald\"")),
        ("a confidence of one", check("confidence = 1.0")),
        ("no precision", check("precision = 0")),
        (
            "two precisions",
            check("precision = 0.01\nrelative_precision = 0.01"),
        ),
        ("one run", check("runs = 1")),
        ("fixed and bounded", check("runs = 100\nmax_runs = 200")),
        ("bounds crossed", check("min_runs = 200\nmax_runs = 100")),
        ("okamoto alone", check("method = \"okamoto\"")),
        (
            "an indifference of nothing",
            check("sprt = { indifference = 0 }"),
        ),
        ("a swept check", check("confidence = [0.9, 0.99]")),
        ("a query that asks nothing", query("")),
        (
            "a query that asks two things",
            query("formula = \"a\"\nof = \"b\""),
        ),
        (
            "a query without name",
            query("formula = \"a\"").replace("\"q\"", "\" \""),
        ),
        (
            "two queries of one name",
            query("formula = \"a\"\n[[query]]\nname = \"q\"\nformula = \"b\""),
        ),
        ("samples without quantile", query("of = \"honest.setup_s\"")),
        (
            "a quantile of a hypothesis",
            query("hypothesis = \"a\"\nquantile = 0.5"),
        ),
        (
            "a quantile of one",
            query("formula = \"a\"\nquantile = 1.0"),
        ),
        (
            "batches of no series",
            query("formula = \"a\"\nbatches = 10"),
        ),
        (
            "a steady file",
            query("quatex_file = \"seconds.txt\"\nsteady = true"),
        ),
        ("a step without #", query("formula = \"a\"\nstep = \"run\"")),
        (
            "a query's file that is not there",
            query("quatex_file = \"none.quatex\""),
        ),
        ("an unknown key of a query", query("formular = \"a\"")),
        ("one lane as a table", run("[lane]\nname = \"a\"")),
        ("a swept service", with("\"sip\"", "[\"sip\", \"http\"]")),
        ("a key of another service", with("24", "24\nbacklog = 5")),
        ("an attack on another service", with("\"sip\"", "\"http\"")),
        (
            "ringing of a request",
            http("delay = \"1ms\"", "ring = \"1s\""),
        ),
        ("no headers", http("headers = 500", "headers = 0")),
        ("no bandwidth", http("up = 1000.0", "up = -1.0")),
        (
            "patience of nothing",
            http("patience = \"10s\"", "patience = \"1ms\""),
        ),
        ("unknown timeouts", http("\"nginx\"", "\"iis\"")),
        (
            "a deadline without time",
            http("\"nginx\"", "{ header = { min_rate = 500 } }"),
        ),
        ("a drip of nothing", http("bytes = 10", "bytes = 0")),
    ];
    let mut found = String::new();
    let others = thinner::tests::bad()
        .into_iter()
        .chain(anycast::tests::bad());
    for (title, text) in cases.into_iter().chain(more).chain(others) {
        let error = parse(&text).expect_err(title);
        writeln!(found, "## {title}\n{error}\n").unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scenario/testdata/errors.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap();
    for (found, wanted) in found.split("\n## ").zip(wanted.split("\n## ")) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.len(), wanted.len());
}

#[test]
fn a_plain_scenario() {
    let s = parse(GOOD).unwrap();
    let [point] = &s.points[..] else {
        panic!("nothing is swept");
    };
    assert_eq!(
        (s.lanes, s.seed, point.lane.as_str()),
        (1, 1, "seven-roulette")
    );
    assert!(point.at.is_empty());
    let setup = &point.setup;
    assert_eq!(setup.service.capacity, 24);
    assert!((setup.honest.rate - 1.55).abs() < 1e-12);
    let Some(Attackers::Share {
        share,
        rate,
        redial,
        ..
    }) = setup.attack.map(|a| a.attackers)
    else {
        panic!("{:?}", setup.attack);
    };
    assert_eq!((share, redial), (0.5, None));
    assert!((rate - 1.55).abs() < 1e-12);
    assert_eq!((&s.check, s.queries.len()), (&Check::default(), 0));
    assert_eq!(setup.model, ModelSettings::default());
}

/// The swept keys of each point, as a person would write them.
pub(super) fn at(text: &str) -> Vec<String> {
    let shown = |point: &Point| {
        let at = point
            .at
            .iter()
            .map(|(key, value)| format!(" {key}={value}"));
        format!("{}:{}", point.lane, at.collect::<String>())
    };
    parse(text)
        .unwrap_or_else(|e| panic!("{e}"))
        .points
        .iter()
        .map(shown)
        .collect()
}

#[test]
fn lists_are_swept_in_the_order_of_the_file_and_lanes_fastest() {
    let text = with(
        "\"roulette\"",
        "[\"uniform\", { kind = \"tournament\", size = 6 }]",
    )
    .replace("share = 0.5", "share = [0.17, 1]")
    .replace(
        "duration = {",
        "duration = [{ kind = \"lognormal\", mean = \"5s\", sigma = 1 }, {",
    )
    .replace("mean = \"5s\" }\n", "mean = \"5s\" }]\n");
    let s = parse(&text).unwrap();
    assert_eq!((s.points.len(), s.lanes), (2 * 2 * 2, 2));
    assert_eq!(
        at(&text)[..5],
        [
            "seven-uniform: honest.duration=lognormal attack.share=0.17 defense.strategy=uniform",
            "seven-tournament: honest.duration=lognormal attack.share=0.17 defense.strategy=tournament",
            "seven-uniform: honest.duration=lognormal attack.share=1 defense.strategy=uniform",
            "seven-tournament: honest.duration=lognormal attack.share=1 defense.strategy=tournament",
            "seven-uniform: honest.duration=exponential attack.share=0.17 defense.strategy=uniform",
        ]
    );
}

#[test]
fn every_parameter_can_be_swept() {
    let model = "[model]\nquirks = []\n";
    for (from, to, first, points) in [
        (
            "capacity = 24",
            "capacity = [12, 48]",
            " service.capacity=12",
            2,
        ),
        ("\"3.1/s\"", "[\"3/s\", \"60/m\"]", " honest.rate=3/s", 2),
        (
            "\"3.1/s\"",
            "{ erlang = { blocking = [0.01, 0.02] } }",
            " honest.rate.erlang.blocking=0.01",
            2,
        ),
        (
            "\"3.1/s\"",
            "[{ erlang = { blocking = 0.01 } }, \"3/s\"]",
            " honest.rate=erlang.blocking=0.01",
            2,
        ),
        (
            "mean = \"5s\"",
            "mean = [\"5s\", \"6s\", \"7s\"]",
            " honest.duration.mean=5s",
            3,
        ),
        (
            "time = \"40s\"",
            "time = [\"40s\", \"80s\"]",
            " run.time=40s",
            2,
        ),
        (
            "time = \"40s\"",
            "time = \"40s\"\ndelay = [\"100ms\", \"0s\"]\nrepeat = [1, 2]",
            " run.delay=100ms run.repeat=1",
            4,
        ),
        (
            "share = 0.5",
            "share = 0.5\nredial = [\"1s\", \"2s\"]",
            " attack.redial=1s",
            2,
        ),
        (
            "kind = \"seven\"",
            "kind = [\"seven\", \"refuse\"]\nround = [\"100ms\", \"200ms\"]",
            " defense.kind=seven defense.round=100ms",
            4,
        ),
        (
            "kind = \"seven\"",
            "kind = \"seven\"\ndrop_factor = { alpha = [0, 1.89] }",
            " defense.drop_factor.alpha=0",
            2,
        ),
        (
            "[run]",
            "[model]\npreset = [\"corrected\", \"paper\", \"as-released\"]\n[run]",
            " model.preset=corrected",
            3,
        ),
        (
            "[run]",
            "[model]\nquirks = [[], [\"even_arrivals\", \"round_doubled\"]]\n[run]",
            " model.quirks=none",
            2,
        ),
        ("[run]", &format!("{model}[run]"), "", 1),
    ] {
        let found = at(&with(from, to));
        assert_eq!(found.len(), points, "{to}");
        assert_eq!(found[0].split_once(':').unwrap().1, first, "{to}");
    }
}

#[test]
fn durations_of_one_kind_are_told_apart() {
    let duration = r#"{ kind = "exponential", mean = "5s" }"#;
    let text = with(
        duration,
        "[{ kind = \"lognormal\", mean = \"5s\", sigma = 1 }, { kind = \"lognormal\", mean = \"5s\", sigma = 0.5 }, { kind = \"gamma\", mean = \"5s\", shape = 2 }]",
    );
    assert_eq!(
        at(&text),
        [
            "seven-roulette: honest.duration=lognormal mean=5s sigma=1",
            "seven-roulette: honest.duration=lognormal mean=5s sigma=0.5",
            "seven-roulette: honest.duration=gamma",
        ]
    );
}

#[test]
fn a_lanes_defence_is_swept_for_itself() {
    let defense = "[defense]\nkind = \"seven\"\nstrategy = \"roulette\"\n";
    let lanes = "[[lane]]\n[[lane]]\nname = \"cap\"\ndefense = { kind = \"refuse\", max_duration = [\"10s\", { times_mean = 4.0 }] }\n";
    assert_eq!(
        at(&with(defense, lanes)),
        [
            "undefended:",
            "cap: defense.max_duration=10s",
            "cap: defense.max_duration=times_mean=4",
        ]
    );
}

#[test]
fn no_defense_and_no_attack() {
    let text = GOOD
        .replace("[defense]\nkind = \"seven\"\nstrategy = \"roulette\"\n", "")
        .replace("[attack]\nkind = \"coordinated-call\"\nshare = 0.5\n", "");
    let s = parse(&text).unwrap();
    let point = &s.points[0];
    assert_eq!(point.lane, "undefended");
    assert_eq!((&point.setup.defense, point.setup.attack), (&None, None));
    let plan = point.setup.plan(1);
    assert_eq!(
        (plan.honest.calls, plan.attacker.calls),
        (Calls::Rate(3.1), Calls::Rate(0.0))
    );
}

#[test]
fn a_rate_by_erlang() {
    let text = with("\"3.1/s\"", "{ erlang = { blocking = 0.01 } }");
    let rate = parse(&text).unwrap().points[0].setup.calls_per_second();
    // 15.3 Erlang over a mean of 5 s.
    assert!((rate - 3.06).abs() < 0.01, "{rate}");
}

#[test]
fn measured_durations() {
    let from = r#"{ kind = "exponential", mean = "5s" }"#;
    let s = parse(&with(from, r#"{ kind = "file", path = "seconds.txt" }"#)).unwrap();
    let mean = s.points[0].setup.honest.durations.mean();
    assert_eq!(mean, Duration::from_secs(3));
}

#[test]
fn a_fixed_number_of_attackers_leaves_the_honest_rate_alone() {
    let text = with("share = 0.5", "attackers = 50\nredial = \"200ms\"");
    let setup = &parse(&text).unwrap().points[0].setup;
    assert_eq!(setup.honest.rate, 3.1);
    let redial = Duration::from_millis(200);
    assert_eq!(
        setup.attack.unwrap().attackers,
        Attackers::Fixed {
            count: 50,
            ramp: redial,
            redial
        }
    );
    assert_eq!(setup.redial(), Some(redial));
    assert!((setup.calls_per_second() - 253.1).abs() < 1e-9);
    let attackers = setup
        .plan(1)
        .schedule()
        .filter(|a| a.kind == Kind::Attacker);
    let first: Vec<_> = attackers.map(|a| (a.caller, a.at < redial)).collect();
    assert_eq!(first, (0..50).map(|n| (n, true)).collect::<Vec<_>>());
    let slow = with(
        "share = 0.5",
        "attackers = 5\nredial = \"200ms\"\nramp = \"9s\"",
    );
    let plan = parse(&slow).unwrap().points[0].setup.plan(1);
    let last = plan.schedule().filter(|a| a.kind == Kind::Attacker).last();
    assert!(last.unwrap().at > Duration::from_secs(1));
}

#[test]
fn scale_changes_the_unit_of_time_and_nothing_else() {
    let text = with("time = \"40s\"", "time = \"40s\"\nscale = 0.1\nseed = 9");
    let (s, plain) = (parse(&text).unwrap(), parse(GOOD).unwrap());
    let (own, plain) = (&s.points[0].setup, &plain.points[0].setup);
    assert_eq!((own.run.time, own.run.seed), (plain.run.time, 9));
    let fast = own.on_the_wall_clock();
    assert_eq!(plain.on_the_wall_clock(), *plain);
    assert_eq!(fast.plan(3).until, Duration::from_secs(4));
    let offered =
        |setup: &Setup| setup.calls_per_second() * setup.honest.durations.mean().as_secs_f64();
    assert!((offered(&fast) - offered(plain)).abs() < 1e-12);
    // The same calls, in another unit of time.
    for (a, b) in fast.plan(9).schedule().zip(own.plan(9).schedule()) {
        assert_eq!((a.caller, a.kind), (b.caller, b.kind));
        assert!((a.at.as_secs_f64() * 10.0 - b.at.as_secs_f64()).abs() < 1e-6);
    }
    let (fast, slow) = (fast.defense.unwrap(), plain.defense.as_ref().unwrap());
    assert_eq!(fast.round.as_nanos() * 10, slow.round.as_nanos());
    assert_eq!(
        fast.drop_factor.mean_call.as_nanos() * 10,
        slow.drop_factor.mean_call.as_nanos()
    );
}

#[test]
fn check_and_queries_are_read() {
    let text = format!(
        "{GOOD}\n[check]\nconfidence = 0.95\nrelative_precision = 0.02\nmin_runs = 50\ntime_budget = \"30s\"\nsimultaneous = true\nsprt = {{ beta = 0.02 }}\n{}",
        r#"
[[query]]
name = "complete"
formula = "honest.complete / honest.attempted"
precision = 0.01
[[query]]
name = "file"
quatex_file = "seconds.txt"
method = "wilson"
[[query]]
name = "setup"
of = "honest.setup_s"
quantile = 0.95
[[query]]
name = "busy"
formula = "server.busy"
steady = true
warmup = "10s"
[[query]]
name = "holds"
hypothesis = """
P[ server.full ] >= 0.9"""
"#
    );
    let s = parse(&text).unwrap();
    assert_eq!(
        s.check,
        Check {
            confidence: 0.95,
            precision: Some(Precision::Relative(0.02)),
            runs: Runs::Sequential {
                min: Some(50),
                max: None
            },
            time_budget: Some(Duration::from_secs(30)),
            simultaneous: true,
            sprt: Sprt {
                indifference: INDIFFERENCE,
                alpha: 1.0 - 0.95,
                beta: 0.02
            },
            ..Check::default()
        }
    );
    let asked: Vec<_> = s.queries.iter().map(|q| &q.asked).collect();
    let [
        Asked::Formula(formula),
        Asked::Quatex { text: file, .. },
        Asked::QuantileOfSamples { samples, q },
        Asked::Steady { steady, .. },
        Asked::Hypothesis(hypothesis),
    ] = asked[..]
    else {
        panic!("{asked:?}");
    };
    assert_eq!(s.queries[0].precision, Some(Precision::Absolute(0.01)));
    assert_eq!(s.queries[1].method, Some(Method::Wilson));
    let second = file.place(14);
    assert_eq!((second.file.as_str(), second.line), ("seconds.txt", 2));
    assert_eq!((samples.text.as_str(), *q), ("honest.setup_s", 0.95));
    assert_eq!(
        (steady.batches, steady.warmup, steady.every),
        (BATCHES, Duration::from_secs(10), None)
    );
    // Places are those of the scenario's own lines.
    let line = |needle: &str| 1 + text[..text.find(needle).unwrap()].matches('\n').count();
    assert_eq!(formula.place(0).line, line("honest.complete"));
    let at = hypothesis.place(3);
    assert_eq!((at.line, at.column), (line("P[ server.full"), 4));
    assert_eq!(s.queries[2].place.line, line("name = \"setup\"") - 1);
}

#[test]
fn lanes_meet_the_same_calls() {
    let s = parse(&with("\"roulette\"", "[\"roulette\", \"uniform\"]")).unwrap();
    let [a, b] = &s.points[..] else {
        panic!("two lanes");
    };
    assert_ne!(a.setup.defense, b.setup.defense);
    assert_eq!(a.setup.plan(7), b.setup.plan(7));
}

#[test]
fn committed_scenarios_are_good() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let read = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        Scenario::parse(name, &text, &|path| {
            std::fs::read_to_string(folder.join(path))
        })
        .unwrap_or_else(|e| panic!("{e}"))
    };
    let names = |s: &Scenario| s.queries.iter().map(|q| q.name.clone()).collect::<Vec<_>>();
    let slowloris = read("http-slowloris.toml");
    assert_eq!((slowloris.points.len(), names(&slowloris).len()), (5, 2));
    let queue = read("mmkk.toml");
    let setup = &queue.points[0].setup;
    assert_eq!(
        (queue.points.len(), &setup.defense, setup.attack),
        (1, &None, None)
    );
    assert_eq!(setup.calls_per_second(), 4.75);
    assert_eq!(names(&queue), ["full", "busy"]);
    let paper = read("sip-paper.toml");
    assert_eq!(names(&paper), ["complete", "incomplete", "unsuccessful"]);
    assert_eq!(paper.check.precision, Some(Precision::Absolute(0.01)));
    assert_eq!((paper.points.len(), paper.lanes), (5 * 2 * 6, 6));
    assert_eq!(paper.points[0].setup.defense, None);
    for name in ["sip-small.toml", "demo-sip.toml"] {
        let lanes: Vec<String> = read(name).points.into_iter().map(|p| p.lane).collect();
        assert_eq!(lanes, ["undefended", "seven-roulette"], "{name}");
    }
    // The released model's rates, given as comments, parse too.
    let text = std::fs::read_to_string(folder.join("sip-paper.toml")).unwrap();
    for rate in ["8.125/s", "4.75/s"] {
        let preset = format!("# rate = \"{rate}\"");
        assert!(text.contains(&preset));
        let text = text
            .replace("rate = { erlang", "# rate = { erlang")
            .replace(&preset, &format!("rate = \"{rate}\""));
        assert!(parse(&text).is_ok());
    }
}
