//! `levee demo anycast`, and its two files in the commands that they are for.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{finished, levee};

#[test]
fn it_needs_nothing_and_leaves_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = levee();
    command.current_dir(folder.path());
    command.args(["demo", "anycast", "--json", "-q"]);
    let (status, out, err) = finished(&mut command);
    assert_eq!((status, err.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["command"], "demo");
    let page = fs::read_to_string(folder.path().join("levee-demo.html")).unwrap();
    assert!(page.contains("<title>Levee: a service at several sites under attack</title>"));
}

#[test]
fn its_internet_is_simulated_and_its_attack_checked() {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/demo-anycast");
    let folder = tempfile::tempdir().unwrap();
    for name in ["internet.toml", "attack.toml"] {
        fs::copy(files.join(name), folder.path().join(name)).unwrap();
    }
    for arguments in [
        &[
            "anycast",
            "simulate",
            "internet.toml",
            "--out",
            "playbook.json",
            "-q",
        ][..],
        &["check", "attack.toml", "--runs", "3", "-q"],
    ] {
        let mut command = levee();
        command.current_dir(folder.path()).args(arguments);
        let (status, out, err) = finished(&mut command);
        assert_eq!((status, err.as_str()), (0, ""), "{arguments:?}");
        assert!(!out.is_empty());
    }
}
