//! What must hold for any bytes that are taken for call records.

use levee_sim::fit::{Format, Named, Options, Rounding, fit, settings};
use levee_sim::scenario::Scenario;

/// The first byte chooses the options, the rest is the file.
pub(crate) fn cdr(bytes: &[u8]) {
    let Some((choice, text)) = bytes.split_first() else {
        return;
    };
    let column = |n: u8| (choice & 1 << n != 0).then(|| format!("{}", 1 + (choice >> 6)));
    let options = Options {
        format: (choice & 1 != 0)
            .then(|| Format::ALL[usize::from(choice >> 1) % Format::ALL.len()]),
        delimiter: (choice & 2 != 0).then_some(b';'),
        columns: Named {
            duration: column(2),
            answer: column(3),
            end: column(3).map(|_| "2".to_owned()),
            start: column(4),
        },
        unit: (choice & 32 != 0).then_some(1e-3),
        rounding: (choice & 64 != 0).then_some(Rounding::Difference),
        seed: 1,
    };
    let report = match fit(text, &options) {
        Ok(report) => report,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let bad: u64 = report.bad.values().map(|rows| rows.count).sum();
    let calls = report.sample.len() + report.unanswered;
    assert!(calls <= report.rows && bad <= report.rows);
    // Each row of `acc` is half a call, and of other methods none at all.
    if report.format != Format::Kamailio {
        assert_eq!(calls + bad, report.rows);
    }
    assert!(report.fits.is_sorted_by(|a, b| a.aic <= b.aic));
    for fit in &report.fits {
        assert!(
            fit.log_likelihood.is_finite() && fit.log_likelihood < 1e-6,
            "{fit:?}"
        );
        assert!((0.0..=1.0 + 1e-9).contains(&fit.distance.ks), "{fit:?}");
        assert!(fit.distance.p_value.is_none_or(|p| p > 0.0 && p <= 1.0));
    }
    // Whatever was read, the settings are a scenario.
    let none = |_: &str| Err(std::io::Error::other("no file"));
    let text = settings::scenario(&report);
    if let Err(problems) = Scenario::parse("fit.toml", &text, &none) {
        panic!("{problems}\n{text}");
    }
}
