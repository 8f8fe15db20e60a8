//! The fuzzer's corpus on the stable compiler: what was found once stays found.

use std::fs;
use std::path::PathBuf;

use crate::targets;

#[test]
fn the_fuzzers_corpus_holds() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/quatex");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() > 50, "{} is nearly empty", folder.display());
    for file in files {
        // A failed assertion names the input by this line.
        println!("{}", file.display());
        targets::quatex(&fs::read(&file).unwrap());
    }
}

/// The cases of `bad.txt` whole, and cut short at each place.
#[test]
fn bad_texts_cut_short_are_refused_or_answered() {
    for case in include_str!("bad.txt").split("=== ").skip(1) {
        let (head, rest) = case.split_once('\n').unwrap();
        let (text, _) = rest.split_once("---").unwrap();
        let choice = if head.starts_with("formula") { 2 } else { 0 };
        for (end, _) in text.char_indices() {
            let mut bytes = vec![choice];
            bytes.extend_from_slice(&text.as_bytes()[..end]);
            targets::quatex(&bytes);
        }
    }
}
