//! Golden tests of what is said about a bad file, and of what a good one means. `UPDATE_GOLDEN=1` writes the files anew.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use super::*;

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

fn parse(text: &str) -> Result<Scenario, Problems> {
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
    let mut found = String::new();
    for (title, text) in cases {
        let error = parse(&text).expect_err(title);
        writeln!(found, "## {title}\n{error}\n").unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scenario/testdata/errors.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&path).unwrap());
}

#[test]
fn a_plain_scenario() {
    let s = parse(GOOD).unwrap();
    assert_eq!((s.capacity, s.shares.as_slice()), (24, &[0.5][..]));
    assert_eq!(s.lanes.len(), 1);
    assert_eq!(s.lanes[0].name, "seven-roulette");
    let points = s.points();
    assert_eq!(points.len(), 1);
    assert!(points[0].at.is_empty(), "nothing is swept");
    let plan = s.plan(&points[0], 0);
    assert!((plan.honest.rate - 1.55).abs() < 1e-12);
    assert!((plan.attacker.rate - 1.55).abs() < 1e-12);
}

#[test]
fn lists_are_swept() {
    let text = with(
        "\"roulette\"",
        "[\"uniform\", { kind = \"tournament\", size = 6 }]",
    )
    .replace("share = 0.5", "share = [0.17, 0.5, 1]")
    .replace(
        "duration = {",
        "duration = [{ kind = \"lognormal\", mean = \"5s\", sigma = 1 }, {",
    )
    .replace("mean = \"5s\" }\n", "mean = \"5s\" }]\n");
    let s = parse(&text).unwrap();
    let points = s.points();
    assert_eq!(points.len(), 3 * 2 * 2);
    let name = |n: &str| AtValue::Name(n.into());
    assert_eq!(
        points[1].at,
        [
            ("attack.share", AtValue::Number(0.17)),
            ("honest.duration", name("lognormal")),
            ("defense.strategy", name("tournament")),
        ]
    );
    assert_eq!(s.lanes[1].name, "seven-tournament");
}

#[test]
fn no_defense_and_no_attack() {
    let text = GOOD
        .replace("[defense]\nkind = \"seven\"\nstrategy = \"roulette\"\n", "")
        .replace("[attack]\nkind = \"coordinated-call\"\nshare = 0.5\n", "");
    let s = parse(&text).unwrap();
    assert_eq!(s.lanes[0].name, "undefended");
    assert_eq!(s.defense(0), None);
    let plan = s.plan(&s.points()[0], 0);
    assert_eq!((plan.honest.rate, plan.attacker.rate), (3.1, 0.0));
}

#[test]
fn a_rate_by_erlang() {
    let text = with("\"3.1/s\"", "{ erlang = { blocking = 0.01 } }");
    let s = parse(&text).unwrap();
    let rate = s.rate_for(&s.durations[0].durations);
    // 15.3 Erlang over a mean of 5 s.
    assert!((rate - 3.06).abs() < 0.01, "{rate}");
}

#[test]
fn measured_durations() {
    let from = r#"{ kind = "exponential", mean = "5s" }"#;
    let s = parse(&with(from, r#"{ kind = "file", path = "seconds.txt" }"#)).unwrap();
    let mean = s.durations[0].durations.mean();
    assert_eq!(mean, Duration::from_secs(3));
}

#[test]
fn scale_changes_the_unit_of_time_and_nothing_else() {
    let text = with("time = \"40s\"", "time = \"40s\"\nscale = 0.1\nseed = 9");
    let (s, plain) = (parse(&text).unwrap(), parse(GOOD).unwrap());
    let point = &s.points()[0];
    let plan = s.plan(point, 3);
    assert_eq!((plan.until, plan.seed), (Duration::from_secs(4), 12));
    let offered = |s: &Scenario| {
        let plan = s.plan(point, 0);
        plan.honest.rate * plan.honest.durations.unwrap().mean().as_secs_f64()
    };
    assert!((offered(&s) - offered(&plain)).abs() < 1e-12);
    let (fast, slow) = (s.defense(0).unwrap(), plain.defense(0).unwrap());
    assert_eq!(fast.round.as_nanos() * 10, slow.round.as_nanos());
    assert_eq!(
        fast.drop_factor.mean_call.as_nanos() * 10,
        slow.drop_factor.mean_call.as_nanos()
    );
}

#[test]
fn lanes_meet_the_same_calls() {
    let s = parse(&with("\"roulette\"", "[\"roulette\", \"uniform\"]")).unwrap();
    let [a, b] = &s.points()[..] else {
        panic!("two lanes");
    };
    assert_eq!(s.plan(a, 0), s.plan(b, 0));
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
    let paper = read("sip-paper.toml");
    assert_eq!(paper.points().len(), 5 * 2 * 6);
    assert_eq!(paper.defense(0), None);
    for name in ["sip-small.toml", "demo-sip.toml"] {
        let lanes: Vec<String> = read(name).lanes.into_iter().map(|l| l.name).collect();
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
