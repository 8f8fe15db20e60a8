use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{finished, golden, levee};

/// Two plays that carry the load below, and one that does not.
const PLAYBOOK: &str = r#"{"sites": ["AMS", "BOS", "CNF"], "configurations": [
    {"name": "baseline", "share": {"AMS": 0.65, "BOS": 0.14, "CNF": 0.21}, "blocks": 1000},
    {"name": "+1xAMS", "share": {"AMS": 0.37, "BOS": 0.29, "CNF": 0.34}, "blocks": 1000},
    {"name": "+2xAMS", "share": {"AMS": 0.20, "BOS": 0.33, "CNF": 0.47}, "blocks": 1000}]}"#;

const CAPACITY: &str = "--capacity=AMS=50k,BOS=50k,CNF=50k";

/// Minutes of an attack on the baseline, then of what the sites see under the play that spreads it, then of peace.
fn loads() -> String {
    let mut text = "time,site,observed,known_good,expected,expected_sd\n".to_owned();
    let mut minute = |minute: u64, loads: [(f64, f64); 3]| {
        for (name, (offered, share)) in ["AMS", "BOS", "CNF"].iter().zip(loads) {
            let alpha = (50_000.0 / offered).min(1.0);
            let expected = 10_000.0 * share;
            let (observed, known) = (offered * alpha, expected * alpha);
            let time = 1_764_522_000 + 60 * minute;
            writeln!(text, "{time},{name},{observed:.1},{known:.1},{expected},20").unwrap();
        }
    };
    for i in 0..5 {
        minute(i, [(85_000.3, 0.65), (16_000.2, 0.14), (16_978.5, 0.21)]);
    }
    for i in 5..40 {
        minute(i, [(40_000.0, 0.37), (37_000.0, 0.29), (40_000.0, 0.34)]);
    }
    for i in 40..100 {
        minute(i, [(10_000.0, 0.37), (9_000.0, 0.29), (10_000.0, 0.34)]);
    }
    text
}

fn respond(folder: &Path, options: &[&str]) -> (i32, String, String) {
    let mut command = levee();
    command.current_dir(folder).args(["anycast", "respond"]);
    finished(command.args(options))
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("playbook.json"), PLAYBOOK).unwrap();
    fs::write(folder.path().join("loads.csv"), loads()).unwrap();
    folder
}

const FILES: [&str; 4] = ["--playbook", "playbook.json", "--measures", "loads.csv"];

#[test]
fn people_read_what_is_done_and_what_it_does_to_each_site() {
    let folder = folder();
    let (status, out, error) = respond(folder.path(), &[&FILES[..], &[CAPACITY]].concat());
    assert_eq!((status, error.as_str()), (0, ""));
    golden("anycast-respond.txt", &out);
}

#[test]
fn a_run_that_was_stopped_goes_on_from_its_journal() {
    let folder = folder();
    let all = loads();
    let options = [&FILES[..], &[CAPACITY, "--json", "--journal=journal"]].concat();
    let orders = |out: &str| -> Vec<String> {
        let lines = out.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["command"], "anycast respond");
            line
        });
        lines
            .filter(|line| line["step"]["deploying"].is_object())
            .map(|line| format!("{} {}", line["time"], line["play"]))
            .collect()
    };
    let (status, whole, _) = respond(folder.path(), &options);
    assert_eq!(status, 0);
    let expect = orders(&whole);
    assert_eq!(expect.len(), 2, "{expect:?}");
    fs::remove_file(folder.path().join("journal")).unwrap();

    // Twenty minutes, and a line that was half-written when the power went.
    let rows: Vec<&str> = all.split_inclusive('\n').collect();
    fs::write(folder.path().join("loads.csv"), rows[..=60].concat()).unwrap();
    let (_, first, _) = respond(folder.path(), &options);
    let path = folder.path().join("journal");
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend(b"{\"n\":99,\"wall_ms\"");
    fs::write(&path, bytes).unwrap();
    fs::write(folder.path().join("loads.csv"), all).unwrap();
    let (status, rest, notes) = respond(folder.path(), &options);
    assert_eq!(status, 0, "{notes}");
    assert!(notes.contains("half-written"), "{notes}");
    assert!(
        notes.contains("intervals are not after the journal's last step"),
        "{notes}"
    );
    assert_eq!([orders(&first), orders(&rest)].concat(), expect);
}

#[test]
fn a_configuration_says_it_all_and_mistakes_are_named() {
    let folder = folder();
    let config = |text: &str| fs::write(folder.path().join("levee.toml"), text).unwrap();
    let run = || {
        respond(
            folder.path(),
            &["--config", "levee.toml", "--measures", "loads.csv"],
        )
    };
    let capacity = "capacity = { AMS = 50_000, BOS = 50_000, CNF = 50_000 }";
    config(&format!(
        "[anycast]\nplaybook = \"playbook.json\"\n{capacity}\n[anycast.response]\nsettle = \"4m\"\n"
    ));
    let (status, out, error) = run();
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(
        out.ends_with("End: no attack, baseline is announced.\n"),
        "{out}"
    );
    for (text, says) in [
        (
            "[anycast]\nplaybook = \"playbook.json\"\n",
            "no capacity of AMS: give it by --capacity AMS=N",
        ),
        (
            &format!("[anycast]\n{capacity}\n"),
            "no playbook: name it by --playbook",
        ),
        (
            "[anycast]\nplaybook = \"nowhere.json\"\n",
            "nowhere.json: cannot be read; check the path",
        ),
        (
            "[anycast]\nplaybook = \"playbook.json\"\ncapacity = { LHR = 1 }\n",
            "capacity of \"LHR\": no such site, expected one of AMS, BOS, CNF",
        ),
        (
            "[anycast.response]\nsettel = \"4m\"\n",
            "unknown field `settel`",
        ),
        (
            "[anycast.response]\nsettle = \"40h\"\n",
            "in [anycast.response], `settle` is 40h, expected a duration from 0s to 24h",
        ),
    ] {
        config(text);
        let (status, _, error) = run();
        assert_eq!(status, 2, "{error}");
        assert!(error.contains(says), "{error}");
    }
    fs::write(
        folder.path().join("loads.csv"),
        "time,site,observed\n1,LHR,2\n",
    )
    .unwrap();
    let (status, _, error) = respond(folder.path(), &[&FILES[..], &[CAPACITY]].concat());
    assert_eq!(status, 2);
    assert!(
        error.contains(
            "loads.csv: line 2: the site \"LHR\", expected a site of the playbook: AMS, BOS, CNF"
        ),
        "{error}"
    );
}
