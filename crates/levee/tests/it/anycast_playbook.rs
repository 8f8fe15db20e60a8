use std::fs;
use std::path::Path;

use super::{finished, golden, levee, well_formed};

/// Three sites, seven configurations; MIA poisons once without effect and once filtered.
const COUNTS: &str = "bgp;AMS;MIA;POA;unknown
1xAMS;3000.0;4000.0;3000.0;100.0
baseline;5000.0;2500.0;2500.0;100.0
-1xMIA;1000.0;8000.0;1000.0;100.0
0xPOA;6500.0;3500.0;0.0;100.0
2xMIA;7000.0;500.0;2500.0;100.0
poison-64496xMIA;7005.0;495.0;2500.0;100.0
poison-701xMIA;7498.0;2.0;2500.0;100.0
2xPOA;800.0;100.0;100.0;9100.0
";

fn show(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    finished(
        levee()
            .current_dir(folder)
            .args(["anycast", "playbook", "show"])
            .args(arguments),
    )
}

#[test]
fn a_playbook_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("book.csv"), COUNTS).unwrap();
    let (status, out, err) = show(
        folder.path(),
        &["book.csv", "--page", "book.html", "--out", "book.json"],
    );
    assert_eq!(
        (status, err.as_str()),
        (0, "written: book.html\nwritten: book.json\n")
    );
    golden("anycast-playbook.txt", &out);
    let html = fs::read_to_string(folder.path().join("book.html")).unwrap();
    // Its script sorts and finds; all else is as on the other pages.
    let (before, script) = html.split_once("<script>").unwrap();
    let (_, after) = script.split_once("</script>").unwrap();
    well_formed(&format!("{before}{after}"));
    // The JSON that is written is a playbook again, and shows the same but for its name.
    let (status, again, _) = show(folder.path(), &["book.json"]);
    assert_eq!((status, again), (0, out));
}

#[test]
fn machines_read_the_playbook_and_its_tables() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("book.csv"), COUNTS).unwrap();
    let (status, out, err) = show(folder.path(), &["book.csv", "--json"]);
    assert_eq!((status, err.as_str()), (0, ""));
    let all: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(all["sites"], serde_json::json!(["AMS", "MIA", "POA"]));
    let first = &all["configurations"][0];
    assert_eq!(first["name"], "baseline");
    assert_eq!(
        first["share"],
        serde_json::json!({"AMS": 0.5, "MIA": 0.25, "POA": 0.25})
    );
    assert_eq!(
        (&first["blocks"], &first["unknown"]),
        (&10_000.into(), &100.into())
    );
    assert_eq!(all["configurations"][7]["partial"], true);
    assert_eq!(
        all["reach"]["MIA"]["ceiling"],
        serde_json::json!({"share": 0.8, "configuration": "-1xMIA"})
    );
    assert_eq!(all["bins"]["POA"][0], serde_json::json!(["0xPOA"]));
    let verdicts: Vec<&str> = all["judgement"]
        .as_array()
        .unwrap()
        .iter()
        .map(|j| j["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(verdicts, ["ineffective", "filtered"]);
    assert_eq!(all["configurations"][5]["ineffective"], true);
}

#[test]
fn a_list_for_the_tuner_is_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("book.csv"), COUNTS).unwrap();
    let (status, _, err) = show(folder.path(), &["book.csv", "--out", "book.fsdb"]);
    assert_eq!(status, 2);
    assert_eq!(
        err,
        "levee: give them with --capacities, in the order of the sites: 0 capacities for 3 sites: playbook_tuner needs one for each\n"
    );
    let capacities = [
        "--capacities",
        "50000,50000,20000.5",
        "--out",
        "book.fsdb",
        "-q",
    ];
    let (status, _, err) = show(folder.path(), &[&["book.csv"][..], &capacities].concat());
    assert_eq!((status, err.as_str()), (0, ""));
    let list = fs::read_to_string(folder.path().join("book.fsdb")).unwrap();
    assert!(
        list.starts_with(
            "3\nAMS\tMIA\tPOA\n50000\t50000\t20000.5\nBaseline\t50\t25\t25\n1xAMS\t30\t40\t30\n"
        ),
        "{list}"
    );
    // It holds its own capacities.
    let (status, _, err) = show(folder.path(), &["book.fsdb", "--out", "again.fsdb", "-q"]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert_eq!(
        fs::read_to_string(folder.path().join("again.fsdb")).unwrap(),
        list
    );
}

/// As the authors' tools leave them: a map of replies, its announcements, its counts.
#[test]
fn measurements_in_a_folder_become_a_playbook() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    fs::create_dir(&runs).unwrap();
    let routing = |name: &str, path: &str| {
        format!(
            "#policy,{name}\n#ipv4,ams,bos\nsite,prefix,peer_as,neighbor,attributes\n\
             ams,192.0.2.0/24,64510,198.51.100.1,{path}\nbos,192.0.2.0/24,64511,198.51.100.2,\n"
        )
    };
    for (name, path, border) in [
        ("baseline", "", 60),
        ("1xAMS", "as-path [ 64500 64500 ]", 20),
    ] {
        let mut map = String::from("block,site\n");
        for i in 0..100 {
            map += &format!("10.0.{i}.0/24,{}\n", if i < border { "ams" } else { "bos" });
        }
        fs::write(runs.join(format!("{name}#2026.csv")), map).unwrap();
        fs::write(
            runs.join(format!("{name}#2026.routing")),
            routing(name, path),
        )
        .unwrap();
    }
    let load: String = (0..100)
        .map(|i| format!("10.0.{i}.0/24,{}\n", if i < 20 { 4 } else { 1 }))
        .collect();
    fs::write(
        folder.path().join("load.csv"),
        format!("block,load\n{load}"),
    )
    .unwrap();
    for (arguments, at_ams, stays) in [
        (&["runs", "--json"][..], [0.6, 0.2], 0.2),
        (
            &["runs", "--json", "--weights", "load.csv"],
            [0.75, 0.5],
            0.5,
        ),
        (
            &["runs", "--json", "--weights", "load.csv", "--by", "blocks"],
            [0.6, 0.2],
            0.2,
        ),
    ] {
        let (status, out, err) = show(folder.path(), arguments);
        assert_eq!((status, err.as_str()), (0, ""), "{arguments:?}");
        let all: serde_json::Value = serde_json::from_str(&out).unwrap();
        for (play, share) in at_ams.iter().enumerate() {
            assert_eq!(
                all["configurations"][play]["share"]["ams"], *share,
                "{arguments:?}"
            );
        }
        assert_eq!(all["stuck"]["ams"]["stays"], stays, "{arguments:?}");
        assert_eq!(
            all["configurations"][1]["announcements"]["ams"]["everyone"]["prepend"],
            1
        );
    }
}

#[test]
fn what_is_no_playbook_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    at("broken.csv", "bgp;A;B\nbaseline;1;x\n");
    at("none.csv", "bgp;A;B\n1xA;1;1\n");
    at("odd.txt", "hello\n");
    at("bad.json", "{\"sites\": [\"A\"]}");
    fs::create_dir(folder.path().join("empty")).unwrap();
    at("book.csv", COUNTS);
    for (arguments, expect) in [
        (
            &["broken.csv"][..],
            "levee: broken.csv: line 2, column 3: found \"x\", expected a number, 0 or more\n",
        ),
        (
            &["none.csv"],
            "levee: none.csv: no baseline among 1xA; say which it is\n",
        ),
        (
            &["empty"],
            "levee: empty: no measurement in this folder: expected catchment maps (.csv.gz, .csv, .parquet) or .stats, with a .routing of the same name\n",
        ),
        (
            &["book.csv", "--by", "load"],
            "levee: --by load: book.csv tells no load; give --weights with its maps, or a playbook that was made so\n",
        ),
        (
            &["book.csv", "--out", "book.xml"],
            "levee: --out book.xml: expected a name that ends in .json, .csv or .fsdb\n",
        ),
    ] {
        let (status, out, err) = show(folder.path(), arguments);
        assert_eq!(
            (status, out.as_str(), err.as_str()),
            (2, "", expect),
            "{arguments:?}"
        );
    }
    for (name, expect) in [
        (
            "odd.txt",
            "odd.txt: not a playbook: expected Levee's JSON, ",
        ),
        (
            "bad.json",
            "bad.json: missing field `configurations` at line 1",
        ),
        ("missing", "missing: cannot be read; check the path: "),
    ] {
        let (status, _, err) = show(folder.path(), &[name]);
        assert_eq!(status, 2);
        assert!(err.starts_with(&format!("levee: {expect}")), "{err}");
    }
}
