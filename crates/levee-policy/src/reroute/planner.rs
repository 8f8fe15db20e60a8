//! Ranks the plays for a load and the capacities of the sites.
//!
//! # What is known of a play that is not deployed
//!
//! Under the play that is deployed, load is estimated for each site. Where it goes under another play, the catchments say:
//!
//! - With [`Classes`](super::Classes), the load of a site goes where its classes go, each class with its normal load (or its
//!   blocks) as weight. Classes that have no site in one of the two plays are left out of the weights.
//! - Without, only the shares of the sites are known before and after. The least movement that explains them is taken: a site
//!   keeps `min(before, after)`; what a site loses goes to the sites that gain, in proportion to what they gain.
//! - Load that is known by class goes where the class goes. That of a class without a site in the play goes to all sites by their
//!   shares.
//!
//! Three cases are looked at. *Likely*: the estimates as they are. *Worst*: the upper end of all of them at once. *Concentrated*:
//! the worst, and besides the attack does not spread over a site's classes by weight, but is up to
//! [`concentration`](PlannerConfig::concentration) times as dense in any of them: if a share `w` of the weight moves from a site
//! to another, of the attack up to `min(1, concentration * w)` does. Normal load, where it is given, spreads by weight always.
//!
//! # How plays are ranked
//!
//! By the first of these that differs:
//!
//! 1. plays whose figures can be relied on before those that are [flawed](Flaw); of the others, those that leave the catchment of
//!    each breakwater as it is come first;
//! 2. the case up to which no site is over its capacity: concentrated, worst, likely, none;
//! 3. the same, absorbers and breakwaters left out;
//! 4. the share of the normal load that is served, in steps of [`kept_step`](PlannerConfig::kept_step); a site over capacity
//!    serves `capacity / offered` of what it gets, good and bad alike;
//! 5. the fewest sites whose announcement changes;
//! 6. the most headroom at the fullest site, absorbers and breakwaters left out;
//! 7. the name.
//!
//! That a super-site takes all, or that small sites are shut, needs no rule of its own: where it keeps more alive, it wins by 2 or 4.
//!
//! # Cost
//!
//! `plays * (classes + sites^2)`, and memory for `plays * sites` forecasts.
//!
//! # What it leaves out
//!
//! Latency: which site is near. Plays that are not in the playbook, for a combination of two plays is not the sum of their
//! movements. What a play does to sites that are down: see [`Situation::down`].

mod flows;
mod reason;

use alloc::{collections::BTreeSet, format, vec::Vec};
use core::cmp::Ordering;

use serde::{Deserialize, Serialize};

use self::flows::Forecaster;
pub use self::reason::{Amount, Lost};
use super::{Playbook, Range, SiteId};
use crate::{
    ConfigError,
    config_error::{ensure, fail, number},
};

/// Figures of each site, or of each class of the playbook.
#[derive(Clone, Debug, PartialEq)]
pub enum Figures<T> {
    /// One for each site, in the order of their numbers.
    Sites(Vec<T>),
    /// One for each class, in the order of the playbook.
    Classes(Vec<T>),
}

/// What is to be carried, and by whom. All loads and capacities are in one unit, such as queries per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Situation {
    /// The play that is deployed: its place in the playbook.
    pub current: usize,
    /// What each site can carry. 0: nothing, it is closed, and whatever reaches it is lost.
    pub capacity: Vec<f64>,
    /// The offered load, normal load and attack, under the play that is deployed. The upper end may be infinite.
    pub offered: Figures<Range>,
    /// The normal load in it. Not known: all offered load may be attack, and what is to be kept alive is weighed by the shares of
    /// the sites.
    pub normal: Option<Figures<f64>>,
    /// Sites that may be over capacity so that others are not.
    pub absorbers: BTreeSet<SiteId>,
    /// Absorbers whose catchment is to stay as it is, so that what attacks them does not move on.
    pub breakwaters: BTreeSet<SiteId>,
    /// Sites that announce nothing now, whatever a play says. What a play would send there goes to the other sites by their
    /// shares, or in the concentrated case all to any one of them.
    pub down: BTreeSet<SiteId>,
    /// Plays that are not to be used.
    pub forbidden: BTreeSet<usize>,
}

impl Situation {
    /// Of an offered load at each site under a play.
    #[must_use]
    pub fn new(current: usize, capacity: Vec<f64>, offered: Vec<Range>) -> Self {
        Self {
            current,
            capacity,
            offered: Figures::Sites(offered),
            normal: None,
            absorbers: BTreeSet::new(),
            breakwaters: BTreeSet::new(),
            down: BTreeSet::new(),
            forbidden: BTreeSet::new(),
        }
    }

    fn is_absorber(&self, site: SiteId) -> bool {
        self.absorbers.contains(&site) || self.breakwaters.contains(&site)
    }
}

/// How plays are judged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlannerConfig {
    /// How much denser than normal load an attack may be where the playbook moves it; 1: it is spread as normal load is, infinite:
    /// all of it may come from one block. 2 by default (our choice).
    pub concentration: f64,
    /// A load at a site below this share of all load is never too much: that few blocks are noise of the measurement. 0.001 by
    /// default (our choice; of the authors' seven sites one has a single block).
    pub negligible: f64,
    /// Shares of normal load that are nearer than this are alike. 0.01 by default (our choice: catchments shift by that much).
    pub kept_step: f64,
    /// A breakwater keeps its catchment if it loses no more than this share of it. 0.05 by default (the paper: so many blocks
    /// shift between two measurements of one play).
    pub breakwater_loss: f64,
}

impl Default for PlannerConfig {
    fn default() -> Self {
        Self {
            concentration: 2.0,
            negligible: 0.001,
            kept_step: 0.01,
            breakwater_loss: 0.05,
        }
    }
}

/// From which case on a site is over its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// In none.
    Never,
    /// If the attack is concentrated.
    Concentrated,
    /// At the upper end of the estimates.
    Worst,
    /// In the likely case.
    Likely,
}

/// What a site is in a play, in the likely case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It carries what it gets.
    Carries,
    /// It carries more than half of all load.
    Super,
    /// It gets nothing, or next to nothing.
    Shut,
    /// It is over capacity, as it may be.
    Absorbs,
    /// It is over capacity.
    Over,
    /// It is down.
    Down,
}

/// What a site gets under a play.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// The offered load: the attack spreads by weight.
    pub load: Range,
    /// The same where the attack is concentrated.
    pub concentrated: Range,
    /// The normal load in it; the share of all normal load, where that was not given.
    pub normal: f64,
    /// From which case on it is over its capacity.
    pub over: Over,
    /// What it is in the play.
    pub role: Role,
}

/// Why a play is used only if there is no other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Flaw {
    /// It moves this share of the catchment of a breakwater elsewhere.
    MovesBreakwater {
        /// Which.
        site: SiteId,
        /// How much of it, 0 to 1.
        moved: f64,
    },
    /// Replies were missing when it was measured.
    Partial,
    /// It poisons and does no more than its control.
    Ineffective,
    /// It sends this share of all blocks to a site that is down.
    NeedsDown {
        /// Which.
        site: SiteId,
        /// How much, 0 to 1.
        share: f64,
    },
    /// No block is known to reach any site.
    ReachesNobody,
}

impl Flaw {
    /// How far down it sends a play.
    fn grade(self) -> u8 {
        match self {
            Self::MovesBreakwater { .. } => 1,
            Self::Partial | Self::Ineffective | Self::NeedsDown { .. } => 2,
            Self::ReachesNobody => 3,
        }
    }
}

/// A play and what it would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// Its place in the playbook.
    pub play: usize,
    /// What each site gets.
    pub sites: Vec<Forecast>,
    /// From which case on a site is over its capacity.
    pub over: Over,
    /// From which case on a site is that is neither absorber nor breakwater.
    pub over_besides: Over,
    /// The share of the normal load that is served, 0 to 1: `low` at the upper end of the load.
    pub kept: Range,
    /// Sites whose announcement differs from the play that is deployed; all, where it is not known.
    pub changes: usize,
    /// `(capacity - load) / capacity` of the fullest site, in the worst of the cases in which none is over.
    pub headroom: f64,
    /// Why it is used only if there is no other.
    pub flaws: Vec<Flaw>,
    /// Why it lost to the one before; none for the first.
    pub lost: Option<Lost>,
}

impl Choice {
    /// Whether no site is over its capacity in the likely case.
    #[must_use]
    pub fn carries(&self) -> bool {
        self.over < Over::Likely
    }

    /// Sites that are over their capacity in a case.
    pub fn sites_over(&self, case: Over) -> impl Iterator<Item = SiteId> + '_ {
        let numbered = (0u8..).zip(&self.sites);
        let over = numbered.filter(move |(_, site)| site.over >= case && case > Over::Never);
        over.map(|(i, _)| SiteId(i))
    }

    fn grade(&self) -> u8 {
        self.flaws
            .iter()
            .map(|flaw| flaw.grade())
            .max()
            .unwrap_or(0)
    }

    /// Steps of normal load that are lost.
    fn steps_lost(&self, config: &PlannerConfig) -> f64 {
        libm::round((1.0 - self.kept.likely) / config.kept_step)
    }
}

/// The plays, best first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// All that are not forbidden; at least one.
    pub choices: Vec<Choice>,
    /// All load that is offered.
    pub offered: Range,
    /// What all sites that are not down can carry.
    pub capacity: f64,
    /// Sites that even the best play leaves over capacity in the likely case: they need their next line of defence, the thinner
    /// or SeVen.
    pub next_line: Vec<SiteId>,
}

impl Plan {
    /// The best play.
    #[must_use]
    pub fn best(&self) -> &Choice {
        &self.choices[0]
    }

    /// Whether the best play leaves no site over capacity in the likely case.
    #[must_use]
    pub fn carries(&self) -> bool {
        self.best().carries()
    }

    /// By how much the load is more than all sites together can carry, in the likely case: no routing helps against that.
    #[must_use]
    pub fn shortfall(&self) -> Option<f64> {
        let short = self.offered.likely - self.capacity;
        (short > 0.0).then_some(short)
    }
}

/// Ranks the plays of a playbook.
///
/// # Errors
///
/// When the situation does not fit the playbook: another number of sites or classes, a figure that is none, a play or site that is
/// not there, or all plays forbidden; or a configuration out of bounds.
pub fn rank(
    playbook: &Playbook,
    situation: &Situation,
    config: &PlannerConfig,
) -> Result<Plan, ConfigError> {
    validate(playbook, situation)?;
    config.validate()?;
    let mut forecaster = Forecaster::new(playbook, situation, config);
    let allowed = (0..playbook.plays().len()).filter(|play| !situation.forbidden.contains(play));
    let mut choices: Vec<Choice> = allowed.map(|play| forecaster.choice(play)).collect();
    let name = |choice: &Choice| playbook.plays()[choice.play].routing.name.as_str();
    let compare = |a: &Choice, b: &Choice| compare(a, b, config).then_with(|| name(a).cmp(name(b)));
    choices.sort_by(compare);
    for i in (1..choices.len()).rev() {
        choices[i].lost = Some(Lost::why(&choices[i], &choices[i - 1], situation, config));
    }
    let up = playbook
        .sites()
        .ids()
        .filter(|site| !situation.down.contains(site));
    let next_line = choices[0].sites_over(Over::Likely).collect();
    Ok(Plan {
        choices,
        offered: forecaster.total(),
        capacity: up.map(|site| situation.capacity[site.index()]).sum(),
        next_line,
    })
}

/// The order of the module's head, up to the name.
fn compare(a: &Choice, b: &Choice, config: &PlannerConfig) -> Ordering {
    (a.grade().cmp(&b.grade()))
        .then(a.over.cmp(&b.over))
        .then(a.over_besides.cmp(&b.over_besides))
        .then(a.steps_lost(config).total_cmp(&b.steps_lost(config)))
        .then(a.changes.cmp(&b.changes))
        .then(b.headroom.total_cmp(&a.headroom))
}

impl PlannerConfig {
    /// Checks its bounds.
    ///
    /// # Errors
    ///
    /// When one is not held.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let concentration = self.concentration;
        ensure(
            "concentration",
            concentration >= 1.0,
            &concentration,
            "1 or more",
        )?;
        number("negligible", self.negligible, 0.0, 1.0)?;
        number("kept_step", self.kept_step, 1e-6, 1.0)?;
        number("breakwater_loss", self.breakwater_loss, 0.0, 1.0)
    }
}

fn validate(playbook: &Playbook, situation: &Situation) -> Result<(), ConfigError> {
    let (plays, sites) = (playbook.plays().len(), playbook.sites().len());
    let of_plays = format!("the number of a play below {plays}");
    ensure(
        "current",
        situation.current < plays,
        &situation.current,
        &of_plays,
    )?;
    for play in &situation.forbidden {
        ensure("forbidden", *play < plays, play, &of_plays)?;
    }
    let allowed = situation.forbidden.len() < plays;
    ensure("forbidden", allowed, &"every play", "one that may be used")?;
    let Situation {
        absorbers,
        breakwaters,
        down,
        ..
    } = situation;
    for (key, set) in [
        ("absorbers", absorbers),
        ("breakwaters", breakwaters),
        ("down", down),
    ] {
        for site in set {
            let expected = format!("the number of a site below {sites}");
            ensure(key, site.index() < sites, site, &expected)?;
        }
    }
    ensure("down", down.len() < sites, &"every site", "one that is up")?;
    let capacity = Figures::Sites(situation.capacity.clone());
    figures("capacity", playbook, &capacity, |x| *x >= 0.0, "0 or more")?;
    let in_order =
        |r: &Range| 0.0 <= r.low && r.low <= r.likely && r.likely <= r.high && r.likely.is_finite();
    let expected = "0 or more, finite up to the likely one and in order";
    figures("offered", playbook, &situation.offered, in_order, expected)?;
    let amount = |x: &f64| *x >= 0.0 && x.is_finite();
    let normal = situation.normal.iter();
    normal
        .into_iter()
        .try_for_each(|normal| figures("normal", playbook, normal, amount, "0 or more"))
}

/// As many figures as there are sites or classes, and each as it should be.
fn figures<T: core::fmt::Debug>(
    key: &str,
    playbook: &Playbook,
    figures: &Figures<T>,
    holds: impl Fn(&T) -> bool,
    expected: &str,
) -> Result<(), ConfigError> {
    let (figures, of, what) = match figures {
        Figures::Sites(figures) => (figures, playbook.sites().len(), "sites"),
        Figures::Classes(figures) => (
            figures,
            playbook.classes().map_or(0, super::Classes::len),
            "classes",
        ),
    };
    let n = figures.len();
    let value = format!("of {n} {what}");
    ensure(
        key,
        n == of,
        &value,
        &format!("of the {of} of the playbook"),
    )?;
    match figures.iter().position(|figure| !holds(figure)) {
        Some(i) => fail(
            &format!("{key}[{i}]"),
            &format!("{:?}", figures[i]),
            expected,
        ),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
