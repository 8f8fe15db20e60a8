//! What the fuzzer feeds to the readers of journals and of measures.

use levee_anycast::{
    journal::{self, Note},
    measures::{Reader, What},
};
use levee_policy::reroute::Playbook;

/// Reads any bytes as a journal. What is whole reads the same by itself, without a note of a line that was cut off.
pub(crate) fn journal(bytes: &[u8]) {
    let Ok(contents) = journal::read(bytes) else {
        return;
    };
    let whole = usize::try_from(contents.whole).expect("it was in memory");
    assert!(whole <= bytes.len());
    let again = journal::read(&bytes[..whole]).expect("whole lines");
    assert_eq!(again.entries, contents.entries);
    assert_eq!(again.header, contents.header);
    assert_eq!(again.whole, contents.whole);
    let cut = |notes: &[Note]| notes.iter().any(|note| matches!(note, Note::CutOff { .. }));
    assert!(!cut(&again.notes));
    assert_eq!(cut(&contents.notes), whole < bytes.len());
}

/// Reads any bytes as measures of two sites. Each has both sites, and only numbers that are loads.
pub(crate) fn measures(bytes: &[u8]) {
    let text = r#"{"sites":["AMS","BOS"],"configurations":[{"name":"baseline","share":{"AMS":1},"blocks":9}]}"#;
    let playbook: Playbook = serde_json::from_str(text).expect("a playbook");
    let mut lines = 0;
    for event in Reader::new(bytes, &playbook) {
        let Ok(event) = event else {
            return;
        };
        assert!(event.line >= lines, "lines go on");
        lines = event.line;
        let What::Measure(measure) = event.what else {
            continue;
        };
        assert_eq!(measure.sites.len(), 2);
        for site in &measure.sites {
            let loads = site.observed.iter().chain(&site.normal);
            assert!(
                loads
                    .into_iter()
                    .all(|load| load.is_finite() && *load >= 0.0)
            );
        }
    }
}
