use std::fmt::Write as _;
use std::fs;

use super::{finished, levee};

const START_S: i64 = 1_764_547_200;
const DAYS: i64 = 15;
const END_S: i64 = START_S + DAYS * 86_400;
/// In the middle of an hour, since the day of these sources has edges at full hours.
const NOW_S: i64 = END_S + 1_500;

/// Thirty sources at two sites by hour, with a day that goes up and down by half; and one that came lately.
fn history() -> String {
    let mut out = String::from("time,source,site,count\n");
    for hour in 0..DAYS * 24 {
        let time_s = START_S + hour * 3_600;
        let day = [2, 1, 2, 3, 4, 3][(hour % 24 / 4) as usize];
        for i in 0..30 {
            let site = if i % 3 == 0 { "BOS" } else { "AMS" };
            let count = day * 2_400 + (hour * 31 + i * 17) % 121 - 60;
            writeln!(out, "{time_s},{}.0.2.1,{site},{count}", 20 + i).unwrap();
        }
        if hour >= DAYS * 24 - 30 {
            writeln!(out, "{time_s},203.0.113.9,AMS,9000").unwrap();
        }
    }
    out
}

/// Ten minutes in which a tenth arrives at AMS and all at BOS; one source of AMS is faked.
fn now() -> String {
    let mut out = String::new();
    for i in 0..30 {
        let (site, count) = match i {
            1 => ("AMS", 4_000),
            i if i % 3 == 0 => ("BOS", 800),
            _ => ("AMS", 80),
        };
        writeln!(out, "{NOW_S},{}.0.2.1,{site},{count}", 20 + i).unwrap();
    }
    writeln!(out, "{NOW_S},*,AMS,6000000\n{NOW_S},*,BOS,600000").unwrap();
    out
}

/// Runs it in a folder with these files.
fn estimate(files: &[(&str, &str)], arguments: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    finished(
        levee()
            .current_dir(folder.path())
            .args(["anycast", "estimate", "--now", "now.csv"])
            .args(arguments),
    )
}

#[test]
fn people_read_what_is_offered_and_why() {
    let files = [("now.csv", &*now()), ("weeks.csv", &*history())];
    let options = [
        "--history",
        "weeks.csv",
        "--interval",
        "600",
        "--capacity",
        "AMS=50000",
        "--capacity",
        "BOS=5000",
    ];
    let (status, out, error) = estimate(&files, &options);
    assert_eq!((status, error.as_str()), (1, ""));
    for expect in [
        "AMS",
        "over",
        "left out as faked",
        "forecast with day and week",
        "Offered in all:",
    ] {
        assert!(out.contains(expect), "{expect}\n{out}");
    }
}

#[test]
fn machines_read_the_estimate_by_site_and_source() {
    let files = [("now.csv", &*now()), ("weeks.csv", &*history())];
    let options = [
        "--history",
        "weeks.csv",
        "--interval",
        "600",
        "--candidates",
        "--json",
    ];
    let (status, out, _) = estimate(&files, &options);
    assert_eq!(status, 0);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["command"], "anycast estimate");
    // 10,000 a second arrive at AMS of which a tenth does, and 1,000 at BOS.
    let offered = json["estimate"]["offered"].as_f64().unwrap();
    let (low, high) = (
        json["estimate"]["low"].as_f64().unwrap(),
        json["estimate"]["high"].as_f64().unwrap(),
    );
    assert!((offered / 101_000.0 - 1.0).abs() < 0.03, "{offered}");
    assert!(
        low < 101_000.0 && 101_000.0 < high && high < 125_000.0,
        "{low} {high}"
    );
    let ams = &json["sites"][0];
    assert_eq!(
        (ams["name"].as_str(), ams["observed"].as_f64()),
        (Some("AMS"), Some(10_000.0))
    );
    assert_eq!(ams["sources"][0]["origin"], "heavy_hitters");
    assert_eq!(ams["forecast"]["seasons"], "weekly");
    assert_eq!(json["heavy_hitters"], 30);
    let planted = json["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .find(|candidate| candidate["source"] == "203.0.113.9");
    assert!(
        planted.unwrap()["verdict"]["young"]["days"]
            .as_f64()
            .unwrap()
            < 2.0
    );
}

#[test]
fn atlas_alone_is_enough() {
    let mut atlas = String::new();
    for probe in 0..300 {
        let site = ["ams", "bos"][probe % 2];
        for (query, time_s) in (END_S - 1_200..END_S + 600).step_by(240).enumerate() {
            let arrives = time_s < END_S || probe % 2 == 1 || (probe + query) % 4 == 0;
            let came = if arrives {
                format!(
                    r#""result":{{"answers":[{{"TYPE":"TXT","NAME":"hostname.bind","RDATA":"ns1.{site}.example"}}]}}"#
                )
            } else {
                r#""error":{"timeout":5000}"#.to_owned()
            };
            writeln!(
                atlas,
                r#"{{"type":"dns","prb_id":{probe},"timestamp":{time_s},{came}}}"#
            )
            .unwrap();
        }
    }
    let now = format!(
        "{END_S},*,AMS,1000000\n{},*,AMS,1000000\n{END_S},*,BOS,10\n",
        END_S + 300
    );
    let files = [("now.csv", &*now), ("atlas.json", &*atlas)];
    let pattern = [
        "--atlas",
        "atlas.json",
        "--site-pattern",
        "ns*.{site}.example",
        "--json",
    ];
    let (status, out, error) = estimate(&files, &pattern);
    assert_eq!((status, error.as_str()), (0, ""));
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let alpha = json["sites"][0]["alpha"]["range"]["likely"]
        .as_f64()
        .unwrap();
    // Of half of its probes one query in three.
    assert!((alpha - 1.0 / 6.0).abs() < 0.01, "{alpha}");
    // Without the pattern no server is a site.
    let (status, _, error) = estimate(&files, &["--atlas", "atlas.json"]);
    assert_eq!(status, 2);
    assert!(
        error.contains("ns1.ams.example") && error.contains("--site-pattern"),
        "{error}"
    );
}

#[test]
fn bad_input_is_told_with_its_place_and_remedy() {
    let (good_now, good_history) = (now(), history());
    let check = |now: &str, history: &str, arguments: &[&str], expect: &[&str]| {
        let files = [("now.csv", now), ("weeks.csv", history)];
        let (status, out, error) = estimate(&files, arguments);
        assert_eq!((status, out.as_str()), (2, ""), "{error}");
        for expect in expect {
            assert!(error.contains(expect), "{expect}: {error}");
        }
    };
    let weeks = ["--history", "weeks.csv"];
    check(
        "1,2,3\n",
        &good_history,
        &weeks,
        &["now.csv: line 1: 3 columns, expected 4"],
    );
    check(
        &good_now,
        "2025-12-01 00:00:00,a,AMS,1\n",
        &weeks,
        &["weeks.csv: line 1", "no time zone", "write Z"],
    );
    check(
        &good_now,
        &format!("{NOW_S},a,AMS,1\n"),
        &weeks,
        &["weeks.csv", "no rows before"],
    );
    let late = good_now.replace(&NOW_S.to_string(), &(NOW_S + 40 * 86_400).to_string());
    check(
        &late,
        &good_history,
        &weeks,
        &["weeks.csv", "give a newer history"],
    );
    check("", &good_history, &weeks, &["now.csv: no rows"]);
    check(
        &good_now,
        &good_history,
        &["--history", "none.csv"],
        &["none.csv", "check the path"],
    );
    check(&good_now, &good_history, &[], &["--history"]);
    check(
        &good_now,
        &good_history,
        &["--history", "weeks.csv", "--capacity", "CNF=1"],
        &["no such site", "AMS, BOS"],
    );
    check(
        &good_now,
        &good_history,
        &["--history", "weeks.csv", "--capacity", "AMS"],
        &["SITE=LOAD"],
    );
    check(
        &good_now,
        &good_history,
        &["--history", "weeks.csv", "--until", "noon"],
        &["RFC 3339"],
    );
}
