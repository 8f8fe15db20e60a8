use super::{finished, golden, levee};

const COMMANDS: &[&[&str]] = &[
    &[],
    &["demo"],
    &["run"],
    &["lab"],
    &["check"],
    &["compare"],
    &["replay"],
    &["fit"],
    &["tune"],
    &["config"],
    &["config", "check"],
    &["completions"],
    &["man"],
];

#[test]
fn the_help_of_each_command_is_the_committed_text() {
    let mut all = String::new();
    for command in COMMANDS {
        let (status, out, error) = finished(levee().args(*command).arg("--help"));
        assert_eq!((status, error.as_str()), (0, ""), "{command:?}");
        all.push_str(&format!(
            "$ levee {}\n{out}\n",
            [*command, &["--help"]].concat().join(" ")
        ));
    }
    golden("help.txt", &all);
}

#[test]
fn bad_arguments_exit_with_2_and_a_word_on_what_is_expected() {
    for (arguments, says) in [
        (&["demmo"][..], "demo"),
        (&[][..], "Usage"),
        (&["lab"][..], "<SCENARIO>"),
        (&["lab", "x", "--rate-max", "0"][..], "above 0"),
        (
            &["run", "a.toml", "--json", "-q", "-v"][..],
            "cannot be used with",
        ),
        (&["completions", "tcsh"][..], "possible values"),
        (
            &["run", "absent.toml"][..],
            "absent.toml: cannot be read: No such file",
        ),
        (
            &["replay", "absent.jsonl"][..],
            "absent.jsonl: cannot be opened",
        ),
        (&["lab", "absent.toml"][..], "absent.toml: cannot be read"),
        (
            &["man", "--folder", "/absent"][..],
            "does the folder exist?",
        ),
    ] {
        let (status, out, error) = finished(levee().args(arguments));
        assert_eq!((status, out.as_str()), (2, ""), "{arguments:?}: {error}");
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}

#[test]
fn completions_and_manual_pages_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (status, out, _) = finished(levee().args(["completions", shell]));
        assert_eq!(status, 0);
        assert!(out.contains("replay"), "{shell}");
    }
    let (status, page, _) = finished(levee().arg("man"));
    assert_eq!(status, 0);
    assert!(
        page.contains(".TH levee 1") && page.contains("Exit status"),
        "{page}"
    );
    let folder = tempfile::tempdir().unwrap();
    let (status, ..) = finished(levee().args(["man", "--folder"]).arg(folder.path()));
    assert_eq!(status, 0);
    assert!(folder.path().join("levee-config-check.1").exists());
}

#[test]
fn a_reader_that_is_gone_is_no_error() {
    use std::process::Stdio;
    let mut child = levee()
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}
