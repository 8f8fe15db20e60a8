use levee_policy::reroute::{Play, Range, Routing, SiteId, Sites};
use proptest::prelude::*;

use super::*;

fn playbook(names: &[&str]) -> Playbook {
    let play = |name: &&str| Play {
        routing: Routing {
            name: (*name).to_owned(),
            announcements: None,
        },
        blocks: vec![60, 40],
        unknown: 0,
        load: None,
        partial: false,
        ineffective: false,
    };
    let sites = Sites::new(["AMS", "BOS"]).unwrap();
    Playbook::new(sites, names.iter().map(play).collect(), None).unwrap()
}

fn book() -> Playbook {
    playbook(&["baseline", "+1xAMS"])
}

fn steps() -> Vec<Step> {
    let load = Range {
        low: 1.5,
        likely: 2.0,
        high: f64::INFINITY,
    };
    vec![
        Step::AttackBegan {
            sites: vec![SiteId(0)],
        },
        Step::Estimated {
            offered: vec![load, Range::exactly(0.1)],
            alpha: vec![None, Some(Range::exactly(1.0))],
            carries: vec![1.0, 2.0],
        },
        Step::Deployed { play: 1 },
    ]
}

fn wall(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}

/// A journal with three steps, as bytes.
fn written(path: &Path) -> Vec<u8> {
    let (mut journal, contents) = Journal::open(path, &book()).unwrap();
    assert_eq!(contents, Contents::default());
    for (i, step) in (1..).zip(steps()) {
        journal
            .append(wall(1_000 * i), Time::from_nanos(i), &step)
            .unwrap();
    }
    drop(journal);
    std::fs::read(path).unwrap()
}

fn of(contents: &Contents) -> Vec<Step> {
    let steps = contents.entries.iter();
    steps.map(|entry| entry.step.clone()).collect()
}

#[test]
fn what_is_written_is_read_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let bytes = written(&path);
    // Each line is JSON by itself.
    for line in std::str::from_utf8(&bytes).unwrap().lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["crc"].is_string(), "{line}");
    }
    let (mut journal, contents) = Journal::open(&path, &book()).unwrap();
    assert_eq!(of(&contents), steps());
    assert_eq!(contents.notes, []);
    journal
        .append(wall(9_000), Time::from_nanos(9), &Step::Held)
        .unwrap();
    drop(journal);
    let (_, contents) = Journal::open(&path, &book()).unwrap();
    let last = contents.entries.last().unwrap();
    assert_eq!(
        (last.number, last.wall_ms, &last.step),
        (4, 9_000, &Step::Held)
    );
}

#[test]
fn a_crash_at_any_byte_costs_the_last_line_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let bytes = written(&path);
    let ends: Vec<usize> = (0..bytes.len())
        .filter(|i| bytes[*i] == b'\n')
        .map(|i| i + 1)
        .collect();
    for length in 0..=bytes.len() {
        let whole = ends.iter().filter(|end| **end <= length).count();
        let contents = read(&bytes[..length]).unwrap();
        assert_eq!(
            of(&contents),
            steps()[..whole.saturating_sub(1)],
            "{length}"
        );
        let half = length - if whole > 0 { ends[whole - 1] } else { 0 };
        let notes: Vec<Note> = (half > 0)
            .then_some(Note::CutOff {
                line: whole as u64 + 1,
                bytes: half as u64,
            })
            .into_iter()
            .collect();
        assert_eq!(contents.notes, notes, "{length}");
    }
    // On the disk too: it is cut off, and goes on behind it.
    for length in [3, ends[0] + 5, ends[2] + 7, ends[2]] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let (mut journal, before) = Journal::open(&path, &book()).unwrap();
        journal
            .append(wall(9_000), Time::from_nanos(9), &Step::Held)
            .unwrap();
        drop(journal);
        let after = read(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(after.notes, []);
        assert_eq!(of(&after)[..before.entries.len()], of(&before));
        assert_eq!(of(&after).last(), Some(&Step::Held));
    }
}

#[test]
fn a_damaged_line_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let text = String::from_utf8(written(&path)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    let sealed = |text: &str| {
        let body = text.strip_suffix('}').unwrap();
        format!("{body}{}", sealed_end(body.as_bytes()))
    };
    let other_name = sealed(r#"{"journal":"x","version":1,"sites":[],"plays":0,"playbook":""}"#);
    let unknown = sealed(r#"{"n":1,"wall_ms":1,"at":1,"step":"vanished"}"#);
    let extra = sealed(r#"{"n":1,"wall_ms":1,"at":1,"step":"held","more":1}"#);
    for (text, says) in [
        (
            joined(&[&lines[0].replace("AMS", "LHR"), lines[1]]),
            "line 1: the checksum does not fit the line, expected it to end in",
        ),
        (
            joined(&[&other_name, lines[1]]),
            "line 1: a file of \"x\", expected levee anycast respond",
        ),
        (joined(&[lines[1], lines[2]]), "line 1: unknown field `n`"),
        (
            joined(&[lines[0], &lines[1].replace('1', "2"), lines[2]]),
            "line 2: the checksum does not fit",
        ),
        (
            joined(&[lines[0], "", lines[1]]),
            "line 2: too short, expected a JSON object with a checksum",
        ),
        (
            joined(&[lines[0], lines[2], lines[3]]),
            "line 2: step 2, expected step 1",
        ),
        (
            joined(&[lines[0], lines[1], lines[1], lines[2]]),
            "line 3: step 1, expected step 2",
        ),
        (
            joined(&[lines[0], &unknown, lines[2]]),
            "line 2: unknown variant `vanished`",
        ),
        (
            joined(&[lines[0], &extra, lines[2]]),
            "line 2: unknown field `more`",
        ),
    ] {
        let error = read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        std::fs::write(&path, &text).unwrap();
        let error = Journal::open(&path, &book()).unwrap_err().to_string();
        assert!(
            error.contains(says) && error.contains("restore the file from a copy"),
            "{error}"
        );
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            text,
            "it is left as it is"
        );
    }
    // The only line, of a version to come: not taken for half-written.
    let newer = sealed(
        r#"{"journal":"levee anycast respond","version":2,"sites":[],"plays":0,"playbook":""}"#,
    );
    let error = read(joined(&[&newer]).as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "line 1: version 2, expected version 1");
}

#[test]
fn one_journal_has_one_responder_and_one_playbook() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (journal, _) = Journal::open(&path, &book()).unwrap();
    let error = Journal::open(&path, &book()).unwrap_err();
    assert!(matches!(error, JournalError::Locked { .. }), "{error}");
    drop(journal);
    let error = Journal::open(&path, &playbook(&["baseline", "+2xAMS"])).unwrap_err();
    assert!(
        matches!(error, JournalError::OtherPlaybook { .. }),
        "{error}"
    );
    assert!(Journal::open(&path, &book()).is_ok());
    let nowhere = folder.path().join("no/such/folder");
    let error = Journal::open(&nowhere, &book()).unwrap_err();
    assert!(error.to_string().starts_with("cannot open "), "{error}");
}

#[test]
fn a_wall_clock_that_goes_back_is_noted_and_time_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (mut journal, _) = Journal::open(&path, &book()).unwrap();
    let hour = Duration::from_secs(3_600);
    let start = wall(1_764_522_000_000);
    for (wall, at) in [(start, 100), (start - hour, 200)] {
        journal
            .append(wall, Time::from_nanos(at), &Step::Held)
            .unwrap();
    }
    drop(journal);
    let (_, contents) = Journal::open(&path, &book()).unwrap();
    assert_eq!(contents.notes, [Note::ClockBack { line: 3, by: hour }]);

    let now = Instant::now();
    let entry = |at: u64| Entry {
        number: 1,
        wall_ms: 0,
        at: Time::from_nanos(at),
        step: Step::Held,
    };
    let second = Duration::from_secs(1);
    // The wall clock is ahead of the last step, or behind it.
    for (last, begins) in [
        (None, 5_000_000_000),
        (Some(entry(1_000_000_000)), 5_000_000_000),
        (Some(entry(7_000_000_000)), 7_000_000_000),
    ] {
        let clock = Clock::new(last.as_ref(), wall(5_000), now);
        assert_eq!(clock.time(now).as_nanos(), begins);
        assert_eq!(clock.time(now + second).as_nanos(), begins + 1_000_000_000);
        assert_eq!(clock.time(now - second).as_nanos(), begins);
    }
    let before_1970 = Clock::new(None, SystemTime::UNIX_EPOCH - second, now);
    assert_eq!(before_1970.time(now), Time::ZERO);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        let _ = read(&bytes);
    }

    /// A byte that changes is found: by the checksum, unless it is in the last line, which is then cut off.
    #[test]
    fn no_changed_byte_goes_unseen(place: prop::sample::Index, flip in 1_u8..) {
        let mut bytes = sealed(&Header::of(&book())).unwrap().into_bytes();
        for (number, step) in (1..).zip(steps()) {
            let entry = Entry { number, wall_ms: 1, at: Time::from_nanos(number), step };
            bytes.extend(sealed(&entry).unwrap().into_bytes());
        }
        let place = place.index(bytes.len());
        bytes[place] ^= flip;
        if let Ok(contents) = read(&bytes) {
            prop_assert!(!contents.notes.is_empty());
            prop_assert!(contents.entries.len() < 3);
            prop_assert_eq!(&of(&contents)[..], &steps()[..contents.entries.len()]);
        }
    }
}
