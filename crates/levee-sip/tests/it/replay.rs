//! The fuzzers' corpora on the stable compiler: what was found once stays found.

use std::fs;
use std::path::PathBuf;

use crate::targets;

/// Runs each file of the corpora that belong to a target.
fn replay(target: fn(&[u8]), corpora: &[&str]) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    for corpus in corpora {
        let folder = root.join(corpus);
        let mut files: Vec<_> = fs::read_dir(&folder)
            .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
            .map(|e| e.unwrap().path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{} is empty", folder.display());
        for file in files {
            // A failed assertion names the input by this line.
            println!("{}", file.display());
            target(&fs::read(&file).unwrap());
        }
    }
}

#[test]
fn sip_message() {
    let own = ["tests/torture", "../../fuzz/corpus/sip_message"];
    replay(targets::sip_message, &own);
}

#[test]
fn sip_stream() {
    let own = ["tests/torture", "../../fuzz/corpus/sip_stream"];
    replay(targets::sip_stream, &own);
}

#[test]
fn sip_uri() {
    replay(targets::sip_uri, &["../../fuzz/corpus/sip_uri"]);
}
