//! The corpus of the reader of AS graphs.

use std::{fs, path::PathBuf};

use crate::graph_targets;

#[test]
fn corpus_of_as_relationships() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/as_rel");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    for file in files {
        // A failed assertion names the input by this line.
        println!("{}", file.display());
        graph_targets::as_rel(&fs::read(&file).unwrap());
    }
}
