use std::fs;
use std::path::Path;

use super::{finished, levee};

/// A run of Verfploeter: 100 blocks, of which the first `bos` are at bos-1 and the others at ams-1, but for those from `end` on,
/// which do not answer.
fn run(path: &Path, bos: u32, end: u32) {
    let mut text = "task_id,client_id,transmit_time,receive_time,send_receive_time_diff,source_address,destination_address,meta_source_address,meta_destination_address,ttl,source_address_country,source_address_asn\n".to_owned();
    for i in 0..end {
        let site = if i < bos { "bos-1" } else { "ams-1" };
        let rtt = f64::from(i) + 0.5;
        text.push_str(&format!(
            "0,{site},1646261274266073110,1646261274394554811,{rtt},198.51.{i}.7,192.0.2.1,192.0.2.1,198.51.{i}.7,48,AU,64500\n"
        ));
    }
    fs::write(path, text).unwrap();
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_measurement_becomes_a_map() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    run(&file("base.csv"), 25, 100);
    let names = ["--rename", "ams-1=AMS", "--rename", "bos-1=BOS"];
    for out in ["base.parquet", "copy.csv"] {
        let mut command = levee();
        command
            .args(["anycast", "map"])
            .arg(file("base.csv"))
            .args(names)
            .arg("--out")
            .arg(file(out));
        let (status, stdout, stderr) = finished(&mut command);
        assert_eq!(status, 0, "{stderr}");
        assert!(
            stdout.contains("base: 100 blocks") && stdout.contains("75.0%"),
            "{stdout}"
        );
        assert!(
            stderr.contains("Verfploeter, 100 records, 100 replies"),
            "{stderr}"
        );
        let mut command = levee();
        command
            .args(["anycast", "map", "--json", "--quiet"])
            .arg(file(out));
        let (status, stdout, stderr) = finished(&mut command);
        assert_eq!((status, stderr.as_str()), (0, ""));
        let all = json(&stdout);
        assert_eq!(all["command"], "anycast map");
        assert_eq!(all["sites"], serde_json::json!(["BOS", "AMS"]));
        let map = &all["configurations"][0];
        assert_eq!(map["count"], serde_json::json!({"AMS": 75, "BOS": 25}));
        assert_eq!(map["share"], serde_json::json!({"AMS": 0.75, "BOS": 0.25}));
        assert_eq!(
            (&map["blocks"], &map["unknown"], &map["partial"]),
            (&100.into(), &0.into(), &false.into())
        );
        assert_eq!(map["rtt_ms"]["BOS"]["p50"], 12.5);
        assert_eq!(all["files"][0]["form"], "map");
    }
}

#[test]
fn maps_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    run(&file("a.csv"), 25, 100);
    run(&file("b.csv"), 35, 100);
    run(&file("c.csv"), 30, 40);
    // The blocks that move have half of the load.
    fs::write(file("load.csv"), "198.51.30.0,50\n198.51.0.0,50\n").unwrap();
    let mut command = levee();
    command
        .args(["anycast", "diff", "--json", "--quiet", "--weights"])
        .arg(file("load.csv"));
    command.args([file("a.csv"), file("b.csv"), file("c.csv")]);
    let prepended = format!("ams-1={}", file("b.csv").display());
    command.args(["--prepended", &prepended]);
    let (status, stdout, stderr) = finished(&mut command);
    assert_eq!((status, stderr.as_str()), (0, ""));
    let all = json(&stdout);
    let first = &all["diffs"][0];
    assert_eq!(
        (
            &first["moved"],
            &first["moved_share"],
            &first["load_moved_share"]
        ),
        (&10.into(), &0.1.into(), &0.5.into())
    );
    assert_eq!(all["diffs"][1]["vanished"], 60);
    let partial: Vec<bool> = all["maps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["partial"] == true)
        .collect();
    assert_eq!(partial, [false, false, true]);
    // Blocks 0 to 24 and 35 to 39.
    assert_eq!(
        all["stuck"]["blocks"],
        serde_json::json!({"bos-1": 25, "ams-1": 5})
    );
    assert_eq!(
        all["prepended"],
        serde_json::json!([{"site": "ams-1", "common": 75, "stuck": 65}])
    );
    let mut command = levee();
    command
        .args(["anycast", "diff"])
        .args([file("a.csv"), file("b.csv"), file("c.csv")]);
    let (status, stdout, _) = finished(&mut command);
    assert_eq!(status, 0);
    for part in [
        "a -> b: 10 of 100 blocks moved (10.0%)",
        "never move: 30 of the 40 blocks",
        "c is PARTIAL: its 40 blocks",
    ] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
}

#[test]
fn what_is_wrong_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    run(&file("a.csv"), 5, 10);
    fs::write(file("bad.csv"), "block,site\n192.0.2.0/23,AMS\n").unwrap();
    fs::write(file("v2.csv"), "# levee map, version 2\nblock,site\n").unwrap();
    for (name, options, part) in [
        ("none.csv", vec![], "none.csv: cannot be read"),
        (
            "bad.csv",
            vec![],
            "bad.csv:2: the block is \"192.0.2.0/23\"; expected an IPv4",
        ),
        (
            "v2.csv",
            vec![],
            "v2.csv:1: a catchment map of version 2; this program reads version 1",
        ),
        (
            "a.csv",
            vec!["--sites", "AMS,BOS"],
            "a.csv:2: there is no site \"bos-1\"; expected one of AMS, BOS",
        ),
        (
            "a.csv",
            vec!["--out", "map.txt"],
            "expected a name that ends in .parquet or .csv",
        ),
        ("a.csv", vec!["--weights", "none"], "none: cannot be read"),
    ] {
        let mut command = levee();
        command
            .args(["anycast", "map"])
            .arg(file(name))
            .args(&options);
        let (status, stdout, stderr) = finished(&mut command);
        assert_eq!((status, stdout.as_str()), (2, ""), "{stderr}");
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}
