//! What holds for all bytes near a message: mutations of our own messages, and headers made at random.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;

use crate::targets;
use levee_sip::stream::{self, Next, Progress};
use levee_sip::wire::{Name, Scanner};

static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/torture");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "sip"))
        .collect();
    files.sort();
    files.iter().map(|p| fs::read(p).unwrap()).collect()
});

/// A change at some place of a message.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Cut(Index),
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
        b"\"",
        b"\\",
        b";",
        b",",
        b"<",
        b">",
        b":",
        b"=",
        b"\0",
        b"\xff",
        b"l: 1\r\n",
        b"v:",
        b"[",
        b"99999999999999999999",
    ]);
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(i, b)| Change::Set(i, b)),
        (any::<Index>(), word).prop_map(|(i, w)| Change::Insert(i, w.to_vec())),
        (any::<Index>(), 1..20usize).prop_map(|(i, n)| Change::Remove(i, n)),
        any::<Index>().prop_map(Change::Cut),
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
            Change::Cut(i) => bytes.truncate(i.index(len)),
            Change::Copy(i, j, n) => {
                let from = i.index(len);
                let part = bytes[from..len.min(from + n)].to_vec();
                let at = j.index(len);
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

fn mutant() -> impl Strategy<Value = Vec<u8>> {
    (any::<Index>(), vec(change(), 0..6))
        .prop_map(|(seed, changes)| apply(seed.get(&SEEDS).clone(), &changes))
}

/// A header's name, and a value as the scanner would give it.
fn header() -> impl Strategy<Value = (String, String)> {
    let name = prop_oneof![
        select(vec!["Via", "f", "TO", "Call-ID", "cseq", "m", "Route", "X"])
            .prop_map(str::to_owned),
        "[a-zA-Z0-9.!%*_+`'~-]{1,20}",
    ];
    let value = "([!-~\u{e4}-\u{fc}]([ \t!-~\0]|\r\n[ \t]){0,30}[!-~])?";
    (name, value)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2000,
        rng_seed: RngSeed::Fixed(4475),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_changed_message_keeps_all_that_holds_for_messages(bytes in mutant()) {
        targets::sip_message(&bytes);
    }

    #[test]
    fn a_changed_stream_is_cut_alike_whole_and_in_pieces(
        cuts in any::<[u8; 4]>(),
        parts in vec(mutant(), 1..4),
    ) {
        targets::sip_stream(&[&cuts[..], &parts.concat()].concat());
    }

    #[test]
    fn headers_that_are_written_are_read_back(headers in vec(header(), 0..20)) {
        // Content-Length would be judged; every other name passes with any value.
        prop_assume!(!headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("l")));
        let mut text = String::from("BYE sip:a SIP/2.0\r\n");
        for (name, value) in &headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\nbody";
        let mut scanner = Scanner::default();
        let msg = scanner.scan(text.as_bytes()).unwrap();
        prop_assert_eq!(msg.defect(), None);
        let got: Vec<_> = msg
            .headers()
            .map(|h| (h.token.to_vec(), h.value.to_vec()))
            .collect();
        let want: Vec<_> = headers
            .iter()
            .map(|(n, v)| (n.clone().into_bytes(), v.clone().into_bytes()))
            .collect();
        prop_assert_eq!(got, want);
        prop_assert_eq!(msg.body(), b"body");
    }

    #[test]
    fn whole_messages_come_out_of_a_stream_as_they_went_in(
        picks in vec((any::<Index>(), select(vec!["", "\r\n", "\r\n\r\n", "\n"])), 1..6),
        step in 1..200usize,
    ) {
        // Those whose length is told and right.
        let framed: Vec<&Vec<u8>> = SEEDS
            .iter()
            .filter(|bytes| {
                let mut progress = Progress::default();
                stream::next(bytes, &mut progress, usize::MAX)
                    == Ok(Next::Message { bytes: bytes.len() })
            })
            .collect();
        prop_assert!(framed.len() > 50);
        let messages: Vec<_> = picks.iter().map(|(i, gap)| (*i.get(&framed), *gap)).collect();
        let stream: Vec<u8> = messages
            .iter()
            .flat_map(|(m, gap)| [m.as_slice(), gap.as_bytes()].concat())
            .collect();
        let (mut from, mut to, mut progress) = (0, 0, Progress::default());
        let mut got: Vec<&[u8]> = Vec::new();
        while to < stream.len() {
            to = stream.len().min(to + step);
            loop {
                let buffer = &stream[from..to];
                match stream::next(buffer, &mut progress, 65_535).unwrap() {
                    Next::More => break,
                    Next::KeepAlive { bytes, .. } => from += bytes,
                    Next::Message { bytes } => {
                        got.push(&buffer[..bytes]);
                        from += bytes;
                    }
                }
            }
        }
        let want: Vec<&[u8]> = messages.iter().map(|(m, _)| m.as_slice()).collect();
        prop_assert_eq!(got, want);
    }
}

/// The generators reach what they are for: the mutants are neither all accepted nor all refused.
#[test]
fn the_mutants_are_of_many_kinds() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::new(config());
    let (mut unreadable, mut defect, mut refused, mut good) = (0, 0, 0, 0);
    for _ in 0..500 {
        let bytes = mutant().new_tree(&mut runner).unwrap().current();
        let mut scanner = Scanner::default();
        match scanner.scan(&bytes) {
            Err(_) => unreadable += 1,
            Ok(m) if m.defect().is_some() => defect += 1,
            Ok(m) if m.first(Name::Via).is_some() && levee_sip::check::request(&m).is_err() => {
                refused += 1;
            }
            Ok(_) => good += 1,
        }
    }
    for (kind, n) in [
        ("unreadable", unreadable),
        ("defect", defect),
        ("refused", refused),
        ("good", good),
    ] {
        assert!(n >= 25, "{kind}: {n} of 500");
    }
}
