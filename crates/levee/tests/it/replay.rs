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
