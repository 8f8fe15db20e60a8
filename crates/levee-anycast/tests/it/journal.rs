//! The seeds of the fuzzer, and small changes of them.

use std::{fs, path::Path};

use crate::journal_targets::{journal, measures};

/// Runs a target on each seed, on what is left of it when it is cut anywhere, and with any byte changed.
fn near(corpus: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(corpus);
    let mut seeds = 0;
    for entry in fs::read_dir(folder).expect("the committed corpus") {
        let bytes = fs::read(entry.expect("an entry").path()).expect("a seed");
        seeds += 1;
        target(&bytes);
        for place in 0..bytes.len() {
            target(&bytes[..place]);
            let mut changed = bytes.clone();
            changed[place] ^= 0x41;
            target(&changed);
        }
    }
    assert!(seeds >= 2, "{seeds}");
}

#[test]
fn journals_near_the_seeds_keep_the_rules() {
    near("journal", journal);
}

#[test]
fn measures_near_the_seeds_keep_the_rules() {
    near("anycast_measures", measures);
}
