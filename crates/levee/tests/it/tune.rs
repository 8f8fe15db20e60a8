use std::fs;

use levee_policy::selective::{Config, Strategy};
use serde_json::Value;

use super::{finished, levee};

/// Four lines and calls of a tenth of a second: hundreds of runs a second.
const SMALL: &str = r#"
[service]
kind = "sip"
capacity = 4

[[lane]]
name = "bare"

[[lane]]
name = "poor"
defense = { kind = "seven", strategy = "uniform", round = "10s", drop_factor = { mean_call = "100ms" } }

[honest]
rate = "40/s"
duration = [{ kind = "exponential", mean = "100ms" }, { kind = "fixed", mean = "100ms" }]

[attack]
kind = "coordinated-call"
share = [0.3, 0.6]

[run]
time = "2s"
ring = "10ms"
"#;

const QUICK: &[&str] = &[
    "--candidates",
    "20",
    "--max-runs",
    "8000",
    "--fresh-runs",
    "200",
];

fn tune(text: &str, options: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.toml"), text).unwrap();
    finished(
        levee()
            .current_dir(folder.path())
            .args(["tune", "s.toml"])
            .args(options),
    )
}

fn json(text: &str, options: &[&str]) -> Value {
    let (status, out, error) = tune(text, &[options, &["--json"]].concat());
    assert_eq!((status, error.as_str()), (0, ""));
    serde_json::from_str(&out).unwrap()
}

#[test]
fn threads_do_not_matter_and_a_poor_defence_is_beaten_on_fresh_runs() {
    let of = |threads| tune(SMALL, &[QUICK, &["--json", "--threads", threads]].concat());
    let (status, out, error) = of("1");
    assert_eq!((status, error.as_str()), (0, ""));
    assert_eq!(of("2").1, out);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&json["command"], &json["seed"]),
        (&"tune".into(), &1.into())
    );
    assert!(json["searched"].as_u64().unwrap() > 20, "{json}");
    assert!(json["search_runs"].as_u64().unwrap() <= 8_000, "{json}");
    assert_eq!(json["points"].as_array().unwrap().len(), 4);
    assert_eq!(json["simultaneous"], 20);
    // A round of ten seconds refuses nearly all newcomers of a run of two.
    assert!(json["difference"]["low"].as_f64().unwrap() > 0.0, "{json}");
    assert_eq!(json["baseline"]["name"], "poor");
    let worst = &json["winner"]["worst"];
    let least = json["points"].as_array().unwrap().iter();
    let least = least.map(|point| point["winner"][0]["estimate"].as_f64().unwrap());
    assert_eq!(
        worst["estimate"].as_f64().unwrap(),
        least.fold(1.0, f64::min)
    );
    assert_eq!(worst["at"]["attack.share"], 0.6);
    let winner: Config = serde_json::from_value(json["winner"]["defense"].clone()).unwrap();
    assert_eq!(winner.validate_for(4), Ok(()));
    assert_eq!(winner.drop_factor.mean_call.to_string(), "100ms");
}

#[test]
fn people_read_a_table_that_can_be_pasted() {
    let (status, out, error) = tune(SMALL, &[QUICK, &["--seed", "9"]].concat());
    assert_eq!((status, error.as_str()), (0, ""));
    for says in [
        "s.toml: 4 points, ",
        "note: left out, since only SeVen has something to tune: bare\n",
        "note: the search was stopped at --max-runs",
        "\nwinner: complete 0.",
        "\npoor: complete 0.",
        "the winner is better\n",
        "honest.duration = fixed",
    ] {
        assert!(out.contains(says), "{says}: {out}");
    }
    // In the place of the defence that there was, it makes a scenario, which is at least as good to the next search's eye.
    let from = out.find("[defense]").unwrap();
    let table = &out[from..out.find("\nOn ").unwrap()];
    let lanes = SMALL.find("[[lane]]").unwrap()..SMALL.find("[honest]").unwrap();
    let pasted = SMALL.replacen(&SMALL[lanes], table, 1);
    let json = json(
        &pasted,
        &[
            "--candidates",
            "1",
            "--max-runs",
            "2000",
            "--fresh-runs",
            "50",
        ],
    );
    assert!(
        json["baseline"]["name"]
            .as_str()
            .unwrap()
            .starts_with("seven-"),
        "{json}"
    );
}

#[test]
fn a_cap_on_calls_cut_short_is_kept() {
    let free = json(SMALL, QUICK);
    let cut = |json: &Value| json["winner"]["cut"]["estimate"].as_f64().unwrap();
    let cap = cut(&free) / 2.0;
    let capped = json(SMALL, &[QUICK, &["--cut-max", &cap.to_string()]].concat());
    assert_eq!(capped["cut_max"].as_f64(), Some(cap));
    assert_ne!(capped["cut_kept"], false, "{capped}");
    assert!(
        capped["winner"]["cut"]["low"].as_f64().unwrap() <= cap,
        "{capped}"
    );
    // Without a call cut short SeVen has no means: what is least is still above, and the status says so.
    let (status, out, _) = tune(
        &SMALL.replacen("[0.3, 0.6]", "0.6", 1),
        &[
            "--candidates",
            "1",
            "--max-runs",
            "2000",
            "--fresh-runs",
            "200",
            "--cut-max",
            "0.00001",
        ],
    );
    assert_eq!(status, 1, "{out}");
    assert!(
        out.contains("the cap of 0.00001 on honest calls cut short is NOT kept"),
        "{out}"
    );
}

#[test]
fn what_is_best_already_is_kept_or_not_beaten() {
    // The search has nothing but the own defence and one more: on fresh runs the winner is not worse for sure.
    let text = SMALL.replacen(
        "strategy = \"uniform\", round = \"10s\"",
        "strategy = \"tournament\"",
        1,
    );
    let json = json(
        &text,
        &[
            "--candidates",
            "1",
            "--max-runs",
            "3000",
            "--fresh-runs",
            "200",
        ],
    );
    let baseline: Config = serde_json::from_value(json["baseline"]["defense"].clone()).unwrap();
    assert_eq!(baseline.strategy, Strategy::Tournament { size: None });
    if let Some(high) = json["difference"]["high"].as_f64() {
        assert!(high >= 0.0, "{json}");
    } else {
        assert_eq!(json["winner"]["name"], "poor");
    }
}

#[test]
fn bad_input_exits_with_2_and_says_what_to_do() {
    let preset = SMALL.replacen("[run]", "[model]\npreset = \"as-released\"\n[run]", 1);
    let nobody = SMALL.replacen("[0.3, 0.6]", "1.0", 1);
    for (text, options, says) in [
        (
            SMALL,
            &["--max-runs", "100"][..],
            "--max-runs 100 is less than the first screening takes: up to 9312 runs",
        ),
        (SMALL, &["--cut-max", "1.5"][..], "between 0 and 1"),
        (SMALL, &["--candidates", "0"][..], "1..=10000"),
        (
            SMALL,
            &["--against", "bare"][..],
            "no such lane of kind seven; there are poor",
        ),
        (&preset, &[][..], "only the corrected model is tuned"),
        (&nobody, &[][..], "put attack.share below 1"),
        (
            "[service]\nkind = \"sip\"\n",
            &[][..],
            "missing field `honest`",
        ),
    ] {
        let (status, out, error) = tune(text, options);
        assert_eq!((status, out.as_str()), (2, ""), "{error}");
        assert!(error.contains(says), "{options:?}: {error}");
    }
}
