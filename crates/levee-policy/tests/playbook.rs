//! The fuzzer's corpus of playbooks on the stable compiler: what was found once stays found.
#![expect(clippy::expect_used, reason = "a test stops at what it did not expect")]

#[path = "playbook/target.rs"]
mod target;

use std::{fs, path::Path};

#[test]
fn the_corpus_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/anycast_playbook");
    let files = fs::read_dir(folder).unwrap();
    let read = files.map(|file| target::playbook(&fs::read(file.unwrap().path()).unwrap()));
    assert!(read.count() >= 5);
}

/// Every text that is one byte away from a good one, or a part of it, is read or refused.
#[test]
fn a_playbook_that_is_damaged_is_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/anycast_playbook");
    let good = fs::read(folder.join("full")).unwrap();
    target::playbook(&good);
    for at in 0..good.len() {
        target::playbook(&good[..at]);
        for byte in [b'9', b'"', b']', b'-', b'{', 0xff] {
            let mut bad = good.clone();
            bad[at] = byte;
            target::playbook(&bad);
        }
    }
}
