//! What the fuzzer calls, and what the replay of its corpus calls: takes any bytes, and asserts what must hold for all of them.

use levee_smc::query::{Offer, Outside, POINTS_MAX, Questions, Sources, Step, program};
use levee_smc::{Measure, Row};

use crate::trace::{Trace, observables};

/// Most questions whose answers are looked at: a file of many points only takes longer.
const COLUMNS_MAX: usize = 2 * POINTS_MAX;

/// A query: the first byte chooses how it is read, the rest is its text.
pub(crate) fn quatex(bytes: &[u8]) {
    let Some((choice, text)) = bytes.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let observables = observables(&[
        ("time", "s"),
        ("server.busy", "lines"),
        ("server.full", "0/1"),
    ]);
    let samples = crate::trace::observables(&[("wait", "s")]);
    let mut questions = Questions::new(Offer {
        observables: &observables,
        samples: &samples,
    });
    let constants = std::collections::BTreeMap::from([("n".to_owned(), 3.0)]);
    let import = |path: &str| match path {
        "a" => Ok("a(x) = x ;".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let outside = Outside {
        constants: &constants,
        import: Some(&import),
    };
    let result = match choice % 3 {
        0 => questions.quatex("q", &text, Step::Event, outside),
        1 => questions.quatex("q", &text, Step::Run, outside),
        _ => questions.formula("q", &text, outside),
    };
    if let Err(error) = result {
        if error.place.line == 0 {
            return;
        }
        // It points into the text, and shows it.
        assert!(questions.asked().is_empty() && questions.columns() == 0);
        let line = text.split('\n').nth(error.place.line - 1);
        if error.place.source == "q" {
            let line = line.expect("a line of the text");
            assert!(error.place.column <= line.chars().count() + 1);
            assert_eq!(error.place.text, line);
        }
        let shown = error.to_string();
        assert!(shown.contains(&error.found) && shown.contains('^'));
        return;
    }
    if choice % 3 < 2 {
        // A file that was read once is read the same again.
        let again = program("q", &text, outside, &mut Sources::default());
        assert!(!again.expect("read before").queries.is_empty());
    }
    assert!(!questions.asked().is_empty());
    if questions.columns() > COLUMNS_MAX {
        return;
    }
    answers(&questions);
}

/// Two runs have the same answers with fresh and with used memory.
fn answers(questions: &Questions<'_>) {
    let states = (0..6).map(|i| {
        let time = f64::from(i) * 8.0;
        vec![time, f64::from(i % 4), f64::from(i % 2)]
    });
    let mut trace = Trace::new(states.collect());
    trace.samples = vec![vec![1.0]];
    let mut scratch = questions.scratch();
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut row = Row::new(questions.columns(), questions.samples());
        let result = questions.measure(&mut trace, 0, &mut scratch, &mut row);
        let bits = row.values.iter().map(|value| value.to_bits());
        answers.push((result, bits.collect::<Vec<_>>(), row.samples));
    }
    assert_eq!(format!("{:?}", answers[0]), format!("{:?}", answers[1]));
}
