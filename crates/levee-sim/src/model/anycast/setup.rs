//! What a run of the loop is made of.

use std::sync::Arc;

use levee_policy::reroute::{Config, Playbook, SiteId};
use levee_policy::{ConfigError, Span};
use thiserror::Error;

use super::world::World;
use crate::schedule::Durations;

/// Most measurements of one run: some minutes of computing at most (our choice).
pub const INTERVALS_MAX: u64 = 1_000_000;
/// Most attackers' pulses, changes of the network and the like in one run (our choice).
pub const EVENTS_MAX: f64 = 1e6;
/// The longest run: a quarter of a year, in which a playbook is measured anew (our choice).
pub const TIME_MAX: Span = Span::from_secs(92 * 86_400);

/// A service at several sites, who uses it, who attacks it, and who moves its routes.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// What the operator measured, and the responder plans with.
    pub playbook: Arc<Playbook>,
    /// Where blocks really go if nothing has changed since then, by classes.
    pub world: Arc<World>,
    /// One for each site of the playbook, in its order.
    pub sites: Vec<Site>,
    /// Normal load.
    pub honest: Honest,
    /// The attack; `None` for none.
    pub attack: Option<Attack>,
    /// How announcements take effect, and how the playbook is wrong.
    pub network: Network,
    /// How the loop is fed.
    pub measure: Measuring,
    /// The responder's settings; `None` changes nothing.
    pub defense: Option<Config>,
    /// The play that is announced at the start, by its number.
    pub play: usize,
    /// Nobody over capacity for this long is mitigation. Key `run.calm`.
    pub calm: Span,
    /// A play that is announced again within this time after it was left is a flap. Key `run.flap`.
    pub flap: Span,
    /// How long a run is.
    pub time: Span,
    /// The first seed; run `i` takes `seed + i`.
    pub seed: u64,
}

/// One site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Site {
    /// Load that its servers can answer, in queries a second. Key `capacity`.
    pub capacity: f64,
    /// Load that its upstream links can bring in; what is beyond is lost on the way, and not seen. Key `ingress`.
    pub ingress: f64,
}

impl Site {
    /// What can be sent to it without loss.
    #[must_use]
    pub fn carries(&self) -> f64 {
        self.capacity.min(self.ingress)
    }

    /// Whether that is too much.
    pub(super) fn is_over(&self, offered: f64) -> bool {
        /// Sums of thousands of classes are not exact: a site that is full to this part is not over capacity.
        const ROUNDING: f64 = 1e-9;
        offered > self.carries() * (1.0 + ROUNDING)
    }

    /// Which part of what is sent to it comes in.
    pub(super) fn access(&self, offered: f64) -> f64 {
        part(self.ingress, offered)
    }

    /// Which part of what is sent to it is answered.
    pub(super) fn answered(&self, offered: f64) -> f64 {
        part(self.carries(), offered)
    }
}

fn part(limit: f64, offered: f64) -> f64 {
    if offered > limit {
        limit / offered
    } else {
        1.0
    }
}

/// The `[honest]` table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Honest {
    /// Queries a second of all blocks, in the mean over a day. Key `load`.
    pub load: f64,
    /// Amplitude of the daily season, as a part of the mean. Key `daily`.
    pub daily: f64,
    /// The hour of the day at which it is highest, as a time after midnight. Key `peak`.
    pub peak: Span,
    /// The time of day at which a run begins. Key `clock`.
    pub clock: Span,
    /// Standard deviation of the logarithm of each class's load about its season, drawn anew for each interval. Key `noise`.
    pub noise: f64,
    /// Standard deviation of the logarithm of the normal load that is forecast for a site against the season, drawn anew
    /// after each `lasts` of the known-good. Key `forecast_error`.
    pub error: f64,
    /// Traffic whose rate is known.
    pub known_good: KnownGood,
}

/// The table `honest.known_good`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownGood {
    /// Queries a second of all blocks; 0 for none. Key `rate`.
    pub rate: f64,
    /// Standard deviation of the logarithm of the forecast for a site against the truth. Key `error`.
    pub error: f64,
    /// What the forecast says of itself: its standard deviation as a part of it. Key `claims`.
    pub claims: f64,
    /// After this time the errors are drawn anew. Key `lasts`.
    pub lasts: Span,
    /// Whether each source tells which site it reaches (Atlas probes ask for it): the forecast of a site is then for those
    /// that reach it, and not for those that the playbook sends there. Key `located`.
    pub located: bool,
}

/// The `[attack]` table.
#[derive(Clone, Debug, PartialEq)]
pub struct Attack {
    /// Queries a second at its height. Key `load`.
    pub load: f64,
    /// From which classes. Key `from`.
    pub from: Sources,
    /// How it goes on. Key `shape`.
    pub shape: Shape,
    /// When it begins. Key `start`.
    pub start: Span,
    /// For how long. Key `length`.
    pub length: Span,
    /// This long after a change of the routes it comes from others, drawn anew by the same rule. Key `moves`.
    pub moves: Option<Span>,
}

/// From which classes an attack comes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sources {
    /// All, as normal load does.
    Spread,
    /// So many, drawn with the weights of their normal load, each with the same part of the attack.
    Concentrated {
        /// How many.
        classes: u32,
    },
    /// Those that reach this site, as normal load does.
    Site(SiteId),
    /// Shares of the attack by the site that is reached; within a site as normal load does.
    Shares(Vec<f64>),
    /// Shares of the attack by class.
    Classes(Vec<f64>),
}

/// How an attack goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Shape {
    /// All the time the same.
    #[default]
    Constant,
    /// On and off.
    Pulse {
        /// How long it is on.
        on: Span,
        /// How long it is off.
        off: Span,
    },
    /// Grows from nothing, evenly; a step for each interval.
    Ramp {
        /// Until it is at its height.
        over: Span,
    },
}

/// The `[network]` table.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// How long after an announcement each class reaches its new site. Key `convergence`.
    pub convergence: Durations,
    /// Of the traffic of a class that is to move, what is lost until then. Key `transient_loss`.
    pub transient_loss: f64,
    /// How long it takes to announce a play. Key `deploy`.
    pub deploy: Span,
    /// How often that fails, and changes nothing. Key `deploy_failure`.
    pub deploy_failure: f64,
    /// The probability that a class goes to another site than the playbook says, in each play but the first by itself. Key `wrong`.
    pub wrong: f64,
    /// The probability that a class has come to behave like another one since the playbook was measured, in all plays. Key `drift`.
    pub drift: f64,
    /// How often a second one class comes to do so during the run. Key `churn`.
    pub churn: f64,
}

/// The `[measure]` table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measuring {
    /// How often the sites report. Key `interval`.
    pub interval: Span,
    /// The probability that a site's report is lost. Key `lost`.
    pub lost: f64,
}

/// Why a setup cannot be run.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum SetupError {
    /// A value out of its range.
    #[error("`{key}` is out of range: expected {expected}")]
    Value {
        /// The key in a scenario.
        key: &'static str,
        /// What it may be.
        expected: &'static str,
    },
    /// The defence's own settings.
    #[error(transparent)]
    Defense(#[from] ConfigError),
}

const DAY: f64 = 86_400.0;

impl Setup {
    /// When a run is over.
    #[must_use]
    pub fn end(&self) -> Span {
        self.time
    }

    /// Whether it can be run.
    ///
    /// # Errors
    ///
    /// The first value that is out of its range.
    pub fn check(&self) -> Result<(), SetupError> {
        let sites = self.playbook.sites().len();
        need(
            self.sites.len() == sites
                && self.sites.iter().all(|site| {
                    within(site.capacity, 1e-3, 1e15) && within(site.ingress, 1e-3, 1e15)
                }),
            "service.site",
            "a capacity and an ingress above 0, up to 1e15, for each site of the playbook",
        )?;
        need(
            self.world.fits(sites, self.playbook.plays().len()),
            "service.playbook",
            "a class of blocks with a load above 0",
        )?;
        need(
            self.play < self.playbook.plays().len(),
            "lane.play",
            "a play of the playbook",
        )?;
        self.check_honest()?;
        self.check_network()?;
        if let Some(attack) = &self.attack {
            self.check_attack(attack)?;
        }
        need(
            self.time <= TIME_MAX && !self.time.is_zero(),
            "run.time",
            "a time above 0, of at most 92d",
        )?;
        need(
            self.play == 0 || self.defense.is_none(),
            "lane.play",
            "the first play where there is a responder: it begins with it",
        )?;
        need(
            !self.calm.is_zero() && !self.flap.is_zero(),
            "run.calm",
            "a time above 0, as for run.flap",
        )?;
        if let Some(defense) = &self.defense {
            defense.check()?;
        }
        Ok(())
    }

    fn check_honest(&self) -> Result<(), SetupError> {
        let honest = &self.honest;
        need(
            within(honest.load, 1e-3, 1e15),
            "honest.load",
            "queries a second from 0.001 to 1e15",
        )?;
        need(
            within(honest.daily, 0.0, 0.99),
            "honest.daily",
            "a part of the mean from 0 to 0.99",
        )?;
        for (time, key) in [(honest.peak, "honest.peak"), (honest.clock, "honest.clock")] {
            let expected = "a time after midnight, below 1d";
            need(time.as_secs_f64() < DAY, key, expected)?;
        }
        for (sd, key) in [
            (honest.noise, "honest.noise"),
            (honest.error, "honest.forecast_error"),
            (honest.known_good.error, "honest.known_good.error"),
            (honest.known_good.claims, "honest.known_good.claims"),
        ] {
            need(
                within(sd, 0.0, 2.0),
                key,
                "a standard deviation from 0 to 2",
            )?;
        }
        need(
            within(honest.known_good.rate, 0.0, 1e6),
            "honest.known_good.rate",
            "queries a second from 0 to 1000000",
        )?;
        need(
            !honest.known_good.lasts.is_zero(),
            "honest.known_good.lasts",
            "a time above 0",
        )
    }

    fn check_network(&self) -> Result<(), SetupError> {
        let network = &self.network;
        for (share, key) in [
            (network.transient_loss, "network.transient_loss"),
            (network.deploy_failure, "network.deploy_failure"),
            (network.wrong, "network.wrong"),
            (network.drift, "network.drift"),
            (self.measure.lost, "measure.lost"),
        ] {
            need(within(share, 0.0, 1.0), key, "a number from 0 to 1")?;
        }
        need(
            network.churn >= 0.0 && network.churn * self.time.as_secs_f64() <= EVENTS_MAX,
            "network.churn",
            "at most a million changes in a run",
        )?;
        let interval = self.measure.interval;
        need(
            !interval.is_zero() && self.time.as_nanos() / interval.as_nanos() <= INTERVALS_MAX,
            "measure.interval",
            "a time above 0, of which a run has at most 1000000",
        )
    }

    fn check_attack(&self, attack: &Attack) -> Result<(), SetupError> {
        need(
            within(attack.load, 0.0, 1e15),
            "attack.load",
            "queries a second from 0 to 1e15",
        )?;
        if let Shape::Pulse { on, off } = attack.shape {
            let period = on.as_secs_f64() + off.as_secs_f64();
            need(
                !on.is_zero() && self.time.as_secs_f64() / period * 2.0 <= EVENTS_MAX,
                "attack.shape",
                "pulses above 0, at most half a million in a run",
            )?;
            need(
                off < self.calm,
                "attack.shape",
                "a pause below run.calm: a longer one would look like mitigation",
            )?;
        }
        if let Shape::Ramp { over } = attack.shape {
            need(!over.is_zero(), "attack.shape", "a time above 0")?;
        }
        let (sites, classes) = (self.sites.len(), self.world.len());
        let shares = |of: &[f64], n| {
            let positive = of.iter().all(|share| within(*share, 0.0, 1e15));
            of.len() == n && positive && of.iter().sum::<f64>() > 0.0
        };
        let fits = match &attack.from {
            Sources::Spread => true,
            Sources::Concentrated { classes: n } => (1..=classes).contains(&(*n as usize)),
            Sources::Site(site) => site.index() < sites,
            Sources::Shares(of) => shares(of, sites),
            Sources::Classes(of) => shares(of, classes),
        };
        need(
            fits,
            "attack.from",
            "sites and classes that there are, with shares of which one is above 0",
        )?;
        let same = matches!(attack.from, Sources::Spread | Sources::Classes(_));
        need(
            attack.moves.is_none() || !same,
            "attack.moves",
            "it where sources are drawn: kind concentrated, site or sites",
        )
    }
}

fn need(holds: bool, key: &'static str, expected: &'static str) -> Result<(), SetupError> {
    holds
        .then_some(())
        .ok_or(SetupError::Value { key, expected })
}

fn within(value: f64, low: f64, high: f64) -> bool {
    (low..=high).contains(&value)
}
