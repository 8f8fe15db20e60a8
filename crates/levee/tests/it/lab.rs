use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use super::{finished, levee};

/// Two lanes of one second.
const SCENARIO: &str = r#"
[service]
kind = "sip"
capacity = 2

[[lane]]
name = "undefended"

[[lane]]
name = "seven-roulette"
defense = { kind = "seven", drop_factor = { mean_call = "100ms" } }

[honest]
rate = "20/s"
duration = { kind = "exponential", mean = "100ms" }

[attack]
kind = "coordinated-call"
share = 0.5

[run]
time = "1s"
ring = "10ms"
seed = 1
"#;

#[test]
fn a_scenario_runs_and_gives_one_document() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.toml");
    fs::write(&path, SCENARIO).unwrap();
    let (status, out, error) = finished(levee().args(["lab", "--json"]).arg(&path));
    assert_eq!(status, 0, "{error}");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&json["command"], &json["interrupted"]),
        (&"lab".into(), &false.into())
    );
    let lanes = json["lanes"].as_array().unwrap();
    let names: Vec<_> = lanes
        .iter()
        .map(|lane| lane["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["undefended", "seven-roulette"]);
    for lane in lanes {
        for kind in ["honest", "attacker"] {
            let count = |key: &str| lane[kind][key].as_u64().unwrap();
            assert_eq!(
                count("attempted"),
                count("complete") + count("incomplete") + count("unsuccessful"),
                "{lane}"
            );
        }
    }
    // Standard error is no terminal here: a plain line for each lane that finishes.
    assert!(
        error.lines().any(|line| line.starts_with("2/2 lanes")),
        "{error}"
    );
    let (_, table, quiet) = finished(levee().args(["lab", "--quiet"]).arg(&path));
    assert!(
        table.contains("seven-roulette") && quiet.is_empty(),
        "{table}{quiet}"
    );
}

#[test]
fn a_bad_scenario_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("bad.toml"),
        SCENARIO.replace("capacity = 2", "capacty = 2"),
    )
    .unwrap();
    let (status, out, error) =
        finished(levee().current_dir(folder.path()).args(["lab", "bad.toml"]));
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(
        error.contains("bad.toml:4:1: `service.capacty`")
            && error.contains("did you mean `capacity`?"),
        "{error}"
    );
}

#[test]
fn an_interrupted_demo_leaves_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = levee()
        .current_dir(folder.path())
        .args(["demo", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(
        first.contains("undefended") && first.contains("honest calls"),
        "{first}"
    );
    assert!(
        Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let rest: Vec<_> = lines.map_while(Result::ok).collect();
    let mut out = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest:?}");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&json["command"], &json["interrupted"]),
        (&"demo".into(), &true.into())
    );
    let page = fs::read_to_string(folder.path().join("levee-demo.html")).unwrap();
    assert!(page.ends_with("</html>\n"));
    assert_eq!(rest.last().unwrap(), "plots: levee-demo.html");
}

#[test]
fn an_interrupted_web_demo_leaves_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = levee()
        .current_dir(folder.path())
        .args(["demo", "http", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(
        first.contains("undefended") && first.contains("good clients"),
        "{first}"
    );
    let output = super::interrupt(child);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&json["command"], &json["interrupted"]),
        (&"demo".into(), &true.into())
    );
    let lanes = json["lanes"].as_array().unwrap();
    let names: Vec<_> = lanes
        .iter()
        .map(|lane| lane["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["undefended", "random", "retry", "auction"]);
    for lane in lanes {
        assert_eq!(lane["ideal_share"], 0.5);
        assert!(lane.get("good_share").is_some());
    }
    let page = fs::read_to_string(folder.path().join("levee-demo.html")).unwrap();
    assert!(page.ends_with("</html>\n"));
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_the_run() {
    let (status, out, error) = finished(levee().args(["demo", "--page", "/nonexistent/page.html"]));
    assert_eq!((status, out.as_str()), (2, ""));
    // No line of a run: nothing had begun.
    assert!(
        error.starts_with("levee: cannot write /nonexistent/page.html: choose another file"),
        "{error}"
    );
}

#[test]
fn a_run_outlives_the_reader_of_its_progress() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.toml");
    fs::write(&path, SCENARIO).unwrap();
    let mut child = levee()
        .args(["lab", "--json"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["lanes"].as_array().unwrap().len(), 2);
}
