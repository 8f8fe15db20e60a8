//! The program as a user runs it.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod config;
mod fit;
mod help;
mod lab;
mod replay;
mod run;
mod tune;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program, without what the environment of the test would change.
fn levee() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_levee"));
    command.env_remove("LEVEE_LOG").env_remove("RUST_BACKTRACE");
    command
}

/// Exit status, standard output, standard error.
fn finished(command: &mut Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Compares with the committed text; `LEVEE_BLESS=1` writes it anew.
#[track_caller]
fn golden(name: &str, text: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/golden")
        .join(name);
    if std::env::var_os("LEVEE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, committed, "LEVEE_BLESS=1 accepts it");
}
