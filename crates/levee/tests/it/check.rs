use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;
use tempfile::TempDir;

use super::{finished, golden, interrupt, levee, well_formed};

/// Two lanes of two seconds, asked nothing yet.
const SCENARIO: &str = r#"
[service]
kind = "sip"
capacity = 4

[[lane]]
name = "undefended"

[[lane]]
name = "seven-roulette"
defense = { kind = "seven", strategy = "roulette", drop_factor = { mean_call = "300ms" } }

[honest]
rate = "12/s"
duration = { kind = "exponential", mean = "300ms" }

[attack]
kind = "coordinated-call"
share = 0.5

[run]
time = "2s"
ring = "20ms"
seed = 1
"#;

/// One of each kind.
const QUERIES: &str = r##"
[check]
precision = 0.05

[[query]]
name = "complete"
formula = "honest.complete / honest.attempted"

[[query]]
name = "busy"
formula = "E[ server.busy ]"

[[query]]
name = "full"
formula = "P[ server.full ]"

[[query]]
name = "stay"
of = "attacker.stay_s"
quantile = 0.9

[[query]]
name = "often taken"
hypothesis = "P[ server.busy >= 2 ] >= 0.5"

[[query]]
name = "first full"
quatex = """
full() = if s.rval("server.full") then s.rval("time") else
         if s.rval("ended") then discard else # full() fi fi ;
eval E[ full() ] ;
"""

[[query]]
name = "over time"
quatex = """
at(x) = if s.rval("time") >= x || s.rval("ended") then s.rval("server.busy") else # at(x) fi ;
eval parametric(E[ at(x) ], x, 0.5, 0.5, 2) ;
"""

[[query]]
name = "long run"
formula = "server.busy"
steady = true
warmup = "500ms"
batches = 3
"##;

const COMPLETE: &str = r#"
[[query]]
name = "complete"
formula = "honest.complete / honest.attempted"
"#;

fn folder(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.toml"), text).unwrap();
    folder
}

/// Checks a scenario of this text.
fn check(text: &str, options: &[&str]) -> (i32, String, String) {
    let folder = folder(text);
    finished(
        levee()
            .current_dir(folder.path())
            .args(["check", "s.toml"])
            .args(options),
    )
}

#[track_caller]
fn json(text: &str, options: &[&str]) -> (i32, Value) {
    let (status, out, error) = check(text, &[options, &["--json"]].concat());
    assert_eq!(error, "");
    (status, serde_json::from_str(&out).unwrap())
}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// All answers to a query, by lane.
fn answers<'j>(json: &'j Value, query: &str) -> Vec<&'j Value> {
    let points = json["points"].as_array().unwrap().iter();
    let all = points.flat_map(|point| point["queries"].as_array().unwrap());
    all.filter(|answer| answer["name"] == query).collect()
}

fn number(of: &Value) -> f64 {
    of.as_f64().unwrap()
}

#[test]
fn the_document_has_the_same_bytes_with_any_number_of_threads() {
    let text = format!("{SCENARIO}{QUERIES}");
    let run = |options: &[&str]| check(&text, &[options, &["--json"]].concat());
    let one = run(&["--threads", "1"]);
    assert_eq!((one.0, one.2.as_str()), (0, ""));
    for threads in ["2", "3"] {
        assert!(run(&["--threads", threads]) == one, "{threads} threads");
    }
    let json: Value = serde_json::from_str(&one.1).unwrap();
    let names: Vec<&str> = json["points"][0]["queries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| answer["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names[..6],
        [
            "complete",
            "busy",
            "full",
            "stay",
            "often taken",
            "first full"
        ]
    );
    // Four values of x, and the long run.
    let over_time = &json["points"][0]["queries"][7];
    assert_eq!(
        over_time["parameter"],
        serde_json::json!({"name": "x", "value": 1.0})
    );
    assert_eq!(names.len(), 11, "{names:?}");
    for query in names {
        for answer in answers(&json, query) {
            let [low, estimate, high] = ["low", "estimate", "high"].map(|key| number(&answer[key]));
            assert!(
                low <= estimate && estimate <= high && low < high,
                "{answer}"
            );
        }
    }
    assert!(run(&["--threads", "2", "--seed", "2"]).1 != one.1);
}

#[test]
fn a_model_of_http_is_answered_the_same_with_any_number_of_threads() {
    let run = |options: &[&str]| {
        let path = scenarios().join("http-slowloris.toml");
        let command = ["check", "--json", "--runs", "6"];
        finished(levee().args(command).arg(path).args(options))
    };
    let one = run(&["--threads", "1"]);
    assert_eq!((one.0, one.2.as_str()), (0, ""));
    assert!(run(&["--threads", "2"]) == one);
    assert!(run(&["--threads", "2", "--seed", "7"]).1 != one.1);
}

#[test]
fn clients_that_pay_get_what_the_scenario_shows() {
    let path = scenarios().join("http-auction.toml");
    let run = |threads: &str| {
        let command = ["check", "--json", "--runs", "3", "--threads", threads];
        finished(levee().args(command).arg(&path))
    };
    let one = run("1");
    assert_eq!((one.0, one.2.as_str()), (0, ""));
    assert!(run("2") == one);
    let json: Value = serde_json::from_str(&one.1).unwrap();
    let shares: Vec<f64> = answers(&json, "good-share")
        .iter()
        .map(|answer| number(&answer["estimate"]))
        .collect();
    let [bare, random, retry, auction] = shares[..] else {
        panic!("{shares:?}");
    };
    // Due is a half; without a price good clients get their part of the requests, one in twenty or so.
    assert!(bare < 0.1 && random < 0.1, "{shares:?}");
    assert!(retry > 0.4 && auction > 0.4, "{shares:?}");
}

#[test]
fn intervals_hold_what_theory_says_of_a_queue() {
    let path = scenarios().join("mmkk.toml");
    let (status, out, error) = finished(levee().args(["check", "--json"]).arg(path));
    assert_eq!((status, error.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&out).unwrap();
    // By numerical solution of the chain, started empty, at 40 s.
    for (query, exact, half) in [("full", 0.14112446, 0.005), ("busy", 20.39827923, 0.05)] {
        let answer = answers(&json, query)[0];
        let (low, high) = (number(&answer["low"]), number(&answer["high"]));
        assert!(low < exact && exact < high, "{answer}");
        assert!(high - low <= 2.0 * half, "{answer}");
        assert_eq!(
            (&answer["confidence"], &answer["stopped"]),
            (&0.99.into(), &"precision".into())
        );
    }
}

#[test]
fn every_scenario_is_answered() {
    let mut files: Vec<PathBuf> = fs::read_dir(scenarios())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    for path in files {
        let (status, out, error) =
            finished(levee().args(["check", "--json", "--runs", "5"]).arg(&path));
        assert_eq!((status, error.as_str()), (0, ""), "{}", path.display());
        let json: Value = serde_json::from_str(&out).unwrap();
        for point in json["points"].as_array().unwrap() {
            let queries = point["queries"].as_array().unwrap();
            assert!(queries.iter().all(|answer| answer["runs"] == 5), "{point}");
        }
    }
}

#[test]
fn the_exit_status_says_whether_hypotheses_hold() {
    for (hypothesis, options, verdict, expect) in [
        // 12 calls a second for 4 lines: after 2 s some line is taken.
        ("P[ server.busy >= 1 ] >= 0.5", &[][..], "holds", 0),
        ("P[ server.busy >= 1 ] <= 0.5", &[][..], "rejected", 1),
        ("E[ server.busy ] >= 0.5", &[][..], "holds", 0),
        ("E[ server.busy ] >= 3.99", &[][..], "rejected", 1),
        (
            "E[ honest.complete ] / E[ honest.attempted ] >= 0.99",
            &[][..],
            "rejected",
            1,
        ),
        // Ten runs cannot tell: it is not shown to hold.
        (
            "P[ server.busy >= 1 ] >= 0.95",
            &["--max-runs", "10"][..],
            "undecided",
            1,
        ),
    ] {
        let text = format!("{SCENARIO}\n[[query]]\nname = \"h\"\nhypothesis = \"{hypothesis}\"\n");
        let text = text.replace("[[lane]]\nname = \"undefended\"\n", "");
        let (status, json) = json(&text, options);
        assert_eq!(
            (answers(&json, "h")[0]["verdict"].as_str(), status),
            (Some(verdict), expect),
            "{hypothesis}"
        );
    }
}

/// Every message in one file: what it costs a reader to see what is wrong.
#[test]
fn bad_input_exits_with_2_and_says_what_to_do() {
    let with = |query: &str| format!("{SCENARIO}\n[[query]]\nname = \"q\"\n{query}\n");
    let good = format!("{SCENARIO}{COMPLETE}");
    let mut said = String::new();
    for (what, text, options) in [
        (
            "an unknown key",
            good.replace("capacity = 4", "capacty = 4"),
            "",
        ),
        ("a negative rate", good.replace("\"12/s\"", "\"-3/s\""), ""),
        ("no query", SCENARIO.to_owned(), ""),
        (
            "an open parenthesis",
            with("formula = \"honest.complete / (honest.attempted\""),
            "",
        ),
        (
            "an open bracket",
            with("hypothesis = \"P[ server.busy >= 1 >= 0.5\""),
            "",
        ),
        (
            "an unknown observable",
            with("formula = \"honest.complet / honest.attempted\""),
            "",
        ),
        (
            "an unknown observable of QuaTEx",
            with("quatex = \"\"\"\neval E[ s.rval(\"server.bussy\") ] ;\n\"\"\""),
            "",
        ),
        (
            "an unknown number",
            with("quatex = \"eval E[ s.rval(1000) ] ;\""),
            "",
        ),
        (
            "a query that never ends",
            with("quatex = \"f(x) = # f(x + 1) ; eval E[ f(0) ] ;\""),
            "",
        ),
        (
            "a query that does not end in a run",
            with(
                "quatex = \"\"\"\nat(x) = if s.rval(\"time\") >= x then 1 else # at(x) fi ;\neval E[ at(3) ] ;\n\"\"\"",
            ),
            "",
        ),
        (
            "a file that is not there",
            with("quatex_file = \"none.quatex\""),
            "",
        ),
        (
            "a quantile of an unknown sample",
            with("of = \"honest.setup\"\nquantile = 0.5"),
            "",
        ),
        (
            "a quantile above 1",
            with("of = \"honest.setup_s\"\nquantile = 1.5"),
            "",
        ),
        ("a precision of 0", format!("{good}precision = 0\n"), ""),
        (
            "a negative precision",
            format!("{good}precision = -0.1\n"),
            "",
        ),
        (
            "two precisions",
            format!("{good}precision = 0.1\nrelative_precision = 0.1\n"),
            "",
        ),
        (
            "a confidence above 1",
            format!("{good}confidence = 1.5\n"),
            "",
        ),
        (
            "Okamoto's bound without end",
            format!(
                "{SCENARIO}\n[[query]]\nname = \"q\"\nformula = \"P[ server.full ]\"\nmethod = \"okamoto\"\nprecision = 0.0001\n"
            ),
            "",
        ),
        (
            "a hypothesis without brackets",
            with("hypothesis = \"honest.complete / honest.attempted >= 0.9\""),
            "",
        ),
        ("two queries of one name", format!("{good}{COMPLETE}"), ""),
        ("--precision 0", good.clone(), "--precision 0"),
        ("--precision -1", good.clone(), "--precision=-1"),
        ("--confidence 1.5", good.clone(), "--confidence 1.5"),
        ("--threads 0", good.clone(), "--threads 0"),
        ("--threads 1025", good.clone(), "--threads 1025"),
        ("--max-runs 1", good.clone(), "--max-runs 1"),
        ("--runs 0", good.clone(), "--runs 0"),
        (
            "--runs and --max-runs",
            good.clone(),
            "--runs 5 --max-runs 5",
        ),
        ("--time-budget 0", good.clone(), "--time-budget 0"),
        ("--html in no folder", good.clone(), "--html none/page.html"),
        ("--csv in no folder", good.clone(), "--csv none/table.csv"),
        (
            "--parquet in no folder",
            good.clone(),
            "--parquet none/table.parquet",
        ),
    ] {
        let options: Vec<&str> = options.split_whitespace().collect();
        let (status, out, error) = check(&text, &options);
        assert_eq!((status, out.as_str()), (2, ""), "{what}: {error}");
        write!(said, "# {what}\n{error}\n").unwrap();
    }
    golden("check-bad.txt", &said);
}

#[test]
fn a_file_that_cannot_be_written_is_found_out_before_the_work() {
    let text = format!("{SCENARIO}{COMPLETE}precision = 1e-9\n");
    let begin = Instant::now();
    let (status, _, _) = check(&text, &["--html", "none/page.html", "--time-budget", "60"]);
    assert_eq!(status, 2);
    assert!(begin.elapsed() < Duration::from_secs(30));
    // And the test of it leaves nothing behind where a query is bad.
    let folder = folder(&text.replace("attempted\"", "attemted\""));
    let (status, _, _) = finished(
        levee()
            .current_dir(folder.path())
            .args(["check", "s.toml", "--csv", "t.csv"]),
    );
    assert_eq!((status, folder.path().join("t.csv").exists()), (2, false));
}

#[test]
fn a_precision_out_of_reach_ends_at_the_greatest_number_of_runs_and_says_so() {
    let undefended_cuts_nobody = "\n[[query]]\nname = \"cut\"\nformula = \"E[ honest.incomplete ]\"\nrelative_precision = 0.1\n";
    let text = format!("{SCENARIO}{undefended_cuts_nobody}{COMPLETE}precision = 1e-6\n");
    let (status, json) = json(&text, &["--max-runs", "300"]);
    assert_eq!(status, 0);
    for query in ["cut", "complete"] {
        let answer = answers(&json, query)[0];
        assert_eq!(
            (&answer["stopped"], &answer["runs"]),
            (&"max-runs".into(), &300.into()),
            "{answer}"
        );
    }
    let says = |query: &str, what: &str| {
        let warnings = answers(&json, query)[0]["warnings"].to_string();
        assert!(warnings.contains(what), "{warnings}");
    };
    says(
        "cut",
        "a relative precision of an estimate of 0 is never reached: ask for an absolute one",
    );
    says(
        "complete",
        "precision 0.000001 is not reached: it takes about ",
    );
    let (_, table, _) = check(&text, &["--max-runs", "300"]);
    assert!(
        table.contains("the greatest number of runs was reached"),
        "{table}"
    );
}

#[test]
fn the_command_line_goes_before_the_scenario() {
    let text = format!("{SCENARIO}{COMPLETE}precision = 0.001\nconfidence = 0.999\n");
    let answer = |options: &[&str]| {
        let (_, json) = json(&text, options);
        answers(&json, "complete")[1].clone()
    };
    let half = |answer: &Value| (number(&answer["high"]) - number(&answer["low"])) / 2.0;
    let exact = answer(&["--runs", "150"]);
    assert_eq!(
        (&exact["runs"], &exact["stopped"]),
        (&150.into(), &"runs".into())
    );
    assert_eq!(exact["confidence"], 0.999);
    let wide = answer(&["--precision", "0.04", "--confidence", "0.9"]);
    assert_eq!(
        (&wide["stopped"], &wide["confidence"]),
        (&"precision".into(), &0.9.into())
    );
    assert!(
        half(&wide) <= 0.04 && wide["runs"].as_u64() < Some(1_000),
        "{wide}"
    );
    // The same runs at two confidences.
    let sure = answer(&["--runs", "150", "--confidence", "0.9"]);
    assert_eq!(sure["estimate"], exact["estimate"]);
    assert!(half(&sure) < half(&exact));
    let cut = answer(&["--max-runs", "200"]);
    assert_eq!(
        (&cut["runs"], &cut["stopped"]),
        (&200.into(), &"max-runs".into())
    );
    let begin = Instant::now();
    let spent = answer(&["--time-budget", "0.3", "--precision", "1e-6"]);
    assert_eq!(spent["stopped"], "budget");
    // As many as fit, and not the million that it would be.
    assert!(
        spent["runs"].as_u64() > Some(0) && begin.elapsed() < Duration::from_secs(60),
        "{spent}"
    );
}

#[test]
fn without_a_precision_intervals_are_a_point_in_a_hundred_wide() {
    let text = format!(
        "{SCENARIO}{COMPLETE}\n[[query]]\nname = \"calls\"\nformula = \"E[ honest.attempted ]\"\n"
    );
    let (_, json) = json(&text, &[]);
    for (query, absolute) in [("complete", 0.01), ("calls", 0.01)] {
        for answer in answers(&json, query) {
            let half = (number(&answer["high"]) - number(&answer["low"])) / 2.0;
            let goal = f64::max(absolute, 0.01 * number(&answer["estimate"]));
            assert!(half <= goal && half > goal / 10.0, "{answer}");
            assert_eq!(answer["stopped"], "precision");
        }
    }
    // Twelve calls: a hundredth of them is wider than 0.01, so that it takes far fewer than a million runs.
    assert!(answers(&json, "calls")[0]["runs"].as_u64() < Some(50_000));
}

#[test]
fn tables_for_machines_hold_the_same() {
    let folder =
        folder(&format!("{SCENARIO}{COMPLETE}").replace("share = 0.5", "share = [0.25, 0.5]"));
    let (status, out, error) = finished(levee().current_dir(folder.path()).args([
        "check",
        "s.toml",
        "--json",
        "--runs",
        "20",
        "--csv",
        "t.csv",
        "--parquet",
        "t.parquet",
    ]));
    assert_eq!((status, error.as_str()), (0, ""));
    let csv = fs::read_to_string(folder.path().join("t.csv")).unwrap();
    let mut lines = csv
        .split_terminator("\r\n")
        .map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    assert_eq!(
        header[..6],
        ["lane", "attack.share", "query", "estimate", "low", "high"]
    );
    let lines: Vec<Vec<&str>> = lines.collect();
    let file = fs::File::open(folder.path().join("t.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: Vec<_> = reader
        .get_row_iter(None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!((lines.len(), rows.len()), (4, 4));
    for (line, row) in lines.iter().zip(&rows) {
        let columns: Vec<_> = row.get_column_iter().collect();
        let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, header);
        for (text, (name, field)) in line.iter().zip(columns) {
            let same = match field {
                Field::Null => text.is_empty(),
                Field::Str(value) => value == text,
                Field::Double(value) => text.parse() == Ok(*value),
                Field::Long(value) => text.parse() == Ok(*value),
                _ => false,
            };
            assert!(same, "{name}: {text} in CSV, {field} in Parquet");
        }
    }
    let json: Value = serde_json::from_str(&out).unwrap();
    for (line, point) in lines.iter().zip(json["points"].as_array().unwrap()) {
        let answer = &point["queries"][0];
        assert_eq!(line[0], point["name"].as_str().unwrap());
        assert_eq!(line[1].parse(), Ok(number(&point["at"]["attack.share"])));
        assert_eq!(line[3].parse(), Ok(number(&answer["estimate"])));
    }
}

#[test]
fn the_page_is_well_formed_and_has_a_plot_for_each_query() {
    let folder = folder(&format!("{SCENARIO}{COMPLETE}\n[[query]]\nname = \"a < b & c\"\nformula = \"E[ server.busy ]\"\n").replace("share = 0.5", "share = [0.25, 0.5]"));
    let (status, out, error) = finished(levee().current_dir(folder.path()).args([
        "check",
        "s.toml",
        "--runs",
        "20",
        "--html",
        "page.html",
    ]));
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(out.contains("undefended"), "{out}");
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    well_formed(&page);
    assert_eq!(page.matches("<svg").count(), 2);
    assert!(page.contains("a &lt; b &amp; c"));
}

#[test]
fn people_read_a_table() {
    let text = format!(
        "{SCENARIO}{COMPLETE}\n[[query]]\nname = \"incomplete\"\nformula = \"honest.incomplete / honest.attempted\"\n"
    );
    let (status, out, error) = check(&text, &["--runs", "200"]);
    assert_eq!((status, error.as_str()), (0, ""));
    golden("check.txt", &out);
}

#[test]
fn what_can_be_asked_is_listed_with_units_and_numbers() {
    let (status, out, error) = check(SCENARIO, &["--observables"]);
    assert_eq!((status, error.as_str()), (0, ""));
    for part in [
        "server.busy",
        "lines",
        "honest.setup_s",
        "s.rval(0) is the time",
    ] {
        assert!(out.contains(part), "{out}");
    }
    assert!(out.lines().all(|line| line.chars().count() <= 120), "{out}");
    let (_, json) = json(SCENARIO, &["--observables"]);
    let observables = json["observables"].as_array().unwrap();
    for (i, o) in observables.iter().enumerate() {
        assert_eq!(o["number"], i + 1);
        assert!(
            o["unit"].is_string() && o["meaning"].as_str().unwrap() != "",
            "{o}"
        );
    }
    let number = |name: &str| {
        let found = observables.iter().find(|o| o["name"] == name);
        found.unwrap()["number"].as_u64().unwrap()
    };
    // A file of the kind that was released with the paper, by number: the end of each run.
    let complete = number("honest.complete");
    let text = format!(
        "{SCENARIO}\n[[query]]\nname = \"released\"\nstep = \"run\"\nquatex = \"query( ) = {{ s.rval({complete}) }} ; eval E[ # query( ) ] ;\"\n\
         [[query]]\nname = \"own\"\nformula = \"E[ honest.complete ]\"\n\
         [[query]]\nname = \"end\"\nstep = \"run\"\nquatex = \"eval E[ s.rval(0) ] ;\"\n"
    );
    let (_, json) = self::json(&text, &["--runs", "30"]);
    for (released, own) in answers(&json, "released").iter().zip(answers(&json, "own")) {
        assert_eq!(released["estimate"], own["estimate"]);
    }
    assert_eq!(answers(&json, "end")[0]["estimate"], 2.0);
}

#[test]
fn an_interrupted_check_gives_what_it_has() {
    let folder = folder(&format!("{SCENARIO}{COMPLETE}precision = 1e-9\n"));
    let child = levee()
        .current_dir(folder.path())
        .args(["check", "s.toml", "--json", "--html", "page.html"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = interrupt(child);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert_eq!(error, "stopping; once more to stop without a result\n");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["interrupted"], true);
    // Only a point that no run was made of yet has no estimate.
    for answer in answers(&json, "complete") {
        assert_eq!(answer["stopped"], "interrupted");
        assert_eq!(
            answer["estimate"].is_null(),
            answer["runs"] == 0,
            "{answer}"
        );
    }
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    well_formed(&page);
    assert!(page.contains("Interrupted"));
}

#[test]
fn a_lane_is_held_against_another_with_common_random_numbers() {
    let paper = scenarios().join("sip-paper.toml");
    let against = |lane: &str| {
        let mut command = levee();
        command.args(["check", "--json", "--runs", "300", "--against", lane]);
        finished(command.arg(&paper))
    };
    let (status, out, error) = against("seven-uniform");
    assert_eq!((status, error.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&out).unwrap();
    let points = json["points"].as_array().unwrap();
    // 2 durations x 5 shares x 5 other lanes.
    assert_eq!(points.len(), 50);
    for point in points {
        let answer = &point["queries"][0];
        assert_eq!(answer["name"], "complete, less seven-uniform");
        let low = answer["low"].as_f64().unwrap();
        // What the paper reports: roulette and tournament are ahead of uniform, and no defence is behind it.
        match point["name"].as_str().unwrap() {
            "seven-roulette" | "seven-tournament" => assert!(low > 0.0, "{point}"),
            "undefended" => assert!(answer["high"].as_f64().unwrap() < 0.0, "{point}"),
            _ => {}
        }
    }
    let (status, out, error) = against("seven");
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(
        error.contains("--against seven: no such lane, expected one of undefended, "),
        "{error}"
    );
}
