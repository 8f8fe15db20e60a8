//! How bad it is: levels with hysteresis.
//!
//! A level is entered at a site when the load *for certain* is above one threshold, or known-good traffic is lost for certain
//! beyond another, for as long as the level asks; it is left when both are on the good side of thresholds that lie apart, again
//! for as long as it asks. "For certain" is by the interval of the estimate: noise alone enters no level, and does not hold it.
//!
//! Several levels are what operators have asked for elsewhere (FastNetMon, issues 62 and 302): to be told early, to act later.

use alloc::{format, string::String, vec, vec::Vec};

use serde::{Deserialize, Serialize};

use super::{Range, SiteId};
use crate::{
    ConfigError, Span, Time,
    config_error::{ensure, fail, number, span},
};

/// The most levels (our choice).
pub const LEVELS_MAX: usize = 16;
const DAY: Span = Span::from_secs(24 * 3_600);

/// How far is bad, and how far is good again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// At this, or worse, the level is entered.
    pub enter: f64,
    /// At this, or better, it is left.
    pub leave: f64,
}

/// A level of badness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// What it is called.
    pub name: String,
    /// Offered load over capacity.
    pub load: Threshold,
    /// Access fraction.
    pub alpha: Threshold,
    /// How long it has to be that bad; zero: one measure will do.
    pub enter_after: Span,
    /// How long it has to be good again.
    pub leave_after: Span,
    /// Whether announcements are changed at this level; otherwise it is only told.
    pub respond: bool,
}

/// The levels unless others are configured.
///
/// - `warning`: load at 80 % of the capacity, where queues begin to grow, or 5 % of the known-good lost. Told, no more: load has
///   its peaks without any attack.
/// - `attack`: over the capacity, or 10 % lost, for a minute. Shorter bursts are over before routes have changed.
/// - `severe`: three times the capacity, or half of the known-good lost: one measure will do.
///
/// All are left after five minutes, the time that routes take to settle. Our choice: the paper gives no thresholds.
#[must_use]
pub fn default_levels() -> Vec<Level> {
    let level = |name: &str, load: (f64, f64), alpha: (f64, f64), after, respond| Level {
        name: name.into(),
        load: Threshold {
            enter: load.0,
            leave: load.1,
        },
        alpha: Threshold {
            enter: alpha.0,
            leave: alpha.1,
        },
        enter_after: Span::from_secs(after),
        leave_after: Span::from_secs(300),
        respond,
    };
    vec![
        level("warning", (0.8, 0.7), (0.95, 0.97), 60, false),
        level("attack", (1.0, 0.9), (0.9, 0.95), 60, true),
        level("severe", (3.0, 1.5), (0.5, 0.7), 0, true),
    ]
}

/// Whether levels, from the mildest to the worst, can be told apart.
///
/// # Errors
///
/// With none, too many, a threshold outside its bounds or with no room between entering and leaving, or with a level that is
/// entered before a milder one.
pub fn check(levels: &[Level]) -> Result<(), ConfigError> {
    if levels.is_empty() || levels.len() > LEVELS_MAX {
        fail("level", &levels.len(), &format!("1 to {LEVELS_MAX} levels"))?;
    }
    for (i, level) in levels.iter().enumerate() {
        let key = |field: &str| format!("level[{i}].{field}");
        if level.name.is_empty() || levels[..i].iter().any(|other| other.name == level.name) {
            fail(
                &key("name"),
                &format!("{:?}", level.name),
                "a name that no other level has",
            )?;
        }
        number(&key("load.enter"), level.load.enter, 1e-3, 1e6)?;
        number(&key("load.leave"), level.load.leave, 0.0, 1e6)?;
        number(&key("alpha.enter"), level.alpha.enter, 0.0, 1.0)?;
        number(&key("alpha.leave"), level.alpha.leave, 0.0, 1.0)?;
        ensure(
            &key("load.leave"),
            level.load.leave < level.load.enter,
            &level.load.leave,
            &format!("less than load.enter ({})", level.load.enter),
        )?;
        ensure(
            &key("alpha.leave"),
            level.alpha.leave > level.alpha.enter,
            &level.alpha.leave,
            &format!("more than alpha.enter ({})", level.alpha.enter),
        )?;
        span(&key("enter_after"), level.enter_after, Span::ZERO, DAY)?;
        span(&key("leave_after"), level.leave_after, Span::ZERO, DAY)?;
        if let Some(milder) = i.checked_sub(1).map(|i| &levels[i]) {
            ensure(
                &key("load.enter"),
                level.load.enter >= milder.load.enter && level.alpha.enter <= milder.alpha.enter,
                &level.load.enter,
                &format!(
                    "thresholds no milder than those of {:?} before it",
                    milder.name
                ),
            )?;
        }
    }
    ensure(
        "level",
        levels.iter().any(|level| level.respond),
        &"without one that responds",
        "respond = true at one level or more",
    )
}

/// What is known of a site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Offered load over capacity.
    pub load: Range,
    /// Access fraction, where known-good traffic tells it.
    pub alpha: Option<Range>,
}

impl Level {
    /// Whether a site is for certain as bad as this.
    #[must_use]
    pub fn is_entered(&self, reading: &Reading) -> bool {
        reading.load.low >= self.load.enter
            || reading
                .alpha
                .is_some_and(|alpha| alpha.high <= self.alpha.enter)
    }

    /// Whether a site is well below this.
    #[must_use]
    pub fn is_left(&self, reading: &Reading) -> bool {
        reading.load.likely <= self.load.leave
            && reading
                .alpha
                .is_none_or(|alpha| alpha.likely >= self.alpha.leave)
    }
}

/// Which level each site is at.
#[derive(Clone, Debug, PartialEq)]
pub struct Detector {
    levels: Vec<Level>,
    /// One for each level at each site, at `site * levels + level`.
    latches: Vec<Latch>,
}

/// Whether a level is on at a site.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Latch {
    on: bool,
    /// Since when every reading has spoken for the other state.
    turning: Option<Time>,
}

impl Detector {
    /// No site is at any level. The levels go from the mildest to the worst, as [`check`] asks.
    #[must_use]
    pub fn new(levels: Vec<Level>, sites: usize) -> Self {
        let latches = vec![Latch::default(); levels.len() * sites];
        Self { levels, latches }
    }

    /// The levels.
    #[must_use]
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Takes note of what is known of a site at `now`. Whether its level changed.
    pub fn observe(&mut self, now: Time, site: SiteId, reading: &Reading) -> bool {
        let before = self.level(site);
        let start = site.index() * self.levels.len();
        let mut entered = None;
        for (i, (level, latch)) in self
            .levels
            .iter()
            .zip(&mut self.latches[start..])
            .enumerate()
        {
            let (turns, after) = if latch.on {
                (level.is_left(reading), level.leave_after)
            } else {
                (level.is_entered(reading), level.enter_after)
            };
            if !turns {
                latch.turning = None;
                continue;
            }
            let since = *latch.turning.get_or_insert(now);
            if now - since >= after {
                latch.on = !latch.on;
                latch.turning = None;
                entered = latch.on.then_some(i).max(entered);
            }
        }
        // Who is at a level is at all milder ones.
        for latch in &mut self.of_site(site)[..entered.unwrap_or(0)] {
            if !latch.on {
                *latch = Latch {
                    on: true,
                    turning: None,
                };
            }
        }
        before != self.level(site)
    }

    /// Nothing is known of a site at present: what it was about to enter or leave it has to show anew.
    pub fn unknown(&mut self, site: SiteId) {
        for latch in self.of_site(site) {
            latch.turning = None;
        }
    }

    /// Puts a site at a level, and at all milder ones.
    pub fn set(&mut self, site: SiteId, level: Option<usize>) {
        for (i, latch) in self.of_site(site).iter_mut().enumerate() {
            let on = level.is_some_and(|level| i <= level);
            if latch.on != on {
                *latch = Latch { on, turning: None };
            }
        }
    }

    /// Puts a site at no level, as if nothing had ever been known of it.
    pub fn reset(&mut self, site: SiteId) {
        self.of_site(site).fill(Latch::default());
    }

    fn of_site(&mut self, site: SiteId) -> &mut [Latch] {
        let start = site.index() * self.levels.len();
        &mut self.latches[start..start + self.levels.len()]
    }

    /// The worst level that a site is at.
    #[must_use]
    pub fn level(&self, site: SiteId) -> Option<usize> {
        let start = site.index() * self.levels.len();
        let latches = &self.latches[start..start + self.levels.len()];
        latches.iter().rposition(|latch| latch.on)
    }

    /// The worst level of all sites.
    #[must_use]
    pub fn worst(&self) -> Option<usize> {
        let all = self.latches.chunks(self.levels.len());
        all.filter_map(|site| site.iter().rposition(|latch| latch.on))
            .max()
    }

    /// Whether announcements are to be changed for this site.
    #[must_use]
    pub fn responds(&self, site: SiteId) -> bool {
        self.level(site)
            .is_some_and(|level| self.levels[..=level].iter().any(|level| level.respond))
    }
}

#[cfg(test)]
mod tests {
    use std::{string::ToString, vec::Vec};

    use rand_distr::{Distribution as _, Normal};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    const SITE: SiteId = SiteId(1);

    fn at(minutes: u64) -> Time {
        Time::ZERO + Span::from_secs(60 * minutes)
    }

    fn reading(load: f64) -> Reading {
        Reading {
            load: Range::exactly(load),
            alpha: None,
        }
    }

    fn lossy(alpha: f64, error: f64) -> Reading {
        Reading {
            load: Range::exactly(0.5),
            alpha: Some(Range {
                low: alpha - error,
                likely: alpha,
                high: alpha + error,
            }),
        }
    }

    /// Minutes at which the level of the site changes, and to what.
    fn changes(readings: impl IntoIterator<Item = Option<Reading>>) -> Vec<(u64, &'static str)> {
        let mut detector = Detector::new(default_levels(), 2);
        let mut changes = Vec::new();
        for (minute, reading) in (0..).zip(readings) {
            let changed = match reading {
                Some(reading) => detector.observe(at(minute), SITE, &reading),
                None => {
                    detector.unknown(SITE);
                    false
                }
            };
            assert_eq!(detector.level(SiteId(0)), None);
            assert_eq!(detector.level(SITE), detector.worst());
            if changed {
                let name = match detector.level(SITE) {
                    None => "none",
                    Some(level) => ["warning", "attack", "severe"][level],
                };
                changes.push((minute, name));
            }
        }
        changes
    }

    fn repeat(reading: Reading, minutes: usize) -> impl Iterator<Item = Option<Reading>> {
        core::iter::repeat_n(Some(reading), minutes)
    }

    #[test]
    fn a_level_is_entered_and_left_when_it_lasts() {
        let calm = reading(0.5);
        for (bad, minutes, expect) in [
            (reading(0.79), 30, std::vec![]),
            (reading(0.8), 1, std::vec![]),
            (reading(0.8), 2, std::vec![(1, "warning"), (7, "none")]),
            (reading(0.99), 2, std::vec![(1, "warning"), (7, "none")]),
            (reading(1.0), 2, std::vec![(1, "attack"), (7, "none")]),
            (reading(3.0), 1, std::vec![(0, "severe"), (6, "none")]),
            (lossy(0.8, 0.1), 2, std::vec![(1, "attack"), (7, "none")]),
            (lossy(0.8, 0.11), 2, std::vec![(1, "warning"), (7, "none")]),
            (lossy(0.4, 0.1), 1, std::vec![(0, "severe"), (6, "none")]),
        ] {
            let readings = repeat(bad, minutes).chain(repeat(calm, 30));
            assert_eq!(changes(readings), expect, "{bad:?} for {minutes}");
        }
    }

    #[test]
    fn between_the_thresholds_nothing_changes() {
        let between = repeat(reading(0.95), 60);
        let all = repeat(reading(1.2), 2)
            .chain(between)
            .chain(repeat(reading(0.85), 60));
        assert_eq!(changes(all), [(1, "attack"), (67, "warning")]);
    }

    #[test]
    fn silence_neither_enters_nor_leaves() {
        let bad = Some(reading(1.2));
        assert_eq!(changes([bad, None, bad, None, bad, None]), []);
        let silent = core::iter::repeat_n(None, 60);
        let all = repeat(reading(1.2), 2)
            .chain(silent)
            .chain(repeat(reading(0.1), 6));
        assert_eq!(changes(all), [(1, "attack"), (67, "none")]);
    }

    /// Loads with a noise of 5 %; the interval is twice that to each side. At 0.75 its lower end passes 0.8 once in 9,000 minutes,
    /// and two in a row are needed. Who is in needs six in a row 10 % below the truth, two standard deviations, to be out again.
    #[test]
    fn noise_does_not_flap() {
        let mut rng = Pcg64Mcg::new(3);
        let noise = Normal::new(0.0, 0.05).unwrap();
        let mut changes_at = |truth: f64| {
            let readings: Vec<_> = (0..10_000)
                .map(|_| {
                    let likely: f64 = truth * (1.0 + noise.sample(&mut rng));
                    Some(Reading {
                        load: Range {
                            low: 0.9 * likely,
                            likely,
                            high: 1.1 * likely,
                        },
                        alpha: None,
                    })
                })
                .collect();
            changes(readings).len()
        };
        // Over seven days of minutes.
        assert_eq!(changes_at(0.6), 0);
        assert_eq!(changes_at(0.75), 0);
        assert!(changes_at(0.8) <= 1);
        assert!(changes_at(1.0) <= 2);
        assert_eq!(changes_at(1.3), 1);
    }

    #[test]
    fn a_level_can_be_set() {
        let mut detector = Detector::new(default_levels(), 2);
        detector.set(SITE, Some(1));
        assert!(detector.responds(SITE) && !detector.responds(SiteId(0)));
        assert_eq!(detector.level(SITE), Some(1));
        detector.set(SITE, Some(0));
        assert!(!detector.responds(SITE));
        detector.reset(SITE);
        assert_eq!(detector.worst(), None);
    }

    #[test]
    fn bad_levels_say_what_is_wrong() {
        assert_eq!(check(&default_levels()), Ok(()));
        let change = |index: usize, change: fn(&mut Level)| {
            let mut levels = default_levels();
            change(&mut levels[index]);
            levels
        };
        for (levels, key) in [
            (std::vec![], "level"),
            (
                change(1, |level| level.name = "warning".to_string()),
                "level[1].name",
            ),
            (change(1, |level| level.name.clear()), "level[1].name"),
            (
                change(0, |level| level.load.leave = 0.8),
                "level[0].load.leave",
            ),
            (
                change(0, |level| level.load.enter = f64::NAN),
                "level[0].load.enter",
            ),
            (
                change(0, |level| level.alpha.leave = 0.95),
                "level[0].alpha.leave",
            ),
            (
                change(2, |level| level.alpha.leave = 1.1),
                "level[2].alpha.leave",
            ),
            (
                change(2, |level| {
                    level.load = Threshold {
                        enter: 0.95,
                        leave: 0.5,
                    }
                }),
                "level[2].load.enter",
            ),
            (
                change(2, |level| level.leave_after = Span::MAX),
                "level[2].leave_after",
            ),
            (change(0, |level| level.respond = true)[..1].to_vec(), ""),
            (default_levels()[..1].to_vec(), "level"),
        ] {
            let found = check(&levels).map_or_else(|error| error.key, |()| "".to_string());
            assert_eq!(found, key, "{levels:?}");
        }
    }
}
