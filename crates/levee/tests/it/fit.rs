use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use super::{finished, golden, levee, well_formed};

/// An Asterisk file of 400 calls in two hours, whose talk times are the quantiles of a lognormal of median 60 s and sigma 1,
/// in an order that a multiplication shuffles. Every eighth is not answered, and five rows are broken.
fn master() -> String {
    let mut out = String::new();
    for i in 0..400u32 {
        let rank = (i * 157 + 13) % 400;
        let talk = (60.0 * quantile((f64::from(rank) + 0.5) / 400.0).exp()) as u32;
        let ring = 3 + i % 9;
        let at = |s: u32| {
            let s = i * 18 + s;
            format!(
                "2026-03-14 {:02}:{:02}:{:02}",
                10 + s / 3_600,
                s / 60 % 60,
                s % 60
            )
        };
        let (answer, talk, disposition) = if i % 8 == 7 {
            (String::new(), 0, "NO ANSWER")
        } else {
            (at(ring), talk, "ANSWERED")
        };
        writeln!(
            out,
            "\"\",\"10{i:03}\",\"200\",\"in\",\"\"\"A, B\"\" <1>\",\"SIP/a\",\"SIP/b\",\"Dial\",\"SIP/b,30\",\"{}\",\"{answer}\",\"{}\",{},{talk},\"{disposition}\",\"DOCUMENTATION\",\"1.{i}\",\"\"",
            at(0),
            at(ring + talk),
            ring + talk
        )
        .unwrap();
        if i % 100 == 99 {
            out.push_str("\"cut off\",\n");
        }
    }
    out.push_str("a,b,c,d,e,f,g,h,i,2026-03-14 12:00:00,2026-03-14 12:00:00,2026-03-14 12:00:00,x,x,ANSWERED,D,1,\n");
    out
}

/// Of the standard normal, by bisection of a series for its distribution function.
fn quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..60 {
        let z: f64 = (low + high) / 2.0;
        let mut term = z;
        let mut sum = z;
        for n in 1..200 {
            term *= z * z / f64::from(2 * n + 1);
            sum += term;
        }
        let below = 0.5 + sum * (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
        if below < p { low = z } else { high = z }
    }
    low
}

fn fit(text: &str, options: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("Master.csv"), text).unwrap();
    finished(
        levee()
            .current_dir(folder.path())
            .args(["fit", "Master.csv"])
            .args(options),
    )
}

#[test]
fn people_read_a_table_a_histogram_and_settings() {
    let (status, out, error) = fit(&master(), &[]);
    assert_eq!((status, error.as_str()), (0, ""));
    golden("fit.txt", &out);
}

#[test]
fn machines_read_one_document() {
    let (status, out, error) = fit(&master(), &["--json"]);
    assert_eq!((status, error.as_str()), (0, ""));
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
    assert_eq!(
        (
            &json["command"],
            &json["format"],
            &json["rows"],
            &json["answered"],
            &json["unanswered"]
        ),
        (
            &"fit".into(),
            &"asterisk".into(),
            &405.into(),
            &350.into(),
            &50.into()
        ),
        "{keys:?}"
    );
    assert_eq!(
        json["bad"],
        serde_json::json!({"too_few_columns": 4, "no_duration": 1})
    );
    assert_eq!(
        json["bad_lines"]["too_few_columns"],
        serde_json::json!([101, 202, 303])
    );
    assert_eq!(json["best"], "lognormal");
    let fits = json["fits"].as_array().unwrap();
    assert_eq!(fits.len(), 4);
    let best = &fits[0];
    assert_eq!(best["kind"], "lognormal");
    for (name, truth) in [("mu", 60f64.ln()), ("sigma", 1.0)] {
        let value = best["parameters"][name].as_f64().unwrap();
        let error = best["standard_errors"][name].as_f64().unwrap();
        assert!((value - truth).abs() < 5.0 * error, "{best}");
    }
    // These are the law's own quantiles: no sample lies closer.
    assert!(best["p_value"].as_f64().unwrap() > 0.5, "{best}");
    let worst = fits.last().unwrap();
    assert!(worst["p_value"].as_f64().unwrap() < 0.01, "{worst}");
    // Rings of 3 to 11 seconds.
    assert!((json["ring_s"].as_f64().unwrap() - 7.0).abs() < 0.1);
    assert_eq!(json["busy_hour"]["start"], "2026-03-14 11:00");
}

#[test]
fn the_settings_alone_are_a_scenario_that_the_lab_and_the_model_take() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("Master.csv"), master()).unwrap();
    let (status, out, _) =
        finished(
            levee()
                .current_dir(folder.path())
                .args(["fit", "Master.csv", "--settings"]),
        );
    assert_eq!(status, 0);
    // Fifty times as fast.
    let fast = out.replace("time = \"1h\"", "time = \"60s\"\nscale = 0.02");
    fs::write(folder.path().join("fitted.toml"), &fast).unwrap();
    let (status, out, error) =
        finished(
            levee()
                .current_dir(folder.path())
                .args(["lab", "fitted.toml", "--json"]),
        );
    assert_eq!(status, 0, "{fast}{error}");
    assert!(out.contains("\"seven-roulette\""), "{out}");
    let (status, out, error) = finished(levee().current_dir(folder.path()).args([
        "check",
        "fitted.toml",
        "--json",
        "--runs",
        "3",
    ]));
    assert_eq!(status, 0, "{fast}{error}");
    assert!(out.contains("\"complete\""), "{out}");
}

#[test]
fn the_page_is_well_formed_and_has_the_plots() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("Master.csv"), master()).unwrap();
    let (status, _, error) = finished(levee().current_dir(folder.path()).args([
        "fit",
        "Master.csv",
        "--html",
        "fit.html",
    ]));
    assert_eq!((status, error.as_str()), (0, "plots: fit.html\n"));
    let page = fs::read_to_string(folder.path().join("fit.html")).unwrap();
    well_formed(&page);
    assert_eq!(
        (page.matches("<svg").count(), page.matches("<path").count()),
        (2, 6)
    );
}

#[test]
fn standard_input_is_read_too() {
    let mut child = levee()
        .args(["fit", "-", "--duration-column", "1", "--settings"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text: String = (1..40).map(|i| format!("{}\n", i * i)).collect();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("[honest]")
    );
}

#[test]
fn bad_input_exits_with_2_and_says_what_to_do() {
    for (text, options, says) in [
        ("", &[][..], "levee: Master.csv: the file is empty"),
        (
            "Mar 14 sshd: hello\n",
            &[][..],
            "| Mar 14 sshd: hello\nexpected one of\n  asterisk",
        ),
        (
            "a,b\n1,2\n",
            &["--duration-column", "c"][..],
            "no column `c`: the first row has a, b",
        ),
        (
            "a,b\n1,2\n",
            &["--duration-column", "3"][..],
            "a number from 1 to 2",
        ),
        (
            "a\n5\n",
            &["--duration-column", "a"][..],
            "1 answered calls in 1 rows (0 not answered), expected at least 10",
        ),
        ("a\n5\n", &["--answer-column", "a"][..], "--end-column"),
        (
            "a\n5\n",
            &["--delimiter", "xx"][..],
            "expected one character",
        ),
        (
            "a\n5\n",
            &["--format", "xml"][..],
            "possible values: asterisk",
        ),
    ] {
        let (status, out, error) = fit(text, options);
        assert_eq!((status, out.as_str()), (2, ""), "{error}");
        assert!(error.contains(says), "{options:?}: {error}");
    }
    let (status, _, error) = finished(levee().args(["fit", "/absent/Master.csv"]));
    assert_eq!(status, 2);
    assert!(
        error.contains("/absent/Master.csv: cannot be opened; check the path"),
        "{error}"
    );
}
