//! The pure crates are built from the crates that their `dependencies.txt` lists, and from no other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn levee_policy_has_the_dependencies_that_it_lists() {
    check("levee-policy");
}

#[test]
fn levee_sip_has_the_dependencies_that_it_lists() {
    check("levee-sip");
}

#[test]
fn levee_http_has_the_dependencies_that_it_lists() {
    check("levee-http");
}

#[test]
fn levee_config_has_the_dependencies_that_it_lists() {
    check("levee-config");
}

#[test]
fn levee_sim_has_the_dependencies_that_it_lists() {
    check("levee-sim");
}

#[test]
fn levee_smc_has_the_dependencies_that_it_lists() {
    check("levee-smc");
}

fn check(krate: &str) {
    let crates = crates_folder();
    let list = crates.join(krate).join("dependencies.txt");
    let text = std::fs::read_to_string(&list)
        .unwrap_or_else(|error| panic!("{} cannot be read: {error}", list.display()));
    let listed: BTreeSet<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let tree = tree(krate, &crates);
    // Versions and paths are the lock file's business.
    let built: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != krate)
        .collect();
    assert!(!built.is_empty(), "cargo printed no tree:\n{tree}");
    let unlisted: Vec<_> = built.difference(&listed).collect();
    let unused: Vec<_> = listed.difference(&built).collect();
    assert!(
        unlisted.is_empty() && unused.is_empty(),
        "{krate} is built from crates that crates/{krate}/dependencies.txt does not list: {unlisted:?}; \
         and the list names crates that it is not built from: {unused:?}"
    );
}

/// What cargo builds the crate from on this platform, build scripts and tests left out.
fn tree(krate: &str, folder: &Path) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--edges", "normal", "--prefix", "none"])
        .args(["--package", krate])
        .current_dir(folder)
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo tree failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

fn crates_folder() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("a folder of crates").to_owned()
}
