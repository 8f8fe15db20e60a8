use std::fs;

use super::{finished, levee};

/// One place, two calls: the second is turned away or takes the place of the first.
const RECORDING: &str = r#"{"levee_events":1,"machine":"selective","seed":1,"capacity":1,"config":{"kind":"refuse"}}
{"t":0,"in":{"arrive":{"call":1}}}
{"t":0,"out":{"forward":{"call":1}}}
{"t":100000000,"deadline":true}
{"t":1500000000,"in":{"arrive":{"call":2}}}
{"t":1500000000,"out":{"refuse":{"call":2,"cause":"full","retry_after":"5s"}}}
{"end":"stopped"}
"#;

fn replay(text: &str, options: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("events.jsonl"), text).unwrap();
    finished(
        levee()
            .current_dir(folder.path())
            .args(["replay", "events.jsonl"])
            .args(options),
    )
}

#[test]
fn the_same_verdicts_exit_with_0() {
    let (status, out, error) = replay(RECORDING, &[]);
    assert_eq!((status, error.as_str()), (0, ""), "{out}");
    assert_eq!(
        out,
        "events.jsonl: same verdicts: 3 inputs, 2 outputs, 1.5s\n"
    );
    let (_, out, _) = replay(RECORDING, &["--json"]);
    assert_eq!(
        out,
        "{\"command\":\"replay\",\"same\":true,\"inputs\":3,\"outputs\":2,\"seconds\":1.5,\
         \"end\":{\"marked\":\"stopped\"},\"first_difference\":null}\n"
    );
}

#[test]
fn another_verdict_exits_with_1_and_is_shown() {
    let changed = RECORDING.replace("\"full\"", "\"overload\"");
    let (status, out, error) = replay(&changed, &[]);
    assert_eq!((status, error.as_str()), (1, ""));
    assert_eq!(
        out,
        "events.jsonl: another verdict at line 6, 1.5s after the start\n  \
         recorded: {\"refuse\":{\"call\":2,\"cause\":\"overload\",\"retry_after\":\"5s\"}}\n  \
         replayed: {\"refuse\":{\"call\":2,\"cause\":\"full\",\"retry_after\":\"5s\"}}\n"
    );
    let (status, out, _) = replay(&changed, &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, json["same"].as_bool()), (1, Some(false)));
    assert_eq!(json["first_difference"]["line"], 6);
    assert_eq!(
        json["first_difference"]["replayed"]["refuse"]["cause"],
        "full"
    );
}

#[test]
fn a_cut_recording_is_replayed_up_to_the_cut_and_a_damaged_one_is_refused() {
    let cut = RECORDING.find("\"retry_after\"").unwrap();
    let (status, out, _) = replay(&RECORDING[..cut], &[]);
    assert_eq!(status, 0);
    assert!(
        out.ends_with("line 6 is cut and was left out: the program was killed\n"),
        "{out}"
    );
    let (status, out, error) = replay(&RECORDING.replace("\"deadline\"", "\"dead\""), &[]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(
        error.starts_with("levee: events.jsonl: line 4: unknown field `dead`"),
        "{error}"
    );
}

/// Three calls under no defence: the second comes while the first is up, the third when both are gone.
const OPEN: &str = r#"{"levee_events":1,"machine":"selective","seed":1,"capacity":1,"config":{"kind":"none"}}
{"t":0,"in":{"arrive":{"call":1,"source":7}}}
{"t":0,"out":{"forward":{"call":1}}}
{"t":1000000000,"in":{"answered":{"call":1}}}
{"t":2000000000,"in":{"arrive":{"call":2,"source":8}}}
{"t":2000000000,"out":{"forward":{"call":2}}}
{"t":3000000000,"in":{"answered":{"call":2}}}
{"t":9000000000,"in":{"ended":{"call":1}}}
{"t":11000000000,"in":{"ended":{"call":2}}}
{"t":20000000000,"in":{"arrive":{"call":3,"source":7}}}
{"t":20000000000,"out":{"forward":{"call":3}}}
{"t":25000000000,"in":{"ended":{"call":3}}}
{"end":"stopped"}
"#;

fn what_if(recording: &str, config: &str, options: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("events.jsonl"), recording).unwrap();
    fs::write(folder.path().join("other.toml"), config).unwrap();
    finished(
        levee()
            .current_dir(folder.path())
            .args(["replay", "events.jsonl", "other.toml"])
            .args(options),
    )
}

#[test]
fn another_defence_is_asked_about_the_same_calls() {
    let (status, out, error) = what_if(OPEN, "[defense]\nkind = \"refuse\"\n", &[]);
    assert_eq!((status, error.as_str()), (0, ""));
    super::golden("replay-open.txt", &out);
    let (_, out, _) = what_if(
        OPEN,
        "[defense]\nkind = \"refuse\"\n",
        &["--json", "--runs", "3"],
    );
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["missing"]["whole"], 0);
    let mean = |column: &str, key: &str| json[column]["figures"][key]["mean"].as_f64().unwrap();
    for (column, complete, full, not_answered) in [
        ("recorded", 2.0, 0.0, 1.0),
        ("again", 2.0, 0.0, 1.0),
        ("other", 1.0, 1.0, 1.0),
    ] {
        let found = ["complete", "refused_full", "not_answered"].map(|key| mean(column, key));
        assert_eq!(found, [complete, full, not_answered], "{column}");
    }
    assert_eq!(json["other"]["moved"]["complete"]["refused"], 1.0);
    assert_eq!(json["other"]["sources"][1]["refused"], 1.0);
    assert_eq!(mean("other", "exact_verdicts"), 3.0);
}

#[test]
fn what_a_recording_does_not_tell_is_said() {
    // The second call was refused; its length is drawn from the first.
    let text = RECORDING.replace(
        "{\"end\"",
        "{\"t\":1600000000,\"in\":{\"answered\":{\"call\":1}}}\n{\"t\":1700000000,\"in\":{\"ended\":{\"call\":1}}}\n{\"t\":9000000000,\"deadline\":true}\n{\"end\"",
    );
    let scenario = "[service]\ncapacity = 2\n[defense]\nkind = \"refuse\"\n";
    let (status, out, error) = what_if(&text, scenario, &[]);
    assert_eq!((status, error.as_str()), (0, ""));
    super::golden("replay-assumed.txt", &out);
}

#[test]
fn a_defence_that_cannot_be_asked_is_refused_with_its_place() {
    for (config, options, says) in [
        (
            "[defense]\nkind = \"sven\"\n",
            &[][..],
            "other.toml:2:8: `defense.kind`",
        ),
        (
            "[defense]\nkind = \"seven\"\nround = \"0s\"\n",
            &[][..],
            "other.toml:3:",
        ),
        (
            "[defence]\nkind = \"seven\"\n",
            &[][..],
            "neither [[sip]] nor [defense]",
        ),
        ("x", &[][..], "other.toml:1:"),
        ("[[sip]]\nname = \"a\"\n", &[][..], "other.toml:"),
        (
            "[defense]\nkind = \"seven\"\n",
            &["--runs", "0"][..],
            "--runs",
        ),
    ] {
        let (status, out, error) = what_if(OPEN, config, options);
        assert_eq!((status, out.as_str()), (2, ""), "{config}");
        assert!(error.contains(says), "{config}: {error}");
    }
}
