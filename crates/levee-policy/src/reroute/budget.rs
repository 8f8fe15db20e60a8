//! How often announcements may change: below route-flap damping, and never in haste.
//!
//! A router that damps keeps a figure of merit for each route (RFC 2439): every flap adds a penalty, half of it decays in a
//! half-life, and above the cutoff the route is not used until it has decayed. Damping is done by others, so its parameters can
//! only be assumed. The defaults assume the strictest router in wide use.
//!
//! What this leaves out: that one change is seen as several by a router far away (path exploration). The defaults of today's
//! routers were found to be hit that way (RFC 7196, section 4), which is why [`Config::suppress`] is not RFC 7196's by default.

use alloc::{collections::VecDeque, format};
use core::fmt;

use serde::{Deserialize, Serialize};

use super::Routing;
use crate::{
    ConfigError, Span, Time,
    config_error::{ensure, number, span},
};

/// The half-life of the figure of merit: 15 min in the routers of both large vendors (RFC 7196, table 1).
pub const HALF_LIFE: Span = Span::from_secs(15 * 60);
/// The cutoff of RFC 2439, section 4.2, as one vendor has it out of the box (RFC 7196, table 1): the lowest in wide use.
pub const SUPPRESS: f64 = 2_000.0;
/// The least suppress threshold that RFC 7196, section 6, recommends.
pub const SUPPRESS_RFC7196: f64 = 6_000.0;
/// What a withdrawal adds, at every vendor (RFC 7196, table 1).
pub const PENALTY_WITHDRAW: f64 = 1_000.0;
/// What an announcement after a withdrawal adds: the stricter of the vendors (RFC 7196, table 1).
pub const PENALTY_READVERTISE: f64 = 1_000.0;
/// What other attributes (a longer path, communities) add, at every vendor (RFC 7196, table 1).
pub const PENALTY_ATTRIBUTES: f64 = 500.0;
/// Between two changes: PEERING asks for 10 min.
pub const DWELL: Span = Span::from_secs(10 * 60);
/// Changes in a window: five tries and the way back (our choice).
pub const CHANGES: u32 = 6;
/// That window: PEERING takes a prefix that was quiet for 90 min to be free of damping.
pub const WINDOW: Span = Span::from_secs(90 * 60);

/// The most changes in a window: that many times are kept.
pub const CHANGES_MAX: u32 = 1_000;
const DAY: Span = Span::from_secs(24 * 3_600);

/// What is assumed of others' damping, and what the operator grants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// In which half of the figure of merit decays; [`HALF_LIFE`].
    pub half_life: Span,
    /// The figure of merit that no change may reach; [`SUPPRESS`].
    pub suppress: f64,
    /// What a withdrawal adds; [`PENALTY_WITHDRAW`].
    pub withdraw: f64,
    /// What an announcement after a withdrawal adds; [`PENALTY_READVERTISE`].
    pub readvertise: f64,
    /// What any other change adds; [`PENALTY_ATTRIBUTES`].
    pub attributes: f64,
    /// The least time between two changes; [`DWELL`].
    pub dwell: Span,
    /// The most changes in a window; [`CHANGES`].
    pub changes: u32,
    /// That window; [`WINDOW`].
    pub window: Span,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            half_life: HALF_LIFE,
            suppress: SUPPRESS,
            withdraw: PENALTY_WITHDRAW,
            readvertise: PENALTY_READVERTISE,
            attributes: PENALTY_ATTRIBUTES,
            dwell: DWELL,
            changes: CHANGES,
            window: WINDOW,
        }
    }
}

impl Config {
    /// Whether a budget can be kept with this.
    ///
    /// # Errors
    ///
    /// With a figure outside its bounds, or a single change that reaches `suppress`.
    pub fn check(&self) -> Result<(), ConfigError> {
        let second = Span::from_secs(1);
        span("budget.half_life", self.half_life, second, DAY)?;
        number("budget.suppress", self.suppress, 1.0, 1e6)?;
        for (key, penalty) in [
            ("budget.withdraw", self.withdraw),
            ("budget.readvertise", self.readvertise),
            ("budget.attributes", self.attributes),
        ] {
            number(key, penalty, 0.0, 1e6)?;
            ensure(
                key,
                penalty < self.suppress,
                &penalty,
                &format!(
                    "less than budget.suppress ({}), or no change is ever possible",
                    self.suppress
                ),
            )?;
        }
        span("budget.dwell", self.dwell, Span::ZERO, DAY)?;
        ensure(
            "budget.changes",
            (1..=CHANGES_MAX).contains(&self.changes),
            &self.changes,
            &format!("1 to {CHANGES_MAX}"),
        )?;
        span("budget.window", self.window, second, DAY)
    }

    /// What going from one routing configuration to another adds: that of the site whose neighbours see the worst.
    ///
    /// Where it is not known what is announced, a withdrawal is assumed.
    #[must_use]
    pub fn penalty(&self, from: &Routing, to: &Routing) -> f64 {
        if from == to {
            return 0.0;
        }
        let (Some(from), Some(to)) = (&from.announcements, &to.announcements) else {
            return self.withdraw.max(self.readvertise).max(self.attributes);
        };
        let mut worst: f64 = 0.0;
        for (from, to) in from.iter().zip(to) {
            let neighbours = from.neighbours.keys().chain(to.neighbours.keys());
            let seen = neighbours
                .map(|asn| (from.to(*asn), to.to(*asn)))
                .chain([(from.everyone.as_ref(), to.everyone.as_ref())]);
            for pair in seen {
                worst = worst.max(match pair {
                    (Some(_), None) => self.withdraw,
                    (None, Some(_)) => self.readvertise,
                    (from, to) if from == to => 0.0,
                    _ => self.attributes,
                });
            }
        }
        worst
    }
}

/// Why a change has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The last change was just now.
    Dwell,
    /// There were too many of late.
    Window,
    /// Routers that damp might stop using the route.
    Damping,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dwell => "the last change was just now",
            Self::Window => "there were as many changes of late as are allowed",
            Self::Damping => "others might damp the route",
        })
    }
}

/// When a change is possible again, and what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// From then on.
    pub at: Time,
    /// What holds it up longest.
    pub reason: Reason,
}

/// Changes of the announcements of one prefix, and what they may have added up to at others.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    config: Config,
    /// The figure of merit at the last change.
    figure: f64,
    /// When the changes of the last window were, the oldest first; the last one is kept whatever its age.
    changes: VecDeque<Time>,
}

impl Budget {
    /// No change yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            figure: 0.0,
            changes: VecDeque::new(),
        }
    }

    /// The figure of merit at `now`: halved in every half-life (RFC 2439, section 4.2).
    #[must_use]
    pub fn figure(&self, now: Time) -> f64 {
        let Some(last) = self.changes.back() else {
            return 0.0;
        };
        let age = (now - *last).as_secs_f64() / self.config.half_life.as_secs_f64();
        self.figure * libm::exp2(-age)
    }

    /// Whether a change that adds this much is within the budget.
    ///
    /// # Errors
    ///
    /// It is not before the time that is told.
    pub fn may_change(&self, now: Time, penalty: f64) -> Result<(), Until> {
        let mut until = Until {
            at: now,
            reason: Reason::Dwell,
        };
        for (at, reason) in [
            (self.dwell_over(), Reason::Dwell),
            (self.window_over(now), Reason::Window),
            (self.damping_over(now, penalty), Reason::Damping),
        ] {
            if at > until.at {
                until = Until { at, reason };
            }
        }
        if until.at > now { Err(until) } else { Ok(()) }
    }

    /// A change that adds this much was made. One that adds nothing counts all the same.
    pub fn change(&mut self, now: Time, penalty: f64) {
        let now = self.changes.back().map_or(now, |last| now.max(*last));
        self.figure = self.figure(now) + penalty;
        self.changes.push_back(now);
        let window = self.config.window;
        while self.changes.len() > CHANGES_MAX as usize
            || self
                .changes
                .front()
                .is_some_and(|first| now - *first > window)
        {
            self.changes.pop_front();
        }
    }

    fn dwell_over(&self) -> Time {
        self.changes
            .back()
            .map_or(Time::ZERO, |last| *last + self.config.dwell)
    }

    /// When fewer than the allowed changes lie in the window.
    fn window_over(&self, now: Time) -> Time {
        let of_late = self
            .changes
            .iter()
            .filter(|at| now - **at < self.config.window)
            .count();
        let allowed = self.config.changes as usize;
        if of_late < allowed {
            return Time::ZERO;
        }
        self.changes[self.changes.len() - allowed] + self.config.window
    }

    /// When the figure has decayed so far that it stays below `suppress` with the penalty.
    fn damping_over(&self, now: Time, penalty: f64) -> Time {
        let figure = self.figure(now);
        let room = self.config.suppress - penalty;
        if figure < room {
            return Time::ZERO;
        }
        if room <= 0.0 {
            return Time::MAX;
        }
        let halves = libm::log2(figure / room);
        let wait = Span::from_secs_f64(halves * self.config.half_life.as_secs_f64());
        // A second more, so that it is below then, and not just about.
        now + wait.unwrap_or(Span::MAX) + Span::from_secs(1)
    }
}

#[cfg(test)]
mod tests {
    use std::{string::ToString, vec, vec::Vec};

    use proptest::prelude::*;

    use super::{
        super::{Announcement, Asn, Path},
        *,
    };

    fn at(minutes: u64) -> Time {
        Time::ZERO + Span::from_secs(60 * minutes)
    }

    fn routing(name: &str, announcements: Vec<Announcement>) -> Routing {
        Routing {
            name: name.to_string(),
            announcements: Some(announcements),
        }
    }

    fn prepended(prepend: u8) -> Announcement {
        Announcement {
            everyone: Some(Path {
                prepend,
                ..Path::default()
            }),
            ..Announcement::default()
        }
    }

    #[test]
    fn a_change_costs_what_the_worst_site_has_to_change() {
        let config = Config::default();
        let plain = Announcement::default();
        let gone = Announcement::withdrawn();
        let but_one = Announcement {
            neighbours: [(Asn(64_500), None)].into(),
            ..Announcement::default()
        };
        for (from, to, penalty) in [
            (&plain, &plain, 0.0),
            (&plain, &prepended(2), 500.0),
            (&prepended(2), &plain, 500.0),
            (&plain, &gone, 1_000.0),
            (&gone, &plain, 1_000.0),
            (&plain, &but_one, 1_000.0),
            (&gone, &gone, 0.0),
        ] {
            let from = routing("a", vec![plain.clone(), from.clone()]);
            let to = routing("b", vec![plain.clone(), to.clone()]);
            assert_eq!(config.penalty(&from, &to), penalty, "{from:?} {to:?}");
        }
        let unknown = Routing {
            name: "0xAMS".to_string(),
            announcements: None,
        };
        let baseline = Routing::baseline(1);
        assert_eq!(config.penalty(&baseline, &unknown), 1_000.0);
        assert_eq!(config.penalty(&unknown, &unknown), 0.0);
    }

    #[test]
    fn the_figure_halves_in_every_half_life() {
        let mut budget = Budget::new(Config::default());
        assert_eq!(budget.figure(at(5)), 0.0);
        budget.change(at(0), 1_000.0);
        for (minutes, figure) in [(0, 1_000.0), (15, 500.0), (30, 250.0), (60, 62.5)] {
            assert!((budget.figure(at(minutes)) - figure).abs() < 1e-9);
        }
        budget.change(at(30), 500.0);
        assert!((budget.figure(at(45)) - 375.0).abs() < 1e-9);
        // Time that goes back is the last time.
        budget.change(at(10), 0.0);
        assert!((budget.figure(at(10)) - 750.0).abs() < 1e-9);
    }

    #[test]
    fn a_change_waits_for_what_takes_longest() {
        let mut budget = Budget::new(Config::default());
        assert_eq!(budget.may_change(at(0), 1_000.0), Ok(()));
        budget.change(at(0), 1_000.0);
        let wait = |at, reason| Err(Until { at, reason });
        assert_eq!(budget.may_change(at(9), 500.0), wait(at(10), Reason::Dwell));
        assert_eq!(budget.may_change(at(10), 1_000.0), Ok(()));
        budget.change(at(10), 1_000.0);
        budget.change(at(20), 1_000.0);
        // 1,000 * (2^(-20/15) + 2^(-10/15) + 1) = 2,027: half of it is left in a half-life, so 1,000 need 15.3 min.
        let Err(until) = budget.may_change(at(20), 1_000.0) else {
            panic!("it is over the threshold");
        };
        assert_eq!(until.reason, Reason::Damping);
        let waits = (until.at - at(20)).as_secs_f64();
        let exact = 15.0 * 60.0 * (2_026.8_f64 / 1_000.0).log2();
        assert!((waits - exact - 1.0).abs() < 1.0, "{waits} {exact}");
        assert_eq!(budget.may_change(until.at, 1_000.0), Ok(()));
        // A longer path is possible at once.
        assert_eq!(budget.may_change(at(30), 500.0), Ok(()));
        for minute in [30, 40, 50] {
            budget.change(at(minute), 0.0);
        }
        assert_eq!(budget.may_change(at(60), 0.0), wait(at(90), Reason::Window));
        assert_eq!(budget.may_change(at(90), 0.0), Ok(()));
    }

    #[test]
    fn prepends_every_ten_minutes_stay_below_the_strictest_router() {
        let config = Config {
            changes: CHANGES_MAX,
            ..Config::default()
        };
        let mut budget = Budget::new(config);
        for i in 0..1_000 {
            assert_eq!(budget.may_change(at(10 * i), PENALTY_ATTRIBUTES), Ok(()));
            budget.change(at(10 * i), PENALTY_ATTRIBUTES);
        }
        // A geometric series: 500 / (1 - 2^(-10/15)).
        let limit = 500.0 / (1.0 - (-10.0_f64 / 15.0).exp2());
        assert!((budget.figure(at(9_990)) - limit).abs() < 1e-6);
        assert!(limit < SUPPRESS && SUPPRESS < SUPPRESS_RFC7196);
    }

    #[test]
    fn bad_settings_say_what_is_wrong() {
        let good = Config::default();
        assert_eq!(good.check(), Ok(()));
        for (config, key) in [
            (
                Config {
                    half_life: Span::ZERO,
                    ..good
                },
                "budget.half_life",
            ),
            (
                Config {
                    suppress: 900.0,
                    ..good
                },
                "budget.withdraw",
            ),
            (
                Config {
                    suppress: f64::NAN,
                    ..good
                },
                "budget.suppress",
            ),
            (
                Config {
                    attributes: -1.0,
                    ..good
                },
                "budget.attributes",
            ),
            (Config { changes: 0, ..good }, "budget.changes"),
            (
                Config {
                    changes: CHANGES_MAX + 1,
                    ..good
                },
                "budget.changes",
            ),
            (
                Config {
                    window: Span::MAX,
                    ..good
                },
                "budget.window",
            ),
            (
                Config {
                    dwell: Span::MAX,
                    ..good
                },
                "budget.dwell",
            ),
        ] {
            assert_eq!(config.check().unwrap_err().key, key);
        }
    }

    proptest! {
        /// Whoever asks before each change never breaks a rule, by a reckoning that keeps all changes.
        #[test]
        fn who_asks_stays_within(steps in proptest::collection::vec((0_u64..20 * 60, 0_usize..3), 1..120)) {
            let config = Config::default();
            let penalties = [config.attributes, config.withdraw, 0.0];
            let mut budget = Budget::new(config);
            let mut made: Vec<(Time, f64)> = Vec::new();
            let mut now = Time::ZERO;
            for (seconds, kind) in steps {
                now = now + Span::from_secs(seconds);
                let penalty = penalties[kind];
                match budget.may_change(now, penalty) {
                    Ok(()) => {
                        budget.change(now, penalty);
                        made.push((now, penalty));
                    }
                    Err(until) => {
                        prop_assert!(until.at > now);
                        prop_assert_eq!(budget.may_change(until.at, penalty), Ok(()));
                    }
                }
            }
            for (i, (at, _)) in made.iter().enumerate() {
                let figure: f64 = made[..=i]
                    .iter()
                    .map(|(then, penalty)| {
                        let halves = (*at - *then).as_secs_f64() / config.half_life.as_secs_f64();
                        penalty * (-halves).exp2()
                    })
                    .sum();
                prop_assert!(figure < config.suppress);
                let of_late = made[..=i].iter().filter(|(then, _)| *at - *then < config.window);
                prop_assert!(of_late.count() <= config.changes as usize);
                if i > 0 {
                    prop_assert!(*at - made[i - 1].0 >= config.dwell);
                }
            }
        }
    }
}
