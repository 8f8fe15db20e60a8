use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::{finished, interrupt, levee, well_formed};

/// Eight seconds in one.
const SCENARIO: &str = r#"
[service]
kind = "sip"
capacity = 4

[[lane]]
name = "undefended"

[[lane]]
name = "seven-roulette"
defense = { kind = "seven", drop_factor = { mean_call = "1s" } }

[honest]
rate = "8/s"
duration = { kind = "exponential", mean = "1s" }

[attack]
kind = "coordinated-call"
share = 0.5

[run]
time = "8s"
ring = "100ms"
scale = 0.1
repeat = 2
seed = 1

[check]
precision = 0.05

[[query]]
name = "complete"
formula = "honest.complete / honest.attempted"

[[query]]
name = "set-up"
formula = "honest.setup_sum / honest.set_up"

[[query]]
name = "arrivals"
quatex = "eval E[ s.rval(\"front.arrivals\") ] ;"
"#;

#[test]
fn predictions_stand_beside_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.toml"), SCENARIO).unwrap();
    // No gap is wider than 1, whatever the machine does meanwhile.
    let (status, out, error) = finished(levee().current_dir(folder.path()).args([
        "compare",
        "s.toml",
        "--quiet",
        "--json",
        "--within",
        "1",
        "--html",
        "page.html",
    ]));
    assert_eq!((status, error.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&json["command"], &json["interrupted"]),
        (&"compare".into(), &false.into())
    );
    let points = json["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    let number = |of: &Value| of.as_f64().unwrap();
    for answer in points
        .iter()
        .flat_map(|point| &point["queries"].as_array().unwrap()[..2])
    {
        let measured = &answer["measured"];
        let [low, estimate, high] = ["low", "estimate", "high"].map(|key| number(&measured[key]));
        assert!(low <= estimate && estimate <= high, "{answer}");
        assert_eq!(measured["runs"], 2);
        // But for the last digits, which reading JSON may change.
        let gap_to = |model: &Value, gap: &Value| {
            let expect = estimate - number(model);
            assert!((number(gap) - expect).abs() < 1e-12, "{answer}");
        };
        gap_to(&answer["estimate"], &answer["gap"]);
        assert!(answer["within"].is_boolean(), "{answer}");
        // The same two runs in the model: what is left is not their luck.
        let same = &answer["same_runs"];
        gap_to(&same["estimate"], &same["gap"]);
    }
    // Each event is seen in the model alone: that is said, and no gap is made up.
    for point in points {
        let events = &point["queries"][2];
        assert!(
            events["estimate"].is_number() && events["measured"].is_null(),
            "{events}"
        );
        assert!(
            events["gap"].is_null() && events["note"].is_string(),
            "{events}"
        );
    }
    well_formed(&fs::read_to_string(folder.path().join("page.html")).unwrap());
}

#[test]
fn a_gap_that_is_too_wide_exits_with_1() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.toml"), SCENARIO).unwrap();
    // A wall clock never agrees with a model to nine digits: set-up is a time.
    let (status, table, error) = finished(levee().current_dir(folder.path()).args([
        "compare", "s.toml", "--quiet", "--repeat", "1", "--within", "1e-9",
    ]));
    assert_eq!((status, error.as_str()), (1, ""), "{table}");
    for part in [
        "live ",
        "gap ",
        "same runs ",
        "a single real run has no interval",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn an_interrupted_comparison_gives_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.toml"), SCENARIO).unwrap();
    let child = levee()
        .current_dir(folder.path())
        .args(["compare", "s.toml", "--quiet", "--json", "--repeat", "1000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = interrupt(child);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{error}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["interrupted"], true);
    assert_eq!(json["points"].as_array().unwrap().len(), 2);
}

/// Five good and five bad clients before a server that is asked for six times what it can do, eight seconds in two.
const WEB: &str = r#"
[service]
kind = "http"
rate = "10/s"

[[lane]]
name = "undefended"

[[lane]]
name = "auction"
defense = { kind = "thinner", mode = "auction" }

[honest]
clients = 5
rate = "2/s"
bandwidth = { up = 5_000 }
request = 200

[attack]
kind = "flood"
clients = 5
rate = "10/s"
window = 2
bandwidth = { up = 5_000 }
request = 200

[run]
time = "6s"
warmup = "2s"
scale = 0.25
repeat = 2
seed = 1

[check]
precision = 0.1

[[query]]
name = "good share"
formula = "E[ honest.worked ] / E[ server.worked ]"

[[query]]
name = "wanted"
formula = "E[ honest.attempted ]"

[[query]]
name = "waited"
of = "honest.waited_s"
quantile = 0.5
"#;

#[test]
fn a_web_server_is_compared_in_the_models_words() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.toml"), WEB).unwrap();
    let (status, out, error) = finished(levee().current_dir(folder.path()).args([
        "compare",
        "s.toml",
        "--quiet",
        "--json",
        "--threads",
        "1",
    ]));
    assert_eq!(status, 0, "{error}");
    let json: Value = serde_json::from_str(&out).unwrap();
    for point in json["points"].as_array().unwrap() {
        let queries = point["queries"].as_array().unwrap();
        assert_eq!(queries.len(), 3, "{point}");
        for query in queries {
            assert!(query["measured"]["estimate"].is_number(), "{query}");
        }
        // Both met the same demand, to the last request.
        assert_eq!(queries[1]["same_runs"]["gap"], 0.0, "{}", queries[1]);
    }
}

#[test]
fn what_cannot_be_run_for_real_is_refused() {
    let http = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/http-slowloris.toml"
    );
    for (options, says) in [
        (
            &["none.toml"][..],
            "levee: none.toml: cannot be read: check the path",
        ),
        (&[http, "--repeat", "0"][..], "0 is not in 1..=10000"),
        (
            &[http, "--scale", "0"][..],
            "expected a number from 0.001 to 1000",
        ),
        (&[http, "--within", "0"][..], "expected a number above 0"),
    ] {
        let (status, out, error) = finished(levee().arg("compare").args(options));
        assert_eq!((status, out.as_str()), (2, ""));
        assert!(error.contains(says), "{error}");
    }
}
