//! What the fuzzer calls, and the replay of its corpus: each takes any bytes, and asserts what must hold of them.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use levee_anycast::playbook::routing::{PATH_MAX, RoutingFile};
use levee_anycast::playbook::stats::Stats;
use levee_anycast::playbook::{Malformed, fsdb, table};
use levee_policy::reroute::{Playbook, Sites};

/// A place in the text, and words for it.
fn well_told(error: &Malformed, text: &str) {
    assert!(
        error.line >= 1 && error.line <= text.lines().count() + 1,
        "{error}"
    );
    assert!(!error.expected.is_empty() && error.to_string().len() < 30_000);
}

/// `.routing` and `.stats`: what is read is written and read again, and as a configuration goes back to the same sessions.
pub(crate) fn routing(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = Stats::parse(&text) {
        well_told(&error, &text);
    }
    let file = match RoutingFile::parse(&text) {
        Ok(file) => file,
        Err(error) => return well_told(&error, &text),
    };
    assert!(
        file.sessions
            .iter()
            .all(|session| session.path.length() <= PATH_MAX)
    );
    assert_eq!(RoutingFile::parse(&file.to_string()).unwrap(), file);
    let Ok(sites) = Sites::new(file.sites()) else {
        return;
    };
    let Ok(routing) = file.routing(&sites) else {
        return;
    };
    let again = file.with(&sites, &routing).unwrap();
    assert_eq!(again.routing(&sites).unwrap(), routing);
}

/// The authors' CSV: what is read makes a playbook, which is written and read again with the same counts.
pub(crate) fn playbook_csv(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match table::parse(&text) {
        Err(error) => well_told(&error, &text),
        Ok(rows) => {
            let playbook = playbook(rows);
            let Ok(text) = table::write(&playbook) else {
                return;
            };
            // Names with blanks around them are read without.
            let again = table::parse(&text).unwrap();
            for (play, again) in playbook.plays().iter().zip(&again.plays) {
                assert_eq!((&play.blocks, play.unknown), (&again.blocks, again.unknown));
            }
        }
    }
}

/// The list for `playbook_tuner`, and loads.
pub(crate) fn fsdb(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = fsdb::parse_loads(&text, 3) {
        well_told(&error, &text);
    }
    match fsdb::parse(&text) {
        Err(error) => well_told(&error, &text),
        Ok(tuner) => {
            assert_eq!(tuner.capacities.len(), tuner.rows.sites.len());
            let playbook = playbook(tuner.rows);
            let Ok(text) = fsdb::write(&playbook, &tuner.capacities) else {
                return;
            };
            // The first is written as Baseline, which another may be called too.
            let Ok(again) = fsdb::parse(&text) else {
                return;
            };
            assert_eq!(again.capacities, tuner.capacities);
            for (play, again) in playbook.plays().iter().zip(&again.rows.plays) {
                let whole: f64 = playbook.sites().ids().map(|site| play.share(site)).sum();
                assert_eq!(again.known(), if whole > 0.0 { 100 } else { 0 });
            }
        }
    }
}

fn playbook(rows: table::Rows) -> Playbook {
    let sites = Sites::new(rows.sites).unwrap();
    Playbook::new(sites, rows.plays, None).unwrap()
}
