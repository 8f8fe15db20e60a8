//! The corpora of the fuzzer on the stable compiler, as they are and a little changed.

use std::fs;
use std::path::PathBuf;

use crate::predict_targets::{blocks, deployment};

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("a file of the corpus");
        (path, bytes)
    };
    files.into_iter().map(read).collect()
}

/// Each file, and each with one byte changed, cut off, or doubled, at places spread over it.
fn replay(name: &str, target: fn(&[u8])) {
    const CHANGES: usize = 60;
    for (path, bytes) in corpus(name) {
        // A failed assertion names the input by this line.
        println!("{}", path.display());
        target(&bytes);
        for change in 0..CHANGES.min(bytes.len()) {
            let at = change * bytes.len() / CHANGES.min(bytes.len());
            let mut changed = bytes.clone();
            changed[at] = changed[at].wrapping_add(1 + change as u8);
            target(&changed);
            target(&bytes[..at]);
            target(&[&bytes[..at], &bytes[at / 2..]].concat());
        }
    }
}

#[test]
fn corpus_of_prefixes() {
    replay("anycast_prefixes", blocks);
}

#[test]
fn corpus_of_routing_tables() {
    replay("anycast_mrt", blocks);
}

#[test]
fn corpus_of_deployments() {
    replay("anycast_deployment", deployment);
}

/// The example runs on its own graph.
#[test]
fn the_example_names_ases_of_its_graph() {
    use levee_anycast::graph::generate::Generated;
    use levee_anycast::predict::{DeploymentFile, GraphSource};
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/anycast/internet.toml");
    let text = fs::read_to_string(path).unwrap();
    let file = DeploymentFile::parse("internet.toml", &text).unwrap();
    let Some(GraphSource::Generate { ases, seed }) = file.graph else {
        panic!("{:?}", file.graph);
    };
    file.check(&Generated::new(ases, seed).graph()).unwrap();
    assert!(file.routings(true).unwrap().len() > 30);
}
