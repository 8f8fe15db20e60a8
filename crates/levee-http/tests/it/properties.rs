//! What holds for all bytes near a message: mutations of the fuzzers' seeds.

use std::fs;
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;

use crate::targets;

fn seeds(corpus: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(corpus);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    files.iter().map(|p| fs::read(p).unwrap()).collect()
}

/// A change at some place of a message.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Insert(Index, &'static [u8]),
    Remove(Index, usize),
    /// Bytes of one place put at another.
    Copy(Index, Index, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let word = select(vec![
        &b"\r\n"[..],
        b"\r\n\r\n",
        b"\r",
        b"\n",
        b"\r\n ",
        b"\t",
        b"\"",
        b"\\",
        b";",
        b",",
        b":",
        b"\0",
        b"\xff",
        b"0\r\n",
        b"\r\nHost: a\r\n",
        b"\r\nContent-Length: 3\r\n",
        b"\r\nTransfer-Encoding: chunked\r\n",
        b"\r\nConnection: close, x\r\n",
        b"99999999999999999999",
        b" HTTP/1.1",
        b"http://a",
        b"10.0.0.1, ",
        b"for=\"[::1]\"",
    ]);
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(i, b)| Change::Set(i, b)),
        (any::<Index>(), word).prop_map(|(i, w)| Change::Insert(i, w)),
        (any::<Index>(), 1..20usize).prop_map(|(i, n)| Change::Remove(i, n)),
        (any::<Index>(), any::<Index>(), 1..60usize).prop_map(|(i, j, n)| Change::Copy(i, j, n)),
    ]
}

fn apply(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let len = bytes.len();
        if len == 0 {
            break;
        }
        match change {
            Change::Set(i, b) => bytes[i.index(len)] = *b,
            Change::Insert(i, w) => {
                let at = i.index(len);
                bytes.splice(at..at, w.iter().copied());
            }
            Change::Remove(i, n) => {
                let at = i.index(len);
                bytes.drain(at..len.min(at + n));
            }
            Change::Copy(from, to, n) => {
                let from = from.index(len);
                let copied = bytes[from..len.min(from + n)].to_vec();
                let at = to.index(len);
                bytes.splice(at..at, copied);
            }
        }
    }
    bytes
}

/// Runs `target` on changed seeds of its corpus.
fn near(corpus: &str, target: fn(&[u8])) {
    let config = ProptestConfig {
        cases: 2000,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(seed in select(seeds(corpus)), changes in vec(change(), 0..4))| {
        target(&apply(seed, &changes));
    });
}

#[test]
fn requests() {
    near("http_request", targets::http_request);
}

#[test]
fn responses() {
    near("http_response", targets::http_response);
}

#[test]
fn chunks() {
    near("http_chunked", targets::http_chunked);
}

#[test]
fn proxy_headers() {
    near("http_proxy_protocol", targets::http_proxy_protocol);
}

#[test]
fn forwarding_fields() {
    near("http_forwarded", targets::http_forwarded);
}
