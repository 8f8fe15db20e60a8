//! The fuzzers' corpora on the stable compiler: what was found once stays found.

use std::fs;
use std::path::PathBuf;

use crate::targets;

/// Runs each file of the corpus that belongs to a target.
fn replay(target: fn(&[u8]), corpus: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(corpus);
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

#[test]
fn http_request() {
    replay(targets::http_request, "http_request");
}

#[test]
fn http_response() {
    replay(targets::http_response, "http_response");
}

#[test]
fn http_chunked() {
    replay(targets::http_chunked, "http_chunked");
}

#[test]
fn http_proxy_protocol() {
    replay(targets::http_proxy_protocol, "http_proxy_protocol");
}

#[test]
fn http_forwarded() {
    replay(targets::http_forwarded, "http_forwarded");
}
