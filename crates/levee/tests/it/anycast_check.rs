//! Scenarios of kind anycast, which have a model and nothing else yet.

use serde_json::Value;

use super::{finished, levee};

fn scenario(name: &str) -> String {
    format!("{}/../../scenarios/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The estimates of one query in a report, each with its lane.
fn estimates(report: &Value, query: &str) -> Vec<(String, f64)> {
    let points = report["points"].as_array().unwrap();
    let of = |point: &Value| {
        let queries = point["queries"].as_array().unwrap();
        let own = queries.iter().find(|q| q["name"] == query).unwrap();
        let lane = point["name"].as_str().unwrap();
        (lane.to_owned(), own["estimate"].as_f64().unwrap())
    };
    points.iter().map(of).collect()
}

#[test]
fn pulses_do_not_make_the_default_responder_flap_as_they_do_one_in_haste() {
    let pulse = scenario("anycast-pulse.toml");
    let mut check = levee();
    check.args(["check", &pulse, "--runs", "4", "--json"]);
    let (status, out, error) = finished(&mut check);
    assert_eq!(status, 0, "{error}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let sum = |query: &str, lane: &str| -> f64 {
        let all = estimates(&report, query).into_iter();
        all.filter(|(own, _)| own == lane).map(|(_, n)| n).sum()
    };
    assert_eq!(sum("changes", "undefended"), 0.0);
    assert!(
        sum("flaps", "reroute") < sum("flaps", "hasty") / 2.0,
        "{out}"
    );
    assert!(
        sum("answered", "reroute") > sum("answered", "undefended"),
        "{out}"
    );
    // The same on any number of threads.
    let mut again = levee();
    again.args(["check", &pulse, "--runs", "4", "--json", "--threads", "1"]);
    assert_eq!(finished(&mut again).1, out);
}

#[test]
fn what_there_is_no_real_run_of_is_refused() {
    let pulse = scenario("anycast-pulse.toml");
    for (command, expect) in [
        ("lab", "no real run yet"),
        ("compare", "no real run yet"),
        ("tune", "nothing to tune yet"),
    ] {
        let (status, out, error) = finished(levee().args([command, &pulse]));
        assert_eq!((status, out.as_str()), (2, ""), "{command}");
        assert!(error.contains(expect), "{command}: {error}");
        assert!(error.contains("levee check"), "{command}: {error}");
    }
}

#[test]
fn queries_may_name_what_the_model_offers() {
    let pulse = scenario("anycast-loop.toml");
    let (status, out, error) = finished(levee().args(["check", &pulse, "--observables"]));
    assert_eq!(status, 0, "{error}");
    for name in ["mitigation.wait", "change.flaps", "estimate.ratio"] {
        assert!(out.contains(name), "{name}");
    }
}
