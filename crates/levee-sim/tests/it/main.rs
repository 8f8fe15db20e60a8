//! The crate from outside.

mod cdr;

use std::fs;
use std::path::PathBuf;

/// The fuzzer's corpus on the stable compiler: what was found once stays found.
#[test]
fn corpus_of_call_records() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/cdr");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    for file in files {
        // A failed assertion names the input by this line.
        println!("{}", file.display());
        cdr::cdr(&fs::read(&file).unwrap());
    }
}
