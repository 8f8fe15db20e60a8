//! The table `[anycast.response]` of a live configuration, and `[defense]` with `kind = "reroute"` of a scenario.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::super::{
    budget,
    detect::{self, Level},
    estimate::{CONFIDENCE, DISPERSION, Estimator},
    planner::PlannerConfig,
};
use crate::{
    ConfigError, Span,
    config_error::{ensure, number, span},
};

/// How long routes take to settle after a change: the paper goes on to another approach after 5 min.
pub const SETTLE: Span = Span::from_secs(5 * 60);
/// How long a play is looked at, once routes have settled, before it is said to work: two measures of a minute (our choice).
pub const LOOK: Span = Span::from_secs(2 * 60);
/// How long a deployment may take until it counts as failed: a router's session is up again within that (our choice).
pub const DEPLOY_TIMEOUT: Span = Span::from_secs(2 * 60);
/// Deployments that may fail in a row until a person has to look (our choice).
pub const DEPLOY_TRIES: u32 = 3;
/// How long it waits then before it tries again (our choice: as long as between two changes).
pub const RETRY: Span = Span::from_secs(10 * 60);
/// How long the baseline has to be able to carry the load before it is announced again (our choice: a pause that pulsing
/// attackers have to pay for, and short against the hours for which a worse route is felt).
pub const CALM: Span = Span::from_secs(30 * 60);
/// If an attack comes back within this after it was over, it is the same attack, and [`CALM`] doubles (our choice).
pub const RELAPSE: Span = Span::from_secs(2 * 3_600);
/// The longest that [`CALM`] doubles to (our choice).
pub const CALM_MAX: Span = Span::from_secs(8 * 3_600);
/// Where no play carries the load, a change has to save this share of the normal load that is lost (our choice).
pub const GAIN: f64 = 0.1;
/// By how much a site's share of the load may differ from the playbook's until that is called wrong: about twice the 5 % of
/// blocks that shift between two measurements (section 6 of the paper).
pub const WRONG: f64 = 0.1;
/// How long a site may be without a report until it counts as silent: two intervals of RIPE Atlas (240 s), and some.
pub const SILENT: Span = Span::from_secs(10 * 60);

const DAY: Span = Span::from_secs(24 * 3_600);

/// Tells this table from that of another defence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Everything is measured, judged and told, and nothing is announced.
    Observe,
    /// Announcements are changed.
    #[default]
    Reroute,
}

/// How the responder goes about it. Every key may be left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Whether announcements are changed.
    pub kind: Kind,
    /// How sure the estimate's intervals are; [`CONFIDENCE`].
    pub confidence: f64,
    /// Variance of a count of known-good traffic over its mean; [`DISPERSION`].
    pub dispersion: f64,
    /// From the mildest to the worst; [`detect::default_levels`].
    #[serde(rename = "level")]
    pub levels: Vec<Level>,
    /// How long routes take to settle; what is measured meanwhile is not used. [`SETTLE`].
    pub settle: Span,
    /// How long a play is looked at before it is said to work; [`LOOK`].
    pub look: Span,
    /// How long a deployment may take; [`DEPLOY_TIMEOUT`].
    pub deploy_timeout: Span,
    /// Deployments that may fail in a row; [`DEPLOY_TRIES`].
    pub deploy_tries: u32,
    /// How long it waits after so many; [`RETRY`].
    pub retry: Span,
    /// How long the baseline has to be able to carry the load before it is announced again; [`CALM`].
    pub calm: Span,
    /// Within which an attack that comes back is the same; [`RELAPSE`].
    pub relapse: Span,
    /// The longest that `calm` doubles to; [`CALM_MAX`].
    pub calm_max: Span,
    /// The share of the lost normal load that a change has to save where no play carries the load; [`GAIN`].
    pub gain: f64,
    /// By how much a site's share of the load may differ from the playbook's; [`WRONG`].
    pub wrong: f64,
    /// How long a site may be without a report; [`SILENT`].
    pub silent: Span,
    /// Sites, by name, that may be over capacity so that others are not; none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absorbers: Vec<String>,
    /// Absorbers, by name, whose catchment is to stay as it is, so that what attacks them does not move on; none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub breakwaters: Vec<String>,
    /// How plays are judged.
    pub planner: PlannerConfig,
    /// How often announcements may change.
    pub budget: budget::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            kind: Kind::default(),
            confidence: CONFIDENCE,
            dispersion: DISPERSION,
            levels: detect::default_levels(),
            settle: SETTLE,
            look: LOOK,
            deploy_timeout: DEPLOY_TIMEOUT,
            deploy_tries: DEPLOY_TRIES,
            retry: RETRY,
            calm: CALM,
            relapse: RELAPSE,
            calm_max: CALM_MAX,
            gain: GAIN,
            wrong: WRONG,
            silent: SILENT,
            absorbers: Vec::new(),
            breakwaters: Vec::new(),
            planner: PlannerConfig::default(),
            budget: budget::Config::default(),
        }
    }
}

impl Config {
    /// Whether a responder can go by this.
    ///
    /// # Errors
    ///
    /// With a figure outside its bounds.
    pub fn check(&self) -> Result<(), ConfigError> {
        Estimator::new(self.confidence, self.dispersion)?;
        detect::check(&self.levels)?;
        let second = Span::from_secs(1);
        for (key, value, low) in [
            ("settle", self.settle, Span::ZERO),
            ("look", self.look, Span::ZERO),
            ("deploy_timeout", self.deploy_timeout, second),
            ("retry", self.retry, second),
            ("calm", self.calm, Span::ZERO),
            ("relapse", self.relapse, Span::ZERO),
            ("calm_max", self.calm_max, self.calm),
            ("silent", self.silent, second),
        ] {
            span(key, value, low, DAY)?;
        }
        ensure(
            "deploy_tries",
            (1..=100).contains(&self.deploy_tries),
            &self.deploy_tries,
            "1 to 100",
        )?;
        number("gain", self.gain, 0.0, 1.0)?;
        number("wrong", self.wrong, 0.0, 1.0)?;
        self.planner.validate()?;
        self.budget.check()
    }
}
