use super::*;
use crate::estimate::{Method, Parameter, Stopped};

fn estimate(name: &str, estimate: f64) -> Estimate {
    Estimate {
        name: name.into(),
        parameter: None,
        verdict: None,
        estimate,
        low: estimate - 0.01,
        high: estimate + 0.01,
        confidence: 0.99,
        simultaneous: None,
        method: Method::Ratio,
        runs: 1_000,
        decided_after: None,
        stopped: Stopped::Precision,
        warnings: Vec::new(),
    }
}

/// Two shares, two durations, two lanes.
fn report() -> Report {
    let mut points = Vec::new();
    for share in [0.17, 0.5] {
        for duration in ["exponential", "lognormal"] {
            for (lane, strategy) in [("seven-uniform", "uniform"), ("seven-roulette", "roulette")] {
                let value = share + if strategy == "uniform" { 0.1 } else { 0.2 };
                points.push(PointReport {
                    name: lane.into(),
                    at: vec![
                        ("attack.share".into(), Coordinate::Number(share)),
                        ("honest.duration".into(), Coordinate::Name(duration.into())),
                        ("defense.strategy".into(), Coordinate::Name(strategy.into())),
                    ],
                    queries: vec![Answer::predicted(estimate("complete", value))],
                });
            }
        }
    }
    Report {
        command: "check",
        scenario: "s.toml".into(),
        seed: 7,
        interrupted: false,
        warnings: Vec::new(),
        points,
    }
}

#[test]
fn a_grid_has_a_key_along_its_rows_and_a_panel_for_each_of_the_others() {
    let text = table(&report());
    let expected = "\
complete, honest.duration = exponential
┌──────────────┬───────────────┬────────────────┐
│ attack.share ┆ seven-uniform ┆ seven-roulette │
";
    // Borders are comfy-table's business: only what is in them is compared.
    let words = |text: &str| {
        let kept: String = text
            .chars()
            .filter(|c| !"┌┬┐│┆├┼┤─╞╪╡═└┴┘".contains(*c))
            .collect();
        kept.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(&text)[..7], words(expected)[..7], "{text}");
    let found = words(&text).join(" ");
    assert!(
        found.contains("0.17 0.270 ±0.010 0.370 ±0.010 0.5 0.600 ±0.010 0.700 ±0.010"),
        "{text}"
    );
    assert!(
        found.contains("1000 runs a point, seed 7; intervals at 99% confidence"),
        "{text}"
    );
}

#[test]
fn json_has_the_documented_shape() {
    let mut report = report();
    report.points.truncate(1);
    report.points[0].queries[0] = Answer::compared(
        estimate("complete", 0.5),
        &estimate("complete", 0.505),
        Some(0.51),
    );
    let json = serde_json::to_value(&report).unwrap();
    let point = &json["points"][0];
    assert_eq!(point["at"]["attack.share"], 0.17);
    assert_eq!(point["at"]["defense.strategy"], "uniform");
    let query = &point["queries"][0];
    assert_eq!(query["name"], "complete");
    assert_eq!(query["stopped"], "precision");
    assert_eq!(query["measured"]["estimate"], 0.505);
    assert_eq!(query["within"], true);
    assert_eq!(query["same_runs"]["estimate"], 0.51);
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "command",
            "interrupted",
            "points",
            "scenario",
            "seed",
            "warnings"
        ]
    );
}

#[test]
fn gaps_are_held_against_both_intervals() {
    // Halves of 0.01 each leave 0.0141 open.
    for (measured, within) in [(0.514, true), (0.515, false), (0.486, true), (0.485, false)] {
        let answer = Answer::compared(estimate("q", 0.5), &estimate("q", measured), None);
        assert_eq!(answer.real.unwrap().within, Some(within), "{measured}");
    }
    let nothing = Answer::compared(estimate("q", 0.5), &estimate("q", f64::NAN), None);
    assert_eq!(nothing.real.unwrap().within, None);
}

#[test]
fn csv_has_a_line_for_each_answer() {
    let mut report = report();
    report.points[0].name = "a, \"b\"".into();
    report.points[0].queries[0].estimate.low = f64::NEG_INFINITY;
    let text = csv(&report);
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap(),
        "lane,attack.share,honest.duration,defense.strategy,query,estimate,low,high,confidence,runs,method,stopped,verdict,\
         measured,measured_low,measured_high,gap,same_runs"
    );
    assert_eq!(
        lines.next().unwrap(),
        "\"a, \"\"b\"\"\",0.17,exponential,uniform,complete,0.27,,0.28,0.99,1000,ratio,precision,,,,,,"
    );
    assert_eq!(lines.count(), 7);
}

#[test]
fn the_page_is_self_contained_and_escapes_what_it_is_told() {
    let mut report = report();
    report.scenario = "<script>".into();
    report.warnings.push("1 < 2 & 3".into());
    let page = html(&report);
    for outside in [
        "http:", "https:", "src=", "href=", "url(", "@import", "<script",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("&lt;script&gt;") && page.contains("1 &lt; 2 &amp; 3"));
    // A plot for each panel, with a curve for each lane.
    assert_eq!(page.matches("<svg").count(), 2);
    assert_eq!(page.matches("fill:none;stroke:var(--c1)").count(), 2);
}

#[test]
fn nothing_at_all_can_be_reported() {
    let report = Report {
        points: Vec::new(),
        interrupted: true,
        ..report()
    };
    assert!(table(&report).contains("interrupted"));
    assert_eq!(csv(&report).lines().count(), 1);
    assert!(html(&report).contains("Interrupted"));
}

#[test]
fn figures_of_one_table_share_their_digits() {
    let mut report = report();
    let halves = [0.004, 0.0099, 0.01, 0.0123, 0.00001];
    for (point, half) in report.points.iter_mut().zip(halves) {
        point.at.clear();
        point.name = format!("{half}");
        let e = &mut point.queries[0].estimate;
        (e.estimate, e.low, e.high) = (0.5, 0.5 - half, 0.5 + half);
    }
    report.points.truncate(5);
    let text = table(&report);
    for cell in [
        "0.5000 ±0.0040",
        "0.5000 ±0.0099",
        "0.5000 ±0.0100",
        "0.5000 ±0.0123",
    ] {
        assert!(text.contains(cell), "{text}");
    }
    // What would look like no width at all keeps digits of its own.
    assert!(text.contains("0.500000 ±0.000010"), "{text}");
}

#[test]
fn a_warning_with_other_figures_is_said_once() {
    let mut report = report();
    for (point, (runs, part)) in report
        .points
        .iter_mut()
        .zip([(620, "0.74%"), (854, "0.54%")])
    {
        let warning = format!("no variation in {runs} runs: less than {part}.");
        point.queries[0].estimate.warnings.push(warning);
    }
    report.points[2].queries[0]
        .estimate
        .warnings
        .push("another".into());
    let text = table(&report);
    let notes: Vec<&str> = text.lines().filter(|line| line.starts_with('!')).collect();
    assert_eq!(
        notes,
        [
            "! complete: another (1 point)",
            "! complete: no variation in 620 to 854 runs: less than 0.54 to 0.74%. (2 points)"
        ]
    );
}

#[test]
fn a_parametric_question_has_its_parameter_along_the_rows() {
    let mut report = report();
    for point in &mut report.points {
        point.queries = [0.5, 1.0, 2.0]
            .map(|value| {
                let parameter = Parameter {
                    name: "x".into(),
                    value,
                };
                let mut answer = estimate(&format!("busy{parameter}"), value / 4.0);
                answer.parameter = Some(parameter);
                Answer::predicted(answer)
            })
            .into();
    }
    // A table for each of two shares and two durations, and nothing of its own for a point.
    let text = table(&report);
    assert_eq!(text.matches("│ x ").count(), 4, "{text}");
    assert_eq!(
        text.matches("busy, attack.share = 0.17, honest.duration = ")
            .count(),
        2
    );
    assert_eq!(text.matches("0.250 ±0.010").count(), 8, "{text}");
    let page = html(&report);
    assert_eq!(page.matches("<svg").count(), 4);
    assert_eq!(page.matches("<h2 class=\"query\">busy</h2>").count(), 1);
    assert!(csv(&report).starts_with(
        "lane,attack.share,honest.duration,defense.strategy,query,parameter,estimate"
    ));
    let json = serde_json::to_value(&report.points[0].queries[0]).unwrap();
    assert_eq!(
        json["parameter"],
        serde_json::json!({"name": "x", "value": 0.5})
    );
}
