use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{finished, golden, levee};

/// Two transit ASes that peer, two stubs each, and one stub of both.
const GRAPH: &str = "1|2|0\n1|10|-1\n2|20|-1\n1|30|-1\n2|30|-1\n30|40|-1\n2|50|-1\n";
const BLOCKS: &str =
    "10.0.0.0/22\t10\n10.1.0.0/23\t20\n10.2.0.0/24\t30\n10.3.0.0/24\t40\n10.4.0.0/24\t99\n";
const DEPLOYMENT: &str = r#"origin = 64500
graph = "graph.txt"
blocks = "blocks.txt"

[[site]]
name = "AMS"
capacity = 100
links = [{ as = 1 }]

[[site]]
name = "BOS"
links = [{ as = 2 }]

[candidates]
prepend_max = 1
poison = [40]
"#;

fn folder(deployment: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("d.toml", deployment),
        ("graph.txt", GRAPH),
        ("blocks.txt", BLOCKS),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn simulate(folder: &Path, options: &[&str]) -> (i32, String, String) {
    let mut command = levee();
    command
        .current_dir(folder)
        .args(["anycast", "simulate", "d.toml"]);
    finished(command.args(options))
}

/// Without the figure that differs from run to run.
fn timeless(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| match line.split_once(" configurations in ") {
            Some((count, _)) => format!("{count} configurations\n"),
            None => format!("{line}\n"),
        });
    lines.collect()
}

#[test]
fn people_read_a_table() {
    let folder = folder(DEPLOYMENT);
    let (status, out, error) = simulate(folder.path(), &[]);
    assert_eq!((status, error.as_str()), (0, ""));
    golden("anycast_simulate.txt", &timeless(&out));
    let (status, out, error) =
        simulate(folder.path(), &["--with-site", "CNF=30,50:peer", "--order"]);
    assert_eq!((status, error.as_str()), (0, ""));
    golden("anycast_simulate_before_after.txt", &timeless(&out));
}

#[test]
fn machines_read_a_playbook_with_its_certainty() {
    let folder = folder(DEPLOYMENT);
    let (status, out, error) = simulate(folder.path(), &["--json", "--out", "playbook.json"]);
    assert_eq!((status, error.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["command"], "anycast simulate");
    assert_eq!(json["sites"], serde_json::json!(["AMS", "BOS"]));
    assert_eq!(json["capacity"], serde_json::json!({"AMS": 100.0}));
    assert_eq!(json["blocks"]["outside"], 1);
    let baseline = &json["configurations"][0];
    assert_eq!(baseline["name"], "baseline");
    // ASes 10, 30 and 40 at AMS, where 30 has a tie, and 40 is behind it.
    assert_eq!(baseline["count"], serde_json::json!({"AMS": 6, "BOS": 2}));
    assert_eq!(
        (&baseline["blocks"], &baseline["unknown"]),
        (&8.into(), &1.into())
    );
    assert_eq!(baseline["share"]["AMS"], 0.75);
    let certainty = &baseline["certainty"];
    assert_eq!(
        certainty["certain"],
        serde_json::json!({"AMS": 4, "BOS": 2})
    );
    assert_eq!(
        certainty["possible"],
        serde_json::json!({"AMS": 6, "BOS": 4})
    );
    assert_eq!(certainty["on_order"]["AMS"], 2);
    assert_eq!(json["before"], Value::Null);

    // What is written is the playbook of the document, and another command's input.
    let written = fs::read_to_string(folder.path().join("playbook.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["classes"], json["classes"]);
    assert_eq!(written["configurations"][0]["count"], baseline["count"]);

    let (status, out, _) = simulate(folder.path(), &["--json", "--with-site", "CNF=50"]);
    assert_eq!(status, 0);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["sites"], serde_json::json!(["AMS", "BOS", "CNF"]));
    assert_eq!(json["before"]["sites"], serde_json::json!(["AMS", "BOS"]));
    assert_eq!(
        json["before"]["configurations"][0]["count"],
        baseline["count"]
    );
}

#[test]
fn each_configuration_has_its_map() {
    let folder = folder(DEPLOYMENT);
    let (status, out, error) = simulate(folder.path(), &["--json", "--maps", "maps"]);
    assert_eq!((status, error.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&out).unwrap();
    let entries = fs::read_dir(folder.path().join("maps")).unwrap();
    let mut names: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert_eq!(
        names.len(),
        json["configurations"].as_array().unwrap().len()
    );
    assert_eq!(names[0].file_name().unwrap(), "0000-baseline.parquet");
    let (status, out, error) = finished(levee().args(["anycast", "map", "--json"]).arg(&names[0]));
    assert_eq!(status, 0, "{error}");
    let map: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(map["configurations"][0]["blocks"], 8, "{map}");

    fs::write(folder.path().join("counts.csv"), "10,4\n").unwrap();
    let options = ["--blocks", "counts.csv", "--maps", "maps"];
    let (status, _, error) = simulate(folder.path(), &options);
    assert_eq!(status, 2);
    assert!(error.contains("--maps: the blocks are counts"), "{error}");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let folder = folder(DEPLOYMENT);
    let of = |threads: &str| {
        let (_, out, _) = simulate(folder.path(), &["--threads", threads, "--order"]);
        timeless(&out)
    };
    assert_eq!(of("1"), of("4"));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let check = |deployment: &str, options: &[&str], says: &str| {
        let folder = folder(deployment);
        let (status, out, error) = simulate(folder.path(), options);
        assert_eq!((status, out.as_str()), (2, ""), "{error}");
        assert!(error.contains(says), "{error}");
    };
    let with = |from: &str, to: &str| DEPLOYMENT.replace(from, to);
    check(
        &with("as = 1 }", "as = 7 }"),
        &[],
        "d.toml:8:17: `site[0].links[0].as`: AS7, which is not in the graph, expected one of its 7 ASes",
    );
    check(&with("origin = 64500\n", ""), &[], "missing field `origin`");
    check(
        &with("graph = \"graph.txt\"\n", ""),
        &[],
        "no graph, expected a file or { generate",
    );
    check(
        &with("graph.txt", "none.txt"),
        &[],
        "none.txt: cannot be read",
    );
    check(DEPLOYMENT, &["--graph", "blocks.txt"], "blocks.txt:1");
    check(
        DEPLOYMENT,
        &["--blocks", "graph.txt"],
        "graph.txt:1: \"1|2|0\"; expected `prefix asn`",
    );
    check(
        DEPLOYMENT,
        &["--load", "graph.txt"],
        "graph.txt:1: \"1|2|0\"; expected an AS and its load",
    );
    check(
        DEPLOYMENT,
        &["--with-site", "CNF=7"],
        "--with-site CNF: AS7 is not in the graph",
    );
    check(DEPLOYMENT, &["--with-site", "AMS=1"], "--with-site AMS");
    check(DEPLOYMENT, &["--with-site", "CNF"], "as in SYD=4826,7545");
    check(
        DEPLOYMENT,
        &["--with-site", "CNF=1:friend"],
        "no kind of link",
    );
}

#[test]
fn a_file_that_breaks_off_is_used_and_said() {
    let folder = folder(DEPLOYMENT);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    for n in 0..20_000 {
        writeln!(packed, "10.{}.{}.0/24\t10", n / 256, n % 256).unwrap();
    }
    let packed = packed.finish().unwrap();
    fs::write(folder.path().join("cut.gz"), &packed[..packed.len() / 2]).unwrap();
    let (status, _, error) = simulate(folder.path(), &["--blocks", "cut.gz"]);
    assert_eq!(status, 0);
    assert!(error.contains("cut.gz: breaks off after line "), "{error}");
    assert!(error.contains("what came before was used"), "{error}");
}

#[test]
fn the_example_has_a_site_that_is_not_built() {
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/anycast/internet.toml");
    let (status, out, error) =
        finished(levee().args(["anycast", "simulate", "--json"]).arg(example));
    assert_eq!((status, error.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["sites"].as_array().unwrap().len(), 5);
    assert_eq!(json["before"]["sites"].as_array().unwrap().len(), 4);
    for configuration in json["configurations"].as_array().unwrap() {
        let shares = configuration["share"].as_object().unwrap().values();
        let sum: f64 = shares.map(|share| share.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{configuration}");
    }
}
