//! What the fuzzer calls, and the replay of its corpus: each takes any bytes, and asserts what must hold of them.
#![expect(
    clippy::unwrap_used,
    reason = "a target stops at what it did not expect"
)]

use levee_anycast::known_good::{
    CANDIDATES_MAX, HeavyHitters, HeavyOptions, History, HistoryOptions, Now, SITES_OF_SOURCE_MAX,
    SLOTS_MAX, estimate,
};
use levee_policy::reroute::estimate::Estimator;

/// A history, and the same bytes as what is judged: limits hold, and what comes out are numbers.
pub(crate) fn history(bytes: &[u8]) {
    let history = match History::read(bytes, HistoryOptions::default()) {
        Ok(history) => history,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(history.slots <= SLOTS_MAX && history.sources.len() <= CANDIDATES_MAX);
    for source in &history.sources {
        assert!(source.counts.len() <= SITES_OF_SOURCE_MAX);
        assert!(
            source
                .counts
                .values()
                .all(|counts| counts.len() == history.slots)
        );
    }
    let hitters =
        HeavyHitters::fit(&history, history.end_s() + 3_600, &HeavyOptions::default()).unwrap();
    let Ok(now) = Now::read(bytes, history.interval_s, hitters.sites(), &hitters.names()) else {
        return;
    };
    let judged = hitters.judge(&now);
    let estimate = estimate(&now, Some(&judged), None, &Estimator::default());
    for site in &estimate.sites {
        if let (Some(observed), Some(offered)) = (site.observed, site.offered) {
            assert!(
                offered.low <= offered.likely && offered.likely <= offered.high,
                "{offered:?}"
            );
            assert!(
                offered.low >= observed * 0.999_999,
                "{offered:?} {observed}"
            );
        }
        for source in &site.sources {
            assert!(
                source.known_good.expected.is_finite() && source.known_good.expected_sd.is_finite()
            );
        }
    }
}
