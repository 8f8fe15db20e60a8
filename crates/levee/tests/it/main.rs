//! The program as a user runs it.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod anycast_check;
mod anycast_demo;
mod anycast_estimate;
mod anycast_map;
mod anycast_plan;
mod anycast_playbook;
mod anycast_respond;
mod anycast_simulate;
mod check;
mod compare;
mod config;
mod fit;
mod help;
mod lab;
mod replay;
mod run;
mod run_http;
mod running;
mod tune;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

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

/// Sends SIGINT to a child that has come to listen for it, and waits for its end.
fn interrupt(child: Child) -> Output {
    // The thread that listens is there once the handler is.
    let threads = format!("/proc/{}/task", child.id());
    let listens = || {
        let all = std::fs::read_dir(&threads).unwrap().flatten();
        all.map(|thread| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default())
            .any(|name| name == "levee-signals\n")
    };
    let begin = Instant::now();
    while !listens() {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "it does not listen"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
    child.wait_with_output().unwrap()
}

/// Every tag is closed in its order and every attribute quoted, and the page needs nothing from elsewhere.
#[track_caller]
fn well_formed(page: &str) {
    for outside in [
        "http:", "https:", "src=", "href=", "url(", "@import", "<script", "NaN", "inf\"",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    let mut open = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').unwrap();
        assert!(
            open.last() == Some(&"style") || !text.contains('>'),
            "{text}"
        );
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') && !tag.starts_with("!DOCTYPE") && !tag.starts_with("meta") {
            open.push(tag.split(' ').next().unwrap());
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
    }
    assert_eq!(open, Vec::<&str>::new(), "left open");
}
