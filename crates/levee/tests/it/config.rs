use std::fs;

use super::{finished, golden, levee};

const GOOD: &str = r#"[admin]
listen = "127.0.0.1:9091"

[[sip]]
listen = ["udp:127.0.0.1:5060"]
server = "udp:127.0.0.1:5080"
capacity = 24

[sip.defense]
kind = "seven"
drop_factor = { mean_call = "2m" }
"#;

/// `levee config check levee.toml` of this text.
fn check(text: &str, options: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("levee.toml"), text).unwrap();
    finished(
        levee()
            .current_dir(folder.path())
            .args(["config", "check", "levee.toml"])
            .args(options),
    )
}

#[test]
fn a_good_file_is_ok() {
    assert_eq!(
        check(GOOD, &[]),
        (0, "levee.toml: OK\n".to_owned(), String::new())
    );
}

#[test]
fn the_printed_configuration_is_the_committed_text_and_is_good_itself() {
    let (status, out, error) = check(GOOD, &["--print"]);
    assert_eq!((status, error.as_str()), (0, ""));
    golden("effective.toml", &out);
    assert_eq!(check(&out, &["--print"]).1, out);
}

#[test]
fn a_front_of_http_is_checked_and_printed_too() {
    let web = "[[http]]\nlisten = [\"127.0.0.1:8000\"]\nserver = \"127.0.0.1:8080\"\n\
               defense = { kind = \"thinner\", capacity.rate = 100.0 }\n";
    let (status, out, error) = check(web, &["--print"]);
    assert_eq!(status, 0);
    assert!(
        error.starts_with("warning: levee.toml:1:1: `http[0]`"),
        "{error}"
    );
    assert_eq!(check(&out, &["--print"]).1, out);
    let both = format!("{GOOD}{web}");
    assert_eq!(check(&both, &["--quiet"]).0, 0);
    let same = web.replace("8080", "8000");
    let (status, _, error) = check(&same, &[]);
    assert_eq!(status, 2);
    assert!(
        error.contains("levee.toml:3:10: `http[0].server`"),
        "{error}"
    );
}

#[test]
fn a_bad_file_exits_with_2_and_all_its_problems() {
    let bad = GOOD
        .replace("capacity = 24", "capacity = 0")
        .replace("127.0.0.1:9091", "localhost:9091")
        .replace(
            "kind = \"seven\"",
            "kind = \"seven\"\nstrategy = { kind = \"tournament\", size = 0 }",
        );
    for options in [&[][..], &["--json"], &["--print"], &["--quiet"]] {
        let (status, out, error) = check(&bad, options);
        assert_eq!((status, out.as_str()), (2, ""), "{error}");
        golden("problems.txt", &error);
    }
}

#[test]
fn warnings_are_said_and_do_no_harm() {
    let doubtful = GOOD.replace("drop_factor = { mean_call = \"2m\" }", "");
    let (status, out, error) = check(&doubtful, &[]);
    assert_eq!((status, out.as_str()), (0, "levee.toml: OK\n"));
    assert!(
        error.starts_with("warning: levee.toml:9:1: `sip[0].defense.drop_factor.mean_call`"),
        "{error}"
    );
    assert_eq!(check(&doubtful, &["--quiet"]).2, "");
    let (_, out, error) = check(&doubtful, &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (
            json["ok"].as_bool(),
            json["warnings"][0]["place"]["line"].as_u64()
        ),
        (Some(true), Some(9))
    );
    assert_eq!(
        json["effective"]["sip"][0]["limits"]["message_bytes_max"],
        65_535
    );
    assert_eq!(error, "");
}
