//! What the errors of bad queries say, word for word.

use levee_smc::query::{DEPTH_MAX, Offer, Outside, Questions, Step, TEXT_MAX};

use crate::trace::observables;

/// The error of a text.
fn error(kind: &str, text: &str) -> String {
    let observables = observables(&[
        ("time", "s"),
        ("honest.attempted", "calls"),
        ("honest.complete", "calls"),
        ("server.busy", "lines"),
        ("server.full", "0/1"),
    ]);
    let samples = crate::trace::observables(&[("honest.setup_time", "s")]);
    let mut questions = Questions::new(Offer {
        observables: &observables,
        samples: &samples,
    });
    let result = match kind {
        "quatex" => questions.quatex("q.quatex", text, Step::Event, Outside::default()),
        _ => questions.formula("q", text, Outside::default()),
    };
    let error = result.expect_err(text);
    assert!(questions.asked().is_empty(), "{text}");
    error.to_string()
}

/// Cases are `=== kind: what is wrong`, the text, `---`, the error. To write the errors anew after a change, run this test with
/// `LEVEE_BLESS=1` and read the difference.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test is blessed by hand")]
fn errors_say_what_where_and_what_to_do() {
    let golden = include_str!("bad.txt");
    let mut now = String::new();
    for case in golden.split("=== ").skip(1) {
        let (head, rest) = case.split_once('\n').unwrap();
        let (kind, _) = head.split_once(": ").unwrap();
        let (text, _) = rest.split_once("---").unwrap();
        let error = error(kind, text.trim_end_matches('\n'));
        now.push_str(&format!("=== {head}\n{text}---\n{error}\n"));
    }
    assert!(golden.matches("=== ").count() > 60);
    if std::env::var("LEVEE_BLESS").is_ok() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/query/bad.txt");
        std::fs::write(path, &now).unwrap();
    } else {
        for (now, golden) in now.split("=== ").zip(golden.split("=== ")) {
            assert_eq!(now.trim_end(), golden.trim_end());
        }
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let deep = |n: usize| format!("eval E[ {}1{} ] ;", "(".repeat(n), ")".repeat(n));
    let long = |n: usize| format!("eval E[ 1{} ] ;", " + 1".repeat(n));
    let depth = usize::from(DEPTH_MAX);
    let chain = |n: usize| format!("eval E[ 1 {} ] ;", "- ".repeat(n));
    for text in [
        deep(depth),
        deep(100_000),
        long(depth),
        long(100_000),
        chain(100_000),
    ] {
        let error = error("quatex", &text);
        let what = format!("more than {DEPTH_MAX} levels of nesting");
        assert!(
            error.contains(&what) || error.contains("expected an expression"),
            "{error}"
        );
        assert!(error.len() < 600, "{error}");
    }
    let error = error("quatex", &" ".repeat(TEXT_MAX + 1));
    assert!(error.starts_with("q.quatex: 1048577 bytes"), "{error}");
    let mut questions = Questions::new(Offer {
        observables: &[],
        samples: &[],
    });
    for text in [deep(depth - 1), long(depth - 1)] {
        questions
            .quatex("q", &text, Step::Event, Outside::default())
            .unwrap();
    }
}
