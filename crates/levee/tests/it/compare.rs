use std::fs;

use serde_json::Value;

use super::{finished, levee, well_formed};

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
name = "arrivals"
quatex = "eval E[ s.rval(\"front.arrivals\") ] ;"
"#;

fn compare(options: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.toml"), SCENARIO).unwrap();
    finished(
        levee()
            .current_dir(folder.path())
            .args(["compare", "s.toml", "--quiet"])
            .args(options),
    )
}

#[test]
fn predictions_stand_beside_what_was_measured() {
    // A gap cannot be wider than 1, whatever the machine does meanwhile.
    let (status, out, error) = compare(&["--json", "--within", "1"]);
    assert_eq!((status, error.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&json["command"], &json["interrupted"]),
        (&"compare".into(), &false.into())
    );
    let points = json["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for point in points {
        let answer = &point["queries"][0];
        let number = |of: &Value| of.as_f64().unwrap();
        let measured = &answer["measured"];
        let [low, estimate, high] = ["low", "estimate", "high"].map(|key| number(&measured[key]));
        assert!(low <= estimate && estimate <= high, "{answer}");
        assert_eq!(measured["runs"], 2);
        let gap = number(&answer["gap"]);
        assert_eq!(gap, estimate - number(&answer["estimate"]));
        assert!(answer["within"].is_boolean(), "{answer}");
        // The same two runs in the model: what is left is not their luck.
        let same = &answer["same_runs"];
        assert_eq!(
            number(&same["gap"]),
            estimate - number(&same["estimate"]),
            "{answer}"
        );
        // Each event is seen in the model alone: said, and no gap is made up.
        let events = &point["queries"][1];
        assert!(
            events["estimate"].is_number() && events["measured"].is_null(),
            "{events}"
        );
        assert!(
            events["gap"].is_null() && events["note"].is_string(),
            "{events}"
        );
    }
}

#[test]
fn a_gap_that_is_too_wide_exits_with_1() {
    // Two short runs never meet a prediction to nine digits.
    let (status, table, error) = compare(&["--within", "1e-9", "--html", "/dev/null"]);
    assert_eq!((status, error.as_str()), (1, ""), "{table}");
    assert!(table.contains("live ") && table.contains("gap "), "{table}");
}

#[test]
fn the_page_of_a_comparison_is_well_formed() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let (status, ..) = compare(&["--repeat", "1", "--html", page.to_str().unwrap()]);
    assert_eq!(status, 0);
    well_formed(&fs::read_to_string(page).unwrap());
}

#[test]
fn what_cannot_be_run_for_real_is_refused() {
    let http = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/http-slowloris.toml"
    );
    for (options, says) in [
        (
            &[http][..],
            "a comparison needs a real run, and there is no live front for HTTP yet",
        ),
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
